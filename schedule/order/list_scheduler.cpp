// Greedy list scheduling as a discrete-event simulation. In: the times of stages and limits of
// memory. Out: each rank's F (forward), I (input gradient) and W (weight gradient) in order. A rank
// that is free does the first action of its policy's preference that is ready, and W where it would
// idle.
//
// An activation is live from F to I, and held from F to W. Once the pipeline is full, the schedule
// repeats in rounds. find_rounds() stores a snapshot of the state whenever a microbatch enters. If
// two snapshots are equal, the actions between them are a round.
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

// Plays one policy on one problem.
class Scheduler {
 public:
  // REQUIRES: `times` and `policy` outlive this.
  Scheduler(const ListTimes& times, const Policy& policy)
      : problem_(times.problem),
        times_(times),
        policy_(policy),
        stages_(times.stages.size()),
        ranks_(problem_.pp),
        forward_end_(stages_.size() * problem_.microbatches, kNever),
        gradient_end_(forward_end_),
        actions_(problem_.pp),
        wakes_(problem_.pp) {
    const int count = static_cast<int>(stages_.size());
    for (int stage = 0; stage < count; ++stage) {
      // With taper: the limit's share of the stages from this one on, rounded up.
      const std::int64_t share = static_cast<std::int64_t>(problem_.memory_limit) * (count - stage);
      stages_[stage].most_live =
          policy.taper ? static_cast<int>((share + count - 1) / count) : problem_.memory_limit;
    }
    for (int rank = 0; rank < problem_.pp; ++rank)
      ranks_[rank].slots = slots_of(policy.block, problem_.pp, rank);
    for (auto& actions : actions_) actions.reserve(3UL * problem_.chunks * problem_.microbatches);
  }

  void run() {
    begin();
    while (wakes_.earliest() < kNever) step();
    for (const StageState& stage : stages_) CHECK(stage.weights == problem_.microbatches);
  }

  // Finds what greedy_rounds() returns.
  OrderRounds find_rounds() {
    begin();
    std::unordered_map<std::uint64_t, Snapshot> snapshots;  // by hash of the state
    for (int entered = 0; wakes_.earliest() < kNever;) {
      const Ticks now = wakes_.earliest();
      step();
      if (stages_[0].forwards == entered) continue;
      entered = stages_[0].forwards;
      if (entered == problem_.microbatches) break;
      Snapshot current{entered, now, state(now)};
      const auto [found, is_new] = snapshots.try_emplace(hash(current.state), std::move(current));
      if (is_new) continue;  // try_emplace moves `current` only if it is new
      Snapshot& before = found->second;
      if (before.state == current.state && is_paced_alike(before, current))
        return {entered - before.entered, entered + 1};
      before = std::move(current);
    }
    return {0, 0};
  }

  ListOutcome outcome() const {
    ListOutcome outcome{0, 0, peak_};
    for (const RankState& rank : ranks_) {
      outcome.makespan = std::max(outcome.makespan, rank.busy_until);
      outcome.window = std::max(outcome.window, rank.busy_until - rank.first_start);
    }
    return outcome;
  }
  std::vector<std::vector<Action>> take_actions() { return std::move(actions_); }

 private:
  struct StageState {
    int forwards = 0, inputs = 0, weights = 0;  // done, each in the order of the microbatches
    int most_live = 0;                          // most forwards without an I
  };
  struct RankState {
    Ticks first_start = kNever;
    Ticks busy_until = 0;
    int live = 0, held = 0;  // forwards without an I; forwards without a W
    BlockSlots slots;        // used if the policy follows a block
  };

