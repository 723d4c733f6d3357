#include "schedule/lower_context.h"

namespace tandem {

bool produces_gradient(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardInput;
}

int source(const Order& order, const Action& action) {
  const int stage = index(action.stage);
  if (action.kind == ActionKind::Forward) return previous_stage(order, stage);
  return produces_gradient(action.kind) ? next_stage(order, stage) : -1;
}

int sink(const Order& order, const Action& action) {
  const int stage = index(action.stage);
  if (action.kind == ActionKind::Forward) return next_stage(order, stage);
  return produces_gradient(action.kind) ? previous_stage(order, stage) : -1;
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
