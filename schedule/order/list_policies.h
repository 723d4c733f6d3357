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

// The building block of a V whose turns a policy follows. A block is what a rank does for one
// microbatch, in time slots. It is repeated every six slots ("Controllable Memory", 3). Half and
// Third are the blocks of V-Half and V-Min.
enum class BuildingBlock : std::uint8_t { None, Half, Third };
inline constexpr int kSlots = 6;

// The slots of a rank's actions for the first microbatch, by chunk. They differ modulo six, so that
// one block fits between the next ones. For that, gradients come later if p is even (Half) or a
// multiple of 3 (Third).
struct BlockSlots {
  std::array<int, 2> forward = {}, input = {};
};
BlockSlots slots_of(BuildingBlock block, int pp, int rank);

inline constexpr int kUnpaced = -1;

// The rule by which a rank decides. W fills the time that is left.
struct Policy {
  std::array<ListChoice, 4> preference;  // the first that is ready is done
  bool weights_first = false;            // do W first if only the limit keeps a forward back
  bool taper = false;   // stages near the end hold fewer activations: F to I takes less time
  int pace = kUnpaced;  // microbatches that enter at once; the others follow one a period
  double patience = 0;  // no W if something comes within this share of it
  BuildingBlock block = BuildingBlock::None;  // if set, its slots replace `preference`
};

// Returns the policies to try for one stage a rank, or two in a V, under a limit of activations a
// rank.
std::vector<Policy> policies_of(int pp, int chunks, int memory_limit);

}  // namespace tandem
