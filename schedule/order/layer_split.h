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

// Times of one microbatch, in any one unit.
struct LayerCosts {
  std::vector<OrderCosts> layers;  // in the model's order
  OrderCosts embedding;            // on the first stage
  OrderCosts head;                 // on the last stage
  OrderCosts each;                 // on every stage, even without layers
  // Multi-token prediction on the stage before the last one, which itself then has no layer.
  // Nothing: any prediction is on the head's stage.
  std::optional<OrderCosts> prediction = {};
};

// Returns the times of stages with so many layers each. Transfers take each.transfer; over the last
// edge they take prediction->transfer if prediction is on the stage before it.
std::vector<OrderCosts> costs_of_split(const LayerCosts& costs, const std::vector<int>& split);

// Returns a split whose busiest rank takes little time for a microbatch. The split is optimal with
// one stage a rank, or with equal layers. Otherwise it is a local optimum: moving one layer off the
// busiest rank does not help. A stage without embedding, head or prediction gets at least one
// layer. REQUIRES: at least as many layers as such stages.
std::vector<int> balanced_split(const LayerCosts& costs, std::span<const int> rank_of_stage);

// Returns whether the stage can give a layer away, or take one.
bool can_give(const LayerCosts& costs, const std::vector<int>& split, std::size_t stage);
bool can_take(const LayerCosts& costs, const std::vector<int>& split, std::size_t stage);
// Returns the split with one layer moved.
std::vector<int> with_layer_moved(std::vector<int> split, std::size_t from, std::size_t to);

}  // namespace tandem
