// Makes policies for the search: fixed preferences, building blocks, their variants and random
// changes. A policy gives each kind of action on each stage a number; number + microbatch x period
// is an action's turn, and of ready actions the one with the least turn goes first
// (policy_scheduler.h). F is a forward, I an input gradient, W a weight gradient.
#include "schedule/search/policies.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "schedule/order/list_policies.h"

namespace tandem {
namespace {

using Turns = SchedulePolicy::StageTurns;

// The times of one microbatch that has the pipeline for itself, in the costs' unit.
struct SingleMicrobatchTimes {
  std::vector<double> forward, input;  // by stage: the start of its F, and of its I
  double period = 0;                   // the busiest rank's work for a microbatch
};

SingleMicrobatchTimes alone_times(const SearchProblem& problem) {
  SingleMicrobatchTimes alone;
  const int stages = problem.stages();
  const auto transfer = [&](int from, int to) {
    return problem.rank_of_stage[from] == problem.rank_of_stage[to] ? 0
                                                                    : problem.costs[from].transfer;
  };
  double now = 0;
  for (int s = 0; s < stages; ++s) {
    alone.forward.push_back(now);
    now += problem.costs[s].forward + (s + 1 < stages ? transfer(s, s + 1) : 0);
  }
  alone.input.resize(stages);
  for (int s = stages - 1; s >= 0; --s) {
    alone.input[s] = now;
    now += problem.costs[s].input + (s > 0 ? transfer(s, s - 1) : 0);
  }
  std::vector<double> work(problem.pp());
  for (int s = 0; s < stages; ++s) work[problem.rank_of_stage[s]] += problem.costs[s].work();
  alone.period = *std::ranges::max_element(work);
  return alone;
}

// The turn of actions that only fill idle time: later than every other turn.
constexpr double kLast = 1e6;

// Returns the turns of F and of I, in this order, on a stage of chunk c of n chunks. W comes last.
using Preference = std::pair<double, double> (*)(int c, int n);

constexpr Preference kPreferences[] = {
    // Forwards first. With two chunks: F1 F0 I0 I1 and F1 F0 I1 I0.
    [](int c, int n) { return std::pair<double, double>(-c, n + c); },
    [](int c, int n) { return std::pair<double, double>(-c, 2 * n - c); },
    // Gradients first. With two chunks: I0 I1 F1 F0 and I1 I0 F1 F0.
    [](int c, int n) { return std::pair<double, double>(-c, c - 2 * n); },
    [](int c, int n) { return std::pair<double, double>(-c, -c - n); },
    // Forwards and gradients in turn. With two chunks: F1 I1 F0 I0, I0 F1 I1 F0, I1 F1 I0 F0 and
    // I0 I1 F1 F0.
    [](int c, int n) { return std::pair<double, double>(2 * (n - c), 2 * (n - c) + 1); },
    [](int c, int n) { return std::pair<double, double>(2 * (n - c), 2 * c + 1); },
    [](int c, int n) { return std::pair<double, double>(2 * (n - c) + 1, 2 * (n - c)); },
    [](int c, int n) { return std::pair<double, double>(2 * (n - c) + 1, 2 * c); },
};

class PolicyMaker {
 public:
  explicit PolicyMaker(const SearchProblem& problem)
      : problem_(problem),
        alone_(alone_times(problem)),
        pp_(problem.pp()),
        chunks_(problem.stages() / pp_) {}

  std::vector<SchedulePolicy> all() {
    for (const Preference preference : kPreferences) add(of_preference(preference));
    for (const double lead : {-1., 0., 0.5, 1., 2., 4.}) {
      for (const double lag : {0., 1., 3., kLast}) add(block(lead, lag));
    }
    if (problem_.rank_of_stage == stages_in_a_v(pp_, 2) && pp_ > 1) {
      add(slots(BuildingBlock::Half));
      add(slots(BuildingBlock::Third));
    }
    return std::move(policies_);
  }

