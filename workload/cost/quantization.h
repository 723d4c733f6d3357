// Quantization: sizes of a model and its plan that leave a GPU's matrix products with part-filled
// tiles and waves, or with unaligned sides, and near sizes that do not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workload/cost/kernel.h"
#include "workload/model/model.h"

namespace tandem {

// A size that wastes more than 5 % of a product against a near one that keeps the plan's rules.
//
// What a product wastes is counted against the same product where nothing is left over: as many of
// it side by side as fill all tiles and waves. So a trend with size, as that deeper products reach
// more of the peak, is no waste, and far neighbours (other numbers of heads) can be compared.
struct WastefulSize {
  std::string key;  // of the scenario: model.hidden, model.heads, ..., parallel.micro_batch
  std::int64_t value = 0;
  std::string remark;   // what follows from it: "head size 108"; or empty
  std::string product;  // the one that loses most, as "fc1 weight gradient"
  Gemm gemm;            // its shape on one GPU
  bool unaligned = false;
  double wasted = 0;  // share of its time
  std::int64_t better = 0;
  std::string better_remark;
  double better_wasted = 0;  // of the same product's time, with the better size
  std::string part;          // "a layer's" or "the head's"
  double gain = 0;  // of what a FLOP of all compute of the part takes, what the better size spares

  bool operator==(const WastefulSize&) const = default;
};

// At most one a dimension, the largest gain first; none that gains its part less than 2 %. Of the
// sizes in reach (5 % for widths, the vocabulary, and a sequence that is no multiple of 64; half
// to twice for heads and microbatches) `better` is the nearest that spares most of the waste.
// Products that overlap.tensor cuts count uncut. Memory is not looked at, nor the bubble. Nothing
// of models with several kinds of layers, or whose heads are not hidden / heads wide: the sizes of
// these hang together otherwise.
//
// REQUIRES: check(model, plan) and check(cost); no cost table.
std::vector<WastefulSize> wasteful_sizes(const Model& model, const Plan& plan,
                                         const CostModel& cost);

// One line: the size, what it costs, what to take instead.
std::string text_of(const WastefulSize& size);

}  // namespace tandem
