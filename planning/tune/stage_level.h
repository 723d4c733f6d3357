// StageLevel: plays a layout's job with each pass of a stage as one operation, so that thousands of
// plans can be played a second, and computes bounds below their iteration times.
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
#include "workload/memory/memory.h"

namespace tandem {

// The time of each pass of a stage from its input to its last step, with the communication inside
// it. `input` and `weight` are the two halves of a split backward.
struct PassTimes {
  Nanoseconds forward = 0, backward = 0, input = 0, weight = 0;

  // Returns the least time for which a microbatch occupies the rank, forward and backward.
  Nanoseconds least() const { return forward + std::min(backward, input + weight); }
};

inline PassTimes operator+(const PassTimes& a, const PassTimes& b) {
  return {a.forward + b.forward, a.backward + b.backward, a.input + b.input, a.weight + b.weight};
}
inline PassTimes operator*(int n, const PassTimes& a) {
  return {n * a.forward, n * a.backward, n * a.input, n * a.weight};
}
// Returns the times that `a` has beyond `b`.
inline PassTimes operator-(const PassTimes& a, const PassTimes& b) { return a + -1 * b; }

// The parts of a stage's times. A stage takes the sum of its layers, of the embedding on the first
// stage and the head on the last, and of `once`, which every pass takes. Where only the first
// layers of a stage are recomputed, `recomputed` has their times and `layers` those of the others.
struct StagePassTimes {
  std::vector<PassTimes> layers, recomputed;  // by the number of their kind
  int first_layers = 0;                       // so many of a stage are recomputed
  PassTimes embedding, head, once;
  Bytes pipeline_bytes = 0;
  bool slowed = false;  // communication takes SMs from kernels, which only Counted::All counts

  // Returns the times of a layer of this kind with so many before it in its stage.
  const PassTimes& layer(int kind, int before) const {
    return before < first_layers ? recomputed[kind] : layers[kind];
  }
  // Returns the times of a stage with `layers` layers of the model, from layer `begin` on.
  PassTimes of(const Model& model, int begin, int layers, bool first, bool last) const;
};

// Two lower bounds of an iteration: the mean rank's passes of all microbatches, and the passes of
// one microbatch through all stages.
struct WorkBound {
  Nanoseconds mean_rank = 0, chain = 0;

  Nanoseconds iteration() const { return std::max(mean_rank, chain); }
};

// The time at which each pipeline rank has done its last action, without data parallelism.
using RankEnds = std::vector<Nanoseconds>;

// Prices and plays the layouts of one scenario, and remembers the times that layouts share.
class StageLevel {
 public:
  // REQUIRES: `base` outlives it, and has no uniform costs.
  StageLevel(const Scenario& base, Cluster cluster);
  // Returns another StageLevel of the same scenario for another thread. Both share the times that
  // they remember.
  StageLevel beside(Cluster cluster) const;

  // Returns a lower bound of the bytes of the mean rank's parameters, gradients, optimizer and
  // communication buffers, for all layouts with this cut (Space::cuts) and micro batch, and for
  // every ZeRO stage.
  double state_floor(Layout cut) const;
  // Returns the bytes of the fullest GPU with one microbatch of one stage alive. No order needs
  // less.
  double memory_floor(const Candidate& candidate) const;
  // Whether a plan fits into a GPU's memory. `tensors`: the bytes of its tensors.
  bool fits(const Candidate& candidate, double tensors) const;
  double memory(const Candidate& candidate, const Order& order) const;
  double peak_bytes(const Candidate& candidate, const LiveActivations& live) const;

  // Four lower bounds of a layout's iteration, in whatever order it is played, from the tightest to
  // the quickest to compute:
  //   work_bound           counts all passes
  //   uncontended_bound    counts them as if communication took no SMs from kernels
  //   exposed_bound        counts kernels, and the communication that no setting hides
  //   least_exposed_bound  is exposed_bound without recompute; INT64_MAX: no layout with this micro
  //                        batch and cut keeps the rules
  Nanoseconds work_bound(const Layout& l) { return work_of(times(l), l).iteration(); }
  Nanoseconds uncontended_bound(const Layout& l) {
    return work_of(uncontended_times(l), l).iteration();
  }
  Nanoseconds exposed_bound(const Layout& l) { return work_of(exposed_times(l), l).iteration(); }
  Nanoseconds least_exposed_bound(const Layout& l) { return least_exposed_work(l).iteration(); }
  // Returns the lowest least_exposed_bound() of these layouts, or up to a thousandth less
  // (bounds.cpp). REQUIRES: they differ in the micro batch alone, which grows.
  Nanoseconds cut_bound(std::span<const Layout> micro_batches);
  // Returns the one layout that stands for all layouts whose passes take the same time.
  Layout canonical(Layout layout) const;
  // Returns a lower bound of each rank's end. A rank starts after the forwards of one microbatch on
  // the stages before its first, and then does its passes. If backwards are not split, the
  // backwards of those earlier stages follow. If transfers do not overlap, a pass also waits for
  // the transfers that it sends.
  RankEnds ends_bound(const Layout& layout, const Playing& playing);
  // Returns a lower bound of the iteration with data parallelism: parameters that the first stage
  // waits for, gradients that are reduced after a rank's last pass, the optimizer, and parameters
  // gathered after it. The bound is also at least the time of all bytes on one lane.
  Nanoseconds data_bound(const Candidate& candidate, const RankEnds& ends);

