// The policies by which list scheduling lets ranks decide what to do next.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedule/order/order.h"

namespace tandem {

// A forward or an input gradient of a chunk: what a rank may do next, besides W.
struct ListChoice {
  ActionKind kind;
  int chunk;
};
inline constexpr ListChoice kF0{ActionKind::Forward, 0}, kF1{ActionKind::Forward, 1};
inline constexpr ListChoice kI0{ActionKind::BackwardInput, 0}, kI1{ActionKind::BackwardInput, 1};

// The building block that a policy follows, for two stages a rank in a V. A building block says in
// which time slots each rank does its actions for one microbatch; the next microbatch does the same
// six slots later (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024, 3). Half and
// Third are the blocks of V-Half and V-Min.
enum class BuildingBlock : std::uint8_t { None, Half, Third };
inline constexpr int kSlots = 6;  // from one microbatch to the next

// The slots of a rank's actions for the first microbatch, by chunk. They differ modulo six, so that
// the blocks of successive microbatches do not collide. To achieve this, gradients come later if pp
// is even (Half) or a multiple of 3 (Third).
struct BlockSlots {
  std::array<int, 2> forward = {}, input = {};
};
BlockSlots slots_of(BuildingBlock block, int pp, int rank);
// Returns the block to follow in a V under a limit of activations a rank; None: memory suffices for
// ZBV.
BuildingBlock block_for(int pp, int memory_limit);

inline constexpr int kUnpaced = -1;

// The rule by which a rank chooses its next F or I. W fills the remaining time.
struct Policy {
  std::array<ListChoice, 4> preference;  // the first that is ready is done
  bool weights_first = false;            // do a W first if a forward waits for memory only
  bool taper = false;   // later stages hold fewer activations, as their gradients return sooner
  int pace = kUnpaced;  // microbatches that enter at once; the others follow one a period
  double patience = 0;  // no W is begun if an input comes within this share of W's time
  BuildingBlock block = BuildingBlock::None;  // if set, its slots replace `preference`
};

// Returns the policies to try for one stage a rank, or two in a V, under a limit of activations a
// rank.
std::vector<Policy> policies_of(int pp, int chunks, int memory_limit);

}  // namespace tandem
