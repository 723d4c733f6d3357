// Puts communication into an order as PyTorch's pipeline runtime lowers it. First each rank by
// itself gathers (UNSHARD) and drops (RESHARD) its stages' parameters and reduces their gradients
// (REDUCE_GRAD). Then sweeps over the ranks put sends and receives in. Declared in
// schedule/order/order_text.h.
//
// A cell is an action, or several that run together. Nothing is put inside a cell.
#include <algorithm>
#include <span>

#include "base/check.h"
#include "schedule/order/order_replay.h"
#include "schedule/order/order_text.h"

namespace tandem {
namespace {

using Actions = std::vector<Action>;

// The number of stages whose parameters a rank holds at once (a compound cell may need more).
constexpr int kActiveStages = 3;

// For each position of a rank's actions, the first few different stages that are used from there
// on, in order of use. Example: before 0F0 2F0 0F1 4F0 these are 0, 2, 4.
class StagesAhead {
 public:
  explicit StagesAhead(const Actions& actions) {
    int longest = 0, cell = 0;
    for (const Action& action : actions) {
      longest = std::max(longest, ++cell);
      if (!action.with_next) cell = 0;
    }
    width_ = std::max(kActiveStages, longest);
    stages_.assign(actions.size() * width_, -1);
    std::vector<int> recent;  // stages by their first use from here on
    for (std::size_t i = actions.size(); i-- > 0;) {
      const int stage = index(actions[i].stage);
      const auto found = std::find(recent.begin(), recent.end(), stage);
      if (found == recent.end()) {
        recent.insert(recent.begin(), stage);
      } else {
        std::rotate(recent.begin(), found, found + 1);
      }
      std::copy_n(recent.begin(), std::min<std::size_t>(recent.size(), width_),
                  stages_.begin() + i * width_);
    }
  }

  // Returns the stages used from `position` on, padded with -1 to a fixed number.
  std::span<const int> at(std::size_t position) const {
    return std::span(stages_).subspan(position * width_, width_);
  }

 private:
  std::size_t width_ = 0;
  std::vector<int> stages_;
};

// Adds UNSHARD and RESHARD of a rank's stages. Before each cell it drops the stages that are not
// among the next ones, in order of stage. Then it gathers those that are missing, in order of use.
Actions with_shards(const Actions& actions) {
  const StagesAhead ahead(actions);
  Actions result;
  result.reserve(actions.size() + 64);
  std::vector<int> active;  // sorted
  for (std::size_t i = 0; i < actions.size();) {
    const std::span<const int> needed = ahead.at(i);
    std::erase_if(active, [&](int stage) {
      if (std::find(needed.begin(), needed.end(), stage) != needed.end()) return false;
      result.push_back({Stage{stage}, ActionKind::Reshard});
      return true;
    });
    for (const int stage : needed) {
      const auto place = std::lower_bound(active.begin(), active.end(), stage);
      if (stage < 0 || (place != active.end() && *place == stage)) continue;
      active.insert(place, stage);
      result.push_back({Stage{stage}, ActionKind::Unshard});
    }
    for (const auto end = static_cast<std::size_t>(end_of_cell(actions, static_cast<int>(i)));
         i < end; ++i)
      result.push_back(actions[i]);
  }
  for (const int stage : active) result.push_back({Stage{stage}, ActionKind::Reshard});
  return result;
}

// Adds REDUCE_GRAD of each stage after the cell with the last of its weight gradients.
Actions with_reductions(const Actions& actions, int stages, int microbatches) {
  Actions result;
  result.reserve(actions.size() + 64);
  std::vector<int> gradients(stages);
  std::vector<Stage> complete;
  for (const Action& action : actions) {
    result.push_back(action);
    const bool weight =
        action.kind == ActionKind::Backward || action.kind == ActionKind::BackwardWeight;
    if (weight && ++gradients[index(action.stage)] == microbatches)
      complete.push_back(action.stage);
    if (action.with_next) continue;
    for (const Stage stage : complete) result.push_back({stage, ActionKind::ReduceGrad});
    complete.clear();
  }
  return result;
}

// Puts SEND and RECV between the ranks' cells. In each sweep over the ranks, each rank does one
// cell if its inputs from other stages have come. The sender appends its SEND to its own list and
// the RECV to its peer's, so both ends see the transfers between them in one order.
class CommSweep {
 public:
  CommSweep(const Order& order, const std::vector<Actions>& cells)
      : order_(order),
        cells_(cells),
        rank_of_stage_(stage_to_rank(order)),
        output_come_(order.slots()),
        gradient_come_(output_come_),
        position_(order.pp()),
        lowered_(order.pp()) {
    for (int rank = 0; rank < order.pp(); ++rank) lowered_[rank].reserve(3 * cells[rank].size());
  }

  std::vector<Actions> run() {
    for (bool done = false; !done;) {
      done = true;
      bool progress = false;
      for (int rank = 0; rank < order_.pp(); ++rank) {
        if (position_[rank] == static_cast<int>(cells_[rank].size())) continue;
        done = false;
        progress |= step(rank);
      }
      CHECK(done || progress);  // a valid order never blocks
    }
    return std::move(lowered_);
  }

 private:
  bool step(int rank) {
    const int begin = position_[rank];
    const int end = end_of_cell(cells_[rank], begin);
    const auto cell = std::span(cells_[rank]).subspan(begin, end - begin);
    if (!std::all_of(cell.begin(), cell.end(), [&](const Action& a) { return ready(a); }))
      return false;
    lowered_[rank].insert(lowered_[rank].end(), cell.begin(), cell.end());
    for (const Action& action : cell) deliver(rank, action);
    position_[rank] = end;
    return true;
  }

  // Returns whether the action's input has come.
  bool ready(const Action& action) const {
    const std::size_t slot = order_.slot(index(action.stage), action.microbatch);
    const bool forward = action.kind == ActionKind::Forward;
    return source(order_, action) < 0 || (forward ? output_come_ : gradient_come_)[slot];
  }

  // Marks the action's output as come, and adds its SEND and RECV if another rank uses it.
  void deliver(int rank, const Action& action) {
    const int to = sink(order_, action);
    if (to < 0) return;
    const bool forward = action.kind == ActionKind::Forward;
    (forward ? output_come_ : gradient_come_)[order_.slot(to, action.microbatch)] = true;
    const int peer = rank_of_stage_[to];
    if (peer == rank) return;
    lowered_[rank].push_back({action.stage,
                              forward ? ActionKind::SendForward : ActionKind::SendBackward,
                              action.microbatch});
    lowered_[peer].push_back({Stage{to},
                              forward ? ActionKind::RecvForward : ActionKind::RecvBackward,
                              action.microbatch});
  }

  const Order& order_;
  const std::vector<Actions>& cells_;
  std::vector<int> rank_of_stage_;
  std::vector<char> output_come_, gradient_come_;  // by consuming stage and microbatch
  std::vector<int> position_;                      // by rank, into its cells
  std::vector<Actions> lowered_;
};

}  // namespace

Order with_communication(const Order& order) {
  std::vector<Actions> cells;
  for (const Actions& actions : order.ranks)
    cells.push_back(
        with_reductions(with_shards(compute_actions(actions)), order.stages, order.microbatches));
  Order lowered = order;
  lowered.ranks = CommSweep(order, cells).run();
  return lowered;
}

}  // namespace tandem
