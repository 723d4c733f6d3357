// Stage level: a layout's job with each pass of a stage as one operation, so that thousands of
// plans can be scheduled a second, and bounds below their iteration times.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"
#include "planning/tune/group_times.h"
#include "planning/tune/shared_memo.h"
#include "planning/tune/space.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "topology/cluster.h"

namespace tandem {

// What a pass takes from its input to its last step, communication inside it included.
struct PassTimes {
  Nanoseconds forward = 0, backward = 0, input = 0, weight = 0;

  // What a microbatch takes of a rank, forward and back, at least.
  Nanoseconds least() const { return forward + std::min(backward, input + weight); }
};

inline PassTimes operator+(const PassTimes& a, const PassTimes& b) {
  return {a.forward + b.forward, a.backward + b.backward, a.input + b.input, a.weight + b.weight};
}
inline PassTimes operator*(int n, const PassTimes& a) {
  return {n * a.forward, n * a.backward, n * a.input, n * a.weight};
}
// What a has beyond b.
inline PassTimes operator-(const PassTimes& a, const PassTimes& b) { return a + -1 * b; }

// A stage's times are sums: of its layers, of the embedding on the first and the head on the last
// one, and of what a pass takes once.
struct StageTimes {
  std::vector<PassTimes> layers;  // by their kind's number
  PassTimes embedding, head, once;
  Bytes pipeline_bytes = 0;
  bool slowed = false;  // communication takes SMs from kernels, which is not counted here

  // Of so many layers of the model from `begin` on.
  PassTimes of(const Model& model, int begin, int layers, bool first, bool last) const;
};

// Bounds below an iteration: the mean rank's passes, and one microbatch's way through all stages.
struct WorkBound {
  Nanoseconds mean_rank = 0, chain = 0;

  Nanoseconds iteration() const { return std::max(mean_rank, chain); }
};

// When each pipeline rank has done its last action, data-parallel communication left out.
using RankEnds = std::vector<Nanoseconds>;

// Prices and plays the layouts of one scenario, and remembers what they have in common.
class StageLevel {
 public:
  // REQUIRES: `base` outlives it, and has no uniform costs.
  StageLevel(const Scenario& base, Cluster cluster);
  // Another of the same scenario, for another thread: they remember stages' times together.
  StageLevel beside(Cluster cluster) const;

  // Bytes of the mean rank's parameters, gradients, optimizer and communication buffers, however
  // the layout goes on from its cut (Space::cuts) and its micro batch, and whatever ZeRO cuts.
  double state_floor(Layout cut) const;
  // Bytes of the fullest GPU with one microbatch of one stage alive: less than any order needs.
  double memory_floor(const Candidate& candidate) const;
  double memory(const Candidate& candidate, const Order& order) const;
  double peak_bytes(const Candidate& candidate, const LiveActivations& live) const;

  // Bounds below the iteration. Of a layout, however it is played: its passes; the same if
  // communication took no SMs from kernels, which is quicker to find; of these the kernels and the
  // communication that no setting hides, whatever it overlaps; and that of the layout that
  // recomputes nothing: endless where no layout with its micro batch and cuts keeps the rules.
  Nanoseconds work_bound(const Layout& layout);
  Nanoseconds unslowed_bound(const Layout& layout);
  Nanoseconds exposed_bound(const Layout& layout);
  Nanoseconds least_exposed_bound(const Layout& layout);
  // The least of the last over a cut's micro batches, or up to a thousandth less (cut_bound.cpp).
  // REQUIRES: they differ in nothing else, and grow (Space::micro_batches).
  Nanoseconds cut_bound(std::span<const Layout> micro_batches);
  // Of layouts whose passes take the same time, one.
  Layout canonical(Layout layout) const;
  // When the ranks end at the earliest. A rank's passes, after the passes of one microbatch on the
  // stages before it; where backwards are whole, those of the stages before its first follow. Where
  // transfers do not overlap, each pass waits for what it sends.
  RankEnds ends_bound(const Layout& layout, const Playing& playing);
  // What data parallelism adds: parameters that the first stage waits for, gradients that are
  // reduced behind a rank's last pass, the optimizer, parameters gathered behind it; and no lane
  // carries its bytes in less time than they take.
  Nanoseconds data_bound(const Candidate& candidate, const RankEnds& ends);

