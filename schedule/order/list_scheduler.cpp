#include "schedule/order/list_scheduler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "schedule/order/list_policies.h"

namespace tandem {
namespace {

// Time in whole ticks, so that what ends together is seen to end together.
using Ticks = std::int64_t;
constexpr Ticks kNever = std::numeric_limits<Ticks>::max();

// The longest cost is this many: every cost that is a fraction of it with a denominator up to 16
// is exact.
constexpr double kTicksOfLongest = 720'720;

// Rounds are looked for in so many times pp + 8 microbatches.
constexpr int kLookedAt = 16;

// Which rank is next to look what it may do, and when: one time a rank, in a tournament tree.
class Wakes {
 public:
  explicit Wakes(int ranks) : leaves_(std::bit_ceil(static_cast<unsigned>(ranks))) {
    times_.assign(2UL * leaves_, kNever);
  }

  Ticks of(int rank) const { return times_[leaves_ + rank]; }
  void set(int rank, Ticks time) {
    unsigned node = leaves_ + rank;
    times_[node] = time;
    for (node /= 2; node > 0; node /= 2)
      times_[node] = std::min(times_[2 * node], times_[2 * node + 1]);
  }
  Ticks earliest() const { return times_[1]; }
  // The lowest of those that are woken then.
  int first() const {
    unsigned node = 1;
    while (node < leaves_) node = 2 * node + (times_[2 * node] == times_[node] ? 0 : 1);
    return static_cast<int>(node - leaves_);
  }

 private:
  unsigned leaves_;
  std::vector<Ticks> times_;  // the earliest below each node
};

class Scheduler {
 public:
  Scheduler(const ListProblem& problem, const Policy& policy)
      : problem_(problem),
        policy_(policy),
        stages_(problem.pp * problem.chunks),
        ranks_(problem.pp),
        forward_end_(static_cast<std::size_t>(stages_.size()) * problem.microbatches, kNever),
        gradient_end_(forward_end_),
        actions_(problem.pp),
        wakes_(problem.pp) {
    double longest = 0;
    for (const OrderCosts& costs : problem.costs)
      longest = std::max({longest, costs.forward, costs.input, costs.weight, costs.transfer});
    const auto ticks = [&](double cost) {
      return cost > 0 ? static_cast<Ticks>(std::llround(cost / longest * kTicksOfLongest)) : 0;
    };
    // What others wait for takes some time, so that it ends after they have decided what comes now.
    std::vector<Ticks> periods(problem.pp);
    for (int stage = 0; stage < static_cast<int>(stages_.size()); ++stage) {
      const OrderCosts& costs = problem.costs[stage];
      StageState& at = stages_[stage];
      at.forward = std::max<Ticks>(ticks(costs.forward), 1);
      at.input = std::max<Ticks>(ticks(costs.input), 1);
      at.weight = ticks(costs.weight);
      periods[rank_of(stage)] += at.forward + at.input + at.weight;
    }
    period_ = *std::max_element(periods.begin(), periods.end());
    transfer_ = ticks(problem.costs.front().transfer);
    turn_ = ticks(problem.turn);
    const int count = static_cast<int>(stages_.size());
    for (int stage = 0; stage < count; ++stage) {
      const std::int64_t all = static_cast<std::int64_t>(problem.memory_limit) * (count - stage);
      stages_[stage].most_live =
          policy.taper ? static_cast<int>((all + count - 1) / count) : problem.memory_limit;
    }
    for (int rank = 0; rank < problem.pp; ++rank)
      ranks_[rank].slots = slots_of(policy.block, problem.pp, rank);
    for (auto& actions : actions_) actions.reserve(3UL * problem.chunks * problem.microbatches);
  }

  void run() {
    begin();
    while (wakes_.earliest() < kNever) step();
    for (const StageState& stage : stages_) CHECK(stage.weights == problem_.microbatches);
  }

  // As greedy_rounds.
  OrderRounds find_rounds() {
    begin();
    std::unordered_map<std::uint64_t, Seen> states;
    for (int entered = 0; wakes_.earliest() < kNever;) {
      const Ticks now = wakes_.earliest();
      step();
      if (stages_[0].forwards == entered) continue;
      entered = stages_[0].forwards;
      if (entered == problem_.microbatches) break;
      Seen seen{entered, now, state(now)};
      const auto [at, is_new] = states.try_emplace(hash(seen.state), std::move(seen));
      if (is_new) continue;  // else nothing was moved
      if (at->second.state == seen.state && is_paced_alike(at->second, seen))
        return {entered - at->second.entered, entered + 1};
      at->second = std::move(seen);
    }
    return {0, 0};
  }

