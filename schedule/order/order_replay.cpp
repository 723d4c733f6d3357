// Replay by work list: a rank runs until it must wait, and each action that ends wakes the ranks
// that may wait for it. In: an order and its times. Out: when each action starts and ends, or where
// ranks are stuck.
#include "schedule/order/order_replay.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/check.h"
#include "schedule/order/vocabulary.h"

namespace tandem {
namespace {

class WorkList {
 public:
  // `transfers`: by stage, the time of its output's transfer to another rank.
  WorkList(const Order& order, std::vector<GridCosts> stages, std::vector<double> transfers)
      : order_(order),
        vocabulary_(stages.front().vocabulary),
        stages_(std::move(stages)),
        transfers_(std::move(transfers)),
        rank_of_stage_(stage_to_rank(order)),
        forward_end_(static_cast<std::size_t>(order.stages) * order.microbatches, kNotYet),
        gradient_end_(forward_end_),
        awake_(order.pp(), true),
        clock_(order.pp()) {
    for (std::vector<AllRanksPass>& passes : vocabulary_passes_) passes.resize(order.microbatches);
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
  // A vocabulary pass of all ranks: how many have done it, and when the last of them ended.
  struct AllRanksPass {
    int ranks = 0;
    double end = 0;
  };

  std::size_t slot(int stage, const Action& action) const {
    return static_cast<std::size_t>(stage) * order_.microbatches + index(action.microbatch);
  }

  AllRanksPass& all_ranks_pass(ActionKind kind, Microbatch microbatch) {
    return vocabulary_passes_[static_cast<std::size_t>(kind) -
                              static_cast<std::size_t>(ActionKind::EmbeddingForward)]
                             [index(microbatch)];
  }

  // Returns when all inputs of the action have come, including those from vocabulary passes, or
  // kNotYet.
  double ready(const Action& action) {
    const double own = ready_of_stage(action);
    const auto input = vocabulary_input(order_, action, vocabulary_);
    if (!input || own == kNotYet) return own;
    double end = kNotYet;
    if (input->stage < 0) {
      const AllRanksPass& all = all_ranks_pass(input->kind, action.microbatch);
      if (all.ranks == order_.pp()) end = all.end;
    } else {
      const bool forward = input->kind == ActionKind::Forward;
      end = (forward ? forward_end_ : gradient_end_)[slot(input->stage, action)];
    }
    return end == kNotYet ? kNotYet : std::max(own, end + input->delay);
  }

  // Returns when the action's inputs from its own stage and the neighbouring ones have come, or
  // kNotYet.
  double ready_of_stage(const Action& action) const {
    if (is_vocabulary(action.kind)) return 0;
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
      if (order_.vocabulary > 0 && stage == order_.stages - 1) wake_all();
    } else if (action.kind == ActionKind::Backward || action.kind == ActionKind::BackwardInput) {
      gradient_end_[slot(stage, action)] = clock_[rank];
      wake(previous_stage(order_, stage));
      if (order_.vocabulary > 0 && stage == 0) wake_all();
    } else if (is_vocabulary(action.kind)) {
      AllRanksPass& all = all_ranks_pass(action.kind, action.microbatch);
      all.end = std::max(all.end, clock_[rank]);
      if (++all.ranks == order_.pp()) wake_all();
    }
  }

  void wake_all() {
    for (int rank = 0; rank < order_.pp(); ++rank) wake_rank(rank);
  }

  void wake(int stage) {
    if (stage >= 0) wake_rank(rank_of_stage_[stage]);
  }
  void wake_rank(int rank) {
    if (awake_[rank]) return;
    awake_[rank] = true;
    todo_.push_back(rank);
  }

  const Order& order_;
  const VocabularyCosts vocabulary_;
  std::array<std::vector<AllRanksPass>, 4> vocabulary_passes_;  // E, S, T, G, each by microbatch
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

OrderReplay replay_stages(const Order& order, std::span<const OrderCosts> stages,
                          const VocabularyCosts& vocabulary) {
  CHECK(order.pp() > 0 && static_cast<int>(stages.size()) == order.stages);
  std::vector<GridCosts> costs;
  std::vector<double> transfers;
  for (const OrderCosts& stage : stages) {
    costs.push_back({.forward = stage.forward,
                     .backward = stage.input + stage.weight,
                     .input = stage.input,
                     .weight = stage.weight,
                     .vocabulary = vocabulary});
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
    case ActionKind::EmbeddingForward:
      return costs.vocabulary.embedding;
    case ActionKind::OutputS:
      return costs.vocabulary.s;
    case ActionKind::OutputT:
      return costs.vocabulary.t;
    case ActionKind::EmbeddingBackward:
      return costs.vocabulary.embedding_gradient;
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