  // Played on the ideal engine, without data parallelism.
  Result<Order> order_of(const Candidate& candidate);
  Result<RankEnds> play_ranks(const Candidate& candidate, const Order& order);
  // The whole: the iteration.
  Result<Nanoseconds> play(const Candidate& candidate, const Order& order);

 private:
  struct Known;
  StageLevel(const Scenario& base, Cluster cluster, std::shared_ptr<Known> known);

  // What of a pass is counted: what exposed_bound() says; all but that communication takes SMs from
  // kernels; all.
  enum class Counted : std::uint8_t { Exposed, Unslowed, All };

  const StageTimes& times(const Layout& layout);
  const StageTimes& unslowed_times(const Layout& layout);
  // Of no layers where no layout with its micro batch and cuts keeps the rules.
  const StageTimes& exposed_times(const Layout& layout);
  int alike_from(const Layout& layout) const;
  Layout exposed_alike(const Layout& layout) const;
  std::pair<Model, Plan> a_few_layers(const Layout& layout, const Model& kind,
                                      const std::vector<int>& layers) const;
  StageTimes measure_layers(const Layout& layout, Counted counted);
  // Of layers of that kind alone.
  StageTimes measure_kind(const Layout& layout, const Model& kind, Counted counted);
  Program one_gpu(std::vector<Kernel> kernels) const;
  Nanoseconds length(const Pass& pass, const Layout& layout, Program* program, bool* slowed);
  Nanoseconds exposed_length(const Pass& pass, const Layout& layout);
  Nanoseconds played(const Pass& pass, const Layout& layout, Program* program);
  Nanoseconds step_ns(const Step& step, const Layout& layout);
  // Of all the ranks that one of each stage stands for.
  Nanoseconds alone_ns(const Candidate& candidate, const Plan& plan, const OneReplica& lowered,
                       int body, const Op& op);
  void price(const Candidate& candidate, OneReplica* lowered);
  WorkBound work_of(const StageTimes& parts, const Layout& layout) const;
  WorkBound least_exposed_work(Layout layout);
  Nanoseconds transfer_ns(const Layout& layout, int from, int to);
  Nanoseconds data_ns(const Candidate& candidate, int rank, CommKind kind, double bytes);
  std::vector<PassTimes> stages(const Layout& layout);
  void cut_by_unit(const StageTimes& parts, bool has_head, StageWork* stage) const;
  Workload collapsed(const Candidate& candidate, const Order& order);
  const OrderTraits& traits(const Playing& playing) const;
  // What a rank waits for its transfers, at least, where none overlaps; by its stages' ranks.
  Nanoseconds waits_bound(const OrderTraits& order, int own, int rank,
                          const std::vector<int>& rank_of,
                          const std::vector<Nanoseconds>& edges) const;

  const Scenario& base_;
  GroupTimes groups_;
  std::shared_ptr<Known> known_;
};

// What was measured, by all threads.
struct StageLevel::Known {
  SharedMemo<Layout, StageTimes> exposed, unslowed, all;
  SharedMemo<std::tuple<Layout, std::string, Counted>, StageTimes> dense;  // by layout and kind
  SharedMemo<Layout, Nanoseconds> collectives;                             // block_collective_ns()
  std::shared_ptr<KnownChoices> choices = std::make_shared<KnownChoices>();
};

// The stages of each pipeline rank, by their place in the model's chain.
std::vector<std::vector<int>> stages_of_ranks(const OrderTraits& order, const Layout& layout);

}  // namespace tandem
