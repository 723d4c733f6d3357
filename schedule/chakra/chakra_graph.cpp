// Sorts the nodes of one rank by their dependencies (Kahn's algorithm), and finds the nodes that
// each waits for. Nodes that take no time (Passed) are left out: if C depends on a Passed B, and B
// on A, then C waits for A.
#include "schedule/chakra/chakra_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "base/xml.h"
#include "schedule/program/cycle.h"

namespace tandem {
namespace {

constexpr std::string_view kAllRanks = "0";  // the group of all ranks

class GraphMaker {
 public:
  GraphMaker(const ChakraJob& job, std::int32_t rank)
      : job_(job), rank_(rank), nodes_(job.ranks[rank].nodes) {}

  Result<ChakraGraph> make() {
    RETURN_IF_ERROR(find_dependencies());
    for (const ChakraNode& node : nodes_) {
      ASSIGN_OR_RETURN(const ChakraPart part, part_of(node));
      graph_.parts.push_back(part);
    }
    RETURN_IF_ERROR(sort_topologically());
    graph_.waits.resize(nodes_.size());
    for (const std::uint32_t node : graph_.order) add_waits(node);
    return std::move(graph_);
  }

 private:
  Error error(const ChakraNode& node, const std::string& what) const {
    return chakra_error(job_, rank_, node, what);
  }

  Status find_dependencies() {
    std::unordered_map<std::uint64_t, std::uint32_t> by_id;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      if (!by_id.try_emplace(nodes_[i].id, i).second)
        return error(nodes_[i], "found a second node of this id, expected each once");
    }
    dependencies_.resize(nodes_.size());
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      for (const auto* ids : {&nodes_[i].ctrl_deps, &nodes_[i].data_deps}) {
        for (const std::uint64_t id : *ids) {
          const auto found = by_id.find(id);
          if (found == by_id.end())
            return error(
                nodes_[i],
                fmt::format("found a dependency on node {}, expected one that is there", id));
          dependencies_[i].push_back(found->second);
        }
      }
      std::sort(dependencies_[i].begin(), dependencies_[i].end());
      const auto twice = std::unique(dependencies_[i].begin(), dependencies_[i].end());
      dependencies_[i].erase(twice, dependencies_[i].end());
    }
    return Done{};
  }

  Result<ChakraPart> part_of(const ChakraNode& node) const {
    switch (node.type) {
      case ChakraType::Metadata:
        return ChakraPart::Passed;
      case ChakraType::Compute:
        return node.is_cpu_op ? ChakraPart::Passed : ChakraPart::Compute;
      case ChakraType::Send:
        return ChakraPart::Queued;
      case ChakraType::Recv:
        // With rendezvous (Tandem's own traces) a send waits for its receive, which is posted in
        // its turn. Otherwise a send never waits, as if all receives were posted at the start.
        return job_.ranks[rank_].rendezvous ? ChakraPart::Received : ChakraPart::PostedFirst;
      case ChakraType::Collective: {
        if (node.some_dimensions && node.pg_name.empty())
          return error(node,
                       "found involved_dim with dimensions left out, expected a process group "
                       "(pg_name): dimensions are ASTRA-sim's network's");
        ASSIGN_OR_RETURN(const auto group, chakra_group(job_, rank_, node));
        return group.size() < 2 ? ChakraPart::Passed : ChakraPart::Queued;
      }
      case ChakraType::Invalid:
        return error(node,
                     "found a node without a type, expected compute, collectives, sends and "
                     "receives");
      case ChakraType::MemLoad:
      case ChakraType::MemStore:
        break;
    }
    return error(node,
                 "found a load or store of remote memory, expected compute, collectives, "
                 "sends and receives");
  }

  // Sorts by Kahn's algorithm. Of several ready nodes the one with the least id comes first.
  Status sort_topologically() {
    place_.resize(nodes_.size());
    std::vector<std::uint32_t> waits_for(nodes_.size());
    std::vector<std::vector<std::uint32_t>> next(nodes_.size());
    const auto later = [&](std::uint32_t a, std::uint32_t b) {
      return nodes_[a].id > nodes_[b].id;
    };
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, decltype(later)> ready(later);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      waits_for[i] = static_cast<std::uint32_t>(dependencies_[i].size());
      for (const std::uint32_t dependency : dependencies_[i]) next[dependency].push_back(i);
      if (waits_for[i] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const std::uint32_t node = ready.top();
      ready.pop();
      place_[node] = static_cast<std::uint32_t>(graph_.order.size());
      graph_.order.push_back(node);
      for (const std::uint32_t follower : next[node]) {
        if (--waits_for[follower] == 0) ready.push(follower);
      }
    }
    if (graph_.order.size() == nodes_.size()) return Done{};
    return cycle(waits_for);
  }

