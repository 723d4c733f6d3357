// Greedy list scheduling as a discrete-event simulation. In: the times of stages and limits of
// memory. Out: each rank's F (forward), I (input gradient) and W (weight gradient) in order. A rank
// that is free does the first action of its policy's preference that is ready, and W where it would
// idle. Two stages with F = I = W = 1, I preferred to F, and room for two activations a rank:
//
//   rank 0  F0 F1 .  I0 W0 I1 F2 W1 .  I2 W2
//   rank 1  .  F0 I0 F1 I1 W0 W1 F2 I2 W2
//
// An activation is live from F to I, and held from F to W. Once the pipeline is full, the schedule
// repeats in rounds. find_rounds() keeps the state whenever a microbatch enters. If a state comes
// again, the actions in between are a round.
#include "schedule/order/list_scheduler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/order/list_policies.h"
#include "schedule/order/list_times.h"
#include "schedule/order/skeletons.h"
#include "schedule/order/weight_fill.h"

namespace tandem {
namespace {

// A round is searched for within the first kSearchedPerRank (pp + 8) microbatches.
constexpr int kSearchedPerRank = 16;

// The time at which each rank next looks for something to do, in a tournament tree: each node holds
// the least time below it, so the root is the earliest time of all.
class WakeTimes {
 public:
  explicit WakeTimes(int ranks) : leaves_(std::bit_ceil(static_cast<unsigned>(ranks))) {
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
  // Returns the lowest rank whose time is earliest().
  int first_rank() const {
    unsigned node = 1;
    while (node < leaves_) node = 2 * node + (times_[2 * node] == times_[node] ? 0 : 1);
    return static_cast<int>(node - leaves_);
  }

 private:
  unsigned leaves_;
  std::vector<Ticks> times_;  // the earliest time below each node
};

// Plays one policy on one problem. Call run() or find_rounds() once.
class Scheduler {
 public:
  // REQUIRES: `times` and `policy` outlive this.
  Scheduler(const ListTimes& times, const Policy& policy)
      : problem_(times.problem),
        times_(times),
        policy_(policy),
        state_(times),
        wakes_(problem_.pp) {
    const int stages = times.last_stage() + 1;
    for (int stage = 0; stage < stages; ++stage) {
      // With taper: the limit's share of the stages from this one on, rounded up.
      const std::int64_t share =
          static_cast<std::int64_t>(problem_.memory_limit) * (stages - stage);
      most_live_.push_back(policy.taper ? static_cast<int>((share + stages - 1) / stages)
                                        : problem_.memory_limit);
    }
    for (int rank = 0; rank < problem_.pp; ++rank) {
      slots_.push_back(slots_of(policy.block, problem_.pp, rank));
      wakes_.set(rank, 0);
    }
  }

  // Returns the whole order.
  ListState run() {
    while (wakes_.earliest() < kNever) step();
    for (int stage = 0; stage <= times_.last_stage(); ++stage)
      CHECK(state_.stage(stage).weights == problem_.microbatches);
    return std::move(state_);
  }

  // Finds what greedy_rounds() returns.
  OrderRounds find_rounds() {
    std::map<std::vector<Ticks>, Entry> entries;  // by state, the last of each
    for (int entered = 0; wakes_.earliest() < kNever;) {
      const Ticks now = wakes_.earliest();
      step();
      if (state_.stage(0).forwards == entered) continue;
      entered = state_.stage(0).forwards;
      if (entered == problem_.microbatches) break;
      const Entry current{entered, now};
      const auto [found, is_new] = entries.try_emplace(state_at(now), current);
      if (is_new) continue;
      const Entry before = std::exchange(found->second, current);
      // Rounds repeat only while a microbatch is left to enter: one more than these must exist.
      if (is_paced_alike(before, current)) return {entered - before.entered, entered + 1};
    }
    return {0, 0};
  }

