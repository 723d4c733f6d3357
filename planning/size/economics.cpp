#include "planning/size/economics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tandem {
namespace {

constexpr double kYear_h = 8766, kMonth_h = kYear_h / 12;

// Returns the price of the nodes and their network for an hour.
double hour_of(const OfferPrice& price, double nodes, double network_price) {
  if (!price.bought()) return nodes * price.node_hour;
  return (nodes * price.node + network_price) / (price.years * kYear_h);
}

// Returns the mean kW that the site draws for each node in training.
double mean_kW(const OfferPrice& price) { return price.node_kW * price.load * price.pue; }

}  // namespace

double days_of_years(double years) { return years * kYear_h / 24; }

int spare_nodes(const SizeInputs& inputs, const WorkingNodes& working) {
  const int wanted =
      inputs.chooses_spares() ? spares_for(inputs.failures, working) : inputs.spare_nodes;
  return std::max(wanted, working.idle_nodes);
}

Economics economics(const SizeInputs& inputs, const Work& work) {
  Economics e;
  const WorkingNodes& working = work.working;
  const int gpus = working.nodes * working.gpus_a_node;
  const double ramped = work.ramp_s > 0 ? inputs.ramp_tokens : 0;
  e.iterations = std::ceil(std::max(0.0, inputs.tokens - ramped) / work.tokens_a_step);
  const double work_s = e.iterations * work.iteration_s + work.ramp_s;
  e.ideal_days = work_s / day_s;
  e.nodes = working.nodes;
  e.spares = spare_nodes(inputs, working);
  e.available = availability(inputs.failures, working, e.spares);
  e.checkpoint_interval_s = checkpoint_interval_s(inputs.failures, gpus);
  e.goodput = goodput(inputs.failures, gpus, e.checkpoint_interval_s) * e.available;
  e.wall = wall_time(inputs.failures, {.work_s = work_s,
                                       .interval = work.interval,
                                       .seeds = work.seeds,
                                       .interval_s = e.checkpoint_interval_s,
                                       .available = e.available,
                                       .gpus = gpus,
                                       .certainty = inputs.certainty,
                                       .seed = static_cast<std::uint64_t>(inputs.seed)});
  const double paid = e.nodes + e.spares;
  e.energy_MWh = paid * mean_kW(inputs.price) * e.wall.p50_s / hour_s / 1000;
  e.CO2_t = e.energy_MWh * inputs.price.gCO2_kWh / 1000;
  e.cost = e.wall.late_s / hour_s *
           (hour_of(inputs.price, paid, work.network_price) +
            paid * mean_kW(inputs.price) * inputs.price.kWh);
  e.days_per_T = e.days_p50() / (inputs.tokens / trillion);
  e.cost_per_T = e.cost / (inputs.tokens / trillion);
  return e;
}

MachineCosts machine_costs(const OfferPrice& price, int nodes, double network_price) {
  return {.purchase = nodes * price.node + network_price,
          .monthly = kMonth_h *
                     (hour_of(price, nodes, network_price) + nodes * mean_kW(price) * price.kWh),
          .peak_MW = nodes * price.node_kW * price.pue / 1000,
          .mean_MW = nodes * mean_kW(price) / 1000};
}

double cost_of_years(const OfferPrice& price, int nodes, double years, double network_price) {
  const double purchases = std::ceil(years / price.years * (1 - 1e-12));  // 1e-12: against rounding
  const double node = price.bought() ? purchases * price.node : price.node_hour * kYear_h * years;
  return nodes * (node + mean_kW(price) * price.kWh * kYear_h * years) + purchases * network_price;
}

int nodes_within(const SizeInputs& inputs, int gpus_per_node, int most) {
  double nodes = most;
  // Applies a limit of `all` nodes together, if each takes `a_node` of it. 1e-12: against rounding.
  const auto limit = [&](double all, double a_node) {
    if (all > 0 && a_node > 0) nodes = std::min(nodes, std::floor(all / a_node * (1 + 1e-12)));
  };
  limit(inputs.gpus_max, gpus_per_node);
  limit(inputs.purchase_budget, inputs.price.node);
  limit(inputs.rent_per_month,
        kMonth_h * (inputs.price.node_hour + mean_kW(inputs.price) * inputs.price.kWh));
  limit(inputs.power_MW, inputs.price.node_kW * inputs.price.pue / 1000);
  return static_cast<int>(nodes);
}

}  // namespace tandem