  // The less the better, compared in this order.
  struct Outcome {
    Ticks makespan = kNever;
    Ticks window = 0;  // the longest time from a rank's first action to its last
    int peak = 0;      // the most activations between F and I on a rank

    auto operator<=>(const Outcome&) const = default;
  };
  Outcome outcome() const {
    Outcome outcome{0, 0, peak_};
    for (const RankState& rank : ranks_) {
      outcome.makespan = std::max(outcome.makespan, rank.busy_until);
      outcome.window = std::max(outcome.window, rank.busy_until - rank.first_start);
    }
    return outcome;
  }
  std::vector<std::vector<Action>> take_actions() { return std::move(actions_); }

 private:
  struct StageState {
    Ticks forward = 0, input = 0, weight = 0;   // what they take
    int forwards = 0, inputs = 0, weights = 0;  // done, each in the order of the microbatches
    int most_live = 0;                          // between F and I
  };
  struct RankState {
    Ticks first_start = kNever;
    Ticks busy_until = 0;
    int live = 0, held = 0;  // forwards without an I, and without a W
    BlockSlots slots;        // where the policy follows a block
  };

  int rank_of(int stage) const { return stage < problem_.pp ? stage : 2 * problem_.pp - 1 - stage; }
  int stage_of(int rank, int chunk) const { return chunk == 0 ? rank : 2 * problem_.pp - 1 - rank; }
  int last_stage() const { return static_cast<int>(stages_.size()) - 1; }
  std::size_t slot(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * problem_.microbatches + microbatch;
  }
  Ticks transfer(int from, int to) const { return rank_of(from) == rank_of(to) ? 0 : transfer_; }

  // What was in flight when so many microbatches had entered.
  struct Seen {
    int entered = 0;
    Ticks now = 0;
    std::vector<Ticks> state;
  };
  static std::uint64_t hash(const std::vector<Ticks>& state) {
    std::uint64_t hash = 0;
    for (const Ticks each : state) hash = scatter(hash ^ scatter(static_cast<std::uint64_t>(each)));
    return hash;
  }
  // Whether the pace holds microbatches back as it did a round before, or did not then: no round is
  // shorter than its microbatches' periods, so it never will.
  bool is_paced_alike(const Seen& before, const Seen& now) const {
    return policy_.pace == kUnpaced ||
           entry(before.entered) - before.now == entry(now.entered) - now.now ||
           entry(now.entered) <= before.now;
  }

  void begin() {
    for (int rank = 0; rank < problem_.pp; ++rank) wakes_.set(rank, 0);
  }
  void step() {
    const Ticks now = wakes_.earliest();
    const int rank = wakes_.first();
    wakes_.set(rank, decide(rank, now));
  }

  // All that decides what is done from now on, as long as microbatches are left: times from now,
  // microbatches from the next to enter. What has come already has come, however long ago; but of
  // two W the older one goes first.
  std::vector<Ticks> state(Ticks now) const {
    std::vector<Ticks> state;
    state.reserve(16 * stages_.size());
    const int entered = stages_[0].forwards;
    const auto add_waits = [&](const std::vector<Ticks>& ends, int stage, int from, int to,
                               Ticks more, Ticks least) {
      for (int microbatch = from; microbatch < to; ++microbatch)
        state.push_back(std::max(ends[slot(stage, microbatch)] + more - now, least));
    };
    for (int rank = 0; rank < problem_.pp; ++rank) {
      const Ticks wake = wakes_.of(rank);
      state.insert(state.end(), {wake == kNever ? kNever : wake - now,
                                 std::max<Ticks>(ranks_[rank].busy_until - now, 0)});
    }
    for (int stage = 0; stage <= last_stage(); ++stage) {
      const StageState& at = stages_[stage];
      state.insert(state.end(), {at.forwards - entered, at.inputs - entered, at.weights - entered});
      if (stage == last_stage()) {
        add_waits(forward_end_, stage, at.inputs, at.forwards, turn_, 0);
      } else {
        add_waits(forward_end_, stage, stages_[stage + 1].forwards, at.forwards,
                  transfer(stage, stage + 1), 0);
      }
      if (stage > 0)
        add_waits(gradient_end_, stage, stages_[stage - 1].inputs, at.inputs,
                  transfer(stage, stage - 1), 0);
      if (problem_.chunks > 1) add_waits(gradient_end_, stage, at.weights, at.inputs, 0, -kNever);
    }
    return state;
  }