  std::vector<SchedulePolicy> variants(const SchedulePolicy& policy) {
    add_with(policy, [](SchedulePolicy* p) { p->whole = true; });
    add_with(policy, [](SchedulePolicy* p) { p->weights_first = true; });
    for (const double patience : {0.5, 1.})
      add_with(policy, [&](SchedulePolicy* p) { p->patience = patience; });
    for (const int more : {0, 1, 2, 4}) {
      const SchedulePolicy limited = with_lifespans(policy, more);
      add(limited);
      add_with(limited, [](SchedulePolicy* p) { p->whole = true; });
      add_with(limited, [](SchedulePolicy* p) { p->patience = 0.5; });
      add_with(limited, [](SchedulePolicy* p) { p->weights_first = true; });
    }
    // The last pace is V-Half's in list_policies.cpp.
    for (const int pace : {0, 1, 2, 4, (3 * pp_ + 7) / 8})
      add_with(policy, [&](SchedulePolicy* p) { p->pace = pace, p->weights_first = true; });
    return std::move(policies_);
  }

 private:
  SchedulePolicy empty() const {
    SchedulePolicy policy;
    policy.stages.resize(problem_.stages());
    policy.entry_period = alone_.period;
    return policy;
  }

  SchedulePolicy of_preference(Preference preference) const {
    SchedulePolicy policy = empty();
    for (int s = 0; s < problem_.stages(); ++s) {
      const auto [forward, input] = preference(s / pp_, chunks_);
      policy.stages[s] = {forward, input, kLast};
    }
    return policy;
  }

  // Returns the policy in which an action's turn is its start time for a microbatch that has the
  // pipeline for itself. I comes `lead` periods earlier than that, and W `lag` periods later than I
  // would start.
  SchedulePolicy block(double lead, double lag) const {
    SchedulePolicy policy = empty();
    policy.period = alone_.period;
    for (int s = 0; s < problem_.stages(); ++s)
      policy.stages[s] = {alone_.forward[s], alone_.input[s] - lead * alone_.period,
                          alone_.input[s] + lag * alone_.period};
    return policy;
  }

  // Returns the policy in which an action's turn is its slot in the building block.
  SchedulePolicy slots(BuildingBlock block) const {
    SchedulePolicy policy = empty();
    policy.period = kSlots;
    for (int s = 0; s < problem_.stages(); ++s) {
      const BlockSlots slots = slots_of(block, pp_, problem_.rank_of_stage[s]);
      policy.stages[s].forward = slots.forward[s / pp_];
      policy.stages[s].input = slots.input[s / pp_];
      policy.stages[s].weight = kLast;
    }
    return policy;
  }

  // Limits the microbatches in flight on each stage. A microbatch alone is in flight from the start
  // of F to the end of I, and one enters each period. The limit is that time / period, rounded up,
  // plus `more`.
  SchedulePolicy with_lifespans(SchedulePolicy policy, int more) const {
    for (int s = 0; s < problem_.stages(); ++s) {
      const double span = alone_.input[s] + problem_.costs[s].input - alone_.forward[s];
      policy.stages[s].most_live = static_cast<int>(std::ceil(span / alone_.period)) + more;
    }
    return policy;
  }

  template <class Change>
  void add_with(SchedulePolicy policy, const Change& change) {
    change(&policy);
    add(std::move(policy));
  }
  void add(SchedulePolicy policy) { policies_.push_back(std::move(policy)); }

