// Prices communication in groups of ranks. Ranks are numbered as in Megatron-LM: tensor first, then
// context, data and pipeline. So a pipeline stage is a block of tp x cp x dp ranks, and a context
// group has ranks that are tp apart. RankGroups describes all groups of a block by such numbers.
// Groups that lie on the nodes in the same way get the same description and are priced once.
#include "planning/tune/group_times.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "job/price_job.h"
#include "job/site.h"
#include "planning/tune/layout_keys.h"

namespace tandem {

GroupTimes::GroupTimes(const Scenario& base, Cluster cluster, std::shared_ptr<KnownChoices> known)
    : base_(base), site_{std::move(cluster), {}}, known_(std::move(known)) {
  site_.placement = place_ranks(base.cluster, site_.cluster);
}

// Returns the first rank of the stage. If all nodes are alike on one switch, returns that rank
// modulo a node's GPUs: stages that lie alike then share a description.
int GroupTimes::begin_of(const Layout& layout, int stage) const {
  const int begin = stage * layout.pipeline_rank_gpus();
  const ClusterSpec& spec = site_.cluster.spec();
  const bool is_one_switch = site_.cluster.nodes_alike() && spec.fabric.kind == Fabric::Star;
  return is_one_switch && !base_.cluster.cyclic ? begin % spec.gpus_per_node : begin;
}

int GroupTimes::first_gpus_standing_for_all(int span) const {
  const int node = site_.cluster.spec().gpus_per_node;
  if (base_.cluster.cyclic || !site_.cluster.nodes_alike()) return 0;
  if (node % span == 0) return node;
  return span % node == 0 && site_.cluster.spec().fabric.kind == Fabric::Star ? span : 0;
}

// Tensor groups have neighbouring ranks, context groups ranks tp apart. Expert groups have ranks
// expert_tp apart. If a part of the block stands for all of it, only that part is described.
RankGroups GroupTimes::of_pass(const Layout& layout, GroupKind group_kind, CommKind kind) const {
  RankGroups groups{.group_kind = group_kind, .kind = kind, .block = layout.pipeline_rank_gpus()};
  if (group_kind == GroupKind::Tensor) {
    groups.size = layout.tp;
  } else if (group_kind == GroupKind::Context) {
    groups.size = layout.cp;
    groups.stride = layout.tp;
  } else {
    groups.size = layout.ep;
    groups.stride = std::max(layout.expert_tp, 1);
    groups.dispatcher = layout.dispatcher;
    groups.precision = layout.precision;
  }
  if (const int alike = first_gpus_standing_for_all(groups.size * groups.stride); alike > 0)
    groups.block = std::min(groups.block, alike);
  return groups;
}

RankGroups GroupTimes::of_amax(const Layout& layout, GroupKind group_kind, int stage) const {
  RankGroups groups = of_data(layout, CommKind::AllReduce, {stage});
  groups.group_kind = group_kind;
  groups.size =
      group_kind == GroupKind::Tensor ? layout.tp * layout.cp : layout.pipeline_rank_gpus();
  return groups;
}

// Takes begin_of() for a transfer to a later stage only: an earlier one could get ranks below 0.
RankGroups GroupTimes::of_transfer(const Layout& layout, int from, int to) const {
  if (to == from - 1 && site_.cluster.nodes_alike())
    std::swap(from, to);  // links are alike both ways
  return {.group_kind = GroupKind::Pipeline,
          .kind = CommKind::SendRecv,
          .begin = to > from ? begin_of(layout, from) : from * layout.pipeline_rank_gpus(),
          .block = layout.pipeline_rank_gpus(),
          .blocks = 2,
          .block_stride = (to - from) * layout.pipeline_rank_gpus()};
}

RankGroups GroupTimes::of_data(const Layout& layout, CommKind kind,
                               const std::vector<int>& stages) const {
  return {.group_kind = GroupKind::Data,
          .kind = kind,
          .begin = begin_of(layout, stages.front()),
          .block = layout.pipeline_rank_gpus(),
          .blocks = static_cast<int>(stages.size()),
          .block_stride =
              stages.size() > 1 ? (stages[1] - stages[0]) * layout.pipeline_rank_gpus() : 0};
}

const std::vector<Choices>& GroupTimes::choices_of(const RankGroups& groups) {
  const std::vector<Choices>*& choices = choices_[groups];
  if (choices == nullptr) choices = &known_->of(groups, [&] { return find_choices(groups); });
  return *choices;
}

// Lists the groups that the description stands for, on the cluster's GPUs. Returns the ways of
// their communication at its costs in training: an entry for each group, or one if all are alike.
std::vector<Choices> GroupTimes::find_choices(const RankGroups& groups) const {
  std::vector<std::vector<DeviceId>> instances;
  const int span = groups.size * groups.stride;
  for (int first = 0; first < groups.block; ++first) {
    if (first % span >= groups.stride) continue;  // not the first rank of a group
    auto& members = instances.emplace_back();
    for (int block = 0; block < groups.blocks; ++block) {
      for (int i = 0; i < groups.size; ++i)
        members.push_back(site_.placement[groups.begin + first + i * groups.stride +
                                          block * groups.block_stride]);
    }
  }
  Plan plan = base_.job.plan;  // changed in what comm_costs() reads
  write_named({.precision = groups.precision, .dispatcher = groups.dispatcher}, &plan);
  if (groups.group_kind == GroupKind::Tensor) plan.tp = groups.size;
  if (groups.group_kind == GroupKind::Expert) {
    std::set<NodeId> nodes;
    for (const DeviceId device : instances.front()) nodes.insert(site_.cluster.node_of(device));
    plan.ep = groups.size;
    plan.expert_tp = groups.stride;
    plan.expert_nodes = static_cast<int>(nodes.size());
  }
  // Plan::gathers_each_microbatch() holds for ZeRO 3 with one stage. It chooses between the
  // profile's slowdowns of data-parallel groups, zero3_stretch and data_stretch.
  plan.zero = groups.gathers_each_microbatch ? 3 : 0;
  plan.pp = 1;
  const CommCost cost =
      comm_costs(base_.job.model, plan, base_.costs.profile,
                 site_.cluster.spec())[static_cast<std::size_t>(groups.group_kind)];
  std::vector<Choices> found = lockstep_choices(site_.cluster, groups.kind, instances);
  for (Choices& each : found) each = at_training_cost(std::move(each), groups.group_kind, cost);
  return found;
}

Nanoseconds GroupTimes::alone_ns(const RankGroups& groups, Bytes bytes) {
  Nanoseconds slowest = 0;
  for (const Choices& choices : choices_of(groups))
    slowest = std::max(slowest, duration_ns(choices, bytes));
  return slowest;
}

}  // namespace tandem
