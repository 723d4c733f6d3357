#include "schedule/order/list_times.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

// The longest cost is this many ticks. Every cost that is a fraction of it with a denominator up to
// 16 is exact.
constexpr double kTicksOfLongest = 720'720;

}  // namespace

ListTimes::ListTimes(const ListProblem& of) : problem(of), stages(of.costs.size()) {
  double longest = 0;
  for (const OrderCosts& costs : problem.costs)
    longest = std::max({longest, costs.forward, costs.input, costs.weight, costs.transfer});
  const auto ticks = [&](double cost) {
    return cost > 0 ? static_cast<Ticks>(std::llround(cost / longest * kTicksOfLongest)) : 0;
  };
  // An action that others wait for takes at least a tick, so that it ends after decisions at its
  // start.
  std::vector<Ticks> periods(problem.pp);
  for (int stage = 0; stage <= last_stage(); ++stage) {
    const OrderCosts& costs = problem.costs[stage];
    StageTicks& at = stages[stage];
    at = {std::max<Ticks>(ticks(costs.forward), 1), std::max<Ticks>(ticks(costs.input), 1),
          ticks(costs.weight)};
    periods[rank_of(stage)] += at.forward + at.input + at.weight;
  }
  period = *std::max_element(periods.begin(), periods.end());
  transfer_ = ticks(problem.costs.front().transfer);
  turn = ticks(problem.turn);
}

}  // namespace tandem
