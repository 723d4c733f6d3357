// Computes speed from FLOPs and the iteration, and memory from the memory timelines of all ranks.
#include "results/training.h"

#include <fmt/format.h>

#include <algorithm>

#include "job/memory_timeline.h"

namespace tandem {
namespace {

double peak_bytes(const MemoryTimeline& memory) {
  return memory.held.total() + memory.peak().activations;
}

MemoryPeak peak_of(const MemoryTimeline& memory, int pipeline_ranks, const Program& program,
                   const Trace& trace) {
  const MemoryTimeline::Step& peak = memory.peak();
  // A forward and a backward that trade layers are one step, which ends with the backward.
  const bool is_forward = peak.action->kind == ActionKind::Forward;
  return {memory.pipeline_rank,
          to_seconds(StepEnds(memory.pipeline_rank, pipeline_ranks, program, trace).of(peak)),
          fmt::format("{} {} of stage {}", is_forward ? "forward" : "backward",
                      index(peak.action->microbatch), index(peak.action->stage))};
}

}  // namespace

double fullest_bytes(const Scenario& scenario, const OrderedPlan& plan, const Order& order) {
  return peak_bytes(
      std::ranges::max(memory_timelines(scenario.job.model, plan, order,
                                        scenario.cluster.spec.device.gemm_workspace_bytes),
                       {}, peak_bytes));
}

Training training(const Scenario& scenario, const OrderedPlan& plan, const Order& order,
                  const Program& program, const Trace& trace, double iteration_s) {
  const DeviceSpec& device = scenario.cluster.spec.device;
  const double per_gpu_s = iteration_s * scenario.cluster.gpus;
  const double peak_flops = device.flops_per_s.at(plan.precision);
  const std::vector<MemoryTimeline> memories =
      memory_timelines(scenario.job.model, plan, order, device.gemm_workspace_bytes);
  const MemoryTimeline& fullest = *std::ranges::max_element(memories, {}, peak_bytes);
  Training t;
  t.tokens_per_s = static_cast<double>(plan.global_batch) * scenario.job.model.seq / iteration_s;
  t.tokens_per_s_per_gpu = t.tokens_per_s / scenario.cluster.gpus;
  t.causal_flops = scenario.report.causal_flops;
  const auto attention = t.causal_flops ? AttentionFlops::Causal : AttentionFlops::Whole;
  t.model_tflops_per_gpu = model_flops(scenario.job.model, plan, attention) / per_gpu_s * 1e-12;
  t.hardware_tflops_per_gpu =
      hardware_flops(scenario.job.model, plan, attention) / per_gpu_s * 1e-12;
  t.mfu = t.model_tflops_per_gpu * 1e12 / peak_flops;
  t.hfu = t.hardware_tflops_per_gpu * 1e12 / peak_flops;
  MemoryBytes& memory = t.memory;
  memory.weights = fullest.held.weights;
  memory.gradients = fullest.held.gradients;
  memory.optimizer = fullest.held.optimizer;
  memory.activations = fullest.peak().activations;
  memory.communication = fullest.held.communication;
  memory.workspace = fullest.held.workspace;
  memory.total = fullest.held.total() + memory.activations;
  for (const MemoryTimeline& each : memories) memory.by_pipeline_rank.push_back(peak_bytes(each));
  const MemoryReserve reserve = memory_reserve(device, scenario.job.model, plan);
  memory.outside = reserve.outside;
  memory.fragmentation = reserve.fragmentation * memory.total;
  memory.reserve = memory.outside + memory.fragmentation;
  memory.capacity = device.memory_bytes;
  t.verdict = verdict_of(device, reserve, memory.total);
  t.fits = t.verdict != Verdict::No;
  t.spare_bytes = spare_bytes(device, reserve, memory.total);
  t.peak = peak_of(fullest, order.pp(), program, trace);
  t.parts = peak_parts(scenario.job.model, plan, order, fullest);
  if (memory.workspace > 0)
    t.parts.push_back({"workspace", "workspace of GEMM libraries", memory.workspace});
  std::ranges::stable_sort(t.parts, std::ranges::greater{}, &MemoryPart::bytes);
  return t;
}

}  // namespace tandem
