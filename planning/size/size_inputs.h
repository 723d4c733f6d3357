// SizeInputs: the inputs of a sizing: the keys of [size], [price] and [failures] in a scenario
// file.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "planning/size/goodput.h"
#include "planning/size/network_bill.h"
#include "scenarios/setting.h"

namespace tandem {

// The price and the power of an offer. A node is bought (`node`) or rented (`node_hour`).
// `network`: prices of the switches, optics and cables between bought nodes. Empty: the node's
// price includes them.
struct OfferPrice {
  double node_hour = 0;        // of a node for an hour
  double node = 0, years = 4;  // of a node, and the years for which it is used
  std::optional<NetworkPrices> network;
  double node_kW = 0;  // the most that a node draws
  double load = 0.76;  // mean power in training over node_kW
  double pue = 1.2, kWh = 0, gCO2_kWh = 0;
  std::string currency = "$";

  bool bought() const { return node > 0; }
  bool operator==(const OfferPrice&) const = default;
};

struct SizeInputs {
  // The question. 0: not asked, or no limit.
  double tokens = 0;                      // of the whole training
  double days = 0;                        // the most that the training may take
  double certainty = 0.95;                // the probability with which days and budget are kept
  double budget = 0;                      // the most that the training may cost
  double purchase_budget = 0;             // the most for all nodes that are bought, spares counted
  double rent_per_month = 0;              // the most for all nodes that are rented, with energy
  double power_MW = 0;                    // the most that the site draws
  int gpus_max = 0;                       // the most that are bought or rented, spares counted
  double years = 0;                       // 0: years_of_total() has them from the price
  double weight = 1;                      // how often the training runs; costs add up by it
  std::vector<int> gpus;                  // numbers to try; none: the search finds them
  double batch_tolerance = 0.1;           // share by which the batch may differ from global_batch
  bool any_numerics = true;               // precision, recipe and dispatcher are searched
  double ramp_from = 0, ramp_tokens = 0;  // the batch ramp's first batch (0: no ramp), its tokens
  double delivery_days = 0;  // from the order to the job; 0 but for the first on a machine
  // The ranges over which a tornado changes inputs, as factors.
  std::pair<double, double> range_price = {0.9, 1.1}, range_kWh = {0.5, 2},
                            range_tokens = {0.9, 1.1}, range_MFU = {0.9, 1.1},
                            range_network = {0.9, 1.1}, range_failures = {0.5, 2},
                            range_delivery = {0.5, 2};
  double seed = 1;
  int spare_nodes = -1;  // -1: as many as keep the job running 99 % of the time
  OfferPrice price;
  Failures failures;

  bool chooses_spares() const { return spare_nodes < 0; }

  // Returns the years over which the total cost is counted. Nothing: it is the jobs' own rent.
  std::optional<double> years_of_total() const {
    if (years > 0) return years;
    if (price.bought()) return price.years;
    return std::nullopt;
  }
};

// Takes the keys of the three tables out of the settings. Errors: unknown keys (with the nearest
// known one), numbers out of range, and missing keys.
Result<SizeInputs> take_size_inputs(const std::string& path, Settings* settings);

// Returns each key that still has its default, with the default as the help states it.
std::vector<std::pair<std::string, std::string>> defaults_taken(const Settings& settings);

// Returns every key with its help. docs/planning.md has them all (tested).
std::vector<std::pair<std::string, std::string>> size_keys();

}  // namespace tandem
