// Makes orders from the sizes alone. With one stage a rank: 1F1B, or one with more forwards at the
// start. With two stages a rank in a V (rank r has stages r and 2 pp - 1 - r, its chunks 0 and 1):
// ZBV or, for less memory, the building blocks of V-Half or V-Min, squeezed (Qi et al., "Pipeline
// Parallelism with Controllable Memory", 2024). F is a forward, I an input gradient, W a weight
// gradient; F0 is a forward of chunk 0.
#include "schedule/order/skeletons.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/order/list_policies.h"

namespace tandem {
namespace {

using Ranks = std::vector<std::vector<Action>>;

Stage stage_of(int pp, int rank, int chunk) { return Stage{chunk == 0 ? rank : 2 * pp - 1 - rank}; }

// Returns the W of an I.
Action weight_of(const Action& input) {
  return {input.stage, ActionKind::BackwardWeight, input.microbatch};
}

// Returns a rank's actions with one stage a rank: `warm_up` forwards, then I and F in turn.
std::vector<Action> in_turn(int rank, int microbatches, int warm_up) {
  std::vector<Action> actions;
  int forwards = 0;
  const auto add_forward = [&] {
    if (forwards < microbatches)
      actions.push_back({Stage{rank}, ActionKind::Forward, Microbatch{forwards++}});
  };
  while (forwards < std::min(warm_up, microbatches)) add_forward();
  for (int i = 0; i < microbatches; ++i) {
    actions.push_back({Stage{rank}, ActionKind::BackwardInput, Microbatch{i}});
    add_forward();
  }
  return actions;
}

// Returns 1F1B's warm-up: `limit` forwards on the first rank and proportionally fewer on later
// ones, rounded up. If limit = pp, these are pp - rank.
int warm_up_of_1f1b(int pp, int rank, int limit) { return (limit * (pp - rank) + pp - 1) / pp; }
// Returns the forwards that a rank has time for until the first gradient comes, if F and I take one
// slot each: the first microbatch comes in slot `rank`, its gradient in slot 2 pp - 1 - rank.
int warm_up_until_gradients(int pp, int rank, int limit) {
  return std::min(limit, 2 * (pp - rank) - 1);
}

// Returns the actions of rank r in ZBV:
//
//   F0, 2 (pp - r) - 1 times    until the first microbatch comes back as F1
//   F1 F0, r times              until the first gradient comes, from rank 0's chunk 1
//   F1 I1 W1, pp - r times      until the gradient comes back to chunk 0
//   F0 I0 W0 F1 I1 W1 ...       until all microbatches are done
//
// After the last F and the I1 and W1 behind it, r rounds of I0 and I1 come without W, since other
// ranks wait for them. The W that are left over come at the end.
std::vector<Action> zbv_rank(int pp, int rank, int microbatches) {
  std::vector<Action> actions;
  actions.reserve(6UL * microbatches);
  std::array<int, 2> forwards = {}, inputs = {};
  std::deque<Action> weights;
  int drained = 0;  // gradients after the last forward
  const auto add_forward = [&](int chunk) {
    int& done = forwards[chunk];
    if (done == microbatches) return;
    actions.push_back({stage_of(pp, rank, chunk), ActionKind::Forward, Microbatch{done++}});
  };
  // Adds an I, and after it the oldest waiting W, except in the drain.
  const auto add_input = [&](int chunk) {
    int& done = inputs[chunk];
    if (done == microbatches) return;
    const Stage stage = stage_of(pp, rank, chunk);
    actions.push_back({stage, ActionKind::BackwardInput, Microbatch{done++}});
    weights.push_back(weight_of(actions.back()));
    if (forwards[0] + forwards[1] == 2 * microbatches) ++drained;
    const bool is_in_rounds_without_w = drained > 1 && drained <= 2 * rank + 1;  // 2 I a round
    if (is_in_rounds_without_w) return;
    actions.push_back(weights.front());
    weights.pop_front();
  };
  for (int i = 0; i < 2 * (pp - rank) - 1; ++i) add_forward(0);
  for (int i = 0; i < rank; ++i) add_forward(1), add_forward(0);
  for (int i = 0; i < pp - rank; ++i) add_forward(1), add_input(1);
  while (inputs[0] < microbatches || inputs[1] < microbatches) {
    add_forward(0);
    add_input(0);
    add_forward(1);
    add_input(1);
  }
  actions.insert(actions.end(), weights.begin(), weights.end());
  return actions;
}

// Squeezes building blocks. A block holds the actions of all ranks for one microbatch, each in a
// time slot. V-Min's block of 2 ranks, for example:
//
//   slot    0  1  2  3  4  5  6  7
//   rank 0  F0 .  .  F1 I1 .  .  I0
//   rank 1  .  F0 F1 .  .  I1 I0 .
//
// First, each microbatch's block is laid kSlots slots after the one before. Then, in the order of
// the slots, each action moves to the first free slot after all its inputs. So the first
// microbatches move to the start as far as memory allows, and the last ones move up at the end.
class SqueezedBlocks {
 public:
  SqueezedBlocks(const ListProblem& problem, BuildingBlock block)
      : pp_(problem.pp), microbatches_(problem.microbatches), limit_(problem.memory_limit) {
    int last = 0;
    for (int rank = 0; rank < pp_; ++rank) {
      const BlockSlots slots = slots_of(block, pp_, rank);
      last = std::max({last, slots.input[0], slots.input[1]});
      rows_.push_back({slots});
    }
    length_ = last + kSlots * (microbatches_ + 2);  // leaves room for the last W
    for (RankRow& row : rows_) {
      row.cells.resize(length_);
      row.held.resize(length_);
    }
    for (std::vector<int>& slots : slots_) slots.resize(2UL * pp_ * microbatches_);
  }