 private:
  // A time when a microbatch entered.
  struct Entry {
    int entered = 0;  // microbatches so far
    Ticks now = 0;
  };
  // Returns whether the policy's pace has the same effect after both entries: it delays the next
  // microbatch by the same time, or no longer delays any. If it delays none now, it delays none
  // later: the pace allows one microbatch a period, and rounds are no faster.
  bool is_paced_alike(const Entry& before, const Entry& current) const {
    const auto delay = [this](const Entry& at) { return earliest_entry(at.entered) - at.now; };
    // Even the next microbatch might have entered at `before`: the pace held up none in between.
    const bool delays_neither = earliest_entry(current.entered) <= before.now;
    return delays_neither || delay(before) == delay(current);
  }

  // Returns everything that later decisions depend on, as long as microbatches are left to enter.
  // Times are relative to `now`, and microbatches relative to the next one to enter. The age of a
  // waiting W is kept, since the oldest W goes first.
  std::vector<Ticks> state_at(Ticks now) const {
    std::vector<Ticks> state;
    state.reserve(16 * times_.stages.size());
    const int entered = state_.stage(0).forwards;
    for (int rank = 0; rank < problem_.pp; ++rank) {
      const Ticks wake = wakes_.of(rank);
      state.insert(state.end(), {wake == kNever ? kNever : wake - now,
                                 std::max<Ticks>(state_.rank(rank).free_at - now, 0)});
    }
    for (int stage = 0; stage <= times_.last_stage(); ++stage) {
      const ListState::StageState& done = state_.stage(stage);
      state.insert(state.end(),
                   {done.forwards - entered, done.inputs - entered, done.weights - entered});
      state_.add_arrivals(stage, now, &state);
      for (int m = done.weights; problem_.chunks > 1 && m < done.inputs; ++m)
        state.push_back(state_.gradient_end(stage, m) - now);
    }
    return state;
  }

  // Lets the rank decide that has waited for the earliest time.
  void step() {
    const Ticks now = wakes_.earliest();
    const int rank = wakes_.first_rank();
    wakes_.set(rank, decide(rank, now));
  }

  // Starts an action on the rank, or lets it wait. Returns when the rank decides again: at the
  // action's end, or when the next input that is under way arrives.
  Ticks decide(int rank, Ticks now) {
    const Options options = options_of(rank, now);
    const std::optional<int> weight = oldest_weight(rank);
    if (options.chosen) {
      const bool frees_memory = weight && options.lacks_memory && policy_.weights_first;
      if (frees_memory) return start(ActionKind::BackwardWeight, *weight, now);
      return start(options.chosen->kind, times_.stage_of(rank, options.chosen->chunk), now);
    }
    // W fills the time, unless a patient policy waits for an input that comes soon.
    if (!weight || is_soon(options.next - now, *weight)) return options.next;
    return start(ActionKind::BackwardWeight, *weight, now);
  }
  bool is_soon(Ticks wait, int stage) const {
    const auto weight = static_cast<double>(times_.stages[stage].weight);
    return static_cast<double>(wait) < policy_.patience * weight;
  }

  // The F and I that a rank may do at a time.
  struct Options {
    std::optional<ListChoice> chosen;  // the most preferred one that can start
    bool lacks_memory = false;         // a forward has its input, but no memory
    Ticks next = kNever;  // when the next input arrives; used only if nothing is chosen
  };
  Options options_of(int rank, Ticks now) const {
    Options options;
    for (const ListChoice& choice : preferred_choices(rank)) {
      if (choice.chunk >= problem_.chunks) continue;
      const Ticks ready = ready_at(choice.kind, times_.stage_of(rank, choice.chunk));
      const bool fits_now = choice.kind != ActionKind::Forward || fits(rank, choice.chunk);
      if (ready > now) {
        if (fits_now) options.next = std::min(options.next, ready);
      } else if (!fits_now) {
        options.lacks_memory = true;
      } else if (!options.chosen) {
        options.chosen = choice;
        if (!policy_.weights_first) break;
      }
    }
    return options;
  }