  // Makes and plays the candidate's order on the ideal engine, without data parallelism.
  Result<Order> order_of(const Candidate& candidate);
  Result<RankEnds> play_ranks(const Candidate& candidate, const Order& order);
  // Plays the whole plan and returns the iteration.
  Result<Nanoseconds> play(const Candidate& candidate, const Order& order);

 private:
  struct Known;
  StageLevel(const Scenario& base, Cluster cluster, std::shared_ptr<Known> known);

  // The part of a pass's time that is counted: as in exposed_bound(), in uncontended_bound(), or
  // all of it.
  enum class Counted : std::uint8_t { Exposed, Uncontended, All };

  // Measure passes (stage_times.cpp).
  const StagePassTimes& times(const Layout& layout);
  const StagePassTimes& uncontended_times(const Layout& layout);
  // Returns times without layers if no layout with this micro batch and cut keeps the rules.
  const StagePassTimes& exposed_times(const Layout& layout);
  int first_gpus_standing_for_all(const Layout& layout) const;
  Layout exposed_key(const Layout& layout) const;
  std::pair<Model, Plan> small_job(const Layout& layout, const Model& kind,
                                   const std::vector<int>& layers) const;
  StagePassTimes measure_layers(const Layout& layout, Counted counted);
  // Measures a job whose layers are all of that kind.
  StagePassTimes measure_kind(const Layout& layout, const Model& kind, Counted counted);
  Program one_gpu(std::vector<Kernel> kernels) const;
  Nanoseconds exposed_length(const Pass& pass, const Layout& layout);
  Nanoseconds length_on_engine(const Pass& pass, const Layout& layout, Program* program);
  Nanoseconds step_ns(const Step& step, const Layout& layout);
  std::vector<PassTimes> stages(const Layout& layout) { return stages_of(times(layout), layout); }
  std::vector<PassTimes> stages_of(const StagePassTimes& parts, const Layout& layout) const;

  // Bound plans (bounds.cpp).
  WorkBound work_of(const StagePassTimes& parts, const Layout& layout) const;
  WorkBound least_exposed_work(Layout layout);
  Nanoseconds data_ns(const Layout& layout, const OrderedPlan& plan, int rank, CommKind kind,
                      double bytes);
  std::vector<Nanoseconds> optimizer_ns(const OrderedPlan& plan,
                                        const std::vector<HeldParameters>& held,
                                        const std::vector<std::vector<int>>& ranks) const;

  // Play plans (stage_level.cpp). alone_ns() is the time of a communication op alone on the
  // network, on the slowest of the ranks for which this one is played.
  OrderedPlan ordered_plan(const Candidate& candidate) const;
  Nanoseconds transfer_ns(const Layout& layout, int from, int to);
  Nanoseconds alone_ns(const Candidate& candidate, const Plan& plan, const OneReplica& lowered,
                       int body, const Op& op);
  void price(const Candidate& candidate, OneReplica* lowered);
  void cut_by_unit(const StagePassTimes& parts, bool has_head, StageWork* stage) const;
  Workload stage_level_workload(const Candidate& candidate, const Order& order);

  const Scenario& base_;
  GroupTimes groups_;
  std::shared_ptr<Known> known_;
};

// The times measured so far, shared by all threads.
struct StageLevel::Known {
  SharedMemo<Layout, StagePassTimes> exposed, uncontended, all;
  SharedMemo<std::tuple<Layout, std::string, Counted>, StagePassTimes> dense;  // by layout and kind
  SharedMemo<Layout, Nanoseconds> collectives;  // block_collective_ns()
  std::shared_ptr<KnownChoices> choices = std::make_shared<KnownChoices>();
};

// Whether the model's first stage reduces its gradients bucket by bucket, during its passes.
inline bool buckets_first_stage(const Sharing& sharing, int chains) {
  return sharing.grad_reduce && chains == 1;
}

// Returns the stages of each pipeline rank, by their place in the model's chain.
std::vector<std::vector<int>> stages_of_ranks(const OrderTraits& order, const Layout& layout);

}  // namespace tandem
