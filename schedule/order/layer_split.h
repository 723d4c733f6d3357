// Layer split: how many of a model's layers each stage of a pipeline takes, so that it ends
// soonest. What flows in: what each layer takes, and what the ends have to do besides. What flows
// out: a number of layers for every stage.
#pragma once

#include <cstddef>
#include <optional>
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
  // Multi-token prediction on the stage before the last one, which then has no layer. Nothing: the
  // head's stage has it, if there is any.
  std::optional<OrderCosts> prediction = {};
};

// What the stages take that have so many layers each. Transfers are each.transfer, but over the
// last edge, if prediction is before it, prediction->transfer.
std::vector<OrderCosts> costs_of_split(const LayerCosts& costs, const std::vector<int>& split);

// The split whose busiest rank has the least to do for a microbatch: with a stage a rank, or with
// layers that are all alike, no split is better; else none that moves a layer off that rank is. A
// stage that has nothing else has a layer at least. REQUIRES: as many layers as such stages.
std::vector<int> balanced_split(const LayerCosts& costs, std::span<const int> rank_of_stage);

// Whether the stage can give a layer away, or take one.
bool can_give(const LayerCosts& costs, const std::vector<int>& split, std::size_t stage);
bool can_take(const LayerCosts& costs, const std::vector<int>& split, std::size_t stage);

}  // namespace tandem
