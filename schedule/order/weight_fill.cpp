// Puts weight gradients (W) into a skeleton, an order of forwards and input gradients
// (skeletons.h), for given times. It sweeps over the ranks: each does its next action as soon as
// its input is there and, as the FillRule says, puts W into the gap before it. find_rounds() stores
// the state each time a microbatch enters stage 0. If a state recurs, the actions in between are a
// round that repeats.
#include "schedule/order/weight_fill.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tandem {
namespace {

using Actions = std::vector<Action>;

Action later(Action action, int microbatches) {
  action.microbatch = Microbatch{index(action.microbatch) + microbatches};
  return action;
}

// The part of a rank's actions that repeats with each microbatch. It ends with the rank's last
// forward of chunk 0, since later actions depend on the number of microbatches.
struct Repeated {
  std::size_t from = 0;    // index of its first action
  std::size_t period = 1;  // actions for each microbatch
};
Repeated repeated_part(const Actions& actions, Stage stage, int microbatches) {
  const auto first_of = [&](int microbatch) {
    const auto at =
        std::ranges::find(actions, Action{stage, ActionKind::Forward, Microbatch{microbatch}});
    return static_cast<std::size_t>(at - actions.begin());
  };
  const std::size_t end = first_of(microbatches - 1);
  Repeated part{end, std::max<std::size_t>(end - first_of(microbatches - 2), 1)};
  while (part.from > 0 && later(actions[part.from - 1], 1) == actions[part.from - 1 + part.period])
    --part.from;
  return part;
}

}  // namespace

WeightFill::WeightFill(const ListTimes& times, const Skeleton& skeleton, FillRule rule)
    : times_(times), skeleton_(skeleton), rule_(rule), state_(times), ranks_(times.problem.pp) {
  CHECK(skeleton.has_weights || rule != FillRule::AsGiven);
}

std::optional<ListState> WeightFill::run() {
  StepResult progress = StepResult::Done;
  while (progress == StepResult::Done) progress = sweep();
  if (progress == StepResult::Fails) return std::nullopt;
  for (int rank = 0; rank < times_.problem.pp; ++rank) {
    CHECK(ranks_[rank].position == skeleton_.ranks[rank].size());
    while (!ranks_[rank].weights.empty()) do_weight(rank);
  }
  return std::move(state_);
}

OrderRounds WeightFill::find_rounds() {
  const int microbatches = times_.problem.microbatches;
  constexpr OrderRounds kNotKnown = {.microbatches = 0, .fill = 0};
  if (microbatches < 2) return kNotKnown;
  std::vector<Repeated> repeated;
  for (int rank = 0; rank < times_.problem.pp; ++rank)
    repeated.push_back(repeated_part(skeleton_.ranks[rank], Stage{rank}, microbatches));
  std::map<std::vector<Ticks>, int> states;  // so far, each with the microbatches that had entered
  for (int entered = 0; sweep() == StepResult::Done;) {
    if (state_.stage(0).forwards == entered) continue;
    entered = state_.stage(0).forwards;
    if (entered == microbatches) break;
    std::vector<Ticks> now;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].position < repeated[rank].from) break;
      // The position without the actions that repeated, to be the same after each round.
      now.push_back(static_cast<Ticks>(ranks_[rank].position) -
                    static_cast<Ticks>(repeated[rank].period) * entered);
    }
    if (now.size() < ranks_.size()) continue;  // a rank is not yet in its repeated part
    add_state(&now);
    const auto [before, is_new] = states.try_emplace(std::move(now), entered);
    if (is_new) continue;
    // The round repeats only while a microbatch is left to enter: one more than these must exist.
    return {.microbatches = entered - before->second, .fill = entered + 1};
  }
  return kNotKnown;
}

