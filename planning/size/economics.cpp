#include "planning/size/economics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/units.h"

namespace tandem {
namespace {

constexpr double kYear_h = 8766;

}  // namespace

double Economics::days_p50() const { return wall.p50_s / day_s; }
double Economics::days_p95() const { return wall.p95_s / day_s; }

Economics economics(const SizeInputs& inputs, int gpus, int gpus_per_node, double tokens_a_step,
                    double iteration_s, double ramp_s, std::pair<double, double> interval) {
  Economics e;
  const double ramped = ramp_s > 0 ? inputs.ramp_tokens : 0;
  e.iterations = std::ceil(std::max(0.0, inputs.tokens - ramped) / tokens_a_step);
  const double work_s = e.iterations * iteration_s + ramp_s;
  e.ideal_days = work_s / day_s;
  e.nodes = (gpus + gpus_per_node - 1) / gpus_per_node;
  e.spares = inputs.spare_nodes >= 0 ? inputs.spare_nodes
                                     : spares_for(inputs.failures, e.nodes, gpus_per_node);
  e.available = availability(inputs.failures, e.nodes, gpus_per_node, e.spares);
  e.checkpoint_interval_s = checkpoint_interval_s(inputs.failures, gpus);
  e.goodput = goodput(inputs.failures, gpus, e.checkpoint_interval_s) * e.available;
  e.wall = wall_time(inputs.failures, {.work_s = work_s,
                                       .interval = interval,
                                       .interval_s = e.checkpoint_interval_s,
                                       .available = e.available,
                                       .gpus = gpus,
                                       .seed = static_cast<std::uint64_t>(inputs.seed)});
  const double paid = e.nodes + e.spares;
  const double node_hour =
      inputs.node_hour > 0 ? inputs.node_hour : inputs.node / (inputs.years * kYear_h);
  const double kW = paid * inputs.node_kW * inputs.pue;
  e.energy_MWh = kW * e.wall.p50_s / hour_s / 1000;
  e.cost = e.wall.p95_s / hour_s * (paid * node_hour + kW * inputs.kWh);
  e.days_per_T = e.days_p50() / (inputs.tokens / trillion);
  e.cost_per_T = e.cost / (inputs.tokens / trillion);
  return e;
}

}  // namespace tandem
