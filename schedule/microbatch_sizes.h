// Microbatch sizes: a Program whose microbatches differ in tokens, such as packed sequences.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "schedule/program.h"
#include "workload/workload.h"

namespace tandem {

// What a microbatch has of one sequence that fills it (or of `micro_batch` such ones): of its
// tokens, and of the sum of its sequences' squares, which attention goes with.
struct MicrobatchSize {
  double tokens = 1, squares = 1;

  bool operator==(const MicrobatchSize&) const = default;
};

// What something takes of a microbatch of any size: once, by tokens and by squares.
struct SizeCost {
  double once = 0, by_tokens = 0, by_squares = 0;

  double of(const MicrobatchSize& size) const {
    return once + by_tokens * size.tokens + by_squares * size.squares;
  }
};

// The one that takes `whole` of a whole microbatch, `halves` of the same tokens in sequences of
// half the length, `half` of half as many of these. No part is below 0 and `whole` is kept: where
// kernels are wasteful at one of the sizes, the other two figures give way.
SizeCost fit(double whole, double halves, double half);

// A stage's compute steps in their order, by the kind of its passes (OpKind's first four).
constexpr int kPassKinds = 4;
using StageCosts = std::array<std::vector<SizeCost>, kPassKinds>;

// Of three workloads of one plan and cluster, as above. REQUIRES: they differ in nothing else.
std::vector<StageCosts> fit(const Workload& whole, const Workload& halves, const Workload& half);

// Compute of each microbatch takes what its stage's costs say of its size; pipeline, tensor,
// context and expert communication carries its share of the tokens. To be priced after that.
// `sizes` are of one chain's microbatches, then of the next one's. REQUIRES: a Program lowered from
// the whole microbatches' workload; a size for every microbatch.
void resize_microbatches(Program* program, std::span<const StageCosts> stages, int chains,
                         std::span<const MicrobatchSize> sizes);

}  // namespace tandem
