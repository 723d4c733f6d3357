// How much of a job's time failures leave for work: Daly's equations 20 and 37 (2006; goodput.h)
// for the means, a Poisson number of nodes in repair, and Monte Carlo draws for the percentiles of
// the wall time. Times are in seconds. A dump is a checkpoint, mtbf the time between two failures.
#include "planning/size/goodput.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/units.h"

namespace tandem {
namespace {

constexpr int kDraws = 1000;

// Draws a Poisson number by inverting its distribution. If the mean is above 100, rounds a normal
// number of the same mean and variance instead.
double failures_drawn(double mean, std::uint64_t key) {
  constexpr double kLarge = 100;
  if (mean > kLarge) return std::max(0.0, std::round(mean + std::sqrt(mean) * normal(key)));
  double left = uniform(key), probability = std::exp(-mean);
  int number = 0;
  for (; left > probability && number < 10 * kLarge; ++number) {
    left -= probability;
    probability *= mean / (number + 1);
  }
  return number;
}

// Returns the probability that a Poisson number of this mean is at most `most`.
double poisson_up_to(double mean, int most) {
  double sum = 0;  // exponents are added first: exp(-mean) alone is 0 for large means
  for (int number = 0; number <= most; ++number)
    sum += std::exp(number * std::log(mean) - mean - std::lgamma(number + 1.0));
  return std::min(sum, 1.0);
}

// Returns the share of time for which one node is down: its rate of failures times the time of a
// repair. If idle GPUs can replace those under repair, the probability that they are too few.
double nodes_down(const Failures& failures, int gpus, int idle) {
  constexpr int kRack = 16, kTray = 4;
  const int all = gpus + idle;
  int unit = all > kRack ? kTray : all;  // GPUs that one repair takes out of work
  if (failures.repair_gpus > 0) unit = failures.repair_gpus;
  const double under_repair = failures.repair_h * gpus / failures.gpu_mtbf_h;
  if (idle < unit || under_repair == 0) return under_repair;
  return 1 - poisson_up_to(under_repair, idle / unit);
}

}  // namespace

double job_mtbf_s(const Failures& failures, int gpus) {
  CHECK(gpus > 0 && failures.gpu_mtbf_h > 0);
  return failures.gpu_mtbf_h * hour_s / gpus;
}

double checkpoint_stall_s(const Failures& failures, int gpus) {
  if (failures.host_link_bytes_per_s <= 0) return failures.checkpoint_s;
  const double share = failures.checkpoint_bytes / gpus;
  return std::max(failures.checkpoint_s, share / failures.host_link_bytes_per_s);
}

double checkpoint_write_s(const Failures& failures, int gpus) {
  const double storage = failures.storage_bytes_per_s;
  return failures.checkpoint_bytes / (storage > 0 ? storage : kStorage_bytes_per_s * gpus);
}

// Equation 37: sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d for a dump d and an mtbf M.
double checkpoint_interval_s(const Failures& failures, int gpus) {
  const double mtbf = job_mtbf_s(failures, gpus), dump = checkpoint_stall_s(failures, gpus);
  const double least = checkpoint_write_s(failures, gpus);
  if (dump <= 0) return least;
  if (dump >= 2 * mtbf) return std::max(least, mtbf);
  const double ratio = dump / (2 * mtbf);
  return std::max(least,
                  std::sqrt(2 * dump * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - dump);
}

// Equation 20: wall / work = M exp(R / M) (exp((t + d) / M) - 1) / t for a restart R and work t
// between dumps. Without dumps its limit is exp(R / M).
//
// Here a dump also takes w to be written to storage, while work goes on; a failure in that time
// goes back to the dump before. The ratio is then M exp((R + w) / M) (exp((t + d) / M) - 1) / t.
// Proof: c = t + d pass from one dump to the next without a failure. A first attempt takes M (1 -
// exp(-c / M)) on average, and fails with probability 1 - exp(-c / M). After a failure and a
// restart, c + w have to pass, since w of work before the dump is lost as well; with all further
// failures that takes M (exp((R + c + w) / M) - 1). Together:
//   M (1 - exp(-c / M)) + (1 - exp(-c / M)) M (exp((R + c + w) / M) - 1)
//     = M (1 - exp(-c / M)) exp((R + c + w) / M)
//     = M exp((R + w) / M) (exp(c / M) - 1), which is divided by t.
double goodput(const Failures& failures, int gpus, double interval_s) {
  const double mtbf = job_mtbf_s(failures, gpus);
  const double restart_factor =
      std::exp((failures.restart_s + checkpoint_write_s(failures, gpus)) / mtbf);
  if (interval_s <= 0) return 1 / restart_factor;  // checkpoints cost nothing
  return interval_s / (mtbf * restart_factor *
                       std::expm1((interval_s + checkpoint_stall_s(failures, gpus)) / mtbf));
}

double availability(const Failures& failures, const WorkingNodes& working, int spares) {
  const double mean =
      (working.nodes + spares) * nodes_down(failures, working.gpus_a_node, working.idle_a_node);
  return mean == 0 ? 1 : poisson_up_to(mean, spares);
}

int spares_for(const Failures& failures, const WorkingNodes& working) {
  int least = 0, most = working.nodes;
  while (least < most) {
    const int middle = least + (most - least) / 2;
    if (availability(failures, working, middle) < kWantedAvailability) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return least;
}

Wall wall_time(const Failures& failures, const WallInputs& inputs) {
  const auto& [low, high] = inputs.interval;
  const double middle = low <= 1 && high >= 1 ? 0 : std::log(low * high) / 2;
  const double below = (middle - std::log(low)) / kNormal95;
  const double above = (std::log(high) - middle) / kNormal95;
  const double mtbf = job_mtbf_s(failures, inputs.gpus);
  const double stall = checkpoint_stall_s(failures, inputs.gpus);
  const double dumps = inputs.interval_s > 0 ? 1 + stall / inputs.interval_s : 1.0;
  // The mean wall time is work / share. It has work / share / mtbf failures, and beyond work and
  // dumps it has work (1 / share - dumps) seconds, which these failures cost.
  const double share = goodput(failures, inputs.gpus, inputs.interval_s);
  const double mean_loss = std::max(0.0, (1 / share - dumps) * share * mtbf);
  std::vector<double> walls;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::uint64_t key = scatter(scatter(inputs.seed) + static_cast<std::uint64_t>(draw));
    // Each random number below has a key of its own. The offsets 2, 3 and 4 mean nothing else.
    const double error = normal(key);
    double work = inputs.work_s * std::exp(middle + (error < 0 ? below : above) * error);
    if (const auto count = static_cast<double>(inputs.seeds.size()); count > 0)
      work *= inputs.seeds[static_cast<std::size_t>(count * uniform(scatter(key + 4)))];
    const double number = failures_drawn(work / share / mtbf, scatter(key + 2));
    // The loss of one failure is uniform over the interval: its deviation is interval / sqrt(12).
    const double spread = inputs.interval_s / std::sqrt(12.0) * std::sqrt(number);
    const double lost = number * mean_loss + spread * normal(scatter(key + 3));
    walls.push_back((work * dumps + std::max(0.0, lost)) / inputs.available);
  }
  std::ranges::sort(walls);
  const auto late = static_cast<std::size_t>(kDraws * inputs.certainty);
  return {walls[kDraws / 2], walls[std::min(late, walls.size() - 1)]};
}

}  // namespace tandem
