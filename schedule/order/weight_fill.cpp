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
    : times_(times),
      skeleton_(skeleton),
      rule_(rule),
      stages_(times.stages.size()),
      ranks_(times.problem.pp),
      forward_end_(stages_.size() * times.problem.microbatches, kNever),
      gradient_end_(forward_end_),
      actions_(times.problem.pp) {
  CHECK(skeleton.has_weights || rule != FillRule::AsGiven);
  for (Actions& actions : actions_)
    actions.reserve(3UL * times.problem.chunks * times.problem.microbatches);
}

bool WeightFill::run() {
  StepResult progress = StepResult::Done;
  while (progress == StepResult::Done) progress = sweep();
  if (progress == StepResult::Fails) return false;
  for (int rank = 0; rank < times_.problem.pp; ++rank) {
    CHECK(ranks_[rank].position == skeleton_.ranks[rank].size());
    while (!ranks_[rank].weights.empty()) do_weight(rank);
  }
  return true;
}

OrderRounds WeightFill::find_rounds() {
  const int microbatches = times_.problem.microbatches;
  if (microbatches < 2) return {0, 0};
  std::vector<Repeated> repeated;
  for (int rank = 0; rank < times_.problem.pp; ++rank)
    repeated.push_back(repeated_part(skeleton_.ranks[rank], Stage{rank}, microbatches));
  std::map<std::vector<Ticks>, int> states;  // state -> microbatches that had entered
  for (int entered = 0; sweep() == StepResult::Done;) {
    if (stages_[0].forwards == entered) continue;
    entered = stages_[0].forwards;
    if (entered == microbatches) break;
    bool repeats = true;
    std::vector<Ticks> now;
    for (int rank = 0; rank < times_.problem.pp; ++rank) {
      const auto [from, period] = repeated[rank];
      repeats &= ranks_[rank].position >= from;
      now.push_back(static_cast<Ticks>(ranks_[rank].position) -
                    static_cast<Ticks>(period) * entered);
    }
    if (!repeats) continue;
    add_state(&now);
    const auto [before, is_new] = states.try_emplace(std::move(now), entered);
    if (!is_new) return {entered - before->second, entered + 1};
  }
  return {0, 0};
}

// Adds to the state everything that later decisions about W depend on. Times are relative to rank
// 0's, microbatches relative to the next one to enter, so that states of different rounds can be
// equal. Inputs that have arrived count 0, however long ago they came.
void WeightFill::add_state(std::vector<Ticks>* state) const {
  const int entered = stages_[0].forwards;
  for (const RankState& own : ranks_) {
    state->insert(state->end(), {own.now - ranks_[0].now, static_cast<Ticks>(own.weights.size())});
    if (rule_ == FillRule::Evenly) state->push_back(most_idle_ - own.idle);
    for (const Action& weight : own.weights)
      state->insert(state->end(), {index(weight.stage), index(weight.microbatch) - entered});
  }
  const auto add_waits = [&](ActionKind kind, int stage, int from, int to) {
    for (int microbatch = from; microbatch < to; ++microbatch)
      state->push_back(std::max<Ticks>(input_ready({Stage{stage}, kind, Microbatch{microbatch}}) -
                                           ranks_[times_.rank_of(stage)].now,
                                       0));
  };
  const int last = times_.last_stage();
  for (int stage = 0; stage <= last; ++stage) {
    const StageState& at = stages_[stage];
    if (stage > 0) add_waits(ActionKind::Forward, stage, at.forwards, stages_[stage - 1].forwards);
    add_waits(ActionKind::BackwardInput, stage, at.inputs,
              stage == last ? at.forwards : stages_[stage + 1].inputs);
  }
}

ListOutcome WeightFill::outcome() const {
  ListOutcome outcome{0, 0, peak_};
  for (const RankState& rank : ranks_) {
    outcome.makespan = std::max(outcome.makespan, rank.now);
    outcome.window = std::max(outcome.window, rank.now - rank.first_start);
  }
  return outcome;
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
  const Ticks ready = input_ready(action);
  if (ready == kNever) return StepResult::Waits;
  if (action.kind == ActionKind::Forward && !make_room(rank)) return StepResult::Fails;
  fill_gap(rank, action.kind, ready);
  play(rank, action, ready);
  ++own.position;
  return StepResult::Done;
}

bool WeightFill::make_room(int rank) {
  RankState& own = ranks_[rank];
  if (own.live >= times_.problem.in_flight_limit) return false;
  while (own.held >= times_.problem.memory_limit) {
    if (own.weights.empty() || rule_ == FillRule::AsGiven) return false;
    do_weight(rank);
  }
  return true;
}

void WeightFill::fill_gap(int rank, ActionKind kind, Ticks ready) {
  RankState& own = ranks_[rank];
  while (rule_ != FillRule::AsGiven && !own.weights.empty() && ready > own.now) {
    const Ticks weight = times_.stages[index(own.weights.front().stage)].weight;
    if (ready - own.now < weight && !fills(own, kind, ready - own.now)) break;
    do_weight(rank);
  }
  if (ready > own.now && own.first_start != kNever) {
    own.idle += ready - own.now;
    most_idle_ = std::max(most_idle_, own.idle);
  }
}

void WeightFill::play(int rank, const Action& action, Ticks ready) {
  RankState& own = ranks_[rank];
  const int stage = index(action.stage);
  own.now = std::max(own.now, ready);
  own.first_start = std::min(own.first_start, own.now);
  const std::size_t slot = times_.slot(stage, index(action.microbatch));
  if (action.kind == ActionKind::Forward) {
    own.now += times_.stages[stage].forward;
    forward_end_[slot] = own.now;
    ++stages_[stage].forwards;
    ++own.held;
    peak_ = std::max(peak_, ++own.live);
  } else {
    own.now += times_.stages[stage].input;
    gradient_end_[slot] = own.now;
    ++stages_[stage].inputs;
    --own.live;
    own.weights.push_back({action.stage, ActionKind::BackwardWeight, action.microbatch});
  }
  actions_[rank].push_back(action);
}

Ticks WeightFill::input_ready(const Action& action) const {
  const int stage = index(action.stage), microbatch = index(action.microbatch);
  const bool is_forward = action.kind == ActionKind::Forward;
  if (is_forward && stage == 0) return 0;
  const bool turns = !is_forward && stage == times_.last_stage();  // its input is the stage's own F
  const int from = is_forward ? stage - 1 : turns ? stage : stage + 1;
  const Ticks sent =
      (is_forward || turns ? forward_end_ : gradient_end_)[times_.slot(from, microbatch)];
  if (sent == kNever) return kNever;
  return sent + (turns ? times_.turn : times_.transfer(from, stage));
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
  RankState& own = ranks_[rank];
  const Action weight = own.weights.front();
  own.weights.pop_front();
  own.now += times_.stages[index(weight.stage)].weight;
  --own.held;
  actions_[rank].push_back(weight);
}

}  // namespace tandem
