#include "job/job_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "job/doubts.h"
#include "job/failed_links.h"
#include "job/site.h"
#include "schedule/lowering/price.h"
#include "schedule/program/reprice.h"
#include "topology/preset.h"

namespace tandem {
namespace {

void add_stragglers(const Scenario& scenario, const CompiledJob& job,
                    std::vector<std::string>* lines) {
  const VariabilitySettings& variability = scenario.variability;
  const Stragglers& stragglers = variability.stragglers;
  if (!stragglers.any()) return;
  const std::vector<double> factors =
      rank_factors(stragglers, variability.seed, job.site.cluster, job.site.placement);
  const auto slow = std::ranges::count_if(factors, [](double factor) { return factor != 1; });
  if (slow == 0 && stragglers.node_share == 0) return;  // only stages are slow
  lines->push_back(fmt::format(
      "stragglers: {} of {} ranks take {:g} times as long; {}seed {}", slow, factors.size(),
      stragglers.factor,
      job.folds ? "" : fmt::format("all {} ranks are simulated, none folded; ", factors.size()),
      variability.seed));
}

// Returns "; cluster.gpus_of_node = 8 fills nodes of 8" if the job, as it fills no whole nodes, is
// spread evenly over parts of nodes, and only whole ones hold tensor groups.
std::string fill_hint(const Scenario& scenario, int tp) {
  if (scenario.cluster.gpus_of_node > 0 || scenario.cluster.spec.cables) return "";
  std::int64_t whole = 0;
  if (const auto preset = load_preset(scenario.cluster.preset); preset.ok())
    whole = preset->gpus_per_node;
  const auto stated = scenario.settings.find("cluster.gpus_per_node");
  if (stated != scenario.settings.end())
    if (const auto* gpus = std::get_if<std::int64_t>(&stated->second.value)) whole = *gpus;
  if (whole <= scenario.cluster.spec.gpus_per_node || whole % tp != 0) return "";
  return fmt::format("; cluster.gpus_of_node = {} fills nodes of {}", whole, whole);
}

void add_tensor_between_nodes(const Scenario& scenario, const CompiledJob& job,
                              std::vector<std::string>* lines) {
  const auto crosses = [](const Communicator& c) {
    return c.group_kind == GroupKind::Tensor && c.between_nodes;
  };
  if (scenario.costs.uniform || std::ranges::none_of(job.program.communicators, crosses)) return;
  const int node = scenario.cluster.spec.gpus_per_node, tp = job.plan.tp;
  lines->push_back(fmt::format(
      "{}: tensor communication crosses nodes{}",
      scenario.cluster.cyclic ? "cluster.placement = cyclic parts neighbouring ranks"
                              : fmt::format("parallel.tp = {} {} the {} GPUs of a node", tp,
                                            tp > node ? "is more than" : "does not divide", node),
      scenario.cluster.cyclic ? "" : fill_hint(scenario, tp)));
}

// Warns of a stated link that tensor groups use beyond its line: a profile's stretch below 1 was
// fitted to links of which NCCL leaves less. Presets state what NCCL's tables show.
void add_tensor_beyond_line(const Scenario& scenario, const CompiledJob& job,
                            std::vector<std::string>* lines) {
  const bool is_stated = scenario.places.contains("cluster.intra_GBps") ||
                         scenario.places.contains("cluster.intra_efficiency");
  const double efficiency = scenario.cluster.spec.intra_efficiency,
               stretch = job.program.comm_costs[static_cast<int>(GroupKind::Tensor)].slowdown;
  // An imported cluster's efficiency is a share of NCCL's own rates.
  const bool is_share_of_line = is_stated && scenario.cluster.spec.cables == nullptr;
  const bool has_tensor = !scenario.costs.uniform && job.plan.tp > 1;
  if (!is_share_of_line || !has_tensor || efficiency <= stretch) return;
  lines->push_back(fmt::format(
      "{}: cluster.intra_efficiency = {:g} leaves tensor communication {:.3g} times as fast as "
      "cluster.intra_GBps, as {} has fitted a tensor_stretch of {:g} to links that are not used in "
      "full: set the share that NCCL reaches, mostly 0.75 to 0.85",
      scenario.place_of({"cluster.intra_efficiency", "cluster.intra_GBps"}), efficiency,
      efficiency / stretch, scenario.costs.profile.name, stretch));
}

// Warns if some groups of experts cross nodes and others do not, as ep = 16 on nodes of 72 GPUs.
void add_experts_between_nodes(const Scenario& scenario, const CompiledJob& job,
                               std::vector<std::string>* lines) {
  const int node = scenario.cluster.spec.gpus_per_node, ep = job.plan.ep;
  const int group = ep * job.plan.expert_tensor();
  const bool has_nodes = !scenario.costs.uniform && job.plan.gpus() > node;
  const bool some_cross = ep > 1 && group <= node && node % group != 0;
  if (!has_nodes || !some_cross) return;
  lines->push_back(fmt::format(
      "parallel.ep = {} with {} GPUs an expert does not divide the {} GPUs of a node: some groups "
      "of experts cross nodes, and the others wait for them",
      ep, job.plan.expert_tensor(), node));
}

// Warns of a hostfile that has more slots than a job takes that says its GPUs nowhere.
void add_idle_slots(const Scenario& scenario, std::vector<std::string>* lines) {
  const ClusterSettings& cluster = scenario.cluster;
  const bool says_gpus =
      scenario.places.contains("cluster.gpus") || scenario.places.contains("parallel.dp");
  if (says_gpus || cluster.slots <= cluster.gpus) return;
  lines->push_back(fmt::format(
      "{}: cluster.hostfile has {} slots, of which the job takes {}: cluster.gpus says more",
      scenario.place_of({"cluster.hostfile"}), cluster.slots, cluster.gpus));
}

// Returns the kinds of operations that each communicator has, by its number.
std::set<std::pair<std::int32_t, CommKind>> uses_of_communicators(const Program& program) {
  std::vector<std::vector<std::vector<CommUse>>> by_body;  // and slot
  for (const Body& body : program.bodies) by_body.push_back(comm_uses(body));
  std::set<std::pair<std::int32_t, CommKind>> uses;
  for (const RankRow& rank : program.ranks) {
    for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot) {
      for (const CommUse& use : by_body[rank.body][slot])
        uses.emplace(rank.communicators[slot], use.kind);
    }
  }
  return uses;
}

bool takes_rings(CommKind kind) {
  return kind == CommKind::AllReduce || kind == CommKind::AllGather ||
         kind == CommKind::ReduceScatter;
}

// Warns of groups that no hierarchical ring fits, as they have unequal parts on their nodes.
void add_uneven_hierarchy(const Scenario& scenario, const CompiledJob& job,
                          std::vector<std::string>* lines) {
  if (job.site.cluster.spec().collectives != Collectives::Hierarchical) return;
  for (const auto& [communicator, kind] : uses_of_communicators(job.program)) {
    const Communicator& group = job.program.communicators[communicator];
    if (!takes_rings(kind) || group.group_kind == GroupKind::Pipeline || !group.between_nodes)
      continue;
    std::map<NodeId, int> on_node;
    for (const Rank member : group.members)
      ++on_node[job.site.cluster.node_of(job.site.placement[index(member)])];
    const auto [node, first] = *on_node.begin();
    const bool is_even = std::ranges::all_of(
        on_node, [count = first](const auto& other) { return other.second == count; });
    if (is_even) continue;
    lines->push_back(fmt::format(
        "{}: cluster.collectives = hierarchical, but {} groups of {} ranks have unequal parts on "
        "their {} nodes and take flat rings",
        scenario.place_of({"cluster.collectives"}), group_kind_name(group.group_kind),
        group.members.size(), on_node.size()));
    return;
  }
}

void add_idle_nics(const Scenario& scenario, const CompiledJob& job,
                   std::vector<std::string>* lines) {
  const std::string idle = idle_nics(job.site);
  if (!idle.empty())
    lines->push_back(fmt::format("{}: {}", scenario.place_of({"cluster.links_file"}), idle));
}

// Names a communicator's operation, such as "data all_gather of 4 ranks on 2 nodes", if the
// cluster's calibration has no row for it; else returns nothing.
std::string without_row(const Communicator& group, CommKind kind, const Site& site) {
  std::set<NodeId> nodes;
  for (const Rank member : group.members)
    nodes.insert(site.cluster.node_of(site.placement[index(member)]));
  const int ranks = static_cast<int>(group.members.size()), on = static_cast<int>(nodes.size());
  if (ranks < 2 || find_row(site.cluster.spec().calibration, kind, ranks, on) != nullptr) return "";
  return fmt::format("{} {} of {} ranks on {} node{}", group_kind_name(group.group_kind),
                     comm_kind_name(kind), ranks, on, on > 1 ? "s" : "");
}

// Warns of a calibration of another cluster, and of communication that it has no row for.
void add_uncalibrated(const Scenario& scenario, const CompiledJob& job,
                      std::vector<std::string>* lines) {
  const ClusterSpec& spec = job.site.cluster.spec();
  if (spec.calibration.empty()) return;
  const std::string& measured = spec.calibration.front().cluster;
  if (!measured.empty() && !spec.name.empty() && measured != spec.name)
    lines->push_back(fmt::format("{}: cluster.calibration was measured on {}, this cluster is {}",
                                 scenario.place_of({"cluster.calibration"}), measured, spec.name));
  std::set<std::string> missing;
  for (const auto& [communicator, kind] : uses_of_communicators(job.program))
    missing.insert(without_row(job.program.communicators[communicator], kind, job.site));
  missing.erase("");
  if (missing.empty()) return;
  lines->push_back(fmt::format(
      "{}: cluster.calibration has no row for {}: the cluster's links say what these take",
      scenario.place_of({"cluster.calibration"}), fmt::join(missing, ", ")));
}

Status add_failed_links(const Scenario& scenario, const CompiledJob& job,
                        std::vector<std::string>* lines) {
  if (!scenario.variability.slow_link.fails_for_good()) return Done{};
  ASSIGN_OR_RETURN(const Cluster with_all, make_cluster(with_all_links(scenario)));
  lines->push_back(rerouting_note(scenario.variability.slow_link, job.program, job.site.placement,
                                  job.site.cluster, with_all));
  return Done{};
}

// Warns if the cost table does not cover all kernels of the run, or was measured in another
// precision.
void add_table(const Scenario& scenario, const Program& program, std::vector<std::string>* lines) {
  if (!scenario.costs.table) return;
  const CostTable& table = *scenario.costs.table;
  Repriced repriced;
  for (const Kernel& kernel : program.kernels) {
    const auto price = kernel_price(table, kernel);
    if (price.ok()) repriced.interpolated += price->interpolated;
  }
  for (const std::string& line : lines_of(repriced, table)) lines->push_back(line);
  const std::string_view precision = table.meta_value("precision");
  if (!precision.empty() && precision != scenario.job.plan.precision)
    lines->push_back(fmt::format("{}: measured in {}, the run is in {}", table.path, precision,
                                 scenario.job.plan.precision));
}

}  // namespace

Result<std::vector<std::string>> job_warnings(const Scenario& scenario, const CompiledJob& job) {
  std::vector<std::string> lines = scenario.notes;
  add_stragglers(scenario, job, &lines);
  add_tensor_between_nodes(scenario, job, &lines);
  add_tensor_beyond_line(scenario, job, &lines);
  add_experts_between_nodes(scenario, job, &lines);
  add_idle_slots(scenario, &lines);
  add_uneven_hierarchy(scenario, job, &lines);
  add_idle_nics(scenario, job, &lines);
  add_uncalibrated(scenario, job, &lines);
  RETURN_IF_ERROR(add_failed_links(scenario, job, &lines));
  for (const std::string& doubt : doubts(scenario)) lines.push_back(doubt);
  add_table(scenario, job.program, &lines);
  for (std::string& line : lines) line = fmt::format("{}: {}", scenario.name, line);
  return lines;
}

}  // namespace tandem
