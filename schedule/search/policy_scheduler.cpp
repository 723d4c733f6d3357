// List scheduling as a discrete-event simulation. Each rank has a choice: its next action, and when
// that can begin. In each step the rank whose choice begins first starts it. Then this rank, and
// the rank that receives the result, choose anew.
#include "schedule/search/policy_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tandem {
namespace {

// A turn after all others.
constexpr double kNoTurn = std::numeric_limits<double>::infinity();

// By Pass.
constexpr ActionKind kKinds[] = {ActionKind::Forward, ActionKind::BackwardInput,
                                 ActionKind::BackwardWeight};
constexpr double SchedulePolicy::StageTurns::*kTurns[] = {&SchedulePolicy::StageTurns::forward,
                                                          &SchedulePolicy::StageTurns::input,
                                                          &SchedulePolicy::StageTurns::weight};

Ticks arrival_of(Ticks sent, Ticks transfer) { return sent == kNever ? kNever : sent + transfer; }

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
    // F and I take at least one tick, as in ListTimes.
    stage.duration[kForward] = std::max<Ticks>(ticks(costs.forward), 1);
    stage.duration[kInput] = std::max<Ticks>(ticks(costs.input), 1);
    stage.duration[kWeight] = ticks(costs.weight);
    const auto to = [&](int next_stage) {
      const bool leaves = next_stage >= 0 && next_stage < problem.stages() &&
                          problem.rank_of_stage[next_stage] != stage.rank;
      return leaves ? ticks(costs.transfer) : 0;
    };
    stage.transfer_on = to(s + 1);
    stage.transfer_back = to(s - 1);
    stage.live_bytes = problem.bytes[s].live;
    // A policy looks at memory only before a forward, so an input gradient may not add to it here.
    // OrderSearch drops orders that hold too much because of this.
    stage.stash_bytes = std::min(problem.bytes[s].stash, problem.bytes[s].live);
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
    for (const Pass pass : {kForward, kInput, kWeight}) update_next(s, pass);
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

// Returns when the stage has the input of its next action of the pass. Returns kNever if that is
// not known yet, if none is left, or if the policy's limit of microbatches in flight is reached.
// Returns 0 for a W and the last stage's I: their inputs, made by the rank itself, are there once
// it is free.
Ticks PolicyScheduler::input_ready(int s, Pass pass) const {
  const StageState& stage = stages_[s];
  const int microbatch = stage.done[pass];
  if (pass == kForward) return forward_ready(s, microbatch);
  if (pass == kWeight) return microbatch < stage.done[kInput] ? 0 : kNever;
  if (microbatch == stage.done[kForward]) return kNever;
  if (s + 1 == problem_.stages()) return 0;
  return arrival_of(stages_[s + 1].input_end[microbatch], stages_[s + 1].transfer_back);
}

Ticks PolicyScheduler::forward_ready(int s, int microbatch) const {
  const int live = microbatch - stages_[s].done[kInput];
  if (live >= std::max(policy_->stages[s].most_live, 1)) return kNever;
  if (microbatch == problem_.microbatches) return kNever;
  if (s > 0) return arrival_of(stages_[s - 1].forward_end[microbatch], stages_[s - 1].transfer_on);
  if (policy_->pace < 0 || microbatch < policy_->pace) return 0;
  return std::llround((microbatch - policy_->pace) * policy_->entry_period * ticks_of_unit_);
}

// Notes when the stage's next action of the pass is ready, and its turn.
void PolicyScheduler::update_next(int s, Pass pass) {
  const double turn = policy_->stages[s].*kTurns[pass];
  stages_[s].next[pass] = {input_ready(s, pass), turn + policy_->period * stages_[s].done[pass]};
}

// Chooses the rank's next action: the one that can begin first, and of these the one of the least
// turn. The policy may prefer a W that frees memory (weights_first), or to wait for an action of an
// earlier turn (patience).
void PolicyScheduler::decide(int rank) {
  const RankState& state = ranks_[rank];
  Choice best;
  Ticks best_begin = kNever;
  double best_turn = kNoTurn;
  double waiting_turn = kNoTurn;  // least turn of a forward that waits for memory only
  Choice weight;
  double turn_of_weight = kNoTurn;
  for (const int s : state.stages) {
    const StageState& stage = stages_[s];
    for (const Pass pass : {kForward, kInput, kWeight}) {
      const Next& next = stage.next[pass];
      if (next.input_ready == kNever) continue;
      if (pass == kForward && state.held_bytes + stage.room_bytes > state.limit_bytes) {
        if (next.input_ready <= state.free_at) waiting_turn = std::min(waiting_turn, next.turn);
        continue;
      }
      if (pass == kWeight && next.turn < turn_of_weight) {
        weight = {s, pass};
        turn_of_weight = next.turn;
      }
      const Ticks begin = std::max(next.input_ready, state.free_at);
      if (begin > best_begin || (begin == best_begin && next.turn >= best_turn)) continue;
      best = {s, pass};
      best_begin = begin;
      best_turn = next.turn;
    }
  }
  const bool has_choice = best_begin != kNever, has_weight = weight.stage >= 0;
  const bool frees_memory = policy_->weights_first && waiting_turn < best_turn && has_weight;
  const bool is_patient = policy_->patience > 0 || policy_->other_patience > 0;
  if (has_choice && frees_memory) {
    best = weight;
    best_begin = state.free_at;
  } else if (has_choice && is_patient) {
    best = wait_for(state, best, &best_begin);
  }
  choices_[rank] = best;
  begins_[rank] = best_begin;
}

// If an F or I with an earlier turn becomes ready within the patience, returns it (and its start in
// *begin); else `choice`.
PolicyScheduler::Choice PolicyScheduler::wait_for(const RankState& rank, Choice choice,
                                                  Ticks* begin) const {
  const StageState& chosen = stages_[choice.stage];
  const double patience = choice.pass == kWeight ? policy_->patience : policy_->other_patience;
  const Ticks until =
      *begin + std::llround(patience * static_cast<double>(chosen.duration[choice.pass]));
  const double turn = chosen.next[choice.pass].turn;
  Choice sooner = choice;
  Ticks ready = kNever;
  for (const int s : rank.stages) {
    const StageState& stage = stages_[s];
    for (const Pass pass : {kForward, kInput}) {
      const Next& next = stage.next[pass];
      if (next.input_ready > until || next.input_ready >= ready || next.turn >= turn) continue;
      if (pass == kForward && rank.held_bytes + stage.room_bytes > rank.limit_bytes) continue;
      sooner = {s, pass};
      ready = next.input_ready;
    }
  }
  if (ready != kNever) *begin = std::max(ready, rank.free_at);
  return sooner;
}

void PolicyScheduler::start(int rank) {
  const auto [s, pass] = choices_[rank];
  StageState& stage = stages_[s];
  RankState& state = ranks_[rank];
  const int microbatch = stage.done[pass]++;
  state.free_at = begins_[rank] + stage.duration[pass];
  ActionKind kind = kKinds[pass];
  int receiver = -1;  // the stage that gets the result
  if (pass == kForward) {
    stage.forward_end[microbatch] = state.free_at;
    state.held_bytes += stage.live_bytes;
    if (s + 1 < problem_.stages()) receiver = s + 1;
    update_next(s, kInput);
  } else if (pass == kInput) {
    if (policy_->whole) {
      kind = ActionKind::Backward;
      state.free_at += stage.duration[kWeight];
      ++stage.done[kWeight];
    }
    stage.input_end[microbatch] = state.free_at;
    state.held_bytes -= stage.live_bytes - (policy_->whole ? 0 : stage.stash_bytes);
    receiver = s - 1;
    update_next(s, kForward);
    update_next(s, kWeight);
  } else {
    state.held_bytes -= stage.stash_bytes;
  }
  update_next(s, pass);
  actions_[rank].push_back({Stage{s}, kind, Microbatch{microbatch}});
  if (receiver >= 0) update_next(receiver, pass);
  decide(rank);
  if (receiver >= 0 && stages_[receiver].rank != rank) decide(stages_[receiver].rank);
}

}  // namespace tandem
