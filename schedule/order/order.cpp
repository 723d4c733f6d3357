#include "schedule/order/order.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "base/check.h"

namespace tandem {
namespace {

// Returns the change of the number of activations that the rank holds.
int change_of_live(ActionKind kind) {
  if (kind == ActionKind::Forward) return 1;
  return produces_gradient(kind) ? -1 : 0;
}

}  // namespace

bool is_compute(ActionKind kind) {
  return kind <= ActionKind::BackwardWeight || is_vocabulary(kind);
}

bool is_vocabulary(ActionKind kind) { return kind >= ActionKind::EmbeddingForward; }

bool has_microbatch(ActionKind kind) {
  return kind != ActionKind::Unshard && kind != ActionKind::Reshard &&
         kind != ActionKind::ReduceGrad;
}

std::vector<int> stage_to_rank(const Order& order) {
  std::vector<int> rank_of_stage(order.stages, -1);
  for (int rank = 0; rank < order.pp(); ++rank) {
    for (const Action& action : order.ranks[rank]) {
      if (!is_compute(action.kind)) continue;
      CHECK(index(action.stage) >= 0 && index(action.stage) < order.stages);
      if (rank_of_stage[index(action.stage)] < 0) rank_of_stage[index(action.stage)] = rank;
    }
  }
  return rank_of_stage;
}

// Returns whether a chain begins at the stage, or would begin after the last one.
static bool begins_chain(const Order& order, int stage) {
  if (order.chains == 1) return stage == 0 || stage == order.stages;  // saves two divisions
  return stage % (order.stages / order.chains) == 0;
}

int next_stage(const Order& order, int stage) {
  return begins_chain(order, stage + 1) ? -1 : stage + 1;
}

int previous_stage(const Order& order, int stage) {
  return begins_chain(order, stage) ? -1 : stage - 1;
}

std::vector<std::size_t> peak_actions(const Order& order) {
  std::vector<std::size_t> peaks;
  for (const std::vector<Action>& actions : order.ranks) {
    int live = 0, peak = 0;
    std::size_t peak_action = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      live += change_of_live(actions[i].kind);
      if (order.trades_layers && actions[i].with_next) continue;
      if (live > peak) {
        peak = live;
        peak_action = i;
      }
    }
    peaks.push_back(peak_action);
  }
  return peaks;
}

std::vector<std::vector<int>> peak_live(const Order& order) {
  const std::vector<int> rank_of_stage = stage_to_rank(order);
  const std::vector<std::size_t> peak = peak_actions(order);
  std::vector<int> live(order.stages);
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    const std::vector<Action>& actions = order.ranks[rank];
    for (std::size_t i = 0; i < actions.size() && i <= peak[rank]; ++i)
      live[index(actions[i].stage)] += change_of_live(actions[i].kind);
  }
  std::vector<std::vector<int>> peaks(order.pp());
  for (int stage = 0; stage < order.stages; ++stage)
    if (rank_of_stage[stage] >= 0) peaks[rank_of_stage[stage]].push_back(live[stage]);
  return peaks;
}

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

bool has_cells(const Order& order) {
  return std::ranges::any_of(order.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, &Action::with_next);
  });
}

std::vector<Action> compute_actions(const std::vector<Action>& actions) {
  std::vector<Action> kept;
  kept.reserve(actions.size());
  std::copy_if(actions.begin(), actions.end(), std::back_inserter(kept),
               [](const Action& action) { return is_compute(action.kind); });
  return kept;
}

Order without_communication(Order order) {
  for (std::vector<Action>& actions : order.ranks) actions = compute_actions(actions);
  return order;
}

}  // namespace tandem
