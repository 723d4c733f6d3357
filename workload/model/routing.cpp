// Sums the tokens of each rank's experts, and splits layers into kinds by the loads that result.
#include "workload/model/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "workload/model/layer_keys.h"

namespace tandem {
namespace {

constexpr double kRounding = 1e-9;  // of sums: tokens such as 0.1 do not add up to the last digit

double sum_of(const std::vector<double>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), 0.0);
}

// Returns the tokens that each rank takes, divided by the mean rank's. The mean includes dropped
// tokens.
std::vector<double> loads_of_ranks(const ExpertTokens& tokens, int experts, int ranks,
                                   double capacity) {
  const double all = sum_of(tokens);
  const double most_of_expert = capacity > 0 ? capacity * all / experts : all;
  std::vector<double> of_rank(ranks);
  for (std::size_t expert = 0; expert < tokens.size(); ++expert)
    of_rank[expert / (experts / ranks)] += std::min(tokens[expert], most_of_expert);
  for (double& load : of_rank) {
    load /= all / ranks;
    if (std::abs(load - 1) < kRounding) load = 1;
  }
  return of_rank;
}

bool is_even(const std::vector<RoutedLoad>& loads) {
  return std::ranges::all_of(
      loads, [](const RoutedLoad& load) { return load.even && load.mean == 1 && load.most == 1; });
}

// Sets the loads of a layer that has experts. The Error says which tokens or experts are missing.
Status set_loads(const Routing& routing, int number, Model* layer) {
  const auto own = routing.layers.find(number);
  const bool has_own = own != routing.layers.end();
  if (!layer->is_moe()) {
    if (!has_own) return Done{};
    return Error{fmt::format("found tokens of layer {}, which has no experts", number)};
  }
  const Exchanges& exchanges = has_own ? own->second : routing.all_layers;
  if (exchanges.empty())
    return Error{fmt::format("found no tokens of layer {}, which has experts", number)};
  for (const ExpertTokens& tokens : exchanges) {
    if (std::ssize(tokens) > layer->experts)
      return Error{fmt::format("found expert {} of layer {}, expected one from 0 to {}",
                               tokens.size() - 1, number, layer->experts - 1)};
  }
  layer->routed = routed_loads(exchanges, layer->experts, layer->capacity_factor);
  return Done{};
}

}  // namespace

std::vector<RoutedLoad> routed_loads(const Exchanges& exchanges, int experts, double capacity) {
  std::vector<RoutedLoad> loads;
  for (int ranks = 1; ranks <= experts; ++ranks) {
    if (experts % ranks != 0) continue;
    RoutedLoad load{ranks, 0, 0};
    double all = 0, taken = 0;
    for (const ExpertTokens& tokens : exchanges) {
      const std::vector<double> of_rank = loads_of_ranks(tokens, experts, ranks, capacity);
      const double busiest = std::ranges::max(of_rank);
      load.mean += busiest / static_cast<double>(exchanges.size());
      load.most = std::max(load.most, busiest);
      load.even &= busiest - *std::ranges::min_element(of_rank) < kRounding;
      all += sum_of(tokens);
      taken += sum_of(tokens) / ranks * sum_of(of_rank);
    }
    if (taken < all * (1 - kRounding)) load.dropped = 1 - taken / all;
    loads.push_back(load);
  }
  return loads;
}

Status route(const Routing& routing, Model* model) {
  for (const auto& [number, exchanges] : routing.layers) {
    if (number >= model->layers)
      return Error{
          fmt::format("found layer {}, expected one from 0 to {}", number, model->layers - 1)};
  }
  std::vector<std::string> names;
  std::vector<Model> kinds;
  bool all_even = true;
  for (int number = 0; number < model->layers; ++number) {
    Model layer = model->layer(number);
    RETURN_IF_ERROR(set_loads(routing, number, &layer));
    all_even &= is_even(layer.routed);
    // Layers that were of one kind stay one if their loads are equal too. In a kind's name "@5"
    // follows the name that it had before.
    const std::string base = layer.kind.empty() ? "layer" : layer.kind;
    auto kind = std::ranges::find_if(kinds, [&](const Model& known) {
      return known.kind.substr(0, known.kind.find('@')) == base && known.routed == layer.routed;
    });
    if (kind == kinds.end()) {
      if (layer.is_moe()) layer.kind = fmt::format("{}@{}", base, number);
      kind = kinds.insert(kinds.end(), std::move(layer));
    }
    names.push_back(kind->kind);
  }
  if (all_even) return Done{};
  return set_layers(names, std::move(kinds), model);
}

Model evenly_routed(Model model) {
  model.expert_imbalance = 1;
  model.routed.clear();
  for (Model& kind : model.kinds) kind = evenly_routed(std::move(kind));
  return model;
}

}  // namespace tandem
