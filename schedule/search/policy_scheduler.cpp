// List scheduling as a discrete-event simulation: the rank that can begin first does its choice,
// and then it and the rank that gets the result choose anew.
#include "schedule/search/policy_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tandem {
namespace {

// Times are whole ticks, so that times that are equal compare equal.
constexpr double kTicksOfLongest = 720'720;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Comes after every turn.
constexpr double kNoTurn = std::numeric_limits<double>::infinity();

constexpr ActionKind kKinds[] = {ActionKind::Forward, ActionKind::BackwardInput,
                                 ActionKind::BackwardWeight};

}  // namespace

PolicyScheduler::PolicyScheduler(const SearchProblem& problem)
    : problem_(problem),
      stages_(problem.stages()),
      ranks_(problem.pp()),
      choices_(problem.pp()),
      begins_(problem.pp()),
      actions_(problem.pp()) {
  CHECK(can_fit(problem));
  double longest = 0;
  for (const OrderCosts& costs : problem.costs)
    longest = std::max({longest, costs.forward, costs.input, costs.weight, costs.transfer});
  if (longest > 0) ticks_of_unit_ = kTicksOfLongest / longest;
  const auto ticks = [&](double time) {
    return static_cast<Ticks>(std::llround(time * ticks_of_unit_));
  };
  for (int s = problem.stages() - 1; s >= 0; --s) {
    StageState& stage = stages_[s];
    const OrderCosts& costs = problem.costs[s];
    stage.rank = problem.rank_of_stage[s];
    // An action that others wait for takes at least a tick, so that it ends after decisions at its
    // start.
    stage.duration[kForward] = std::max<Ticks>(ticks(costs.forward), 1);
    stage.duration[kInput] = std::max<Ticks>(ticks(costs.input), 1);
    stage.duration[kWeight] = ticks(costs.weight);
    const auto to = [&](int other) {
      const bool leaves =
          other >= 0 && other < problem.stages() && problem.rank_of_stage[other] != stage.rank;
      return leaves ? ticks(costs.transfer) : 0;
    };
    stage.transfer_on = to(s + 1);
    stage.transfer_back = to(s - 1);
    stage.live_bytes = problem.bytes[s].live;
    stage.stash_bytes = problem.bytes[s].stash;
    CHECK(stage.stash_bytes <= stage.live_bytes);
    stage.room_bytes = stage.live_bytes;
    for (const int later : ranks_[stage.rank].stages) stage.room_bytes += stages_[later].live_bytes;
    ranks_[stage.rank].stages.push_back(s);
    stage.forward_end.resize(problem.microbatches);
    stage.input_end.resize(problem.microbatches);
  }
  for (int rank = 0; rank < problem.pp(); ++rank)
    ranks_[rank].limit_bytes = problem.limit_bytes[rank] * kRoundingOfBytes;
}

void PolicyScheduler::reset() {
  for (StageState& stage : stages_) {
    std::ranges::fill(stage.done, 0);
    std::ranges::fill(stage.forward_end, kNever);
    std::ranges::fill(stage.input_end, kNever);
  }
  for (RankState& rank : ranks_) rank.free_at = 0, rank.held_bytes = 0;
  for (std::vector<Action>& actions : actions_) actions.clear();
  for (int s = 0; s < problem_.stages(); ++s) {
    for (const Pass pass : {kForward, kInput, kWeight}) look_ahead(s, pass);
  }
  for (int rank = 0; rank < problem_.pp(); ++rank) decide(rank);
}

PolicyOutcome PolicyScheduler::play(const SchedulePolicy& policy) {
  policy_ = &policy;
  reset();
  for (;;) {
    Ticks first = kNever;
    for (const Ticks begin : begins_) first = std::min(first, begin);
    if (first == kNever) break;
    start(static_cast<int>(std::ranges::find(begins_, first) - begins_.begin()));
  }
  PolicyOutcome outcome;
  for (const RankState& rank : ranks_) {
    const double end = static_cast<double>(rank.free_at) / ticks_of_unit_;
    outcome.makespan = std::max(outcome.makespan, end);
    outcome.ends += end;
  }
  for (const StageState& stage : stages_) CHECK(stage.done[kWeight] == problem_.microbatches);
  return outcome;
}

Order PolicyScheduler::order() const {
  return {"auto", problem_.stages(), problem_.microbatches, 1, actions_, BatchedP2p::Never};
}