  // Squeezes the blocks. With `steady`, actions move only at the start and the end; those in the
  // slots from the first microbatch's last gradient to the last microbatch's first forward stay.
  // Without `steady` these move up too, which may change the order of actions on a rank. Returns
  // nothing if the blocks do not fit under the limit.
  std::optional<Ranks> squeeze(bool steady) {
    const BlockSlots& first_rank = rows_[0].slots;
    const int last_forward = first_rank.forward[0] + kSlots * (microbatches_ - 1);
    for (int slot = 0; slot < length_; ++slot) {
      const bool stays = steady && slot >= first_rank.input[0] && slot <= last_forward;
      for (int rank = 0; rank < pp_; ++rank) {
        RankRow& row = rows_[rank];
        if (slot > 0) row.held[slot] = row.held[slot - 1];
        std::optional<Action> action = action_of_blocks(rank, slot);
        if (!action) action = next_weight(&row);
        if (!action) continue;
        if (action->kind == ActionKind::BackwardInput) row.weights.push_back(weight_of(*action));
        place(&row, *action, stays ? slot : first_slot(row, *action, slot), slot);
        if (row.held[slot] > limit_) return std::nullopt;
      }
    }
    squeeze_drain();
    return actions();
  }

 private:
  struct RankRow {
    BlockSlots slots = {};
    std::vector<std::optional<Action>> cells = {};  // by slot
    std::vector<int> held = {};       // by slot: forwards so far whose W is still to come
    std::deque<Action> weights = {};  // W whose I is done, oldest first
  };

  // Returns the rank's F or I in this slot of the unsqueezed blocks. W fills the other slots.
  std::optional<Action> action_of_blocks(int rank, int slot) const {
    const BlockSlots& slots = rows_[rank].slots;
    for (const ActionKind kind : {ActionKind::Forward, ActionKind::BackwardInput}) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        const int since = slot - (kind == ActionKind::Forward ? slots.forward : slots.input)[chunk];
        if (since >= 0 && since % kSlots == 0 && since / kSlots < microbatches_)
          return Action{stage_of(pp_, rank, chunk), kind, Microbatch{since / kSlots}};
      }
    }
    return std::nullopt;
  }

  static std::optional<Action> next_weight(RankRow* row) {
    if (row->weights.empty()) return std::nullopt;
    const Action weight = row->weights.front();
    row->weights.pop_front();
    return weight;
  }

  int& slot_of(ActionKind kind, int stage, int microbatch) {
    return slots_[static_cast<std::size_t>(kind)]
                 [static_cast<std::size_t>(stage) * microbatches_ + microbatch];
  }

  // Returns the first slot after the action's input and the preceding microbatch's action.
  int earliest(const Action& action) {
    const int stage = index(action.stage), m = index(action.microbatch);
    const auto after = [&](ActionKind kind, int other) { return slot_of(kind, other, m) + 1; };
    const int in_turn = m > 0 ? slot_of(action.kind, stage, m - 1) + 1 : 0;
    switch (action.kind) {
      case ActionKind::Forward:
        return stage == 0 ? in_turn : std::max(in_turn, after(ActionKind::Forward, stage - 1));
      case ActionKind::BackwardInput:
        return std::max(in_turn, stage == 2 * pp_ - 1
                                     ? after(ActionKind::Forward, stage)
                                     : after(ActionKind::BackwardInput, stage + 1));
      default:
        return std::max(in_turn, after(ActionKind::BackwardInput, stage));
    }
  }

  // Returns the first free slot for the action, at the latest its own. A forward also needs memory
  // in all slots from that one to its own.
  int first_slot(const RankRow& row, const Action& action, int own) {
    int slot = earliest(action);
    if (action.kind == ActionKind::Forward) {
      for (int later = own - 1; later >= slot; --later)
        if (row.held[later] >= limit_) slot = later + 1;
    }
    while (slot < own && row.cells[slot]) ++slot;
    return std::min(slot, own);
  }

