// Replay by work list: a rank runs until it must wait, and what it does wakes the ranks that may go
// on.
#include "schedule/order/order_replay.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

class WorkList {
 public:
  // `transfers`: by stage, what its output takes to another rank.
  WorkList(const Order& order, std::vector<GridCosts> stages, std::vector<double> transfers)
      : order_(order),
        stages_(std::move(stages)),
        transfers_(std::move(transfers)),
        rank_of_stage_(stage_to_rank(order)),
        forward_end_(static_cast<std::size_t>(order.stages) * order.microbatches, kNotYet),
        gradient_end_(forward_end_),
        awake_(order.pp(), true),
        clock_(order.pp()) {
    result_.reached.resize(order.pp());
    for (const std::vector<Action>& actions : order.ranks)
      result_.spans.emplace_back(actions.size());
    for (int rank = order.pp() - 1; rank >= 0; --rank) todo_.push_back(rank);
  }

  OrderReplay run_all() {
    while (!todo_.empty()) {
      const int rank = todo_.back();
      todo_.pop_back();
      awake_[rank] = false;
      run(rank);
    }
    result_.makespan = *std::max_element(clock_.begin(), clock_.end());
    return std::move(result_);
  }

 private:
  static constexpr double kNotYet = -1;

  std::size_t slot(int stage, const Action& action) const {
    return static_cast<std::size_t>(stage) * order_.microbatches + index(action.microbatch);
  }

  // When all that the action waits for has ended, or kNotYet.
  double ready(const Action& action) const {
    const int stage = index(action.stage);
    if (action.kind == ActionKind::Forward) {
      const int before = previous_stage(order_, stage);
      return before < 0 ? 0 : arrived(before, stage, forward_end_[slot(before, action)]);
    }
    if (action.kind == ActionKind::BackwardWeight) return gradient_end_[slot(stage, action)];
    const double own = forward_end_[slot(stage, action)];
    const int after = next_stage(order_, stage);
    if (after < 0 || own == kNotYet) return own;
    const double gradient = arrived(after, stage, gradient_end_[slot(after, action)]);
    return gradient == kNotYet ? kNotYet : std::max(own, gradient);
  }

  double arrived(int from, int to, double end) const {
    if (end == kNotYet || rank_of_stage_[from] == rank_of_stage_[to]) return end;
    return end + transfers_[from];
  }

  void run(int rank) {
    const std::vector<Action>& actions = order_.ranks[rank];
    int& position = result_.reached[rank];
    while (position < static_cast<int>(actions.size())) {
      const int end = end_of_cell(actions, position);
      double start = clock_[rank];
      for (int i = position; i < end; ++i) {
        if (!is_compute(actions[i].kind)) continue;
        const double when = ready(actions[i]);
        if (when == kNotYet) return;
        start = std::max(start, when);
      }
      clock_[rank] = start;
      for (; position < end; ++position)
        finish(rank, actions[position], &result_.spans[rank][position]);
    }
  }

  void finish(int rank, const Action& action, OrderReplay::Span* span) {
    const double start = clock_[rank];
    if (is_compute(action.kind)) clock_[rank] += cost_of(stages_[index(action.stage)], action.kind);
    *span = {start, clock_[rank]};
    const int stage = index(action.stage);
    if (action.kind == ActionKind::Forward) {
      forward_end_[slot(stage, action)] = clock_[rank];
      wake(next_stage(order_, stage));
    } else if (action.kind == ActionKind::Backward || action.kind == ActionKind::BackwardInput) {
      gradient_end_[slot(stage, action)] = clock_[rank];
      wake(previous_stage(order_, stage));
    }
  }

  void wake(int stage) {
    if (stage < 0 || awake_[rank_of_stage_[stage]]) return;
    awake_[rank_of_stage_[stage]] = true;
    todo_.push_back(rank_of_stage_[stage]);
  }

  const Order& order_;
  std::vector<GridCosts> stages_;
  std::vector<double> transfers_;
  std::vector<int> rank_of_stage_;
  std::vector<double> forward_end_, gradient_end_;  // by stage and microbatch
  std::vector<char> awake_;                         // by rank: is in todo_
  std::vector<int> todo_;
  std::vector<double> clock_;  // by rank: the end of its last action
  OrderReplay result_;
};

}  // namespace

OrderReplay replay_order(const Order& order, const GridCosts& costs) {
  CHECK(order.pp() > 0);
  return WorkList(order, std::vector(order.stages, costs), std::vector<double>(order.stages))
      .run_all();
}

OrderReplay replay_stages(const Order& order, std::span<const OrderCosts> stages) {
  CHECK(order.pp() > 0 && static_cast<int>(stages.size()) == order.stages);
  std::vector<GridCosts> costs;
  std::vector<double> transfers;
  for (const OrderCosts& stage : stages) {
    costs.push_back({.forward = stage.forward,
                     .backward = stage.input + stage.weight,
                     .input = stage.input,
                     .weight = stage.weight});
    transfers.push_back(stage.transfer);
  }
  return WorkList(order, std::move(costs), std::move(transfers)).run_all();
}

double cost_of(const GridCosts& costs, ActionKind kind) {
  CHECK(is_compute(kind));
  switch (kind) {
    case ActionKind::Forward:
      return costs.forward;
    case ActionKind::Backward:
      return costs.backward;
    case ActionKind::BackwardInput:
      return costs.input;
    default:
      return costs.weight;
  }
}

int end_of_cell(const std::vector<Action>& actions, int position) {
  const int size = static_cast<int>(actions.size());
  while (position < size && actions[position].with_next) ++position;
  return std::min(position + 1, size);
}

}  // namespace tandem