// Returns when the stage has the input of its next action of the pass; kNever if that is not known,
// or if the policy has enough in flight.
PolicyScheduler::Ticks PolicyScheduler::input_ready(int s, Pass pass) const {
  const StageState& at = stages_[s];
  const int microbatch = at.done[pass];
  if (pass == kForward) {
    if (microbatch == problem_.microbatches ||
        microbatch - at.done[kInput] >= std::max(policy_->stages[s].most_live, 1))
      return kNever;
    if (s == 0) {
      if (policy_->pace < 0 || microbatch < policy_->pace) return 0;
      return std::llround((microbatch - policy_->pace) * policy_->entry_period * ticks_of_unit_);
    }
    const Ticks sent = stages_[s - 1].forward_end[microbatch];
    return sent == kNever ? kNever : sent + stages_[s - 1].transfer_on;
  }
  if (pass == kWeight) return microbatch < at.done[kInput] ? 0 : kNever;
  if (microbatch == at.done[kForward]) return kNever;
  if (s + 1 == problem_.stages()) return 0;
  const Ticks sent = stages_[s + 1].input_end[microbatch];
  return sent == kNever ? kNever : sent + stages_[s + 1].transfer_back;
}

void PolicyScheduler::look_ahead(int s, Pass pass) {
  const SchedulePolicy::StageTurns& turns = policy_->stages[s];
  const double turn = pass == kForward ? turns.forward
                      : pass == kInput ? turns.input
                                       : turns.weight;
  stages_[s].next[pass] = {input_ready(s, pass), turn + policy_->period * stages_[s].done[pass]};
}

void PolicyScheduler::decide(int rank) {
  const RankState& by = ranks_[rank];
  Choice best;
  Ticks at = kNever;
  double turn = kNoTurn;
  double kept_back = kNoTurn;  // turn of a forward that only memory keeps back
  Choice weight;
  double turn_of_weight = kNoTurn;
  for (const int s : by.stages) {
    const StageState& stage = stages_[s];
    for (const Pass pass : {kForward, kInput, kWeight}) {
      const Next& next = stage.next[pass];
      if (next.input_ready == kNever) continue;
      if (pass == kForward && by.held_bytes + stage.room_bytes > by.limit_bytes) {
        if (next.input_ready <= by.free_at) kept_back = std::min(kept_back, next.turn);
        continue;
      }
      if (pass == kWeight && next.turn < turn_of_weight) {
        weight = {s, pass};
        turn_of_weight = next.turn;
      }
      const Ticks begin = std::max(next.input_ready, by.free_at);
      if (begin > at || (begin == at && next.turn >= turn)) continue;
      best = {s, pass};
      at = begin;
      turn = next.turn;
    }
  }
  if (at != kNever && policy_->weights_first && kept_back < turn && weight.stage >= 0) {
    best = weight;
    at = by.free_at;
  } else if (at != kNever && (policy_->patience > 0 || policy_->other_patience > 0)) {
    best = wait_for(by, best, &at);
  }
  choices_[rank] = best;
  begins_[rank] = at;
}

// Returns what comes before the choice's turn and soon enough to wait for it, or else the choice.
PolicyScheduler::Choice PolicyScheduler::wait_for(const RankState& by, Choice choice,
                                                  Ticks* at) const {
  const StageState& chosen = stages_[choice.stage];
  const double patience = choice.pass == kWeight ? policy_->patience : policy_->other_patience;
  const Ticks until =
      *at + std::llround(patience * static_cast<double>(chosen.duration[choice.pass]));
  const double turn = chosen.next[choice.pass].turn;
  Choice sooner = choice;
  Ticks when = kNever;
  for (const int s : by.stages) {
    const StageState& stage = stages_[s];
    for (const Pass pass : {kForward, kInput}) {
      const Next& next = stage.next[pass];
      if (next.input_ready > until || next.input_ready >= when || next.turn >= turn) continue;
      if (pass == kForward && by.held_bytes + stage.room_bytes > by.limit_bytes) continue;
      sooner = {s, pass};
      when = next.input_ready;
    }
  }
  if (when != kNever) *at = std::max(when, by.free_at);
  return sooner;
}

void PolicyScheduler::start(int rank) {
  const auto [s, pass] = choices_[rank];
  StageState& at = stages_[s];
  RankState& by = ranks_[rank];
  const int microbatch = at.done[pass]++;
  by.free_at = begins_[rank] + at.duration[pass];
  ActionKind kind = kKinds[pass];
  int tells = -1;  // the stage that gets the result
  if (pass == kForward) {
    at.forward_end[microbatch] = by.free_at;
    by.held_bytes += at.live_bytes;
    if (s + 1 < problem_.stages()) tells = s + 1;
    look_ahead(s, kInput);
  } else if (pass == kInput) {
    if (policy_->whole) {
      kind = ActionKind::Backward;
      by.free_at += at.duration[kWeight];
      ++at.done[kWeight];
    }
    at.input_end[microbatch] = by.free_at;
    by.held_bytes -= at.live_bytes - (policy_->whole ? 0 : at.stash_bytes);
    tells = s - 1;
    look_ahead(s, kForward);
    look_ahead(s, kWeight);
  } else {
    by.held_bytes -= at.stash_bytes;
  }
  look_ahead(s, pass);
  actions_[rank].push_back({Stage{s}, kind, Microbatch{microbatch}});
  if (tells >= 0) look_ahead(tells, pass);
  decide(rank);
  if (tells >= 0 && stages_[tells].rank != rank) decide(stages_[tells].rank);
}

}  // namespace tandem
