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
  const auto forward = [&](int chunk) {
    int& done = forwards[chunk];
    if (done == microbatches) return;
    actions.push_back({stage_of(pp, rank, chunk), ActionKind::Forward, Microbatch{done++}});
  };
  const auto input = [&](int chunk) {
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
  for (int i = 0; i < 2 * (pp - rank) - 1; ++i) forward(0);
  for (int i = 0; i < rank; ++i) forward(1), forward(0);
  for (int i = 0; i < pp - rank; ++i) forward(1), input(1);
  while (inputs[0] < microbatches || inputs[1] < microbatches) {
    forward(0);
    input(0);
    forward(1);
    input(1);
  }
  actions.insert(actions.end(), weights.begin(), weights.end());
  return actions;
}

Skeleton zbv(int pp, int microbatches) {
  Skeleton skeleton{{}, true};
  for (int rank = 0; rank < pp; ++rank) skeleton.ranks.push_back(zbv_rank(pp, rank, microbatches));
  return skeleton;
}

// Squeezes building blocks. A block is what all ranks do for one microbatch, each action in a slot
// of time. Each microbatch's block comes kSlots slots after the one before. Then, in the order of
// the slots, each action moves to the first free slot after everything it needs. So the first
// microbatches move to the start as far as memory allows, and the last ones move up at the end.
class SqueezedBlocks {
 public:
  SqueezedBlocks(int pp, int microbatches, int limit, BuildingBlock block)
      : pp_(pp), microbatches_(microbatches), limit_(limit) {
    int last = 0;
    for (int rank = 0; rank < pp; ++rank) {
      RankSlots at{slots_of(block, pp, rank)};
      last = std::max({last, at.slots.input[0], at.slots.input[1]});
      for (auto& kind : at.when)
        for (std::vector<int>& when : kind) when.resize(microbatches);
      ranks_.push_back(std::move(at));
    }
    length_ = last + kSlots * (microbatches + 2);
    for (RankSlots& at : ranks_) {
      at.cells.resize(length_);
      at.held.resize(length_);
    }
  }

  // Squeezes the blocks. With `steady` it moves only the start and the end: actions in the slots
  // from the first microbatch's last gradient to the last microbatch's first forward stay. Without,
  // those move up too, and some ranks then do the same actions in another order. Returns nothing if
  // the blocks do not fit under the limit.
  std::optional<Ranks> squeeze(bool steady) {
    const BlockSlots& first_rank = ranks_[0].slots;
    const int last_forward = first_rank.forward[0] + kSlots * (microbatches_ - 1);
    for (int slot = 0; slot < length_; ++slot) {
      const bool stays = steady && slot >= first_rank.input[0] && slot <= last_forward;
      for (int rank = 0; rank < pp_; ++rank) {
        RankSlots& at = ranks_[rank];
        if (slot > 0) at.held[slot] = at.held[slot - 1];
        const Cell cell = next_of_blocks(rank, slot);
        if (cell.kind == kIdle) continue;
        place(rank, cell, stays ? slot : first_slot(rank, cell, slot), slot);
        if (at.held[slot] > limit_) return std::nullopt;
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
    std::array<std::array<std::vector<int>, 2>, 3> when = {};  // slot by kind, chunk, microbatch
    std::deque<Cell> weights = {};                             // W of the I that are done
  };

  // Returns what the rank does in this slot before anything moves. W fills empty slots.
  Cell next_of_blocks(int rank, int slot) {
    RankSlots& at = ranks_[rank];
    for (const Kind kind : {kForward, kInput}) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        const int since = slot - (kind == kForward ? at.slots.forward : at.slots.input)[chunk];
        if (since < 0 || since % kSlots != 0 || since / kSlots >= microbatches_) continue;
        const Cell cell{kind, chunk, since / kSlots};
        if (kind == kInput) at.weights.push_back({kWeight, chunk, cell.microbatch});
        return cell;
      }
    }
    return next_weight(&at);
  }

