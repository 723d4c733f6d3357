#include "schedule/lower_context.h"

namespace tandem {

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
