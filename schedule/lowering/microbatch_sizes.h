// Microbatch sizes: changes a Program so that its microbatches differ in tokens, as packed
// sequences do.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "schedule/program/program.h"
#include "workload/model/workload.h"

namespace tandem {

// The size of a microbatch relative to one sequence that fills it (or to `micro_batch` such
// sequences): its tokens, and the sum of the squares of its sequences' lengths, to which attention
// is proportional.
struct MicrobatchSize {
  double tokens = 1, squares = 1;

  bool operator==(const MicrobatchSize&) const = default;
};

// The time of a step for a microbatch of any size. One part is proportional to the squares. The
// other grows with the tokens, but not linearly, because short kernels wait for their launches.
struct SizeCost {
  double by_squares = 0;
  std::vector<double> by_tokens;  // at all tokens, half of them, a quarter, ...; linear between

  double of(const MicrobatchSize& size) const;
};

// Fits a cost to measured times: `whole` for a whole microbatch, `halves` for the same tokens in
// sequences of half the length, and `shorter` for as many sequences of half the length, a quarter,
// ... In the result, more tokens or squares never cost less. `whole` is kept exactly; the times of
// other sizes are changed where they contradict this. REQUIRES: at least one shorter size.
SizeCost fit(double whole, double halves, const std::vector<double>& shorter);

// The compute steps of a stage's passes, in their order, by kind of pass (OpKind's first four).
constexpr int kPassKinds = 4;
using StageCosts = std::array<std::vector<SizeCost>, kPassKinds>;

// Fits each step to workloads of those sizes. REQUIRES: the workloads differ in nothing else.
std::vector<StageCosts> fit(const Workload& whole, const Workload& halves,
                            const std::vector<Workload>& shorter);

// Sets the time of each compute op by its stage's costs and its microbatch's size. Multiplies the
// bytes of pipeline, tensor, context and expert communication by the microbatch's tokens. The
// program must be priced after this. `sizes` has one chain's microbatches, then the next one's.
// REQUIRES: a Program lowered from the whole microbatches' workload; a size for every microbatch.
void resize_microbatches(Program* program, std::span<const StageCosts> stages, int chains,
                         std::span<const MicrobatchSize> sizes);

}  // namespace tandem
