// Goodput: what failures, checkpoints and repairs leave of a job's time.
#pragma once

#include <cstdint>
#include <utility>

namespace tandem {

// How often hardware fails, and what each failure costs.
struct Failures {
  // Hours that a GPU, with its share of node and network, runs between two failures that stop the
  // job. Default: Llama 3's 419 unexpected interruptions in 54 days on 16,384 GPUs (Dubey et al.
  // 2024, arXiv 2407.21783, section 3.3.4): 16384 x 54 x 24 / 419.
  double gpu_mtbf_h = 50'700;
  double checkpoint_s = 30;  // that training stands still for one
  double restart_s = 600;    // from a failure to the first new iteration
  double repair_h = 24;      // of a node
};

// Seconds between two failures of any of the job's GPUs.
double job_mtbf_s(const Failures& failures, int gpus);

// The seconds of work between two checkpoints that lose least: Daly 2006, "A higher order estimate
// of the optimum checkpoint interval for restart dumps", equation 37, which refines Young 1974.
double checkpoint_interval_s(const Failures& failures, int gpus);

// Work over wall time with checkpoints every `interval_s` of work: Daly 2006, equation 20, for
// failures at a constant rate.
double goodput(const Failures& failures, int gpus, double interval_s);

// The share of time in which at most `spares` of the nodes are under repair (their number is
// Poisson's); with fewer nodes than it needs the job waits.
double availability(const Failures& failures, int nodes, int gpus_per_node, int spares);
constexpr double kWantedAvailability = 0.99;
// The fewest spare nodes with which that is reached; as many as `nodes` where none do.
int spares_for(const Failures& failures, int nodes, int gpus_per_node);

// What a run of so much work takes on the wall, drawn many times.
struct Wall {
  double p50_s = 0, p95_s = 0;
};
struct WallInputs {
  double work_s = 0;                            // as predicted
  std::pair<double, double> interval = {1, 1};  // times that: 90 % of runs lie between
  double interval_s = 0;                        // between checkpoints
  double available = 1;
  int gpus = 1;
  std::uint64_t seed = 1;
};
// 1000 draws of the prediction's error (log-normal) and of failures. Their mean number, and what
// each costs in the mean, are those of goodput(); what was done since the last checkpoint is
// uniform over the interval.
Wall wall_time(const Failures& failures, const WallInputs& inputs);

}  // namespace tandem