  // The state at the time when a microbatch entered.
  struct Snapshot {
    int entered = 0;  // microbatches so far
    Ticks now = 0;
    std::vector<Ticks> state;
  };
  static std::uint64_t hash(const std::vector<Ticks>& state) {
    std::uint64_t hash = 0;
    for (const Ticks each : state) hash = scatter(hash ^ scatter(static_cast<std::uint64_t>(each)));
    return hash;
  }
  // Returns whether the policy's pace has the same effect after both snapshots: it delays the next
  // microbatch by the same time, or it no longer delays any. Once it delays none it never will
  // again: a round takes at least one period for each of its microbatches, so microbatches enter
  // later than the pace allows.
  bool is_paced_alike(const Snapshot& before, const Snapshot& current) const {
    return policy_.pace == kUnpaced ||
           entry(before.entered) - before.now == entry(current.entered) - current.now ||
           entry(current.entered) <= before.now;
  }

  void begin() {
    for (int rank = 0; rank < problem_.pp; ++rank) wakes_.set(rank, 0);
  }
  void step() {
    const Ticks now = wakes_.earliest();
    const int rank = wakes_.first_rank();
    wakes_.set(rank, decide(rank, now));
  }

  // Returns everything that later decisions depend on, as long as microbatches are left to enter.
  // Times are relative to `now`, and microbatches relative to the next one to enter. An input that
  // has arrived has time 0, however long ago it came. The age of a waiting W is kept, since the
  // oldest W goes first.
  std::vector<Ticks> state(Ticks now) const {
    std::vector<Ticks> state;
    state.reserve(16 * stages_.size());
    const int entered = stages_[0].forwards;
    // Adds when the outputs of microbatches `from` to `to` - 1 are of use: `delay` after their end.
    const auto add_waits = [&](const std::vector<Ticks>& ends, int stage, int from, int to,
                               Ticks delay, Ticks least) {
      for (int microbatch = from; microbatch < to; ++microbatch)
        state.push_back(std::max(ends[times_.slot(stage, microbatch)] + delay - now, least));
    };
    for (int rank = 0; rank < problem_.pp; ++rank) {
      const Ticks wake = wakes_.of(rank);
      state.insert(state.end(), {wake == kNever ? kNever : wake - now,
                                 std::max<Ticks>(ranks_[rank].busy_until - now, 0)});
    }
    for (int stage = 0; stage <= times_.last_stage(); ++stage) {
      const StageState& done = stages_[stage];
      state.insert(state.end(),
                   {done.forwards - entered, done.inputs - entered, done.weights - entered});
      if (stage == times_.last_stage()) {
        add_waits(forward_end_, stage, done.inputs, done.forwards, times_.turn, 0);
      } else {
        add_waits(forward_end_, stage, stages_[stage + 1].forwards, done.forwards,
                  times_.transfer(stage, stage + 1), 0);
      }
      if (stage > 0)
        add_waits(gradient_end_, stage, stages_[stage - 1].inputs, done.inputs,
                  times_.transfer(stage, stage - 1), 0);
      if (problem_.chunks > 1)
        add_waits(gradient_end_, stage, done.weights, done.inputs, 0, -kNever);
    }
    return state;
  }

  // Returns when the microbatch may enter.
  Ticks entry(int microbatch) const {
    if (policy_.pace == kUnpaced) return 0;
    return std::max<Ticks>(0, (microbatch - policy_.pace) * times_.period);
  }

  // Return when the stage's next forward, or its next input gradient, has its input; kNever if that
  // is not known yet. A forward also needs that fewer than `most_live` are in flight.
  Ticks next_forward_ready(int stage) const {
    const StageState& done = stages_[stage];
    if (done.forwards == problem_.microbatches || done.forwards - done.inputs >= done.most_live)
      return kNever;
    if (stage == 0) return entry(done.forwards);
    return arrival(forward_end_[times_.slot(stage - 1, done.forwards)], stage - 1, stage);
  }
  Ticks next_gradient_ready(int stage) const {
    const StageState& done = stages_[stage];
    if (done.inputs == done.forwards) return kNever;
    if (stage == times_.last_stage())
      return forward_end_[times_.slot(stage, done.inputs)] + times_.turn;
    return arrival(gradient_end_[times_.slot(stage + 1, done.inputs)], stage + 1, stage);
  }

  Ticks arrival(Ticks sent, int from, int to) const {
    return sent == kNever ? kNever : sent + times_.transfer(from, to);
  }