  // Returns the rank's choices, the most preferred first: by the policy's preference or, if it
  // follows a building block, by the slots of the next actions.
  std::array<ListChoice, 4> preferred_choices(int rank) const {
    if (policy_.block == BuildingBlock::None) return policy_.preference;
    const ListState::StageState& down = state_.stage(times_.stage_of(rank, 0));
    const ListState::StageState& up = state_.stage(times_.stage_of(rank, 1));
    const BlockSlots& slots = slots_[rank];
    struct SlotOf {
      int slot;
      ListChoice choice;
    };
    std::array<SlotOf, 4> by_slot = {{{slots.forward[0] + kSlots * down.forwards, kF0},
                                      {slots.forward[1] + kSlots * up.forwards, kF1},
                                      {slots.input[0] + kSlots * down.inputs, kI0},
                                      {slots.input[1] + kSlots * up.inputs, kI1}}};
    std::ranges::sort(by_slot, {}, &SlotOf::slot);
    return {by_slot[0].choice, by_slot[1].choice, by_slot[2].choice, by_slot[3].choice};
  }

  // Returns when the stage's next F or I may start; kNever if that is not known yet. An F also
  // needs that fewer than `most_live_` are in flight.
  Ticks ready_at(ActionKind kind, int stage) const {
    const ListState::StageState& done = state_.stage(stage);
    if (kind == ActionKind::BackwardInput)
      return done.inputs == done.forwards ? kNever : state_.input_ready(next_action(kind, stage));
    if (done.forwards == problem_.microbatches || done.forwards - done.inputs >= most_live_[stage])
      return kNever;
    return stage == 0 ? earliest_entry(done.forwards)
                      : state_.input_ready(next_action(kind, stage));
  }

  // Returns when the microbatch may enter.
  Ticks earliest_entry(int microbatch) const {
    if (policy_.pace == kUnpaced) return 0;
    return std::max<Ticks>(0, (microbatch - policy_.pace) * times_.period);
  }

  // Returns whether the limits let the rank hold one more forward. Chunk 0 leaves room for one
  // activation of chunk 1, so that microbatches in flight can come back through chunk 1.
  bool fits(int rank, int chunk) const {
    const ListState::StageState& done = state_.stage(times_.stage_of(rank, chunk));
    const ListState::RankState& own = state_.rank(rank);
    const int room = problem_.chunks - 1 - chunk;
    const int held = done.forwards - done.weights + room, live = done.forwards - done.inputs + room;
    return std::max(own.held, held) < problem_.memory_limit &&
           std::max(own.live, live) < problem_.in_flight_limit;
  }

  // Returns the rank's stage whose next W has waited longest.
  std::optional<int> oldest_weight(int rank) const {
    std::optional<int> oldest;
    Ticks since = kNever;
    for (int chunk = 0; chunk < problem_.chunks; ++chunk) {
      const int stage = times_.stage_of(rank, chunk);
      const ListState::StageState& done = state_.stage(stage);
      if (done.weights == done.inputs) continue;
      const Ticks ended = state_.gradient_end(stage, done.weights);
      if (ended < since) {
        since = ended;
        oldest = stage;
      }
    }
    return oldest;
  }

  Action next_action(ActionKind kind, int stage) const {
    const ListState::StageState& done = state_.stage(stage);
    if (kind == ActionKind::Forward) return {Stage{stage}, kind, Microbatch{done.forwards}};
    if (kind == ActionKind::BackwardInput) return {Stage{stage}, kind, Microbatch{done.inputs}};
    return {Stage{stage}, kind, Microbatch{done.weights}};
  }

  // Does the stage's next action of that kind, and wakes the rank that gets its output when the
  // output arrives. A rank that is busy then decides again at the end of its action anyway. Returns
  // when the action ends.
  Ticks start(ActionKind kind, int stage, Ticks now) {
    const Ticks end = state_.play(next_action(kind, stage), now);
    const int to = kind == ActionKind::Forward ? stage + 1 : stage - 1;
    if (kind == ActionKind::BackwardWeight || to < 0 || to > times_.last_stage()) return end;
    const Ticks arrival = end + times_.transfer(stage, to);
    const int rank = times_.rank_of(to);
    if (arrival > state_.rank(rank).free_at && arrival < wakes_.of(rank)) wakes_.set(rank, arrival);
    return end;
  }

