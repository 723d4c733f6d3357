// Makes events of the nodes of all ranks. A compute node is an event by itself. The k-th collective
// nodes of a process group on all its members become one event. The k-th send and the k-th receive
// of a sender, receiver and tag become one event. A topological sort (Kahn's algorithm) then finds
// each event's depth, the number of events in the longest chain before it, or a deadlock.
#include "schedule/chakra/chakra_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "schedule/program/cycle.h"

namespace tandem {
namespace {

std::optional<CommKind> comm_of(const ChakraNode& node) {
  const std::int64_t type = node.comm_type.value_or(-1);
  if (type < 0 || type > static_cast<std::int64_t>(ChakraCollective::Barrier)) return std::nullopt;
  switch (static_cast<ChakraCollective>(type)) {
    case ChakraCollective::AllReduce:
      return CommKind::AllReduce;
    case ChakraCollective::AllGather:
      return CommKind::AllGather;
    case ChakraCollective::ReduceScatter:
      return CommKind::ReduceScatter;
    case ChakraCollective::AllToAll:
      return CommKind::AllToAll;
    default:
      return std::nullopt;
  }
}

class EventMaker {
 public:
  EventMaker(const ChakraJob& job, bool to_be_priced) : job_(job), to_be_priced_(to_be_priced) {}

  Result<ChakraEvents> make() {
    for (std::int32_t rank = 0; rank < ranks(); ++rank) {
      ASSIGN_OR_RETURN(ChakraGraph graph, chakra_graph(job_, rank));
      out_.event_of.emplace_back(job_.ranks[rank].nodes.size(), -1);
      out_.graphs.push_back(std::move(graph));
      for (const std::uint32_t node : out_.graphs.back().order)
        RETURN_IF_ERROR(add_node({rank, node}));
    }
    for (const auto& [group, by_rank] : collectives_) RETURN_IF_ERROR(add_collectives(by_rank));
    for (const auto& [pair, transfers] : transfers_) RETURN_IF_ERROR(add_transfers(transfers));
    find_waits();
    RETURN_IF_ERROR(find_depths());
    return std::move(out_);
  }

 private:
  struct Transfers {
    std::vector<ChakraPlace> sends, receives;
  };
  using ByRank = std::map<std::int32_t, std::vector<ChakraPlace>>;

  std::int32_t ranks() const { return static_cast<std::int32_t>(job_.ranks.size()); }
  const ChakraNode& at(const ChakraPlace& place) const {
    return job_.ranks[place.rank].nodes[place.node];
  }
  Error error(const ChakraPlace& place, const std::string& what) const {
    return chakra_error(job_, place.rank, at(place), what);
  }
  std::string text(const ChakraPlace& place) const {
    return fmt::format("{} of rank {}", chakra_text(at(place)), place.rank);
  }

  // Makes an event of compute. Collects communication until all of its ranks are known.
  Status add_node(const ChakraPlace& place) {
    const ChakraNode& node = at(place);
    constexpr std::uint64_t kMost_us = 3'155'760'000'000'000;  // 100 years
    if (node.duration_us > kMost_us)
      return error(place, fmt::format("found duration_micros {}, expected at most 100 years",
                                      node.duration_us));
    const ChakraPart part = out_.graphs[place.rank].parts[place.node];
    if (part == ChakraPart::Passed) return Done{};
    if (part == ChakraPart::Compute) {
      // Tandem's own traces have fewer FLOPs in nodes that round to 0 us.
      constexpr std::int64_t kMostInNoTime = 10'000'000'000;
      if (node.duration_us == 0 && node.num_ops.value_or(0) > kMostInNoTime)
        return error(place, fmt::format("found num_ops {} and no duration_micros, expected its "
                                        "time: compute of a trace is not priced",
                                        *node.num_ops));
      ChakraEvent event;
      event.kind = op_kind_named(node.kind).value_or(OpKind::Forward);
      if (!is_compute(event.kind)) event.kind = OpKind::Forward;
      event.duration_ns = to_ns_of(node);
      add(std::move(event), {place});
      return Done{};
    }
    if (!node.comm_size || *node.comm_size < 0)
      return error(place, node.comm_size
                              ? fmt::format("found comm_size {}, expected bytes", *node.comm_size)
                              : std::string("found no comm_size, expected the attribute in bytes"));
    if (node.type == ChakraType::Collective) {
      collectives_[chakra_group_name(node)][place.rank].push_back(place);
      return Done{};
    }
    return add_transfer_end(place);
  }

