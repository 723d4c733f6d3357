// ExplainLog: says from a log alone why a run is slower than its simulation: by the iterations that
// take longer than the usual one. A log does not tell why the usual one is slower.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "validation/explain/explain.h"

namespace tandem {

// An iteration as simulated. `interval_s`: 9 of 10 real runs lie within.
struct SimulatedIteration {
  double seconds = 0;
  std::optional<std::pair<double, double>> interval_s;
  double tokens_per_gpu = 0, samples = 0;  // of an iteration; 0: not known
  int gpus = 0;                            // 0: not known
};

// An iteration in a log (or the mean of those since the line before), and what the log says
// happened before it.
struct LogIteration {
  int line = 0;
  double seconds = 0;
  bool checkpoint = false, evaluation = false;
  std::optional<double> batch, gpus;  // global batch and world size, where the log states them
};

// Reads the iterations of a text, the first ones included. Lines with tokens or samples a second
// become seconds where the simulation says how many an iteration has.
std::vector<LogIteration> log_iterations(std::string_view text,
                                         const SimulatedIteration& simulated);

// Returns the seconds of the usual iteration: the median after the warm-up. Error(BadInput): fewer
// than 10 iterations after it.
Result<double> usual_iteration_s(const std::string& path, std::string_view text,
                                 const SimulatedIteration& simulated);

// Explains the mean iteration after the warm-up. Causes are iterations that take longer than the
// usual one (after a checkpoint, after an evaluation, or others) and a drift over the run; the rest
// is not explained. Error(BadInput): fewer than 10 iterations after the warm-up.
Result<Explanation> explain_log(const std::string& path, std::string_view text,
                                const SimulatedIteration& simulated);

}  // namespace tandem
