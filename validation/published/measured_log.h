// MeasuredLog: takes a log as one measured run, simulates the plan that it or the files beside it
// state, and compares.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "interop/plan/imported_plan.h"
#include "planning/simulate/simulate.h"

namespace tandem {

struct LogOptions {
  std::vector<std::string> beside;  // files that state the model and the plan
  std::string cluster;              // a preset; empty: as `sets` say
  int gpus = 0;                     // 0: as the log says
  std::vector<std::pair<std::string, Setting>> sets;
  Engine engine = Engine::Ideal;
};

struct LogComparison {
  std::string log;
  MeasuredRun measured;
  RunResult simulated;                // has `training`
  std::vector<std::string> left_out;  // of the log: earlier runs, and iterations of other batches

  // Return simulated over measured, minus 1; nothing where the log does not have the figure.
  std::optional<double> iteration_error() const;
  std::optional<double> memory_error() const;
  // Says whether the measured iteration lies in the simulated one's 90 % interval.
  std::optional<bool> is_inside() const;
  // Return the FLOPs of an iteration of all GPUs: as the log counts them, and as the model's are
  // counted here.
  std::optional<double> log_flops() const;
  double own_flops() const;
  // Returns TFLOP/s of a GPU: the log's FLOPs over the simulated time.
  std::optional<double> simulated_tflops() const;
};

// Says whether the file is a log: it has iterations or arguments. A file that cannot be read is
// none, one that cannot be unpacked may be one.
bool is_log_file(const std::string& path);

// Simulates the log's plan and compares. Errors: a log without a plan or without a measurement, or
// of another number of GPUs; no cluster, no number of GPUs, and all Errors of a scenario with
// parallel.from = the log.
Result<LogComparison> compare_log(const std::string& path, const LogOptions& options);

nlohmann::ordered_json to_json(const LogComparison& comparison);

}  // namespace tandem