  Status add_transfer_end(const ChakraPlace& place) {
    const ChakraNode& node = at(place);
    const bool sends = node.type == ChakraType::Send;
    const char* const own_key = sends ? "comm_src" : "comm_dst";
    const char* const other_key = sends ? "comm_dst" : "comm_src";
    const auto& there = sends ? node.comm_dst : node.comm_src;
    const std::int64_t here = (sends ? node.comm_src : node.comm_dst).value_or(place.rank);
    if (here != place.rank)
      return error(place, fmt::format("found {} {}, expected its own rank", own_key, here));
    const bool is_rank = there && *there >= 0 && *there < ranks();
    if (!is_rank || *there == place.rank)
      return error(place, fmt::format("found {} {}, expected another rank that has a file: 0 to {}",
                                      other_key, there ? fmt::format("{}", *there) : "missing",
                                      ranks() - 1));
    const auto other = static_cast<std::int32_t>(*there);
    Transfers& transfers = transfers_[{sends ? place.rank : other, sends ? other : place.rank,
                                       node.comm_tag.value_or(0)}];
    (sends ? transfers.sends : transfers.receives).push_back(place);
    return Done{};
  }

  static Nanoseconds to_ns_of(const ChakraNode& node) {
    return static_cast<Nanoseconds>(node.duration_us) * 1000;
  }

  void add(ChakraEvent event, std::vector<ChakraPlace> places) {
    for (const ChakraPlace& place : places)
      out_.event_of[place.rank][place.node] = static_cast<std::int32_t>(out_.events.size());
    event.places = std::move(places);
    out_.events.push_back(std::move(event));
  }

  // Sets the event's duration to the least that a rank states, since longer ones include waiting.
  // Returns an Error if no rank states one, unless a cluster will price it, it carries no bytes, or
  // Tandem wrote the trace (rendezvous).
  Status set_duration(const std::vector<ChakraPlace>& places, ChakraEvent* event) const {
    Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
    for (const ChakraPlace& place : places) {
      if (at(place).duration_us > 0) least = std::min(least, to_ns_of(at(place)));
    }
    event->duration_ns = least == std::numeric_limits<Nanoseconds>::max() ? 0 : least;
    const bool may_be_0 = to_be_priced_ || event->bytes == 0 || job_.ranks[0].rendezvous;
    if (event->duration_ns > 0 || may_be_0) return Done{};
    return error(places.front(),
                 "found communication without duration_micros, expected one, or a cluster that "
                 "prices it (--cluster)");
  }

  // Joins the k-th collectives of all members of a process group into one event, for each k.
  Status add_collectives(const ByRank& by_rank) {
    const std::vector<ChakraPlace>& lead = by_rank.begin()->second;  // others are compared with it
    const ChakraPlace& first = lead.front();
    ASSIGN_OR_RETURN(const std::vector<std::int32_t> members,
                     chakra_group(job_, first.rank, at(first)));
    for (const std::int32_t member : members) {
      const auto there = by_rank.find(member);
      const std::size_t count = there == by_rank.end() ? 0 : there->second.size();
      if (count != lead.size())
        return error(first, fmt::format("found {} collectives of its process group on rank {} and "
                                        "{} on rank {}, expected as many",
                                        lead.size(), first.rank, count, member));
    }
    for (std::size_t k = 0; k < lead.size(); ++k) {
      std::vector<ChakraPlace> places;
      places.reserve(members.size());
      for (const std::int32_t member : members) {
        const ChakraPlace& place = by_rank.at(member)[k];
        if (at(place).comm_type != at(lead[k]).comm_type ||
            at(place).comm_size != at(lead[k]).comm_size)
          return error(place, fmt::format("found another collective or size than {}, expected the "
                                          "ranks of a process group to issue the same ones in one "
                                          "order",
                                          text(lead[k])));
        places.push_back(place);
      }
      RETURN_IF_ERROR(add_collective(members, std::move(places)));
    }
    return Done{};
  }

  Status add_collective(const std::vector<std::int32_t>& members, std::vector<ChakraPlace> places) {
    const ChakraNode& node = at(places.front());
    const auto kind = comm_of(node);
    if (!kind)
      return error(places.front(),
                   fmt::format("found comm_type {}{}, expected all-reduce (0), all-gather (2), "
                               "all-to-all (6) or reduce-scatter (7)",
                               node.comm_type ? fmt::format("{}", *node.comm_type) : "missing",
                               collective_word(node)));
    ChakraEvent event{.members = members, .kind = op_kind(*kind), .bytes = *node.comm_size};
    const auto size = static_cast<Bytes>(members.size());
    // Chakra counts the bytes that each rank puts in; Tandem those that each rank has at the end.
    if (*kind == CommKind::AllGather) {
      if (event.bytes > std::numeric_limits<Bytes>::max() / size)
        return error(places.front(),
                     fmt::format("found comm_size {}, expected a size that {} ranks "
                                 "can gather",
                                 event.bytes, size));
      event.bytes *= size;
    }
    event.group_kind =
        group_kind_named(node.group_kind)
            .value_or(*kind == CommKind::AllToAll ? GroupKind::Expert : GroupKind::Data);
    RETURN_IF_ERROR(set_duration(places, &event));
    add(std::move(event), std::move(places));
    return Done{};
  }