  Ticks input_ready(const ListChoice& choice, int stage) const {
    return choice.kind == ActionKind::Forward ? next_forward_ready(stage)
                                              : next_gradient_ready(stage);
  }

  // Returns the rank's choices, the most preferred first: by the policy's preference or, if it
  // follows a building block, by the slots of the next actions.
  std::array<ListChoice, 4> preferred_choices(int rank) const {
    if (policy_.block == BuildingBlock::None) return policy_.preference;
    const StageState& down = stages_[times_.stage_of(rank, 0)];
    const StageState& up = stages_[times_.stage_of(rank, 1)];
    const BlockSlots& slots = ranks_[rank].slots;
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

  // Returns whether the limits let the rank hold one more forward. Chunk 0 leaves room for one
  // activation of chunk 1, so that microbatches in flight can come back through chunk 1.
  bool fits(int rank, int chunk) const {
    const StageState& done = stages_[times_.stage_of(rank, chunk)];
    const int room = problem_.chunks - 1 - chunk;
    return ranks_[rank].held < problem_.memory_limit &&
           ranks_[rank].live < problem_.in_flight_limit &&
           done.forwards - done.weights + room < problem_.memory_limit &&
           done.forwards - done.inputs + room < problem_.in_flight_limit;
  }

  // Starts an action on the rank, or lets it wait. Returns when the rank decides again: at the
  // action's end, or when the next input that is under way arrives.
  Ticks decide(int rank, Ticks now) {
    std::optional<ListChoice> chosen;
    bool kept_back = false;  // a forward has its input, but no memory
    Ticks next = kNever;     // when the next known input arrives
    for (const ListChoice& choice : preferred_choices(rank)) {
      if (choice.chunk >= problem_.chunks) continue;
      const int stage = times_.stage_of(rank, choice.chunk);
      const Ticks when = input_ready(choice, stage);
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
      if (!policy_.weights_first) break;
    }
    // W fills the time if nothing else can be done, or frees memory for a forward. A patient policy
    // waits instead if the next input comes within `patience` times W's length.
    if (!chosen || (kept_back && policy_.weights_first)) {
      const int stage = oldest_weight(rank);
      const bool waits = !chosen && stage >= 0 &&
                         static_cast<double>(next - now) <
                             policy_.patience * static_cast<double>(times_.stages[stage].weight);
      if (stage >= 0 && !waits) return start(ActionKind::BackwardWeight, stage, rank, now);
    }
    return chosen ? start(chosen->kind, times_.stage_of(rank, chosen->chunk), rank, now) : next;
  }

  // Returns the rank's stage whose next W has waited longest, or -1 if there is none.
  int oldest_weight(int rank) const {
    int oldest = -1;
    Ticks since = kNever;
    for (int chunk = 0; chunk < problem_.chunks; ++chunk) {
      const int stage = times_.stage_of(rank, chunk);
      if (stages_[stage].weights == stages_[stage].inputs) continue;
      const Ticks ended = gradient_end_[times_.slot(stage, stages_[stage].weights)];
      if (ended < since) {
        since = ended;
        oldest = stage;
      }
    }
    return oldest;
  }

  // Does the action. Returns when it ends.
  Ticks start(ActionKind kind, int stage, int rank, Ticks now) {
    StageState& done = stages_[stage];
    RankState& own = ranks_[rank];
    own.first_start = std::min(own.first_start, now);
    int microbatch = 0;
    if (kind == ActionKind::Forward) {
      microbatch = done.forwards++;
      own.busy_until = now + times_.stages[stage].forward;
      forward_end_[times_.slot(stage, microbatch)] = own.busy_until;
      ++own.held;
      peak_ = std::max(peak_, ++own.live);
      if (stage < times_.last_stage()) send(stage, stage + 1);
    } else if (kind == ActionKind::BackwardInput) {
      microbatch = done.inputs++;
      own.busy_until = now + times_.stages[stage].input;
      gradient_end_[times_.slot(stage, microbatch)] = own.busy_until;
      --own.live;
      if (stage > 0) send(stage, stage - 1);
    } else {
      microbatch = done.weights++;
      own.busy_until = now + times_.stages[stage].weight;
      --own.held;
    }
    actions_[rank].push_back({Stage{stage}, kind, Microbatch{microbatch}});
    return own.busy_until;
  }

  // Wakes the receiver when the output arrives. A rank that is busy then decides again at the end
  // of its action anyway.
  void send(int from, int to) {
    const Ticks arrival = ranks_[times_.rank_of(from)].busy_until + times_.transfer(from, to);
    const int rank = times_.rank_of(to);
    if (arrival > ranks_[rank].busy_until && arrival < wakes_.of(rank)) wakes_.set(rank, arrival);
  }

  const ListProblem& problem_;
  const ListTimes& times_;
  const Policy& policy_;
  std::vector<StageState> stages_;
  std::vector<RankState> ranks_;
  std::vector<Ticks> forward_end_, gradient_end_;  // by stage and microbatch
  std::vector<std::vector<Action>> actions_;
  WakeTimes wakes_;
  int peak_ = 0;
};

// A way to make an order. With a skeleton (skeletons.h), `rule` puts W into the skeleton. Without
// one, or if the skeleton does not fit in memory, ranks decide by `policy`.
struct ListMethod {
  Policy policy;
  std::optional<int> skeleton = {};  // its number, for make_skeleton()
  FillRule rule = FillRule::Always;
};

Skeleton skeleton_of(const ListProblem& problem, int which) {
  return make_skeleton(which, problem.pp, problem.chunks, problem.microbatches,
                       problem.memory_limit);
}

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
    Scheduler scheduler(times, policy);
    scheduler.run();
    if (policy.pace == kUnpaced) {
      best->keep_better(scheduler.outcome(), {.policy = policy});
      continue;
    }
    // Pace only shapes the order. Played again without pace, the order may end earlier.
    const Skeleton order{scheduler.take_actions(), true};
    WeightFill play(times, order, FillRule::AsGiven);
    CHECK(play.run());
    best->keep_better(play.outcome(), {.policy = policy});
  }
}

