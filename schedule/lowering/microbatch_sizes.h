// Microbatch sizes: a Program whose microbatches differ in tokens, such as packed sequences.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "schedule/program/program.h"
#include "workload/model/workload.h"

namespace tandem {

// The size of a microbatch, relative to one sequence that fills it (or to `micro_batch` such ones):
// its tokens, and the sum of the squares of its sequences' lengths, to which attention is
// proportional.
struct MicrobatchSize {
  double tokens = 1, squares = 1;

  bool operator==(const MicrobatchSize&) const = default;
};

// The time of a step for a microbatch of any size: a part that is proportional to the squares, and
// a part that grows with the tokens, but in no straight line, because short kernels wait for their
// launches.
struct SizeCost {
  double by_squares = 0;
  std::vector<double> by_tokens;  // of all tokens, half of them, a quarter, ...; straight between

  double of(const MicrobatchSize& size) const;
};

// The cost that is `whole` for a whole microbatch, `halves` for the same tokens in sequences of
// half the length, and `shorter` for as many sequences of half the length, a quarter, ... More
// tokens or squares never cost less, and `whole` is kept exactly: where kernels are wasteful at one
// of the other sizes, that size's figure is changed. REQUIRES: one shorter size.
SizeCost fit(double whole, double halves, const std::vector<double>& shorter);

// A stage's compute steps in their order, by the kind of its passes (OpKind's first four).
constexpr int kPassKinds = 4;
using StageCosts = std::array<std::vector<SizeCost>, kPassKinds>;

// Of workloads as above. REQUIRES: they differ in nothing else.
std::vector<StageCosts> fit(const Workload& whole, const Workload& halves,
                            const std::vector<Workload>& shorter);

// Compute of each microbatch takes what its stage's costs say of its size; pipeline, tensor,
// context and expert communication carries its share of the tokens. To be priced after that.
// `sizes` are of one chain's microbatches, then of the next one's. REQUIRES: a Program lowered from
// the whole microbatches' workload; a size for every microbatch.
void resize_microbatches(Program* program, std::span<const StageCosts> stages, int chains,
                         std::span<const MicrobatchSize> sizes);

}  // namespace tandem
