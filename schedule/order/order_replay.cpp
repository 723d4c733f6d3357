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
  // `costs`: the times of each stage's actions. `stages`: as PassEnds has them.
  WorkList(const Order& order, std::vector<GridCosts> costs, std::span<const OrderCosts> stages,
           EdgeSharing sharing = EdgeSharing::AtOnce)
      : order_(order),
        vocabulary_(costs.front().vocabulary),
        costs_(std::move(costs)),
        rank_of_stage_(stage_to_rank(order)),
        ends_(order, stages, sharing),
        awake_(order.pp(), true),
        clock_(order.pp()) {
    for (std::vector<AllRanksPass>& passes : vocabulary_passes_)
      passes.assign(order.microbatches, {order.pp()});
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
  AllRanksPass& all_ranks_pass(ActionKind kind, Microbatch microbatch) {
    return vocabulary_passes_[static_cast<std::size_t>(kind) -
                              static_cast<std::size_t>(ActionKind::EmbeddingForward)]
                             [index(microbatch)];
  }

  // Returns when all inputs of the action have come, including those from vocabulary passes.
  double ready(const Action& action) {
    const double own = is_vocabulary(action.kind) ? 0 : ends_.ready(action);
    const auto input = vocabulary_input(order_, action, vocabulary_);
    if (!input) return own;
    return std::max(own, end_of(*input, action.microbatch) + input->delay);
  }

  double end_of(const VocabularyInput& input, Microbatch microbatch) {
    if (input.stage < 0) return all_ranks_pass(input.kind, microbatch).end_on_all();
    if (input.kind == ActionKind::Forward) return ends_.end_of_forward(input.stage, microbatch);
    return ends_.end_of_gradient(input.stage, microbatch);
  }

  void run(int rank) {
    const std::vector<Action>& actions = order_.ranks[rank];
    int& position = result_.reached[rank];
    while (position < static_cast<int>(actions.size())) {
      const int end = end_of_cell(actions, position);
      double start = clock_[rank];
      for (int i = position; i < end; ++i) {
        if (is_compute(actions[i].kind)) start = std::max(start, ready(actions[i]));
      }
      if (start == kNotYet) return;
      clock_[rank] = start;
      for (; position < end; ++position)
        finish(rank, actions[position], &result_.spans[rank][position]);
    }
  }

  void finish(int rank, const Action& action, OrderReplay::Span* span) {
    const double start = clock_[rank];
    if (is_compute(action.kind)) clock_[rank] += cost_of(costs_[index(action.stage)], action.kind);
    *span = {start, clock_[rank]};
    ends_.note(action, clock_[rank]);
    if (is_vocabulary(action.kind)) {
      AllRanksPass& all = all_ranks_pass(action.kind, action.microbatch);
      all.note(clock_[rank]);
      if (all.ranks_left == 0) wake_all();
    } else if (action.kind == ActionKind::Forward || produces_gradient(action.kind)) {
      const int to = sink(order_, action);
      if (to >= 0) wake(rank_of_stage_[to]);
      if (to < 0 && order_.vocabulary > 0) wake_all();  // for S or G, on every rank
    }
  }

  void wake_all() {
    for (int rank = 0; rank < order_.pp(); ++rank) wake(rank);
  }
  void wake(int rank) {
    if (awake_[rank]) return;
    awake_[rank] = true;
    todo_.push_back(rank);
  }

  const Order& order_;
  const VocabularyCosts vocabulary_;
  std::array<std::vector<AllRanksPass>, 4> vocabulary_passes_;  // E, S, T, G, each by microbatch
  const std::vector<GridCosts> costs_;
  const std::vector<int> rank_of_stage_;
  PassEnds ends_;
  std::vector<char> awake_;  // by rank: is in todo_
  std::vector<int> todo_;
  std::vector<double> clock_;  // by rank: the end of its last action
  OrderReplay result_;
};

OrderReplay replay_shared(const Order& order, std::span<const OrderCosts> stages,
                          const VocabularyCosts& vocabulary, EdgeSharing sharing) {
  CHECK(order.pp() > 0 && static_cast<int>(stages.size()) == order.stages);
  std::vector<GridCosts> costs;
  for (const OrderCosts& stage : stages)
    costs.push_back({.forward = stage.forward,
                     .backward = stage.input + stage.weight,
                     .input = stage.input,
                     .weight = stage.weight,
                     .vocabulary = vocabulary});
  return WorkList(order, std::move(costs), stages, sharing).run_all();
}

}  // namespace

OrderReplay replay_order(const Order& order, const GridCosts& costs) {
  CHECK(order.pp() > 0);
  return WorkList(order, std::vector(order.stages, costs), std::vector<OrderCosts>(order.stages))
      .run_all();
}

OrderReplay replay_stages(const Order& order, std::span<const OrderCosts> stages,
                          const VocabularyCosts& vocabulary) {
  return replay_shared(order, stages, vocabulary, EdgeSharing::AtOnce);
}

OrderReplay replay_queued(const Order& order, std::span<const OrderCosts> stages) {
  return replay_shared(order, stages, {}, EdgeSharing::InTurn);
}

PassEnds::PassEnds(const Order& order, std::span<const OrderCosts> stages, EdgeSharing sharing)
    : order_(order),
      sharing_(sharing),
      rank_of_stage_(stage_to_rank(order)),
      forward_(order.slots()),
      gradient_(order.slots()),
      edge_to_next_free_(order.stages),
      edge_back_free_(order.stages) {
  for (const OrderCosts& stage : stages) transfers_.push_back(stage.transfer);
}

void PassEnds::note(const Action& action, double end) {
  const bool is_forward = action.kind == ActionKind::Forward;
  if (!is_forward && !produces_gradient(action.kind)) return;
  const int stage = index(action.stage), to = sink(order_, action);
  double sent = end;
  if (sharing_ == EdgeSharing::InTurn && to >= 0 && rank_of_stage_[stage] != rank_of_stage_[to]) {
    double& free = (is_forward ? edge_to_next_free_ : edge_back_free_)[stage];
    sent = std::max(end, free);
    free = sent + transfers_[stage];
  }
  (is_forward ? forward_ : gradient_)[order_.slot(stage, action.microbatch)] = {end, sent};
}

double PassEnds::ready(const Action& action) const {
  const Microbatch microbatch = action.microbatch;
  const int stage = index(action.stage), from = source(order_, action);
  if (action.kind == ActionKind::Forward)
    return from < 0 ? 0 : arrival(from, stage, forward_[order_.slot(from, microbatch)].sent);
  if (action.kind == ActionKind::BackwardWeight) return end_of_gradient(stage, microbatch);
  const double own = end_of_forward(stage, microbatch);
  if (from < 0) return own;
  return std::max(own, arrival(from, stage, gradient_[order_.slot(from, microbatch)].sent));
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

double cost_of(const OrderCosts& costs, ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return costs.forward;
    case ActionKind::Backward:
      return costs.input + costs.weight;
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
