// Group times: what communication between equal groups of a layout's ranks takes, remembered.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <vector>

#include "planning/tune/shared_memo.h"
#include "planning/tune/space.h"
#include "schedule/lowering/price.h"
#include "topology/cluster.h"
#include "topology/traffic.h"

namespace tandem {

// Groups that communicate in lock step: all of a block of ranks, from rank `begin` on. A group has
// `size` ranks of the block, `stride` apart, and as many of each other block, `far` apart.
struct RankGroups {
  GroupKind group_kind = GroupKind::Tensor;
  CommKind kind = CommKind::AllReduce;
  int begin = 0, block = 1;
  int size = 1, stride = 1;
  int blocks = 1, far = 0;
  bool zero3 = false;
  int dispatcher = kAsScenario, precision = kAsScenario;  // of experts' groups: a Layout's

  auto operator<=>(const RankGroups&) const = default;
};

using KnownChoices = SharedMemo<RankGroups, std::vector<Choices>>;

class GroupTimes {
 public:
  // Those of one scenario and cluster may know choices together. REQUIRES: `base` outlives it.
  GroupTimes(const Scenario& base, Cluster cluster, std::shared_ptr<KnownChoices> known);

  const Cluster& cluster() const { return cluster_; }
  const Placement& placement() const { return placement_; }

  // GPUs from a node's first on whose groups stand for those of all others, where groups lie within
  // each `span` GPUs: a node, or several whole ones where any are joined alike; 0: there are none.
  int alike_from(int span) const;

  // Those of a pass: tensor, context, or expert.
  RankGroups of_pass(const Layout& layout, GroupKind group_kind, CommKind kind) const;
  // A stage's ranks of all replicas, or of one where `group_kind` is tensor.
  RankGroups of_amax(const Layout& layout, GroupKind group_kind, int stage) const;
  // From every rank of a stage to its peer of another.
  RankGroups of_transfer(const Layout& layout, int from, int to) const;
  // Each rank of these stages, evenly apart, with its peers there.
  RankGroups of_data(const Layout& layout, CommKind kind, const std::vector<int>& stages) const;

  // Where groups are placed differently on the nodes: the time of the slowest.
  Nanoseconds alone_ns(const RankGroups& groups, Bytes bytes);

 private:
  int begin_of(const Layout& layout, int stage) const;
  const std::vector<Choices>& choices_of(const RankGroups& groups);
  std::vector<Choices> find_choices(const RankGroups& groups) const;

  const Scenario& base_;
  Cluster cluster_;
  Placement placement_;
  std::shared_ptr<KnownChoices> known_;
  std::map<RankGroups, const std::vector<Choices>*> choices_;  // of the known, those asked for here
};

}  // namespace tandem
