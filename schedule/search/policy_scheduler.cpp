#include "schedule/search/policy_scheduler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tandem {
namespace {

// Times in whole ticks: what ends together is seen to end together.
constexpr double kTicksOfLongest = 720'720;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
// Bytes are added and taken away again.
constexpr double kRoundingOfLimit = 1 + 1e-9;

constexpr ActionKind kKinds[] = {ActionKind::Forward, ActionKind::BackwardInput,
                                 ActionKind::BackwardWeight};

}  // namespace

PolicyScheduler::PolicyScheduler(const SearchProblem& problem)
    : problem_(problem),
      stages_(problem.stages()),
      ranks_(problem.pp()),
      next_(problem.pp()),
      actions_(problem.pp()) {
  CHECK(can_fit(problem));
  double longest = 0;
  for (const OrderCosts& costs : problem.costs)
    longest = std::max({longest, costs.forward, costs.input, costs.weight, costs.transfer});
  if (longest > 0) ticks_of_unit_ = kTicksOfLongest / longest;
  const auto ticks = [&](double time) {
    return static_cast<std::int64_t>(std::llround(time * ticks_of_unit_));
  };
  for (int s = problem.stages() - 1; s >= 0; --s) {
    StageState& stage = stages_[s];
    const OrderCosts& costs = problem.costs[s];
    stage.rank = problem.rank_of_stage[s];
    // What others wait for takes some time: they have decided by then what comes now.
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
    for (const int later : ranks_[stage.rank].stages)
      stage.reserve_bytes += stages_[later].live_bytes;
    ranks_[stage.rank].stages.push_back(s);
  }
  for (int rank = 0; rank < problem.pp(); ++rank)
    ranks_[rank].limit_bytes = problem.limit_bytes[rank] * kRoundingOfLimit;
  forward_end_.resize(static_cast<std::size_t>(problem.stages()) * problem.microbatches);
  input_end_.resize(forward_end_.size());
}

void PolicyScheduler::reset() {
  for (StageState& stage : stages_) std::ranges::fill(stage.done, 0);
  for (RankState& rank : ranks_) rank.free_at = 0, rank.held_bytes = 0;
  std::ranges::fill(forward_end_, kNever);
  std::ranges::fill(input_end_, kNever);
  for (std::vector<Action>& actions : actions_) actions.clear();
}

