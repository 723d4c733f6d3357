// Quantization: finds sizes of a model and its plan that leave a GPU's matrix products with
// part-filled tiles and waves, or with unaligned sides, and near sizes that do not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workload/cost/kernel.h"
#include "workload/model/model.h"

namespace tandem {

// A size that wastes more than 5 % of a product, compared with a near one that keeps the plan's
// rules.
//
// The waste of a product is counted against the same product with nothing left over: many of it
// side by side, so that they fill all tiles and waves. So a trend with size is no waste (deeper
// products reach more of the peak), and far neighbours, such as other numbers of heads, can be
// compared.
struct WastefulSize {
  std::string key;  // the scenario's: model.hidden, model.heads, ..., parallel.micro_batch
  std::int64_t value = 0;
  std::string remark;   // what follows from the size: "head size 108"; or empty
  std::string product;  // the one that loses most time: "fc1 weight gradient"
  Gemm gemm;            // its shape on one GPU
  bool unaligned = false;
  double wasted = 0;  // share of the product's time
  std::int64_t better = 0;
  std::string better_remark;
  double better_wasted = 0;  // share of the same product's time with the better size
  std::string part;          // "a layer's" or "the head's"
  double gain = 0;           // spared share of the time of a FLOP, over all compute of the part

  bool operator==(const WastefulSize&) const = default;
};

// Returns at most one size for each dimension, the largest gain first, and none whose part gains
// less than 2 %. `better` is the nearest size that spares most of the waste that sizes in reach can
// spare. In reach are 5 % for widths, the vocabulary, and a sequence that is no multiple of 64, and
// half to twice for heads and microbatches.
//
// Products that overlap.tensor cuts count uncut. Memory and the bubble are not considered. Returns
// nothing for models with several kinds of layers, or whose heads are not hidden / heads wide:
// their sizes depend on each other in other ways.
//
// REQUIRES: check_model(model, plan) and check_cost_model(cost); no cost table.
std::vector<WastefulSize> wasteful_sizes(const Model& model, const Plan& plan,
                                         const CostModel& cost);

// Returns one line: the size, what it costs, what to take instead.
std::string wasteful_size_text(const WastefulSize& size);

}  // namespace tandem