  // Puts the action into the slot, and updates the held activations from there to slot `now`.
  void place(RankRow* row, const Action& action, int slot, int now) {
    row->cells[slot] = action;
    slot_of(action.kind, index(action.stage), index(action.microbatch)) = slot;
    int more = 0;
    if (action.kind == ActionKind::Forward) more = 1;
    if (action.kind == ActionKind::BackwardWeight) more = -1;
    for (int later = slot; later <= now; ++later) row->held[later] += more;
  }

  // Moves up the gradients after each rank's last forward, since other ranks wait for them. W
  // before that forward keep their slots. Later W are taken out first, and fill the free slots at
  // the end.
  void squeeze_drain() {
    std::vector<int> last(pp_);  // slot of the rank's last forward
    for (int rank = 0; rank < pp_; ++rank) {
      for (const int chunk : {0, 1})
        last[rank] = std::max(
            last[rank],
            slot_of(ActionKind::Forward, index(stage_of(pp_, rank, chunk)), microbatches_ - 1));
      for (int slot = last[rank] + 1; slot < length_; ++slot)
        if (is_kind(rows_[rank].cells[slot], ActionKind::BackwardWeight))
          rows_[rank].cells[slot].reset();
    }
    for (int slot = 0; slot < length_; ++slot) {
      for (int rank = 0; rank < pp_; ++rank) {
        RankRow& row = rows_[rank];
        if (slot <= last[rank] || !is_kind(row.cells[slot], ActionKind::BackwardInput)) continue;
        const Action input = *std::exchange(row.cells[slot], std::nullopt);
        place(&row, input, first_slot(row, input, slot), slot);
      }
    }
    for (RankRow& row : rows_) fill_with_weights(&row);
  }

  // Puts the W that have no slot into free ones after their I, the oldest first.
  void fill_with_weights(RankRow* row) const {
    // W that kept their slots, by chunk: those of microbatches 0 to placed - 1.
    std::array<int, 2> placed = {};
    const auto chunk_of = [&](const Action& action) { return index(action.stage) < pp_ ? 0 : 1; };
    for (const std::optional<Action>& cell : row->cells)
      if (is_kind(cell, ActionKind::BackwardWeight)) ++placed[chunk_of(*cell)];
    for (std::optional<Action>& cell : row->cells) {
      if (!cell) {
        cell = next_weight(row);
      } else if (cell->kind == ActionKind::BackwardInput &&
                 index(cell->microbatch) >= placed[chunk_of(*cell)]) {
        row->weights.push_back(weight_of(*cell));
      }
    }
  }

  static bool is_kind(const std::optional<Action>& cell, ActionKind kind) {
    return cell && cell->kind == kind;
  }

  Ranks actions() const {
    Ranks actions(pp_);
    for (int rank = 0; rank < pp_; ++rank) {
      actions[rank].reserve(6UL * microbatches_);
      for (const std::optional<Action>& cell : rows_[rank].cells)
        if (cell) actions[rank].push_back(*cell);
    }
    return actions;
  }

  const int pp_, microbatches_, limit_;
  int length_ = 0;
  std::vector<RankRow> rows_;
  std::array<std::vector<int>, 4> slots_;  // by kind, F to W; then by stage and microbatch
};

}  // namespace

std::vector<SkeletonKind> skeleton_kinds(const ListProblem& problem) {
  if (problem.chunks == 1) return {SkeletonKind::OneFOneB, SkeletonKind::ManyForwards};
  if (block_for(problem.pp, problem.memory_limit) == BuildingBlock::None)
    return {SkeletonKind::Zbv};
  return {SkeletonKind::Blocks, SkeletonKind::SteadyBlocks};
}

std::optional<Skeleton> make_skeleton(SkeletonKind kind, const ListProblem& problem) {
  const int pp = problem.pp, microbatches = problem.microbatches, limit = problem.memory_limit;
  if (kind == SkeletonKind::Blocks || kind == SkeletonKind::SteadyBlocks) {
    SqueezedBlocks blocks(problem, block_for(pp, limit));
    std::optional<Ranks> ranks = blocks.squeeze(kind == SkeletonKind::SteadyBlocks);
    if (!ranks) return std::nullopt;
    return Skeleton{std::move(*ranks), true};
  }
  const bool is_zbv = kind == SkeletonKind::Zbv;
  Skeleton skeleton{{}, is_zbv};
  for (int rank = 0; rank < pp; ++rank) {
    const int warm_up = kind == SkeletonKind::OneFOneB ? warm_up_of_1f1b(pp, rank, limit)
                                                       : warm_up_until_gradients(pp, rank, limit);
    skeleton.ranks.push_back(is_zbv ? zbv_rank(pp, rank, microbatches)
                                    : in_turn(rank, microbatches, warm_up));
  }
  return skeleton;
}

}  // namespace tandem
