#include "schedule/lowering/lower_context.h"

#include <algorithm>

namespace tandem {

std::vector<int> Context::holders(int rank) const {
  std::vector<int> ranks = {rank};
  const int per_chain = order.stages / order.chains;
  for (int stage = 0; stage < order.stages; ++stage) {
    if (rank_of_stage[stage] != rank) continue;
    for (int copy = stage % per_chain; copy < order.stages; copy += per_chain)
      ranks.push_back(rank_of_stage[copy]);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Context make_context(const Order& order, const Workload& work, const LowerOptions& options) {
  Context context{order, work, options, stage_to_rank(order), {}};
  for (const std::vector<Action>& actions : order.ranks) {
    for (const Action& action : actions) {
      if (!is_compute(action.kind)) continue;
      const int from = index(action.stage), to = sink(order, action);
      if (context.remote(from, to))
        context.produced[{from, to}].push_back(index(action.microbatch));
    }
  }
  return context;
}

}  // namespace tandem
