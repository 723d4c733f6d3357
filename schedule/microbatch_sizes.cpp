#include "schedule/microbatch_sizes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/check.h"

namespace tandem {
namespace {

std::vector<double> durations(const Pass& pass) {
  std::vector<double> durations;
  for (const Step& step : pass.steps) {
    if (step.computes) durations.push_back(static_cast<double>(step.duration_ns));
  }
  return durations;
}

std::vector<SizeCost> step_costs(const Pass& whole, const Pass& halves, const Pass& half) {
  const std::vector<double> a = durations(whole), b = durations(halves), c = durations(half);
  CHECK(a.size() == b.size() && a.size() == c.size());
  std::vector<SizeCost> costs;
  for (std::size_t i = 0; i < a.size(); ++i) costs.push_back(fit(a[i], b[i], c[i]));
  return costs;
}

Nanoseconds resized(const SizeCost& cost, const MicrobatchSize& size) {
  return std::llround(cost.of(size));
}

}  // namespace

SizeCost fit(double whole, double halves, double half) {
  // whole = once + tokens + squares, halves = once + tokens + squares / 2,
  // half = once + tokens / 2 + squares / 4.
  SizeCost cost;
  cost.by_squares = std::clamp(2 * (whole - halves), 0.0, whole);
  cost.once = std::clamp(2 * half - halves, 0.0, whole - cost.by_squares);
  cost.by_tokens = whole - cost.by_squares - cost.once;
  return cost;
}

std::vector<StageCosts> fit(const Workload& whole, const Workload& halves, const Workload& half) {
  CHECK(whole.stages.size() == halves.stages.size() && whole.stages.size() == half.stages.size());
  std::vector<StageCosts> stages;
  for (std::size_t s = 0; s < whole.stages.size(); ++s) {
    const StageWork &a = whole.stages[s], &b = halves.stages[s], &c = half.stages[s];
    stages.push_back({step_costs(a.forward, b.forward, c.forward),
                      step_costs(a.backward, b.backward, c.backward),
                      step_costs(a.backward_input, b.backward_input, c.backward_input),
                      step_costs(a.backward_weight, b.backward_weight, c.backward_weight)});
  }
  return stages;
}

void resize_microbatches(Program* program, std::span<const StageCosts> stages, int chains,
                         std::span<const MicrobatchSize> sizes) {
  const std::size_t of_chain = sizes.size() / chains, chain_stages = stages.size() / chains;
  for (Body& body : program->bodies) {
    std::map<std::tuple<OpKind, int, int>, std::size_t> steps;  // done of a pass
    for (Op& op : body.ops) {
      if (op.microbatch < 0) continue;
      const std::size_t number = op.stage / chain_stages * of_chain + op.microbatch;
      CHECK(number < sizes.size());
      const MicrobatchSize& size = sizes[number];
      if (!is_compute(op.kind)) {
        if (body.slots[op.slot].scope != Scope::Data)
          op.bytes = std::llround(static_cast<double>(op.bytes) * size.tokens);
        continue;
      }
      const auto kind = static_cast<std::size_t>(op.kind);
      CHECK(kind < kPassKinds);
      const std::size_t step = steps[{op.kind, op.stage, op.microbatch}]++;
      const std::vector<SizeCost>& costs = stages[op.stage][kind];
      CHECK(step < costs.size());
      op.duration_ns = resized(costs[step], size);
    }
  }
}

}  // namespace tandem