void try_skeletons(const ListTimes& times, BestMethod* best) {
  const ListProblem& trial = times.problem;
  const int skeletons = skeleton_count(trial.pp, trial.chunks, trial.memory_limit);
  for (int which = 0; which < skeletons; ++which) {
    const Skeleton skeleton = skeleton_of(trial, which);
    if (skeleton.ranks.empty()) continue;
    for (const FillRule rule : kFillRules) {
      if (rule == FillRule::AsGiven && !skeleton.has_weights) continue;
      WeightFill fill(times, skeleton, rule);
      if (fill.run())
        best->keep_better(fill.outcome(),
                          {.policy = best->method.policy, .skeleton = which, .rule = rule});
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
    const Skeleton skeleton = skeleton_of(problem, *method.skeleton);
    if (!skeleton.ranks.empty()) {
      WeightFill fill(times, skeleton, method.rule);
      if (fill.run()) return fill.take_actions();
    }
  }
  Scheduler scheduler(times, method.policy);
  scheduler.run();
  return scheduler.take_actions();
}

OrderRounds greedy_rounds(const ListProblem& problem) {
  const ListMethod method = best_method(problem);
  ListProblem shortened = problem;
  shortened.microbatches = std::min(problem.microbatches, kSearchedPerRank * (problem.pp + 8));
  const ListTimes times(shortened);
  OrderRounds rounds{0, 0};
  if (!method.skeleton) {
    rounds = Scheduler(times, method.policy).find_rounds();
  } else if (const Skeleton skeleton = skeleton_of(shortened, *method.skeleton);
             !skeleton.ranks.empty()) {
    rounds = WeightFill(times, skeleton, method.rule).find_rounds();
  }
  // With fewer microbatches than a trial has, another method may win.
  rounds.fill = std::max(rounds.fill, trial_microbatches(problem.pp));
  return rounds;
}

}  // namespace tandem
