#include "schedule/order/greedy_orders.h"

#include <algorithm>
#include <utility>

#include "schedule/order/list_scheduler.h"

namespace tandem {
namespace {

ListProblem problem_of(const OrderSpec& spec, LimitsOf own_limits) {
  HeldLimits limits = own_limits(spec.pp);
  limits.held += barriers(spec.vocabulary) * spec.vpp;
  limits.in_flight += barriers(spec.vocabulary) * spec.vpp;
  if (spec.memory_limit > 0) {
    const double all = static_cast<double>(spec.vpp) * spec.microbatches;
    limits = {static_cast<int>(std::min(spec.memory_limit, all))};
  }
  std::vector<OrderCosts> costs = stage_costs(spec);
  const double turn = spec.vocabulary > 0 ? make_room(spec, &costs) : 0;
  return {.pp = spec.pp,
          .chunks = spec.vpp,
          .microbatches = spec.microbatches,
          .costs = std::move(costs),
          .memory_limit = limits.held,
          .in_flight_limit = limits.in_flight,
          .turn = turn};
}

}  // namespace

HeldLimits zb1p_limits(int pp) { return {pp}; }
HeldLimits twice_pp(int pp) { return {2 * pp}; }
HeldLimits v_half_limits(int pp) { return {2 * (pp / 2) + 2}; }
// On two ranks `held` is 4, as much as 1F1B holds, so only 3 may be in flight.
HeldLimits v_min_limits(int pp) {
  const int held = 2 * ((pp + 4) / 3);
  return {held, std::min(held, std::max(2 * pp - 1, 2))};
}

std::vector<OrderCosts> stage_costs(const OrderSpec& spec) {
  if (!spec.stage_costs.empty()) return spec.stage_costs;
  return std::vector<OrderCosts>(static_cast<std::size_t>(spec.pp) * spec.vpp, spec.costs);
}

std::vector<std::vector<Action>> make_greedy(const OrderSpec& spec, LimitsOf limits) {
  return schedule_greedily(problem_of(spec, limits));
}

// With fewer microbatches than the memory limit allows, the limit would not bind and the order
// would differ, so rounds begin only after so many.
OrderRounds rounds_of_greedy(const OrderSpec& spec, LimitsOf limits) {
  const ListProblem problem = problem_of(spec, limits);
  OrderRounds rounds = greedy_rounds(problem);
  rounds.fill = std::max(rounds.fill, (problem.memory_limit + spec.vpp - 1) / spec.vpp);
  return rounds;
}

}  // namespace tandem
