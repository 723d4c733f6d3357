#include "schedule/search/search_problem.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/order/order_replay.h"

namespace tandem {
namespace {

bool within_limits(const SearchProblem& problem, const std::vector<double>& bytes) {
  for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
    if (bytes[rank] > problem.limit_bytes[rank] * kRoundingOfBytes) return false;
  }
  return true;
}

// Returns what an action adds to the bytes that its rank holds.
double change(const StageBytes& bytes, ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return bytes.live;
    case ActionKind::Backward:
      return -bytes.live;
    case ActionKind::BackwardInput:
      return bytes.stash - bytes.live;
    case ActionKind::BackwardWeight:
      return -bytes.stash;
    default:
      return 0;
  }
}

}  // namespace

bool can_fit(const SearchProblem& problem) {
  std::vector<double> least(problem.limit_bytes.size());
  for (int stage = 0; stage < problem.stages(); ++stage)
    least[problem.rank_of_stage[stage]] += problem.bytes[stage].live;
  return within_limits(problem, least);
}

double peak_of_rank(const SearchProblem& problem, const std::vector<Action>& actions) {
  double held = 0, peak = 0;
  for (const Action& action : actions) {
    held += change(problem.bytes[index(action.stage)], action.kind);
    peak = std::max(peak, held);
  }
  return peak;
}

std::vector<double> peak_bytes(const SearchProblem& problem, const Order& order) {
  std::vector<double> peaks;
  for (const std::vector<Action>& actions : order.ranks)
    peaks.push_back(peak_of_rank(problem, actions));
  return peaks;
}

bool fits(const SearchProblem& problem, const Order& order) {
  return within_limits(problem, peak_bytes(problem, order));
}

double makespan(const SearchProblem& problem, const Order& order) {
  return replay_stages(order, problem.costs).makespan;
}

std::vector<int> stages_in_order(int pp, int vpp) {
  std::vector<int> ranks;
  for (int stage = 0; stage < pp * vpp; ++stage) ranks.push_back(stage % pp);
  return ranks;
}

std::vector<int> stages_in_a_v(int pp, int vpp) {
  std::vector<int> ranks = stages_in_order(pp, vpp);
  for (int stage = 0; stage < pp * vpp; ++stage) {
    if (stage / pp % 2 == 1) ranks[stage] = pp - 1 - stage % pp;
  }
  return ranks;
}

std::vector<Order> named_orders_for(const SearchProblem& problem) {
  const int pp = problem.pp(), vpp = problem.stages() / pp;
  std::vector<Order> orders;
  for (const OrderTraits& traits : named_orders()) {
    if (traits.chains != 1 || vpp < traits.least_vpp) continue;
    OrderSpec spec{std::string(traits.name), pp, vpp, problem.microbatches};
    spec.stage_costs = problem.costs;
    if (!check_order(spec).ok() || ranks_of_chain(traits, pp, vpp) != problem.rank_of_stage)
      continue;
    orders.push_back(make_order(spec).value());
  }
  return orders;
}

}  // namespace tandem