  const SearchProblem& problem_;
  const SingleMicrobatchTimes alone_;
  const int pp_, chunks_;
  std::vector<SchedulePolicy> policies_;
};

int random_below(int count, std::mt19937_64* random) {
  return static_cast<int>((*random)() % static_cast<std::uint64_t>(count));
}

template <class T, std::size_t n>
const T& random_of(const T (&values)[n], std::mt19937_64* random) {
  return values[random_below(static_cast<int>(n), random)];
}

// Returns the distance between the first and the last turn.
double span_of(const SchedulePolicy& policy) {
  double low = 0, high = 0;
  for (const Turns& stage : policy.stages) {
    for (const double turn : {stage.forward, stage.input}) {
      low = std::min(low, turn);
      high = std::max(high, turn);
    }
  }
  return high - low;
}

// Returns whether a change that begins at stage `first` is also of the later stage s. Scope 0:
// stage `first` alone; 1: all later ones too; 2: those of its rank; 3: those of its chunk.
bool is_in_scope(const SearchProblem& problem, int scope, int first, int s) {
  if (scope == 0) return s == first;
  if (scope == 2) return problem.rank_of_stage[s] == problem.rank_of_stage[first];
  return scope == 1 || s / problem.pp() == first / problem.pp();
}

// Shifts the turns of one kind of action by an eighth of a period to a whole one, on some stages.
void change_turns(const SearchProblem& problem, SchedulePolicy* policy, std::mt19937_64* random) {
  constexpr double kSteps[] = {-1, -0.5, -0.25, -0.125, 0.125, 0.25, 0.5, 1};
  const double unit =
      policy->period > 0 ? policy->period : std::max(span_of(*policy), 1.) / problem.stages();
  const double step = random_of(kSteps, random) * unit;
  double Turns::*const turn =
      std::array{&Turns::forward, &Turns::input, &Turns::weight}[random_below(3, random)];
  const int first = random_below(problem.stages(), random);
  const int scope = random_below(4, random);
  for (int s = first; s < problem.stages(); ++s) {
    if (!is_in_scope(problem, scope, first, s)) continue;
    Turns& own = policy->stages[s];
    // A W that only fills idle time first gets a turn one period after its I.
    if (turn == &Turns::weight && own.weight >= kLast)
      own.weight = own.input + (policy->period > 0 ? policy->period : unit);
    own.*turn += step;
  }
}

// Lets some stages have one microbatch more or less in flight.
void change_limits(const SearchProblem& problem, SchedulePolicy* policy, std::mt19937_64* random) {
  const int step = random_below(2, random) == 0 ? 1 : -1;
  const int first = random_below(problem.stages(), random);
  const int scope = random_below(3, random);
  for (int s = first; s < problem.stages(); ++s) {
    if (!is_in_scope(problem, scope, first, s)) continue;
    int& most = policy->stages[s].most_live;
    most = std::max(1, std::min(most, problem.microbatches) + step);
  }
}

// Changes one of the numbers that hold for all stages.
void change_all(SchedulePolicy* policy, std::mt19937_64* random) {
  constexpr double kPatience[] = {0, 0.25, 0.5, 0.75, 1};
  constexpr double kTimes[] = {0.5, 0.8, 0.95, 1.05, 1.25, 2};
  switch (random_below(6, random)) {
    case 0:
      policy->patience = random_of(kPatience, random);
      break;
    case 1:
      policy->other_patience = random_of(kPatience, random) / 2;
      break;
    case 2:
      policy->period *= random_of(kTimes, random);
      break;
    case 3:
      policy->weights_first = !policy->weights_first;
      break;
    case 4:
      policy->pace = std::max(-1, policy->pace + random_below(5, random) - 2);
      break;
    default:
      policy->entry_period *= random_of(kTimes, random);
  }
}

}  // namespace

std::vector<SchedulePolicy> starting_policies(const SearchProblem& problem) {
  return PolicyMaker(problem).all();
}

std::vector<SchedulePolicy> variants_of(const SearchProblem& problem,
                                        const SchedulePolicy& policy) {
  return PolicyMaker(problem).variants(policy);
}

SchedulePolicy changed_policy(const SearchProblem& problem, SchedulePolicy policy,
                              std::mt19937_64* random) {
  for (int changes = 1 + random_below(2, random); changes > 0; --changes) {
    const int kind = random_below(8, random);
    if (kind < 4)
      change_turns(problem, &policy, random);
    else if (kind < 7)
      change_limits(problem, &policy, random);
    else
      change_all(&policy, random);
  }
  return policy;
}

}  // namespace tandem