  const ListProblem& problem_;
  const ListTimes& times_;
  const Policy& policy_;
  std::vector<int> most_live_;     // by stage: most forwards without an I
  std::vector<BlockSlots> slots_;  // by rank; used if the policy follows a block
  ListState state_;
  WakeTimes wakes_;
};

// A way to make an order. With a skeleton (skeletons.h), `rule` puts W into the skeleton. Without
// one, or if the skeleton does not fit in memory, ranks decide by `policy`.
struct ListMethod {
  Policy policy;
  std::optional<SkeletonKind> skeleton = {};
  FillRule rule = FillRule::Always;
};

// Returns how many microbatches suffice to compare methods. With more, only the steady state is
// longer.
int trial_microbatches(int pp) { return std::max(3 * pp / 2, 32); }

// The best method so far, and its outcome in the trial. Of equal ones the first is kept.
struct BestMethod {
  ListMethod method;
  ListOutcome outcome;

  void keep_better(const ListOutcome& other, const ListMethod& tried) {
    if (other >= outcome) return;
    outcome = other;
    method = tried;
  }
};

void try_policies(const ListTimes& times, BestMethod* best) {
  const ListProblem& trial = times.problem;
  for (const Policy& policy : policies_of(trial.pp, trial.chunks, trial.memory_limit)) {
    std::optional<ListState> played = Scheduler(times, policy).run();
    if (policy.pace != kUnpaced) {
      // Pace only shapes the order. Played again without pace, the order may end earlier.
      const Skeleton order{std::move(played->actions), true};
      played = WeightFill(times, order, FillRule::AsGiven).run();
      CHECK(played);
    }
    best->keep_better(played->outcome(), {.policy = policy});
  }
}

void try_skeletons(const ListTimes& times, BestMethod* best) {
  for (const SkeletonKind kind : skeleton_kinds(times.problem)) {
    const std::optional<Skeleton> skeleton = make_skeleton(kind, times.problem);
    if (!skeleton) continue;
    for (const FillRule rule : kFillRules) {
      if (rule == FillRule::AsGiven && !skeleton->has_weights) continue;
      if (const std::optional<ListState> filled = WeightFill(times, *skeleton, rule).run())
        best->keep_better(filled->outcome(),
                          {.policy = best->method.policy, .skeleton = kind, .rule = rule});
    }
  }
}

// Returns the method whose trial with few microbatches ends first.
ListMethod best_method(const ListProblem& problem) {
  CHECK(problem.chunks == 1 || problem.chunks == 2);
  CHECK(problem.costs.size() == static_cast<std::size_t>(problem.pp) * problem.chunks);
  CHECK(problem.memory_limit >= problem.chunks && problem.in_flight_limit >= problem.chunks);
  ListProblem trial = problem;
  trial.microbatches = std::min(problem.microbatches, trial_microbatches(problem.pp));
  const ListTimes times(trial);
  BestMethod best;
  try_policies(times, &best);
  try_skeletons(times, &best);
  return best.method;
}

}  // namespace

std::vector<std::vector<Action>> schedule_greedily(const ListProblem& problem) {
  const ListMethod method = best_method(problem);
  const ListTimes times(problem);
  if (method.skeleton) {
    if (const auto skeleton = make_skeleton(*method.skeleton, problem)) {
      if (auto filled = WeightFill(times, *skeleton, method.rule).run())
        return std::move(filled->actions);
    }
  }
  return Scheduler(times, method.policy).run().actions;
}

OrderRounds greedy_rounds(const ListProblem& problem) {
  const ListMethod method = best_method(problem);
  ListProblem shortened = problem;
  shortened.microbatches = std::min(problem.microbatches, kSearchedPerRank * (problem.pp + 8));
  const ListTimes times(shortened);
  OrderRounds rounds{0, 0};
  if (!method.skeleton) {
    rounds = Scheduler(times, method.policy).find_rounds();
  } else if (const auto skeleton = make_skeleton(*method.skeleton, shortened)) {
    rounds = WeightFill(times, *skeleton, method.rule).find_rounds();
  }
  // With fewer microbatches than a trial has, another method may win.
  rounds.fill = std::max(rounds.fill, trial_microbatches(problem.pp));
  return rounds;
}

}  // namespace tandem
