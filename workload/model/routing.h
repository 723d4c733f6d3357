// Routing: which experts the tokens of each layer go to.
//
//   Routing      tokens by layer, exchange and expert, as a file has them
//   RoutedLoad   for a layer and a number of expert-parallel ranks: tokens of the busiest rank
//                divided by those of the mean rank
//
// Ranks wait for the busiest of each exchange. Which rank that is differs from layer to layer, so
// each layer has loads of its own.
#pragma once

#include <map>
#include <vector>

#include "base/result.h"
#include "workload/model/model.h"

namespace tandem {

// The tokens that each expert gets, by expert; and those of each exchange of a layer.
using ExpertTokens = std::vector<double>;
using Exchanges = std::vector<ExpertTokens>;

struct Routing {
  std::map<int, Exchanges> layers;  // by layer, counted from 0
  Exchanges all_layers;             // of every layer that is not in `layers`
};

// Returns the loads for each number of ranks that divides the experts. Rank r of n holds experts
// r E/n to (r+1) E/n - 1 of E. An expert keeps at most `capacity` times the mean expert's tokens;
// 0: all. REQUIRES: each exchange has tokens, and no more experts than `experts`.
std::vector<RoutedLoad> routed_loads(const Exchanges& exchanges, int experts, double capacity);

// Sets the loads of the model's layers. Layers with different loads become kinds of their own,
// named "moe@5" after the first. Nothing changes where every load is even. Errors name the layer:
// it has experts and no tokens; or the model has no such layer or expert.
Status route(const Routing& routing, Model* model);

// Returns the model with equal loads of all experts.
Model evenly_routed(Model model);

}  // namespace tandem
