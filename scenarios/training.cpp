#include "scenarios/training.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

LiveActivations live_activations(const Order& order) {
  LiveActivations live;
  const std::vector<int> rank_of = stage_to_rank(order);
  const std::vector<std::vector<int>> peaks = peak_live(order);
  live.ranks.resize(order.ranks.size());
  for (int stage = 0; stage < order.stages; ++stage) {
    auto& entries = live.ranks[rank_of[stage]];
    const int in_chain = stage % (order.stages / order.chains);
    entries.push_back({static_cast<Stage>(in_chain), peaks[rank_of[stage]][entries.size()]});
  }
  return live;
}

// The end of the forward on the first GPU of the pipeline rank, or on the one that stands for it.
Nanoseconds end_of(const Action& forward, const Program& program, const Trace& trace, int gpu) {
  const int body = program.ranks[gpu].body;
  const auto played = std::ranges::find(trace.ranks, body, &RankTrace::body);
  CHECK(played != trace.ranks.end());
  const std::span<const EventTimes> events = trace.events_of(program, *played);
  Nanoseconds end = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Op& op = program.bodies[body].ops[i];
    if (op.kind == OpKind::Forward && op.stage == index(forward.stage) &&
        op.microbatch == index(forward.microbatch))
      end = std::max(end, events[i].end_ns);
  }
  return end;
}

MemoryPeak peak_of(int pipeline_rank, const Order& order, const Program& program,
                   const Trace& trace) {
  const Action& forward = order.ranks[pipeline_rank][peak_actions(order)[pipeline_rank]];
  const int gpu = static_cast<int>(program.ranks.size()) / order.pp() * pipeline_rank;
  return {pipeline_rank, to_seconds(end_of(forward, program, trace, gpu)),
          fmt::format("forward {} of stage {}", index(forward.microbatch), index(forward.stage))};
}

}  // namespace

Training training(const Scenario& scenario, const Plan& plan, const Order& order,
                  const Program& program, const Trace& trace, double iteration_s) {
  const DeviceSpec& device = scenario.cluster.device;
  const double per_gpu_s = iteration_s * scenario.gpus;
  const double peak_flops = device.flops_per_s.at(plan.precision);
  const MemoryUse memory = peak_memory(scenario.model, plan, live_activations(order));
  Training t;
  t.tokens_per_s = static_cast<double>(plan.global_batch) * scenario.model.seq / iteration_s;
  t.model_tflops_per_gpu = model_flops(scenario.model, plan) / per_gpu_s * 1e-12;
  t.hardware_tflops_per_gpu = hardware_flops(scenario.model, plan) / per_gpu_s * 1e-12;
  t.mfu = t.model_tflops_per_gpu * 1e12 / peak_flops;
  t.hfu = t.hardware_tflops_per_gpu * 1e12 / peak_flops;
  t.weights = memory.weights;
  t.gradients = memory.gradients;
  t.optimizer = memory.optimizer;
  t.activations = memory.activations;
  t.communication = memory.communication;
  t.total = memory.total();
  t.capacity = device.memory_bytes;
  t.fits = t.total <= t.capacity;
  t.peak = peak_of(memory.rank, order, program, trace);
  return t;
}

}  // namespace tandem
