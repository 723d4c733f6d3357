// Economics: the time and cost of a training on so many GPUs, from the time of an iteration.
#pragma once

#include <utility>

#include "planning/size/goodput.h"
#include "planning/size/size_inputs.h"

namespace tandem {

struct Economics {
  double iterations = 0;
  double ideal_days = 0;  // without failures
  double days_per_T = 0;  // days for a trillion tokens, p50
  double checkpoint_interval_s = 0, goodput = 0, available = 0;
  Wall wall;  // p50 and p95
  int nodes = 0, spares = 0;
  double energy_MWh = 0;  // p50
  double cost = 0;        // p95, with energy
  double cost_per_T = 0;  // cost of a trillion tokens

  double days_p50() const;
  double days_p95() const;
};

// `iteration_s` is that at the full batch. All iterations with smaller batches take `ramp_s`
// together.
Economics economics(const SizeInputs& inputs, int gpus, int gpus_per_node, double tokens_a_step,
                    double iteration_s, double ramp_s, std::pair<double, double> interval);

}  // namespace tandem
