// A topological sort of the order's actions, made once. A makespan is then one pass over the sorted
// steps, and the longest path is followed back from the last end.
#include "schedule/order/repeated_replay.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "schedule/order/order_replay.h"

namespace tandem {

RepeatedReplay::TimeOf RepeatedReplay::time_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return Forward;
    case ActionKind::Backward:
      return Backward;
    case ActionKind::BackwardInput:
      return Input;
    default:
      return Weight;
  }
}

// Sorts the steps topologically: it plays the order as replay_order() does, but without times.
class RepeatedReplay::StepMaker {
 public:
  StepMaker(const Order& order, RepeatedReplay* replay)
      : order_(order),
        replay_(*replay),
        rank_of_(stage_to_rank(order)),
        forwards_(order.slots(), -1),
        gradients_(forwards_),
        last_(order.pp(), -1),
        position_(order.pp()) {}

  void run() {
    for (int rank = 0; rank < order_.pp(); ++rank) awake_.push_back(rank);
    while (!awake_.empty()) {
      const int rank = awake_.back();
      awake_.pop_back();
      run(rank);
    }
    for (int rank = 0; rank < order_.pp(); ++rank)
      CHECK(position_[rank] == static_cast<int>(order_.ranks[rank].size()));
  }

 private:
  std::size_t slot(int stage, const Action& action) const {
    return order_.slot(stage, action.microbatch);
  }

  // REQUIRES: source(order, action) >= 0.
  int step_of_input(const Action& action) const {
    return (action.kind == ActionKind::Forward ? forwards_
                                               : gradients_)[slot(source(order_, action), action)];
  }

  bool is_ready(const Action& action) const {
    const int stage = index(action.stage);
    if (action.kind != ActionKind::Forward && forwards_[slot(stage, action)] < 0) return false;
    if (action.kind == ActionKind::BackwardWeight) return gradients_[slot(stage, action)] >= 0;
    return source(order_, action) < 0 || step_of_input(action) >= 0;
  }

  void run(int rank) {
    const std::vector<Action>& actions = order_.ranks[rank];
    int& position = position_[rank];
    while (position < static_cast<int>(actions.size())) {
      const int end = end_of_cell(actions, position);
      for (int i = position; i < end; ++i) {
        if (is_compute(actions[i].kind) && !is_ready(actions[i])) return;
      }
      const bool together = end - position > 1;
      for (int i = position; together && i < end; ++i) {
        if (is_compute(actions[i].kind)) wait(rank, actions[i]);
      }
      for (; position < end; ++position) {
        if (is_compute(actions[position].kind)) act(rank, actions[position], together);
      }
    }
  }

  // Adds a step of the action. `time`: its index in times_. `waits`: whether this step waits for
  // the action's input.
  int add(int rank, const Action& action, int time, bool waits) {
    Step step{.rank = rank, .time = time, .previous = last_[rank], .input = -1};
    const int from = source(order_, action);
    // An input from the same rank has always ended before.
    if (waits && from >= 0 && rank_of_[from] != rank) {
      step.input = step_of_input(action);
      step.transfer = from * Kinds + Transfer;
    }
    last_[rank] = static_cast<int>(replay_.steps_.size());
    replay_.steps_.push_back(step);
    return last_[rank];
  }

  // Adds a step that takes no time, by the 0 at the end of times_.
  void wait(int rank, const Action& action) { add(rank, action, order_.stages * Kinds, true); }

  void act(int rank, const Action& action, bool has_waited) {
    const int stage = index(action.stage), to = sink(order_, action);
    const int step = add(rank, action, stage * Kinds + time_of(action.kind), !has_waited);
    if (action.kind == ActionKind::Forward) forwards_[slot(stage, action)] = step;
    if (produces_gradient(action.kind)) gradients_[slot(stage, action)] = step;
    if (to >= 0) awake_.push_back(rank_of_[to]);
  }

  const Order& order_;
  RepeatedReplay& replay_;
  const std::vector<int> rank_of_;
  std::vector<int> forwards_, gradients_;  // by stage and microbatch: its step, or -1
  std::vector<int> last_;                  // by rank: its last step
  std::vector<int> position_;
  std::vector<int> awake_;
};

RepeatedReplay::RepeatedReplay(const Order& order) : stages_(order.stages) {
  CHECK(order.pp() > 0 && order.vocabulary == 0);
  StepMaker(order, this).run();
  times_.resize(static_cast<std::size_t>(order.stages) * Kinds + 1);
  ends_.resize(steps_.size());
  clocks_.resize(order.pp());
}

double RepeatedReplay::makespan(std::span<const OrderCosts> stages) {
  CHECK(static_cast<int>(stages.size()) == stages_);
  double* time = times_.data();
  for (const OrderCosts& stage : stages) {
    time[Forward] = stage.forward;
    time[Backward] = stage.input + stage.weight;
    time[Input] = stage.input;
    time[Weight] = stage.weight;
    time[Transfer] = stage.transfer;
    time += Kinds;
  }
  std::ranges::fill(clocks_, 0);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    double& clock = clocks_[step.rank];
    if (step.input >= 0) clock = std::max(clock, ends_[step.input] + times_[step.transfer]);
    clock += times_[step.time];
    ends_[i] = clock;
  }
  return *std::ranges::max_element(clocks_);
}

std::vector<PathPasses> RepeatedReplay::longest_way() const {
  std::vector<PathPasses> way(stages_);
  auto i = static_cast<int>(std::ranges::max_element(ends_) - ends_.begin());
  while (i >= 0) {
    const Step& step = steps_[i];
    const int stage = step.time / Kinds;
    if (stage < stages_) {  // else a wait
      const int kind = step.time % Kinds;
      PathPasses& passes = way[stage];
      passes.forward += kind == Forward ? 1 : 0;
      passes.input += kind == Input || kind == Backward ? 1 : 0;
      passes.weight += kind == Weight || kind == Backward ? 1 : 0;
    }
    const double before = step.previous >= 0 ? ends_[step.previous] : 0;
    const bool waited = step.input >= 0 && ends_[step.input] + times_[step.transfer] > before;
    i = waited ? step.input : step.previous;
  }
  return way;
}

}  // namespace tandem
