// What tests of stages' work share: a device, a model, and sums over a pass's steps.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "workload/model/workload.h"

namespace tandem {

inline CostModel a100() {
  return {.device = {.name = "A100-80GB",
                     .memory_bytes = 80e9,
                     .memory_bytes_per_s = 2.039e12,
                     .sms = 108,
                     .flops_per_s = {{"fp16", 312e12}, {"bf16", 312e12}}},
          .precision = "fp16"};
}

// Korthikanti et al. 2022, table 3: the 22B model; s = 2048, V = 51200.
inline Model gpt_22b() {
  return {.layers = 48, .hidden = 6144, .heads = 64, .seq = 2048, .vocab = 51200};
}

inline Plan plan_of(int tp, int pp = 1, int micro_batch = 4) {
  return {.tp = tp,
          .pp = pp,
          .micro_batch = micro_batch,
          .global_batch = 4 * micro_batch,
          .precision = "fp16"};
}

// How hardware_flops counts what kernels compute.
inline AttentionFlops computed(const Plan& plan) {
  return plan.flash_attention ? AttentionFlops::Causal : AttentionFlops::Whole;
}

inline double seconds(const Pass& pass) {
  Nanoseconds sum = 0;
  for (const Step& step : pass.steps) sum += step.duration_ns;
  return to_seconds(sum);
}

inline double flops(const Workload& work, const Pass& pass) {
  double sum = 0;
  for (const Step& step : pass.steps)
    sum += step.kernel < 0 ? 0 : work.kernels[step.kernel].flops();
  return sum;
}

// Of every stage's forward and backward, one microbatch on one GPU.
inline double flops(const Workload& work) {
  double sum = 0;
  for (const StageWork& stage : work.stages)
    sum += flops(work, stage.forward) + flops(work, stage.backward);
  return sum;
}

// Bytes that the memory-bound passes of its kernels go over.
inline double memory_bytes(const Workload& work, const Pass& pass) {
  double sum = 0;
  for (const Step& step : pass.steps)
    sum += step.kernel < 0 ? 0 : work.kernels[step.kernel].memory_bytes;
  return sum;
}

inline std::string name_of(const Workload& work, const Step& step) {
  return step.kernel < 0 ? "" : work.kernels[step.kernel].name;
}

// The pass's communication of one kind.
inline std::vector<Step> communication(const Pass& pass, CommKind kind) {
  std::vector<Step> found;
  for (const Step& step : pass.steps) {
    if (!step.computes && step.collective == kind) found.push_back(step);
  }
  return found;
}

// Bytes and number of the collectives of one kind.
struct Moved {
  int count = 0;
  Bytes bytes = 0;
  bool operator==(const Moved&) const = default;
};
inline Moved collectives(const Pass& pass, CommKind kind) {
  Moved sum;
  for (const Step& step : communication(pass, kind)) {
    ++sum.count;
    sum.bytes += step.bytes;
  }
  return sum;
}

// When a pass that is alone on its GPU ends: one lane for compute and one for each group kind, each
// step after the one before on its lane and after what it waits for. `comm_ns` prices
// communication.
template <class CommTime>
Nanoseconds makespan(const Pass& pass, const CommTime& comm_ns) {
  std::vector<Nanoseconds> ends;
  std::array<Nanoseconds, kGroupKinds> lanes{};
  Nanoseconds compute = 0, last = 0;
  for (const Step& step : pass.steps) {
    Nanoseconds& lane = step.computes ? compute : lanes[static_cast<std::size_t>(step.group_kind)];
    Nanoseconds start = lane;
    for (const int wait : step.waits) start = std::max(start, ends[wait]);
    lane = start + (step.computes ? step.duration_ns : comm_ns(step));
    ends.push_back(lane);
    last = std::max(last, lane);
  }
  return last;
}

// A middle stage that holds layers only, `layers` of them.
inline StageWork middle_stage(Model model, Plan plan, int layers, Workload* work) {
  plan.pp = 3;
  plan.layers_per_stage = {1, layers, 1};
  model.layers = layers + 2;
  *work = make_workload(model, plan, a100());
  return work->stages[1];
}

}  // namespace tandem