// Adds to the state everything that later decisions about W depend on. Times are relative to rank
// 0's, microbatches relative to the next one to enter, so that states of different rounds can be
// equal.
void WeightFill::add_state(std::vector<Ticks>* state) const {
  const int entered = state_.stage(0).forwards;
  for (int rank = 0; rank < times_.problem.pp; ++rank) {
    const RankState& own = ranks_[rank];
    state->insert(state->end(), {state_.rank(rank).free_at - state_.rank(0).free_at,
                                 static_cast<Ticks>(own.weights.size())});
    if (rule_ == FillRule::Evenly) state->push_back(most_idle_ - own.idle);
    for (const Action& weight : own.weights)
      state->insert(state->end(), {index(weight.stage), index(weight.microbatch) - entered});
  }
  for (int stage = 0; stage <= times_.last_stage(); ++stage)
    state_.add_arrivals(stage, state_.rank(times_.rank_of(stage)).free_at, state);
}

WeightFill::StepResult WeightFill::sweep() {
  StepResult progress = StepResult::Waits;
  for (int rank = 0; rank < times_.problem.pp; ++rank) {
    const StepResult step_of = step(rank);
    if (step_of == StepResult::Fails) return step_of;
    if (step_of == StepResult::Done) progress = step_of;
  }
  return progress;
}

WeightFill::StepResult WeightFill::step(int rank) {
  RankState& own = ranks_[rank];
  const Actions& actions = skeleton_.ranks[rank];
  while (own.position < actions.size() &&
         actions[own.position].kind == ActionKind::BackwardWeight) {
    if (rule_ == FillRule::AsGiven) do_weight(rank);
    ++own.position;
  }
  if (own.position == actions.size()) return StepResult::Waits;
  const Action& action = actions[own.position];
  const Ticks ready = state_.input_ready(action);
  if (ready == kNever) return StepResult::Waits;
  if (action.kind == ActionKind::Forward && !make_room(rank)) return StepResult::Fails;
  fill_gap(rank, action.kind, ready);
  state_.play(action, std::max(state_.rank(rank).free_at, ready));
  if (action.kind == ActionKind::BackwardInput)
    own.weights.push_back({action.stage, ActionKind::BackwardWeight, action.microbatch});
  ++own.position;
  return StepResult::Done;
}

bool WeightFill::make_room(int rank) {
  const ListState::RankState& now = state_.rank(rank);
  if (now.live >= times_.problem.in_flight_limit) return false;
  while (now.held >= times_.problem.memory_limit) {
    if (ranks_[rank].weights.empty() || rule_ == FillRule::AsGiven) return false;
    do_weight(rank);
  }
  return true;
}

void WeightFill::fill_gap(int rank, ActionKind kind, Ticks ready) {
  RankState& own = ranks_[rank];
  const ListState::RankState& now = state_.rank(rank);
  const auto gap = [&] { return ready - now.free_at; };  // each W shortens it
  while (gap() > 0 && !own.weights.empty() && rule_ != FillRule::AsGiven) {
    const bool fits = times_.stages[index(own.weights.front().stage)].weight <= gap();
    if (!fits && !fills(own, kind, gap())) break;
    do_weight(rank);
  }
  const bool has_begun = now.first_start != kNever;
  if (gap() <= 0 || !has_begun) return;
  own.idle += gap();
  most_idle_ = std::max(most_idle_, own.idle);
}

bool WeightFill::fills(const RankState& own, ActionKind kind, Ticks gap) const {
  switch (rule_) {
    case FillRule::Always:
      return true;
    case FillRule::BeforeInputs:
      return kind == ActionKind::BackwardInput;
    case FillRule::BeforeForwards:
      return kind == ActionKind::Forward;
    case FillRule::Evenly:
      return own.idle + gap > most_idle_;
    case FillRule::Never:
    case FillRule::AsGiven:
      break;
  }
  return false;
}

void WeightFill::do_weight(int rank) {
  std::deque<Action>& weights = ranks_[rank].weights;
  state_.play(weights.front(), state_.rank(rank).free_at);
  weights.pop_front();
}

}  // namespace tandem
