// Economics: the time and cost of a training on a number of nodes, from the time of an iteration;
// and the price and power of the nodes, whatever runs on them.
#pragma once

#include <utility>
#include <vector>

#include "base/units.h"
#include "planning/size/goodput.h"
#include "planning/size/size_inputs.h"

namespace tandem {

struct Economics {
  double iterations = 0;
  double ideal_days = 0;  // without failures
  double days_per_T = 0;  // days for a trillion tokens, p50
  double checkpoint_interval_s = 0, goodput = 0, available = 0;
  Wall wall;
  int nodes = 0, spares = 0;
  double energy_MWh = 0;  // p50
  double cost = 0;        // of days_late(): rent, or a share of the purchase, and energy
  double cost_per_T = 0;  // cost of a trillion tokens
  double CO2_t = 0;       // p50, of the energy

  double days_p50() const { return wall.p50_s / day_s; }
  // Returns the days that are not exceeded with the probability size.certainty.
  double days_late() const { return wall.late_s / day_s; }
};

// A training on a machine.
struct Work {
  WorkingNodes working;  // without spares
  double tokens_a_step = 0;
  double iteration_s = 0;                       // at the whole batch
  double ramp_s = 0;                            // all iterations with smaller batches
  double network_price = 0;                     // of switches, cables and optics, if priced alone
  std::pair<double, double> interval = {1, 1};  // factors of the iteration that hold 90 % of runs
  std::vector<double> seeds = {};               // factors of the iteration with other seeds
};
Economics economics(const SizeInputs& inputs, const Work& work);

// Returns the number of nodes that stand by: those wanted, or the idle ones if they are more.
int spare_nodes(const SizeInputs& inputs, const WorkingNodes& working);

// Returns the days of so many years.
double days_of_years(double years);

// The price and power of a number of nodes, spares counted.
struct MachineCosts {
  double purchase = 0;              // 0: rented
  double monthly = 0;               // rent, or purchase over price.years, with energy
  double peak_MW = 0, mean_MW = 0;  // of the site
};
MachineCosts machine_costs(const OfferPrice& price, int nodes, double network_price = 0);

// Returns the cost of so many years with the machine: a purchase each price.years or the rent, and
// the energy.
double cost_of_years(const OfferPrice& price, int nodes, double years, double network_price = 0);

// Returns the most nodes, spares counted, that the limits of purchase, rent, power and GPUs allow,
// as if the network cost nothing; `most` if they allow more.
int nodes_within(const SizeInputs& inputs, int gpus_per_node, int most);

}  // namespace tandem
