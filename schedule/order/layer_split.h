// Layer split: decides how many of a model's layers each stage of a pipeline takes, so that an
// iteration ends soonest. In: the time of each layer, and of what the first and last stages do
// besides. Out: a number of layers for each stage.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"

namespace tandem {

// Times of one microbatch, in any one unit: of the layers in their order, of the first stage's
// embedding, of the last one's head, and of what every stage does, even without layers.
struct LayerCosts {
  std::vector<OrderCosts> layers;
  OrderCosts embedding, head, each;
  // Multi-token prediction on the stage before the last one, which itself then has no layer.
  // Nothing: any prediction is on the head's stage.
  std::optional<OrderCosts> prediction = {};
};

// Returns the times of stages with so many layers each. Transfers take each.transfer; over the last
// edge they take prediction->transfer if prediction is on the stage before it.
std::vector<OrderCosts> costs_of_split(const LayerCosts& costs, const std::vector<int>& split);

// Returns the split whose busiest rank has the least to do for a microbatch. With a stage a rank,
// or with equal layers, no split is better. Otherwise no split is better that moves one layer off
// that rank. A stage that has nothing else gets at least a layer. REQUIRES: no fewer layers than
// such stages.
std::vector<int> balanced_split(const LayerCosts& costs, std::span<const int> rank_of_stage);

// Returns whether the stage can give a layer away, or take one.
bool can_give(const LayerCosts& costs, const std::vector<int>& split, std::size_t stage);
bool can_take(const LayerCosts& costs, const std::vector<int>& split, std::size_t stage);

}  // namespace tandem