  static std::string collective_word(const ChakraNode& node) {
    if (!node.comm_type || *node.comm_type < 0 || *node.comm_type > 9) return "";
    return fmt::format(" ({})", collective_name(static_cast<ChakraCollective>(*node.comm_type)));
  }

  Status add_transfers(const Transfers& transfers) {
    const auto alone = [&](const ChakraPlace& place, const char* partner) {
      return error(place, fmt::format("found no {} of it (by ranks, comm_tag and order), expected "
                                      "one",
                                      partner));
    };
    const std::vector<ChakraPlace>&sends = transfers.sends, &receives = transfers.receives;
    const std::size_t both = std::min(sends.size(), receives.size());
    if (sends.size() > both) return alone(sends[both], "receive");
    if (receives.size() > both) return alone(receives[both], "send");
    for (std::size_t k = 0; k < both; ++k) {
      const ChakraNode& node = at(sends[k]);
      if (node.comm_size != at(receives[k]).comm_size)
        return error(receives[k],
                     fmt::format("found {} bytes, expected {}: so many has {}",
                                 *at(receives[k]).comm_size, *node.comm_size, text(sends[k])));
      ChakraEvent event{.members = {sends[k].rank, receives[k].rank},
                        .kind = OpKind::Send,
                        .bytes = *node.comm_size};
      event.group_kind = group_kind_named(node.group_kind).value_or(GroupKind::Pipeline);
      std::vector<ChakraPlace> places = {sends[k], receives[k]};
      RETURN_IF_ERROR(set_duration(places, &event));
      add(std::move(event), std::move(places));
    }
    return Done{};
  }

  // Finds the events that each event waits for: its dependencies, and the event before it on its
  // lane. A rank has a lane for compute and one for collectives and sends.
  void find_waits() {
    waits_.resize(out_.events.size());
    for (std::int32_t rank = 0; rank < ranks(); ++rank) {
      const ChakraGraph& graph = out_.graphs[rank];
      const std::vector<std::int32_t>& event_of = out_.event_of[rank];
      std::int32_t compute = -1, queued = -1;  // the last event on each lane; -1: none
      for (const std::uint32_t node : graph.order) {
        const std::int32_t event = event_of[node];
        if (event < 0) continue;
        const ChakraPart part = graph.parts[node];
        if (part != ChakraPart::PostedFirst) {
          for (const std::uint32_t wait : graph.waits[node])
            waits_[event].push_back(event_of[wait]);
        }
        if (part != ChakraPart::Compute && part != ChakraPart::Queued) continue;
        std::int32_t& lane = part == ChakraPart::Compute ? compute : queued;
        if (lane >= 0) waits_[event].push_back(lane);
        lane = event;
      }
    }
  }

  Status find_depths() {
    std::vector<std::vector<std::int32_t>> next(out_.events.size());
    std::vector<std::size_t> left(out_.events.size());
    std::vector<std::int32_t> ready;
    for (std::size_t event = 0; event < out_.events.size(); ++event) {
      left[event] = waits_[event].size();
      for (const std::int32_t wait : waits_[event]) next[wait].push_back(static_cast<int>(event));
      if (left[event] == 0) ready.push_back(static_cast<std::int32_t>(event));
    }
    std::size_t done = 0;
    for (; done < ready.size(); ++done) {
      const std::int32_t depth = out_.events[ready[done]].depth + 1;
      for (const std::int32_t follower : next[ready[done]]) {
        out_.events[follower].depth = std::max(out_.events[follower].depth, depth);
        if (--left[follower] == 0) ready.push_back(follower);
      }
    }
    return done == out_.events.size() ? Status(Done{}) : Status(deadlock(left));
  }

  Error deadlock(const std::vector<std::size_t>& left) const {
    const auto stuck = [&](std::int32_t event) { return left[event] > 0; };
    std::int32_t first = 0;
    while (!stuck(first)) ++first;
    const std::vector<std::int32_t> cycle = cycle_from(
        first, [&](std::int32_t event) { return *std::ranges::find_if(waits_[event], stuck); });
    const auto place = [&](std::int32_t event) { return out_.events[event].places.front(); };
    return Error::at(job_.path(place(cycle.front()).rank),
                     "found a deadlock, expected an order that ends: " +
                         cycle_text(cycle, [&](std::int32_t event) { return text(place(event)); }));
  }

  const ChakraJob& job_;
  const bool to_be_priced_;
  ChakraEvents out_;
  std::map<std::string, ByRank> collectives_;  // by process group
  std::map<std::tuple<std::int32_t, std::int32_t, std::int64_t>, Transfers> transfers_;
  std::vector<std::vector<std::int32_t>> waits_;  // by event
};

}  // namespace

Result<ChakraEvents> chakra_events(const ChakraJob& job, bool to_be_priced) {
  return EventMaker(job, to_be_priced).make();
}

}  // namespace tandem
