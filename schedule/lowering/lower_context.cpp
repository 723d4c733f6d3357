#include "schedule/lowering/lower_context.h"

#include <algorithm>
#include <array>
#include <utility>

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
  // By stage: the microbatches sent to the stage before, and to the next one.
  std::vector<std::array<std::vector<int>, 2>> sent(order.stages);
  for (const std::vector<Action>& actions : order.ranks) {
    for (const Action& action : actions) {
      if (!is_compute(action.kind)) continue;
      const int from = index(action.stage), to = sink(order, action);
      if (context.remote(from, to)) sent[from][from < to].push_back(index(action.microbatch));
    }
  }
  for (int from = 0; from < order.stages; ++from) {
    for (const bool to_next : {false, true}) {
      const Edge edge{from, to_next ? from + 1 : from - 1};
      if (!sent[from][to_next].empty()) context.produced[edge] = std::move(sent[from][to_next]);
    }
  }
  return context;
}

}  // namespace tandem
