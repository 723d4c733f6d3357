// A Megatron-LM log as one measured run: the plan that it states, simulated, beside what it took.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "interop/imported_plan.h"
#include "scenarios/run/run.h"

namespace tandem {

struct LogOptions {
  std::string cluster;  // a preset; empty: as `sets` say
  int gpus = 0;         // 0: as the log says
  std::vector<std::pair<std::string, Setting>> sets;
  Engine engine = Engine::Ideal;
};

struct LogComparison {
  std::string log;
  MeasuredRun measured;
  RunResult simulated;  // with `training`

  // Simulated over measured, less 1; nothing where the log does not say it.
  std::optional<double> iteration_error() const;
  std::optional<double> memory_error() const;
  // Whether the measured iteration lies in the 90 % interval of the simulated one.
  std::optional<bool> is_inside() const;
  // FLOPs of an iteration of all GPUs: as the log counts them; the model's, as we do.
  std::optional<double> log_flops() const;
  double own_flops() const;
  // TFLOP/s of a GPU: the log's FLOPs in the simulated time.
  std::optional<double> simulated_tflops() const;
};

// Whether the file is a log: iterations or arguments stand in it. One that cannot be read is none.
bool is_log_file(const std::string& path);

// Errors: a file without a plan or without a measurement, no cluster, no number of GPUs, and all
// that a scenario with parallel.from = the log is refused for.
Result<LogComparison> compare_log(const std::string& path, const LogOptions& options);

nlohmann::ordered_json to_json(const LogComparison& comparison);

}  // namespace tandem