  // Finds a cycle among the nodes that never became ready.
  Error cycle(const std::vector<std::uint32_t>& waits_for) const {
    const auto stuck = [&](std::uint32_t node) { return waits_for[node] > 0; };
    std::uint32_t first = 0;
    while (!stuck(first)) ++first;
    const std::vector<std::uint32_t> cycle = cycle_from(first, [&](std::uint32_t node) {
      return *std::ranges::find_if(dependencies_[node], stuck);
    });
    const auto text = [&](std::uint32_t node) { return chakra_text(nodes_[node]); };
    return Error::at(job_.path(rank_),
                     "found a cycle of dependencies, expected none: " + cycle_text(cycle, text));
  }

  // Sets the nodes that a node waits for: its dependencies. A Passed dependency is replaced by the
  // nodes that it waits for. For a PostedFirst dependency these are added, since a receive posted
  // at the start does not wait for them itself.
  void add_waits(std::uint32_t node) {
    std::vector<std::uint32_t>& waits = graph_.waits[node];
    for (const std::uint32_t dependency : dependencies_[node]) {
      const ChakraPart part = graph_.parts[dependency];
      if (part != ChakraPart::Passed) waits.push_back(dependency);
      if (part != ChakraPart::Passed && part != ChakraPart::PostedFirst) continue;
      const std::vector<std::uint32_t>& behind = graph_.waits[dependency];
      waits.insert(waits.end(), behind.begin(), behind.end());
    }
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    if (graph_.parts[node] != ChakraPart::Passed) return;
    // Keeps only the last wait on each lane, since a lane runs one node after another. Otherwise a
    // chain of Passed nodes would collect all nodes before it.
    for (const ChakraPart lane : {ChakraPart::Compute, ChakraPart::Queued}) {
      std::uint32_t last = 0;
      for (const std::uint32_t wait : waits) {
        if (graph_.parts[wait] == lane) last = std::max(last, place_[wait]);
      }
      std::erase_if(waits, [&](std::uint32_t wait) {
        return graph_.parts[wait] == lane && place_[wait] != last;
      });
    }
  }

  const ChakraJob& job_;
  const std::int32_t rank_;
  const std::vector<ChakraNode>& nodes_;
  std::vector<std::vector<std::uint32_t>> dependencies_;
  std::vector<std::uint32_t> place_;  // by node: its index in graph_.order
  ChakraGraph graph_;
};

}  // namespace

Result<ChakraGraph> chakra_graph(const ChakraJob& job, std::int32_t rank) {
  return GraphMaker(job, rank).make();
}

std::string chakra_text(const ChakraNode& node) {
  constexpr std::size_t kShown = 80;
  return fmt::format("node {} '{}'", node.id, one_line(shortened(node.name, kShown)));
}

Error chakra_error(const ChakraJob& job, std::int32_t rank, const ChakraNode& node,
                   const std::string& what) {
  return Error::at(job.path(rank), fmt::format("{}: {}", chakra_text(node), what));
}

std::string chakra_group_name(const ChakraNode& node) {
  return node.pg_name.empty() ? std::string(kAllRanks) : node.pg_name;
}

Result<std::vector<std::int32_t>> chakra_group(const ChakraJob& job, std::int32_t rank,
                                               const ChakraNode& node) {
  const auto ranks = static_cast<std::int32_t>(job.ranks.size());
  const std::string wanted = chakra_group_name(node);
  const auto group = job.groups.find(wanted);
  if (wanted == kAllRanks) {
    if (group != job.groups.end() && group->second.size() != job.ranks.size())
      return Error::at(job.groups_path,
                       fmt::format("group '{}': found {} ranks, expected all {}: ASTRA-sim takes "
                                   "the group of this name for all ranks",
                                   kAllRanks, group->second.size(), job.ranks.size()));
    std::vector<std::int32_t> all(job.ranks.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  if (group == job.groups.end()) {
    std::vector<std::string_view> known;
    for (const auto& [name, members] : job.groups) known.push_back(name);
    return chakra_error(
        job, rank, node,
        fmt::format("found process group '{}', expected {}", node.pg_name,
                    known.empty()
                        ? std::string("a file of process groups (--comm-groups)")
                        : fmt::format("one of {}: {}", job.groups_path, fmt::join(known, ", "))));
  }
  const std::vector<std::int32_t>& members = group->second;
  const auto beyond = std::find_if(members.begin(), members.end(),
                                   [&](std::int32_t member) { return member >= ranks; });
  if (beyond != members.end())
    return Error::at(job.groups_path,
                     fmt::format("group '{}': found rank {}, expected ranks below {}: there is no "
                                 "{}",
                                 node.pg_name, *beyond, ranks, job.path(*beyond)));
  if (std::find(members.begin(), members.end(), rank) == members.end())
    return chakra_error(
        job, rank, node,
        fmt::format("found process group '{}', expected one that has rank {}", node.pg_name, rank));
  return members;
}

}  // namespace tandem
