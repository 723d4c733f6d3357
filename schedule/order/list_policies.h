// How the ranks of list scheduling decide: the policies that are tried.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedule/order/order.h"

namespace tandem {

// What a rank may do next but for W: a chunk's forward or input gradient.
struct Choice {
  ActionKind kind;
  int chunk;
};
inline constexpr Choice kF0{ActionKind::Forward, 0}, kF1{ActionKind::Forward, 1};
inline constexpr Choice kI0{ActionKind::BackwardInput, 0}, kI1{ActionKind::BackwardInput, 1};

// Which building block of a V an action's turn follows: what a rank does for one microbatch, in
// time slots, again and again every six of them ("Controllable Memory", 3). Half and Third are
// those of V-Half and V-Min.
enum class BuildingBlock : std::uint8_t { None, Half, Third };
inline constexpr int kSlots = 6;

// When a rank does what for the first microbatch, by chunk. Its four slots differ modulo six, so
// that one block fits into the next: where p is even, or a multiple of 3, gradients come later for
// that.
struct BlockSlots {
  std::array<int, 2> forward = {}, input = {};
};
BlockSlots slots_of(BuildingBlock block, int pp, int rank);

inline constexpr int kUnpaced = -1;

// How a rank decides. W fills what time is left.
struct Policy {
  std::array<Choice, 4> preference;  // the first that is ready is done
  bool free_first = false;  // do W before all else where only the limit keeps a forward back
  bool taper = false;       // a stage near the end holds fewer activations: F to I takes less time
  int pace = kUnpaced;      // microbatches that enter at once, before the others, one a period
  double patience = 0;      // no W where something comes within this share of it
  BuildingBlock block = BuildingBlock::None;  // what is ready goes by its slots, not by preference
};

// Those for a pipeline of one stage a rank, or of two in a V, under a limit of activations a rank.
std::vector<Policy> policies_of(int pp, int chunks, int memory_limit);

}  // namespace tandem
