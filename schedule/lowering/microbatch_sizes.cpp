// Fits the time of each compute step as a + b: a grows with the tokens (linear between measured
// sizes), b with the sum of the squares of the sequences' lengths. Then gives every op of a Program
// the time and bytes of its own microbatch's size.
#include "schedule/lowering/microbatch_sizes.h"

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

using PassOfStage = Pass StageWork::*;

std::vector<SizeCost> step_costs(const Workload& whole, const Workload& halves,
                                 const std::vector<Workload>& shorter, std::size_t stage,
                                 PassOfStage pass) {
  const auto times_of = [&](const Workload& work) {
    CHECK(work.stages.size() == whole.stages.size());
    return durations(work.stages[stage].*pass);
  };
  const std::vector<double> of_whole = times_of(whole), of_halves = times_of(halves);
  CHECK(of_halves.size() == of_whole.size());
  std::vector<std::vector<double>> of_shorter(of_whole.size());  // by step, then by shorter size
  for (const Workload& work : shorter) {
    const std::vector<double> steps = times_of(work);
    CHECK(steps.size() == of_whole.size());
    for (std::size_t i = 0; i < steps.size(); ++i) of_shorter[i].push_back(steps[i]);
  }
  std::vector<SizeCost> costs;
  for (std::size_t i = 0; i < of_whole.size(); ++i)
    costs.push_back(fit(of_whole[i], of_halves[i], of_shorter[i]));
  return costs;
}

}  // namespace

// Interpolates between the two nearest shares. In a segment from `share` down to share / 2 the time
// falls from `high` to `low`.
double SizeCost::of(const MicrobatchSize& size) const {
  std::size_t segment = 0;  // covers shares from 2^-segment down to half of that
  double share = 1;
  while (size.tokens < share / 2 && segment + 2 < by_tokens.size()) {
    ++segment;
    share /= 2;
  }
  const double high = by_tokens[segment], low = by_tokens[segment + 1];
  const double straight = high + (high - low) * (size.tokens / share - 1) * 2;
  return std::max(straight, 0.0) + by_squares * size.squares;
}

// `halves` has the same tokens, but half the sum of squares: 2 (L / 2)^2 = L^2 / 2. So whole -
// halves is half of the squares' part. Each shorter size has a quarter of the squares before: (L /
// 2)^2.
SizeCost fit(double whole, double halves, const std::vector<double>& shorter) {
  CHECK(!shorter.empty());
  SizeCost cost;
  cost.by_squares = std::clamp(2 * (whole - halves), 0.0, whole);
  cost.by_tokens = {whole - cost.by_squares};
  double squares = cost.by_squares;
  for (const double time : shorter) {
    squares /= 4;
    cost.by_tokens.push_back(std::clamp(time - squares, 0.0, cost.by_tokens.back()));
  }
  return cost;
}

std::vector<StageCosts> fit(const Workload& whole, const Workload& halves,
                            const std::vector<Workload>& shorter) {
  constexpr PassOfStage kAll[] = {&StageWork::forward, &StageWork::backward,
                                  &StageWork::backward_input, &StageWork::backward_weight};
  std::vector<StageCosts> stages(whole.stages.size());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (std::size_t kind = 0; kind < kPassKinds; ++kind)
      stages[stage][kind] = step_costs(whole, halves, shorter, stage, kAll[kind]);
  }
  return stages;
}

void resize_microbatches(Program* program, std::span<const StageCosts> stages, int chains,
                         std::span<const MicrobatchSize> sizes) {
  const std::size_t chain_sizes = sizes.size() / chains, chain_stages = stages.size() / chains;
  for (Body& body : program->bodies) {
    std::map<std::tuple<OpKind, int, int>, std::size_t> steps;  // by pass: its steps so far
    for (Op& op : body.ops) {
      if (op.microbatch < 0) continue;
      const std::size_t number = op.stage / chain_stages * chain_sizes + op.microbatch;
      CHECK(number < sizes.size());
      const MicrobatchSize& size = sizes[number];
      if (!is_compute(op.kind)) {
        if (body.slots[op.slot].group_kind != GroupKind::Data)
          op.bytes = std::llround(static_cast<double>(op.bytes) * size.tokens);
        continue;
      }
      const auto kind = static_cast<std::size_t>(op.kind);
      CHECK(kind < kPassKinds);
      const std::size_t step = steps[{op.kind, op.stage, op.microbatch}]++;
      const std::vector<SizeCost>& costs = stages[op.stage][kind];
      CHECK(step < costs.size());
      op.duration_ns = std::llround(costs[step].of(size));
    }
  }
}

}  // namespace tandem