  // When microbatch `microbatch` may enter.
  Ticks entry(int microbatch) const {
    if (policy_.pace == kUnpaced) return 0;
    return std::max<Ticks>(0, (microbatch - policy_.pace) * period_);
  }

  // When the stage's next forward has its input and may follow those that are in flight; kNever:
  // not known yet.
  Ticks forward_comes(int stage) const {
    const StageState& at = stages_[stage];
    if (at.forwards == problem_.microbatches || at.forwards - at.inputs >= at.most_live)
      return kNever;
    if (stage == 0) return entry(at.forwards);
    return arrival(forward_end_[slot(stage - 1, at.forwards)], stage - 1, stage);
  }

  Ticks input_comes(int stage) const {
    const StageState& at = stages_[stage];
    if (at.inputs == at.forwards) return kNever;
    if (stage == last_stage()) return forward_end_[slot(stage, at.inputs)] + turn_;
    return arrival(gradient_end_[slot(stage + 1, at.inputs)], stage + 1, stage);
  }

  Ticks arrival(Ticks sent, int from, int to) const {
    return sent == kNever ? kNever : sent + transfer(from, to);
  }

  Ticks comes(const Choice& choice, int stage) const {
    return choice.kind == ActionKind::Forward ? forward_comes(stage) : input_comes(stage);
  }

  // What the rank would rather do comes first.
  std::array<Choice, 4> turns(int rank) const {
    if (policy_.block == BuildingBlock::None) return policy_.preference;
    const StageState& down = stages_[stage_of(rank, 0)];
    const StageState& up = stages_[stage_of(rank, 1)];
    const BlockSlots& slots = ranks_[rank].slots;
    std::array<std::pair<int, Choice>, 4> by_slot = {
        {{slots.forward[0] + kSlots * down.forwards, kF0},
         {slots.forward[1] + kSlots * up.forwards, kF1},
         {slots.input[0] + kSlots * down.inputs, kI0},
         {slots.input[1] + kSlots * up.inputs, kI1}}};
    std::ranges::sort(by_slot, {}, &std::pair<int, Choice>::first);
    return {by_slot[0].second, by_slot[1].second, by_slot[2].second, by_slot[3].second};
  }

  // Whether the limits let the rank hold one more forward. Chunk 0 leaves room for one activation
  // of chunk 1, so that what is in flight can come back.
  bool fits(int rank, int chunk) const {
    const StageState& at = stages_[stage_of(rank, chunk)];
    const int room = problem_.chunks - 1 - chunk;
    return ranks_[rank].held < problem_.memory_limit &&
           ranks_[rank].live < problem_.in_flight_limit &&
           at.forwards - at.weights + room < problem_.memory_limit &&
           at.forwards - at.inputs + room < problem_.in_flight_limit;
  }

  // What the rank does now. When it looks again: where that ends, or where something comes that is
  // known of.
  Ticks decide(int rank, Ticks now) {
    std::optional<Choice> chosen;
    bool kept_back = false;
    Ticks next = kNever;  // when something comes that is not there yet
    for (const Choice& choice : turns(rank)) {
      if (choice.chunk >= problem_.chunks) continue;
      const int stage = stage_of(rank, choice.chunk);
      const Ticks when = comes(choice, stage);
      const bool fits_now = choice.kind != ActionKind::Forward || fits(rank, choice.chunk);
      if (when > now) {
        if (fits_now) next = std::min(next, when);
        continue;
      }
      if (!fits_now) {
        kept_back = true;
        continue;
      }
      if (!chosen) chosen = choice;
      if (!policy_.free_first) break;
    }
    if (!chosen || (kept_back && policy_.free_first)) {
      const int stage = oldest_weight(rank);
      const bool waits = !chosen && stage >= 0 &&
                         static_cast<double>(next - now) <
                             policy_.patience * static_cast<double>(stages_[stage].weight);
      if (stage >= 0 && !waits) return start(ActionKind::BackwardWeight, stage, rank, now);
    }
    return chosen ? start(chosen->kind, stage_of(rank, chosen->chunk), rank, now) : next;
  }

