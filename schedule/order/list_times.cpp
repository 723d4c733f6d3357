#include "schedule/order/list_times.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

// The ticks of the longest cost: the least common multiple of 1 to 16. So 3/7 of the longest cost,
// say, is a whole number of ticks.
constexpr double kTicksOfLongest = 720'720;

}  // namespace

ListTimes::ListTimes(const ListProblem& given) : problem(given), stages(given.costs.size()) {
  double longest = 0;
  for (const OrderCosts& costs : problem.costs)
    longest = std::max({longest, costs.forward, costs.input, costs.weight, costs.transfer});
  const auto ticks = [&](double cost) {
    return cost > 0 ? static_cast<Ticks>(std::llround(cost / longest * kTicksOfLongest)) : 0;
  };
  // F and I, which other ranks wait for, take at least one tick, so that they end after all
  // decisions that are made at the time of their start.
  std::vector<Ticks> periods(problem.pp);
  for (int stage = 0; stage <= last_stage(); ++stage) {
    const OrderCosts& costs = problem.costs[stage];
    StageTicks& own = stages[stage];
    own = {std::max<Ticks>(ticks(costs.forward), 1), std::max<Ticks>(ticks(costs.input), 1),
           ticks(costs.weight)};
    periods[rank_of(stage)] += own.forward + own.input + own.weight;
  }
  period = *std::max_element(periods.begin(), periods.end());
  transfer_ = ticks(problem.costs.front().transfer);
  turn = ticks(problem.turn);
}

}  // namespace tandem
