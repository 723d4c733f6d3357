// Goodput: the part of a job's time that failures, checkpoints and repairs leave for work.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tandem {

// How often hardware fails, and what each failure costs. The defaults give Llama 3 405B on 16,384
// H100 91 %; Meta reports "higher than 90 %" (Dubey et al. 2024, arXiv 2407.21783, section 3.3.4).
struct Failures {
  // Hours that a GPU, with its share of node and network, runs between two failures that stop the
  // job. The default is the first row of kPublishedFailures.
  double gpu_mtbf_h = 50'700;
  // The seconds for which training stands still for a checkpoint, while it is copied to the hosts'
  // memory. The default is MegaScale's "several seconds" (NSDI 2024, section 4.4). ByteCheckpoint's
  // stall is 0.59 s for 405B on 8960 GPUs (NSDI 2025, arXiv 2407.20143, table 8).
  double checkpoint_s = 5;
  // The rate at which storage takes the job's checkpoints, while training goes on. 0: as many times
  // kStorage_bytes_per_s as the job has GPUs.
  double storage_bytes_per_s = 0;
  // The time from a failure to the first new iteration. MegaScale finds and diagnoses a failure in
  // less than 10 minutes (section 6.3).
  double restart_s = 600;
  double repair_h = 24;  // hours from a failure until the hardware is back
  // The GPUs that a repair takes out of work, if a node has as many idle ones; else it takes the
  // node's. 0: a node's; if a node has more than 16 (a rack), a tray's 4.
  int repair_gpus = 0;

  // Filled in by the caller, from the job's model and GPU.
  double checkpoint_bytes = 0;       // 0: unknown; takes no time to write
  double host_link_bytes_per_s = 0;  // of a GPU, each way; 0: unknown; takes no time to copy
};

// The bytes that a GPU of a job writes to storage in a second: ByteCheckpoint's 51.06 s for 405B on
// 8960 GPUs (as above), at 14 bytes a parameter. Meta's storage sustains 2 TB/s for 24,000 GPUs
// (Llama 3, section 3.3.1), 7 times as much, which is shared.
constexpr double kStorage_bytes_per_s = 12.4e6;

// Hours that a GPU of a published job ran between two failures that stopped the job.
struct PublishedFailures {
  const char* gpu;
  double gpu_mtbf_h;
  const char* source;
};
constexpr PublishedFailures kPublishedFailures[] = {
    {"H100", 16384.0 * 54 * 24 / 419,
     "Llama 3 405B, 16,384 GPUs: 419 unexpected interruptions in 54 days (arXiv 2407.21783, "
     "section 3.3.4)"},
    {"A100", 8 * 24 * 1000 / 6.50,
     "Meta RSC-1, 16,000 GPUs: 6.50 failures in 1000 node-days (arXiv 2410.21680)"},
    {"A100", 8 * 24 * 1000 / 2.34,
     "Meta RSC-2, 8000 GPUs: 2.34 failures in 1000 node-days (arXiv 2410.21680)"},
    {"A100", 1024 * 7.9,
     "Meta's RSC clusters, jobs of 1024 GPUs: 7.9 h between failures (arXiv 2410.21680)"},
    {"A100", 992.0 * 61 * 24 / (35 + 70),
     "OPT-175B, 992 GPUs: 35 manual and about 70 automatic restarts in 2 months (arXiv 2205.01068, "
     "section 2.5)"},
};

// Returns the seconds between two failures of any of the job's GPUs.
double job_mtbf_s(const Failures& failures, int gpus);

// Returns the bytes of a checkpoint with Adam in mixed precision. For each parameter: 2 for the
// weights, and 4 each for the optimizer's copy of them and its two moments.
constexpr double checkpoint_bytes(double parameters) { return 14 * parameters; }

// Returns the seconds that training stands still for a checkpoint: checkpoint_s, or as long as the
// GPUs take to copy their equal shares of it to the hosts' memory if that is longer.
double checkpoint_stall_s(const Failures& failures, int gpus);

// Returns the seconds from the end of the stall until storage has all of the checkpoint.
double checkpoint_write_s(const Failures& failures, int gpus);

// Returns the seconds of work between two checkpoints that lose the least time: Daly 2006, "A
// higher order estimate of the optimum checkpoint interval for restart dumps", equation 37, which
// refines Young 1974. It is never less than the time to write one.
double checkpoint_interval_s(const Failures& failures, int gpus);

// Returns work over wall time with a checkpoint after every `interval_s` of work, which is at least
// the time to write one: Daly 2006, equation 20, for failures at a constant rate. A failure loses
// the work since the last checkpoint that was written.
double goodput(const Failures& failures, int gpus, double interval_s);

// The nodes that a job works on. Idle GPUs of a node replace those of it that are under repair.
struct WorkingNodes {
  int nodes = 1, gpus_a_node = 1, idle_a_node = 0;
  int idle_nodes = 0;  // further nodes of the machine, which stand by
};
// Returns the share of time in which at most `spares` nodes are down; when more are down, the job
// waits. A node is down while more of its GPUs are under repair than its idle ones replace. The
// number of repairs of a node and the number of nodes down have Poisson distributions.
double availability(const Failures& failures, const WorkingNodes& working, int spares);
constexpr double kWantedAvailability = 0.99;
// Returns the fewest spare nodes that reach kWantedAvailability; `nodes` if no smaller number does.
int spares_for(const Failures& failures, const WorkingNodes& working);

constexpr double kNormal95 = 1.6449;  // the standard normal's 95th percentile

// The wall time of a run: the median over many draws, and the time that a run does not exceed with
// the probability WallInputs::certainty.
struct Wall {
  double p50_s = 0, late_s = 0;
};
struct WallInputs {
  double work_s = 0;                            // predicted time of all iterations
  std::pair<double, double> interval = {1, 1};  // factors between which 90 % of the runs' times lie
  std::vector<double> seeds = {};               // factors of runs with other seeds, equally likely
  double interval_s = 0;                        // work between checkpoints
  double available = 1;                         // availability()
  int gpus = 1;
  double certainty = 0.95;
  std::uint64_t seed = 1;
};
// Draws the prediction's error, the seed and the failures of 1000 runs. The mean number of failures
// and the mean loss of each are those of goodput(); the work that a failure loses is uniform over
// an interval between checkpoints. The error is log-normal, with one width above its median and
// another below. The median is the prediction, as profiles are fitted without bias; if `interval`
// does not hold 1, it is the interval's geometric mean.
Wall wall_time(const Failures& failures, const WallInputs& inputs);

}  // namespace tandem