  // The rank's stage whose next W has waited longest; -1: there is none.
  int oldest_weight(int rank) const {
    int oldest = -1;
    Ticks since = kNever;
    for (int chunk = 0; chunk < problem_.chunks; ++chunk) {
      const int stage = stage_of(rank, chunk);
      if (stages_[stage].weights == stages_[stage].inputs) continue;
      const Ticks ended = gradient_end_[slot(stage, stages_[stage].weights)];
      if (ended < since) {
        since = ended;
        oldest = stage;
      }
    }
    return oldest;
  }

  // When it ends.
  Ticks start(ActionKind kind, int stage, int rank, Ticks now) {
    StageState& at = stages_[stage];
    RankState& by = ranks_[rank];
    by.first_start = std::min(by.first_start, now);
    int microbatch = 0;
    if (kind == ActionKind::Forward) {
      microbatch = at.forwards++;
      by.busy_until = now + at.forward;
      forward_end_[slot(stage, microbatch)] = by.busy_until;
      ++by.held;
      peak_ = std::max(peak_, ++by.live);
      if (stage < last_stage()) send(stage, stage + 1);
    } else if (kind == ActionKind::BackwardInput) {
      microbatch = at.inputs++;
      by.busy_until = now + at.input;
      gradient_end_[slot(stage, microbatch)] = by.busy_until;
      --by.live;
      if (stage > 0) send(stage, stage - 1);
    } else {
      microbatch = at.weights++;
      by.busy_until = now + at.weight;
      --by.held;
    }
    actions_[rank].push_back({Stage{stage}, kind, Microbatch{microbatch}});
    return by.busy_until;
  }

  // A rank that is still busy then looks by itself.
  void send(int from, int to) {
    const Ticks comes = ranks_[rank_of(from)].busy_until + transfer(from, to);
    const int rank = rank_of(to);
    if (comes > ranks_[rank].busy_until && comes < wakes_.of(rank)) wakes_.set(rank, comes);
  }

  const ListProblem& problem_;
  const Policy& policy_;
  Ticks transfer_ = 0;
  Ticks turn_ = 0;
  Ticks period_ = 0;  // what the busiest rank has to do for a microbatch
  std::vector<StageState> stages_;
  std::vector<RankState> ranks_;
  std::vector<Ticks> forward_end_, gradient_end_;  // by stage and microbatch
  std::vector<std::vector<Action>> actions_;
  Wakes wakes_;
  int peak_ = 0;
};

// So many tell the policies apart; with more, the steady state is longer.
int trial_microbatches(int pp) { return std::max(3 * pp / 2, 32); }

// That under which fewer microbatches end first.
Policy best_policy(const ListProblem& problem) {
  CHECK(problem.chunks == 1 || problem.chunks == 2);
  CHECK(problem.costs.size() == static_cast<std::size_t>(problem.pp) * problem.chunks);
  CHECK(problem.memory_limit >= problem.chunks && problem.in_flight_limit >= problem.chunks);
  const std::vector<Policy> policies =
      policies_of(problem.pp, problem.chunks, problem.memory_limit);
  ListProblem trial = problem;
  trial.microbatches = std::min(problem.microbatches, trial_microbatches(problem.pp));
  const Policy* best = nullptr;
  Scheduler::Outcome least;
  for (const Policy& policy : policies) {
    Scheduler scheduler(trial, policy);
    scheduler.run();
    const Scheduler::Outcome outcome = scheduler.outcome();
    if (outcome >= least) continue;
    least = outcome;
    best = &policy;
  }
  return *best;
}

}  // namespace

std::vector<std::vector<Action>> schedule_greedily(const ListProblem& problem) {
  const Policy policy = best_policy(problem);
  Scheduler scheduler(problem, policy);
  scheduler.run();
  return scheduler.take_actions();
}

OrderRounds greedy_rounds(const ListProblem& problem) {
  const Policy policy = best_policy(problem);
  ListProblem some = problem;
  some.microbatches = std::min(problem.microbatches, kLookedAt * (problem.pp + 8));
  OrderRounds rounds = Scheduler(some, policy).find_rounds();
  rounds.fill = std::max(rounds.fill, trial_microbatches(problem.pp));
  return rounds;
}

}  // namespace tandem
