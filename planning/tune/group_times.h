// GroupTimes: the time of communication in groups of a layout's ranks. Groups that lie on the nodes
// in the same way are priced once.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <vector>

#include "job/site.h"
#include "planning/tune/shared_memo.h"
#include "planning/tune/space.h"
#include "schedule/lowering/price.h"
#include "topology/cluster.h"
#include "topology/traffic.h"

namespace tandem {

// Groups that communicate in lock step. They are made from a block of ranks that begins at rank
// `begin`; a group has `size` ranks of it, `stride` apart. With begin 0, block 8, size 4 and stride
// 2 they are {0, 2, 4, 6} and {1, 3, 5, 7}. With more `blocks`, each group has the same ranks of
// every other block as well, `block_stride` apart.
struct RankGroups {
  GroupKind group_kind = GroupKind::Tensor;
  CommKind kind = CommKind::AllReduce;
  int begin = 0, block = 1;
  int size = 1, stride = 1;
  int blocks = 1, block_stride = 0;
  bool gathers_each_microbatch = false;                   // as in Plan, with ZeRO 3
  int dispatcher = kAsScenario, precision = kAsScenario;  // as in Layout, for groups of experts

  auto operator<=>(const RankGroups&) const = default;
};

using KnownChoices = SharedMemo<RankGroups, std::vector<Choices>>;

class GroupTimes {
 public:
  // Objects of the same scenario and cluster may share `known`. REQUIRES: `base` outlives this.
  GroupTimes(const Scenario& base, Cluster cluster, std::shared_ptr<KnownChoices> known);

  const Site& site() const { return site_; }

  // Returns the number of GPUs, from a node's first on, whose groups stand for those of all GPUs,
  // if each group lies within `span` GPUs. With 8 GPUs on a node and a span of 4, it is 8. With a
  // span of 16, it is 16 if all nodes hang on one switch. 0: no group stands for others.
  int first_gpus_standing_for_all(int span) const;

  // Describes a pass's tensor, context or expert groups.
  RankGroups of_pass(const Layout& layout, GroupKind group_kind, CommKind kind) const;
  // Describes the groups that reduce the largest numbers of quantized arrays (amax): a stage's
  // ranks of all replicas, or of one replica if `group_kind` is Tensor.
  RankGroups of_amax(const Layout& layout, GroupKind group_kind, int stage) const;
  // Describes the pairs of pipeline transfers: every rank of a stage with its peer of another
  // stage.
  RankGroups of_transfer(const Layout& layout, int from, int to) const;
  // Describes groups of data parallelism: each rank of these stages, which are evenly apart, with
  // its peers in the others. The caller sets the size and stride of the groups inside a stage.
  RankGroups of_data(const Layout& layout, CommKind kind, const std::vector<int>& stages) const;

  // Returns the time of a communication alone on the network. If the groups lie differently on the
  // nodes, it is the slowest group's.
  Nanoseconds alone_ns(const RankGroups& groups, Bytes bytes);

 private:
  int begin_of(const Layout& layout, int stage) const;
  const std::vector<Choices>& choices_of(const RankGroups& groups);
  std::vector<Choices> find_choices(const RankGroups& groups) const;

  const Scenario& base_;
  Site site_;
  std::shared_ptr<KnownChoices> known_;
  std::map<RankGroups, const std::vector<Choices>*> choices_;  // pointers into known_
};

}  // namespace tandem
