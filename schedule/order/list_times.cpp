#include "schedule/order/list_times.h"

#include <algorithm>
#include <cmath>

namespace tandem {

ListTimes::ListTimes(const ListProblem& given) : problem(given), stages(given.costs.size()) {
  double longest = 0;
  for (const OrderCosts& costs : problem.costs)
    longest = std::max({longest, costs.forward, costs.input, costs.weight, costs.transfer});
  const auto ticks = [&](double cost) {
    return cost > 0 ? static_cast<Ticks>(std::llround(cost / longest * kTicksOfLongest)) : 0;
  };
  // F and I, which other ranks wait for, take at least one tick, so that they end after all
  // decisions that are made at the time of their start.
  std::vector<Ticks> periods(problem.pp);
  for (int stage = 0; stage <= last_stage(); ++stage) {
    const OrderCosts& costs = problem.costs[stage];
    StageTicks& own = stages[stage];
    own = {std::max<Ticks>(ticks(costs.forward), 1), std::max<Ticks>(ticks(costs.input), 1),
           ticks(costs.weight)};
    periods[rank_of(stage)] += own.forward + own.input + own.weight;
  }
  period = *std::max_element(periods.begin(), periods.end());
  transfer_ = ticks(problem.costs.front().transfer);
  turn = ticks(problem.turn);
}

ListState::ListState(const ListTimes& times)
    : actions(times.problem.pp),
      times_(&times),
      stages_(times.stages.size()),
      ranks_(times.problem.pp),
      forward_end_(stages_.size() * times.problem.microbatches, kNever),
      gradient_end_(forward_end_) {
  for (std::vector<Action>& own : actions)
    own.reserve(3UL * times.problem.chunks * times.problem.microbatches);
}

Ticks ListState::input_ready(const Action& action) const {
  const int stage = index(action.stage);
  const auto after = [&](const std::vector<Ticks>& ends, int from, Ticks delay) {
    const Ticks end = ends[times_->slot(from, index(action.microbatch))];
    return end == kNever ? kNever : end + delay;
  };
  if (action.kind == ActionKind::Forward) {
    if (stage == 0) return 0;
    return after(forward_end_, stage - 1, times_->transfer(stage - 1, stage));
  }
  // The last stage's I waits for its own F.
  if (stage == times_->last_stage()) return after(forward_end_, stage, times_->turn);
  return after(gradient_end_, stage + 1, times_->transfer(stage + 1, stage));
}

void ListState::add_arrivals(int stage, Ticks now, std::vector<Ticks>* waits) const {
  const auto add = [&](ActionKind kind, int from, int to) {
    for (int microbatch = from; microbatch < to; ++microbatch)
      waits->push_back(
          std::max<Ticks>(input_ready({Stage{stage}, kind, Microbatch{microbatch}}) - now, 0));
  };
  const StageState& own = stages_[stage];
  if (stage > 0) add(ActionKind::Forward, own.forwards, stages_[stage - 1].forwards);
  add(ActionKind::BackwardInput, own.inputs,
      stage == times_->last_stage() ? own.forwards : stages_[stage + 1].inputs);
}

Ticks ListState::play(const Action& action, Ticks start) {
  const int stage = index(action.stage), rank = times_->rank_of(stage);
  const std::size_t slot = times_->slot(stage, index(action.microbatch));
  const ListTimes::StageTicks& time = times_->stages[stage];
  StageState& done = stages_[stage];
  RankState& own = ranks_[rank];
  own.first_start = std::min(own.first_start, start);
  if (action.kind == ActionKind::Forward) {
    own.free_at = forward_end_[slot] = start + time.forward;
    ++done.forwards;
    ++own.held;
    peak_ = std::max(peak_, ++own.live);
  } else if (action.kind == ActionKind::BackwardInput) {
    own.free_at = gradient_end_[slot] = start + time.input;
    ++done.inputs;
    --own.live;
  } else {
    own.free_at = start + time.weight;
    ++done.weights;
    --own.held;
  }
  actions[rank].push_back(action);
  return own.free_at;
}

ListOutcome ListState::outcome() const {
  ListOutcome outcome{0, 0, peak_};
  for (const RankState& rank : ranks_) {
    outcome.makespan = std::max(outcome.makespan, rank.free_at);
    outcome.window = std::max(outcome.window, rank.free_at - rank.first_start);
  }
  return outcome;
}

}  // namespace tandem
