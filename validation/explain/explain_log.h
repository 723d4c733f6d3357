// ExplainLog: says from a log alone why a run is slower than its simulation: what its iterations
// have beyond the usual one. Why the usual one is slower a log does not tell.
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
  std::optional<double> batch, gpus;  // that the log states: the global batch, and the world size
};

// Reads the iterations of a text, the first ones included. Lines with tokens or samples a second
// become seconds where the simulation says how many an iteration has.
std::vector<LogIteration> log_iterations(std::string_view text,
                                         const SimulatedIteration& simulated);

// Returns the seconds of the usual iteration, the median behind the warm-up. Error(BadInput): fewer
// than 10 iterations behind it.
Result<double> usual_iteration_s(const std::string& path, std::string_view text,
                                 const SimulatedIteration& simulated);

// Explains the mean iteration behind the warm-up. Causes are iterations that take longer than the
// usual one (behind a checkpoint, an evaluation, or neither) and a drift over the run; the rest is
// not explained. Error(BadInput): fewer than 10 iterations behind the warm-up.
Result<Explanation> explain_log(const std::string& path, std::string_view text,
                                const SimulatedIteration& simulated);

}  // namespace tandem
