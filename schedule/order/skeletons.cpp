// Makes orders from the sizes alone. With one stage a rank: 1F1B, or one with more forwards at the
// start. With two stages a rank in a V (rank r has stages r and 2 pp - 1 - r, its chunks 0 and 1):
// ZBV or, for less memory, the building blocks of V-Half or V-Min, squeezed (Qi et al., "Pipeline
// Parallelism with Controllable Memory", 2024). F is a forward, I an input gradient, W a weight
// gradient; F0 is a forward of chunk 0.
#include "schedule/order/skeletons.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/order/list_policies.h"

namespace tandem {
namespace {

using Ranks = std::vector<std::vector<Action>>;

Stage stage_of(int pp, int rank, int chunk) { return Stage{chunk == 0 ? rank : 2 * pp - 1 - rank}; }

// Returns the skeleton in which each rank does `warm_up` forwards, then I and F in turn.
Skeleton in_turn(int pp, int microbatches, int (*warm_up)(int pp, int rank, int limit), int limit) {
  Skeleton skeleton{Ranks(pp)};
  for (int rank = 0; rank < pp; ++rank) {
    std::vector<Action>& actions = skeleton.ranks[rank];
    int forwards = 0;
    const auto add_forward = [&] {
      if (forwards < microbatches)
        actions.push_back({Stage{rank}, ActionKind::Forward, Microbatch{forwards++}});
    };
    while (forwards < std::min(warm_up(pp, rank, limit), microbatches)) add_forward();
    for (int i = 0; i < microbatches; ++i) {
      actions.push_back({Stage{rank}, ActionKind::BackwardInput, Microbatch{i}});
      add_forward();
    }
  }
  return skeleton;
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
// After the last F, r rounds of I0 and I1 come without W, since other ranks wait for them. The W
// that are left over come at the end.
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
    actions.push_back({stage, ActionKind::BackwardInput, Microbatch{done}});
    weights.push_back({stage, ActionKind::BackwardWeight, Microbatch{done++}});
    if (forwards[0] + forwards[1] == 2 * microbatches) ++drained;
    if (drained > 1 && drained <= 2 * rank + 1) return;
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

Skeleton zbv(int pp, int microbatches) {
  Skeleton skeleton{{}, true};
  for (int rank = 0; rank < pp; ++rank) skeleton.ranks.push_back(zbv_rank(pp, rank, microbatches));
  return skeleton;
}

// Squeezes building blocks. A block holds the actions of all ranks for one microbatch, each in a
// time slot. First, each microbatch's block is laid kSlots slots after the one before. Then, in the
// order of the slots, each action moves to the first free slot after all its inputs. So the first
// microbatches move to the start as far as memory allows, and the last ones move up at the end.
class SqueezedBlocks {
 public:
  SqueezedBlocks(int pp, int microbatches, int limit, BuildingBlock block)
      : pp_(pp), microbatches_(microbatches), limit_(limit) {
    int last = 0;
    for (int rank = 0; rank < pp; ++rank) {
      RankSlots row{slots_of(block, pp, rank)};
      last = std::max({last, row.slots.input[0], row.slots.input[1]});
      for (auto& kind : row.slot_of)
        for (std::vector<int>& slots : kind) slots.resize(microbatches);
      ranks_.push_back(std::move(row));
    }
    length_ = last + kSlots * (microbatches + 2);
    for (RankSlots& row : ranks_) {
      row.cells.resize(length_);
      row.held.resize(length_);
    }
  }

  // Squeezes the blocks. With `steady`, actions move only at the start and the end; those in the
  // slots from the first microbatch's last gradient to the last microbatch's first forward stay.
  // Without `steady` these move up too, which may change the order of actions on a rank. Returns
  // nothing if the blocks do not fit under the limit.
  std::optional<Ranks> squeeze(bool steady) {
    const BlockSlots& first_rank = ranks_[0].slots;
    const int last_forward = first_rank.forward[0] + kSlots * (microbatches_ - 1);
    for (int slot = 0; slot < length_; ++slot) {
      const bool stays = steady && slot >= first_rank.input[0] && slot <= last_forward;
      for (int rank = 0; rank < pp_; ++rank) {
        RankSlots& row = ranks_[rank];
        if (slot > 0) row.held[slot] = row.held[slot - 1];
        const Cell cell = next_of_blocks(rank, slot);
        if (cell.kind == kIdle) continue;
        place(rank, cell, stays ? slot : first_slot(rank, cell, slot), slot);
        if (row.held[slot] > limit_) return std::nullopt;
      }
    }
    squeeze_drain();
    return actions();
  }

 private:
  enum Kind : std::uint8_t { kForward, kInput, kWeight, kIdle };
  struct Cell {
    Kind kind = kIdle;
    int chunk = 0, microbatch = 0;
  };
  struct RankSlots {
    BlockSlots slots = {};
    std::vector<Cell> cells = {};  // by slot: the action
    std::vector<int> held = {};    // by slot: forwards so far whose W is still to come
    std::array<std::array<std::vector<int>, 2>, 3> slot_of = {};  // by kind, chunk, microbatch
    std::deque<Cell> weights = {};                                // W whose I is done, oldest first
  };

  // Returns the rank's action in this slot of the unsqueezed blocks. W fills empty slots.
  Cell next_of_blocks(int rank, int slot) {
    RankSlots& row = ranks_[rank];
    for (const Kind kind : {kForward, kInput}) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        const int since = slot - (kind == kForward ? row.slots.forward : row.slots.input)[chunk];
        if (since < 0 || since % kSlots != 0 || since / kSlots >= microbatches_) continue;
        const Cell cell{kind, chunk, since / kSlots};
        if (kind == kInput) row.weights.push_back({kWeight, chunk, cell.microbatch});
        return cell;
      }
    }
    return next_weight(&row);
  }

