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
#include "validation/explain/log_arguments.h"

namespace tandem {

// An iteration as simulated. `interval_s`: 9 of 10 real runs lie within.
struct SimulatedIteration {
  double seconds = 0;
  std::optional<std::pair<double, double>> interval_s;
  double tokens_per_gpu = 0, samples = 0;  // of an iteration; 0: not known
  int gpus = 0, seq = 0;                   // 0: not known
  // Megatron-LM's names of the job's sizes, which a log's arguments must state alike.
  std::vector<std::pair<std::string, int>> arguments;
  JobValues job;  // empty: the scenario has no model
};

struct UsualIteration {
  double seconds = 0;
  std::vector<std::string> left_out;  // sentences on lines of the log that do not count
};

struct LogExplanation {
  Explanation explanation;
  std::vector<std::string> left_out;  // as of UsualIteration
};

// Returns the usual iteration of the log's last run that has enough: the median after the warm-up.
// Lines with tokens or samples a second become seconds where the simulation says how many an
// iteration has. Error(BadInput): fewer than 10 iterations after the warm-up in every run, or a log
// of another job.
Result<UsualIteration> usual_iteration(const std::string& path, std::string_view text,
                                       const SimulatedIteration& simulated);

// Explains the mean iteration after the warm-up. Causes are iterations that take longer than the
// usual one (after a checkpoint, after an evaluation, or others) and a drift over the run; the rest
// is not explained. Error(BadInput): as of usual_iteration().
Result<LogExplanation> explain_log(const std::string& path, std::string_view text,
                                   const SimulatedIteration& simulated);

}  // namespace tandem