PolicyOutcome PolicyScheduler::play(const SchedulePolicy& policy) {
  policy_ = &policy;
  reset();
  const int pp = problem_.pp();
  for (int rank = 0; rank < pp; ++rank) next_[rank] = decide(rank);
  for (;;) {
    int first = 0;
    for (int rank = 1; rank < pp; ++rank) {
      if (next_[rank].at < next_[first].at) first = rank;
    }
    if (next_[first].at == kNever) break;
    start(first, next_[first]);
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

// When the stage's next forward has its input; kNever: not known yet, or the policy keeps it back.
PolicyScheduler::Ticks PolicyScheduler::forward_comes(int stage) const {
  const StageState& at = stages_[stage];
  const int microbatch = at.done[kForward];
  if (microbatch == problem_.microbatches ||
      microbatch - at.done[kInput] >= std::max(policy_->stages[stage].most_live, 1))
    return kNever;
  if (stage == 0) {
    if (policy_->pace < 0 || microbatch < policy_->pace) return 0;
    return std::llround((microbatch - policy_->pace) * policy_->entry_period * ticks_of_unit_);
  }
  const Ticks sent = forward_end_[slot(stage - 1, microbatch)];
  return sent == kNever ? kNever : sent + stages_[stage - 1].transfer_on;
}

PolicyScheduler::Ticks PolicyScheduler::input_comes(int stage) const {
  const StageState& at = stages_[stage];
  const int microbatch = at.done[kInput];
  if (microbatch == at.done[kForward]) return kNever;
  if (stage + 1 == problem_.stages()) return 0;
  const Ticks sent = input_end_[slot(stage + 1, microbatch)];
  return sent == kNever ? kNever : sent + stages_[stage + 1].transfer_back;
}

PolicyScheduler::Choice PolicyScheduler::decide(int rank) const {
  const RankState& by = ranks_[rank];
  struct Ready {
    Choice choice;
    double turn = 0;
  };
  std::array<Ready, 3 * kMostChunks> ready;
  int count = 0;
  Ticks soonest = kNever;
  double kept_back = std::numeric_limits<double>::infinity();  // the turn of a forward without room
  for (const int s : by.stages) {
    const StageState& at = stages_[s];
    const SchedulePolicy::StageTurns& turns = policy_->stages[s];
    const auto add = [&](Pass pass, Ticks comes, double turn) {
      comes = std::max(comes, by.free_at);
      soonest = std::min(soonest, comes);
      ready[count++] = {{s, pass, comes}, turn + policy_->period * at.done[pass]};
    };
    if (const Ticks comes = input_comes(s); comes != kNever) add(kInput, comes, turns.input);
    if (at.done[kWeight] < at.done[kInput]) add(kWeight, by.free_at, turns.weight);
    if (const Ticks comes = forward_comes(s); comes != kNever) {
      if (by.held_bytes + at.live_bytes + at.reserve_bytes <= by.limit_bytes)
        add(kForward, comes, turns.forward);
      else if (comes <= by.free_at)
        kept_back = std::min(kept_back, turns.forward + policy_->period * at.done[kForward]);
    }
  }
  if (count == 0) return {.at = kNever};
  const auto least = [&](auto holds) {
    const Ready* best = nullptr;
    for (int i = 0; i < count; ++i) {
      if (holds(ready[i]) && (best == nullptr || ready[i].turn < best->turn)) best = &ready[i];
    }
    return best;
  };
  const Ready* best = least([&](const Ready& r) { return r.choice.at <= soonest; });
  if (policy_->free_first && kept_back < best->turn) {
    if (const Ready* weight = least([](const Ready& r) { return r.choice.pass == kWeight; }))
      return weight->choice;
  }
  const double patience =
      best->choice.pass == kWeight ? policy_->patience : policy_->other_patience;
  if (patience <= 0) return best->choice;
  const Ticks until =
      soonest +
      std::llround(patience *
                   static_cast<double>(stages_[best->choice.stage].duration[best->choice.pass]));
  const Ready* sooner = nullptr;
  for (int i = 0; i < count; ++i) {
    if (ready[i].turn < best->turn && ready[i].choice.at <= until &&
        (sooner == nullptr || ready[i].choice.at < sooner->choice.at))
      sooner = &ready[i];
  }
  return sooner == nullptr ? best->choice : sooner->choice;
}

void PolicyScheduler::start(int rank, const Choice& choice) {
  StageState& at = stages_[choice.stage];
  RankState& by = ranks_[rank];
  const int microbatch = at.done[choice.pass]++;
  by.free_at = choice.at + at.duration[choice.pass];
  ActionKind kind = kKinds[choice.pass];
  int tells = -1;  // the stage that gets something
  if (choice.pass == kForward) {
    forward_end_[slot(choice.stage, microbatch)] = by.free_at;
    by.held_bytes += at.live_bytes;
    if (choice.stage + 1 < problem_.stages()) tells = choice.stage + 1;
  } else if (choice.pass == kInput) {
    if (policy_->whole) {
      kind = ActionKind::Backward;
      by.free_at += at.duration[kWeight];
      ++at.done[kWeight];
    }
    input_end_[slot(choice.stage, microbatch)] = by.free_at;
    by.held_bytes -= at.live_bytes - (policy_->whole ? 0 : at.stash_bytes);
    tells = choice.stage - 1;
  } else {
    by.held_bytes -= at.stash_bytes;
  }
  actions_[rank].push_back({Stage{choice.stage}, kind, Microbatch{microbatch}});
  next_[rank] = decide(rank);
  if (tells >= 0 && stages_[tells].rank != rank)
    next_[stages_[tells].rank] = decide(stages_[tells].rank);
}

}  // namespace tandem