  static Cell next_weight(RankSlots* row) {
    if (row->weights.empty()) return {};
    const Cell weight = row->weights.front();
    row->weights.pop_front();
    return weight;
  }

  // Returns the first slot after everything that the action needs.
  int earliest(int rank, const Cell& cell) const {
    const auto slot_on = [&](int other, Kind kind, int chunk, int microbatch) {
      return ranks_[other].slot_of[kind][chunk][microbatch];
    };
    int after = -1;
    const auto waits_for = [&](int slot) { after = std::max(after, slot); };
    const int m = cell.microbatch;
    if (m > 0) waits_for(slot_on(rank, cell.kind, cell.chunk, m - 1));
    if (cell.kind == kWeight) {
      waits_for(slot_on(rank, kInput, cell.chunk, m));
      return after + 1;
    }
    // F0 and I1 go down the ranks, from 0 to pp - 1; F1 and I0 go up.
    const bool down = (cell.kind == kForward) == (cell.chunk == 0);
    const int from = down ? rank - 1 : rank + 1;
    if (from >= 0 && from < pp_) {
      waits_for(slot_on(from, cell.kind, cell.chunk, m));
    } else if (!down) {  // on the last rank, where the V turns
      waits_for(slot_on(rank, cell.kind, 1 - cell.chunk, m));
    } else if (cell.kind == kInput) {  // I1 of rank 0, which has the last stage
      waits_for(slot_on(rank, kForward, 1, m));
    }
    return after + 1;
  }

  // Returns the first free slot for the action, at the latest its own. A forward also needs memory
  // in all slots from that one to its own.
  int first_slot(int rank, const Cell& cell, int own) const {
    const RankSlots& row = ranks_[rank];
    int slot = earliest(rank, cell);
    if (cell.kind == kForward) {
      for (int later = own - 1; later >= slot; --later)
        if (row.held[later] >= limit_) slot = later + 1;
    }
    while (slot < own && row.cells[slot].kind != kIdle) ++slot;
    return std::min(slot, own);
  }

  // Puts the action into the slot, and updates the held activations from there to slot `now`.
  void place(int rank, const Cell& cell, int slot, int now) {
    RankSlots& row = ranks_[rank];
    row.cells[slot] = cell;
    row.slot_of[cell.kind][cell.chunk][cell.microbatch] = slot;
    const int more = cell.kind == kForward ? 1 : cell.kind == kWeight ? -1 : 0;
    for (int later = slot; later <= now; ++later) row.held[later] += more;
  }

  // Moves up the gradients after each rank's last forward, since other ranks wait for them. Then W
  // fills the free slots.
  void squeeze_drain() {
    std::vector<int> last(pp_);  // slot of the rank's last forward
    for (int rank = 0; rank < pp_; ++rank) {
      RankSlots& row = ranks_[rank];
      last[rank] = std::max(row.slot_of[kForward][0].back(), row.slot_of[kForward][1].back());
      for (int slot = last[rank] + 1; slot < length_; ++slot)
        if (row.cells[slot].kind == kWeight) row.cells[slot] = {};
    }
    for (int slot = 0; slot < length_; ++slot) {
      for (int rank = 0; rank < pp_; ++rank) {
        const Cell cell = ranks_[rank].cells[slot];
        if (slot <= last[rank] || cell.kind != kInput) continue;
        ranks_[rank].cells[slot] = {};
        place(rank, cell, first_slot(rank, cell, slot), -1);
      }
    }
    for (RankSlots& row : ranks_) {
      std::array<std::vector<char>, 2> done;
      for (std::vector<char>& chunk : done) chunk.resize(microbatches_);
      for (const Cell& cell : row.cells)
        if (cell.kind == kWeight) done[cell.chunk][cell.microbatch] = 1;
      for (Cell& cell : row.cells) {
        if (cell.kind == kInput && !done[cell.chunk][cell.microbatch])
          row.weights.push_back({kWeight, cell.chunk, cell.microbatch});
        if (cell.kind == kIdle) cell = next_weight(&row);
      }
    }
  }

  Ranks actions() const {
    constexpr ActionKind kKindOf[] = {ActionKind::Forward, ActionKind::BackwardInput,
                                      ActionKind::BackwardWeight};
    Ranks actions(pp_);
    for (int rank = 0; rank < pp_; ++rank) {
      actions[rank].reserve(6UL * microbatches_);
      for (const Cell& cell : ranks_[rank].cells)
        if (cell.kind != kIdle)
          actions[rank].push_back(
              {stage_of(pp_, rank, cell.chunk), kKindOf[cell.kind], Microbatch{cell.microbatch}});
    }
    return actions;
  }

  int pp_, microbatches_, limit_;
  int length_ = 0;
  std::vector<RankSlots> ranks_;
};

}  // namespace

int skeleton_count(int pp, int chunks, int memory_limit) {
  return chunks == 2 && memory_limit >= 2 * pp ? 1 : 2;
}

Skeleton make_skeleton(int which, int pp, int chunks, int microbatches, int memory_limit) {
  if (chunks == 1)
    return in_turn(pp, microbatches, which == 0 ? warm_up_of_1f1b : warm_up_until_gradients,
                   memory_limit);
  if (memory_limit >= 2 * pp) return zbv(pp, microbatches);
  SqueezedBlocks blocks(pp, microbatches, memory_limit,
                        memory_limit <= pp ? BuildingBlock::Third : BuildingBlock::Half);
  std::optional<Ranks> ranks = blocks.squeeze(which == 1);
  if (!ranks) return {};
  return {std::move(*ranks), true};
}

}  // namespace tandem
