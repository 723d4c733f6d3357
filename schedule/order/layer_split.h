// Layer split: how many of a model's layers each stage of a pipeline takes, so that it ends
// soonest. What flows in: what each layer takes, and what the ends have to do besides. What flows
// out: a number of layers for every stage.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"

namespace tandem {

// Of one microbatch, in any one unit: layers in their order; the first stage's embedding, the last
// one's head, and what every stage has, be it empty.
struct LayerCosts {
  std::vector<OrderCosts> layers;
  OrderCosts embedding, head, each;
};

// What the stages take that have so many layers each. Transfers are each.transfer.
std::vector<OrderCosts> costs_of_split(const LayerCosts& costs, const std::vector<int>& split);

// The split whose busiest rank has the least to do for a microbatch: with a stage a rank, or with
// layers that are all alike, no split is better; else none that moves a layer off that rank is. A
// stage between the ends has a layer at least. REQUIRES: at most two layers fewer than stages.
std::vector<int> balanced_split(const LayerCosts& costs, std::span<const int> rank_of_stage);

// What a split comes to: those that fit go before those that do not.
struct SplitValue {
  bool fits = true;
  double time = 0;

  bool better_than(const SplitValue& other) const {
    return fits != other.fits ? fits : time < other.time;
  }
};

// The best first: the splits passed by from each of `starts` on, a layer going from one stage to
// another, always where that is worth the most, until `most` splits have been asked for. The same
// input gives the same splits.
std::vector<std::vector<int>> refined_splits(
    const std::vector<std::vector<int>>& starts, int most,
    const std::function<SplitValue(const std::vector<int>&)>& value);

}  // namespace tandem