  static Cell next_weight(RankSlots* at) {
    if (at->weights.empty()) return {};
    const Cell weight = at->weights.front();
    at->weights.pop_front();
    return weight;
  }

  // Returns the first slot after everything that the action needs.
  int earliest(int rank, const Cell& cell) const {
    const auto when = [&](int of, Kind kind, int chunk, int microbatch) {
      return ranks_[of].when[kind][chunk][microbatch];
    };
    int after = -1;
    const auto waits_for = [&](int slot) { after = std::max(after, slot); };
    const int m = cell.microbatch;
    if (m > 0) waits_for(when(rank, cell.kind, cell.chunk, m - 1));
    if (cell.kind == kWeight) {
      waits_for(when(rank, kInput, cell.chunk, m));
      return after + 1;
    }
    // F0 and I1 go down the ranks, from 0 to pp - 1; F1 and I0 go up.
    const bool down = (cell.kind == kForward) == (cell.chunk == 0);
    const int from = down ? rank - 1 : rank + 1;
    if (from >= 0 && from < pp_) {
      waits_for(when(from, cell.kind, cell.chunk, m));
    } else if (!down) {  // on the last rank, where the V turns
      waits_for(when(rank, cell.kind, 1 - cell.chunk, m));
    } else if (cell.kind == kInput) {  // I1 of rank 0, which has the last stage
      waits_for(when(rank, kForward, 1, m));
    }
    return after + 1;
  }

  // Returns the first free slot for the action, at the latest its own. A forward needs memory from
  // there on.
  int first_slot(int rank, const Cell& cell, int own) const {
    const RankSlots& at = ranks_[rank];
    int slot = earliest(rank, cell);
    if (cell.kind == kForward) {
      for (int later = own - 1; later >= slot; --later)
        if (at.held[later] >= limit_) slot = later + 1;
    }
    while (slot < own && at.cells[slot].kind != kIdle) ++slot;
    return std::min(slot, own);
  }

  // Puts the action into the slot, and counts what it holds from there to slot `now`.
  void place(int rank, const Cell& cell, int slot, int now) {
    RankSlots& at = ranks_[rank];
    at.cells[slot] = cell;
    at.when[cell.kind][cell.chunk][cell.microbatch] = slot;
    const int more = cell.kind == kForward ? 1 : cell.kind == kWeight ? -1 : 0;
    for (int later = slot; later <= now; ++later) at.held[later] += more;
  }

  // Moves up the gradients after each rank's last forward, since other ranks wait for them. Then W
  // fills the free slots.
  void squeeze_drain() {
    std::vector<int> last(pp_);  // slot of the rank's last forward
    for (int rank = 0; rank < pp_; ++rank) {
      RankSlots& at = ranks_[rank];
      last[rank] = std::max(at.when[kForward][0].back(), at.when[kForward][1].back());
      for (int slot = last[rank] + 1; slot < length_; ++slot)
        if (at.cells[slot].kind == kWeight) at.cells[slot] = {};
    }
    for (int slot = 0; slot < length_; ++slot) {
      for (int rank = 0; rank < pp_; ++rank) {
        const Cell cell = ranks_[rank].cells[slot];
        if (slot <= last[rank] || cell.kind != kInput) continue;
        ranks_[rank].cells[slot] = {};
        place(rank, cell, first_slot(rank, cell, slot), -1);
      }
    }
    for (RankSlots& at : ranks_) {
      std::array<std::vector<char>, 2> done;
      for (std::vector<char>& chunk : done) chunk.resize(microbatches_);
      for (const Cell& cell : at.cells)
        if (cell.kind == kWeight) done[cell.chunk][cell.microbatch] = 1;
      for (Cell& cell : at.cells) {
        if (cell.kind == kInput && !done[cell.chunk][cell.microbatch])
          at.weights.push_back({kWeight, cell.chunk, cell.microbatch});
        if (cell.kind == kIdle) cell = next_weight(&at);
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
