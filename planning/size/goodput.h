// Goodput: the part of a job's time that failures, checkpoints and repairs leave for work.
#pragma once

#include <cstdint>
#include <utility>

namespace tandem {

// How often hardware fails, and what each failure costs.
struct Failures {
  // Hours that a GPU, with its share of node and network, runs between two failures that stop the
  // job. The default is from Llama 3: 419 unexpected interruptions in 54 days on 16,384 GPUs (Dubey
  // et al. 2024, arXiv 2407.21783, section 3.3.4): 16384 x 54 x 24 / 419.
  double gpu_mtbf_h = 50'700;
  double checkpoint_s = 30;  // training stands still for one
  double restart_s = 600;    // from a failure to the first new iteration
  double repair_h = 24;      // until a failed node is back
};

// Returns the seconds between two failures of any of the job's GPUs.
double job_mtbf_s(const Failures& failures, int gpus);

// Returns the seconds of work between two checkpoints that lose the least time: Daly 2006, "A
// higher order estimate of the optimum checkpoint interval for restart dumps", equation 37, which
// refines Young 1974.
double checkpoint_interval_s(const Failures& failures, int gpus);

// Returns work over wall time with a checkpoint after every `interval_s` of work: Daly 2006,
// equation 20, for failures at a constant rate.
double goodput(const Failures& failures, int gpus, double interval_s);

// Returns the share of time in which at most `spares` nodes are under repair; their number has a
// Poisson distribution. When more are, the job waits.
double availability(const Failures& failures, int nodes, int gpus_per_node, int spares);
constexpr double kWantedAvailability = 0.99;
// Returns the fewest spare nodes that reach kWantedAvailability; `nodes` if no smaller number does.
int spares_for(const Failures& failures, int nodes, int gpus_per_node);

// The wall time of a run: percentiles over many draws.
struct Wall {
  double p50_s = 0, p95_s = 0;
};
struct WallInputs {
  double work_s = 0;                            // as predicted
  std::pair<double, double> interval = {1, 1};  // factors between which 90 % of the runs' times lie
  double interval_s = 0;                        // work between checkpoints
  double available = 1;
  int gpus = 1;
  std::uint64_t seed = 1;
};
// Draws 1000 runs: the prediction's error (log-normal) and the failures. Their mean number and the
// mean loss of each are those of goodput(). The work lost since the last checkpoint is uniform over
// the interval.
Wall wall_time(const Failures& failures, const WallInputs& inputs);

}  // namespace tandem
