// Real run: plays a scenario's Program, or a Program by itself, on a backend in real time, and
// summarizes its iterations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "exec/backends/backends.h"
#include "exec/execute.h"
#include "planning/simulate/simulate.h"
#include "results/job_result.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"
#include "scenarios/variability.h"

namespace tandem {

struct FieldText;

struct RealOptions {
  const Backend* backend = &backends().front();
  ExecOptions exec;
  OutputFiles files;  // of the median iteration; a failed run writes only its partial trace
};

// How long compute ops of one kind and stage took, over all ranks and iterations.
struct OpTimes {
  OpKind kind = OpKind::Forward;
  int stage = -1;
  std::int64_t count = 0;
  Spread seconds;
};

// The state of the host during a run, as far as it may have made ops slower; of many hosts, of rank
// 0's.
struct HostConditions {
  int cores = 0;    // cores that the process may use
  double load = 0;  // mean number of running or runnable threads in the minute before
  LateWakeUps late;

  // Whether late wake-ups make the times doubtful: they are longer by about late.share, if the ops
  // of the critical path are like the others.
  bool unreliable() const { return late.share > 0.01; }
};

struct RunSpread {
  Spread iteration_s, bubble_fraction;
};

struct RealRunResult {
  RunResult result;  // of the median iteration; of an even number, the shorter middle one
  std::string backend;
  std::string real;  // Execution::real: what was measured, what emulated
  int iterations = 0;
  RunSpread spread;  // over the iterations
  std::int64_t payloads_checked = 0;
  bool shares_queues = false;  // as in Execution
  HostConditions host;
  std::vector<OpTimes> op_times;  // times of matrix products; none if compute is timed
};

// Runs the job, or the Program. If the options name no precision, matrices have the scenario's.
// `path`: the Program's file, for Errors.
//
// Returns nothing on ranks that have no results to report (mpi). Error::Failed: the run failed, and
// its partial trace was written.
Result<std::optional<RealRunResult>> run_for_real(const Scenario& scenario, const CompiledJob& job,
                                                  RealOptions options);
Result<std::optional<RealRunResult>> run_for_real(const Program& program,
                                                  const RealOptions& options,
                                                  const std::string& path);

// Returns the fields that the JSON has after the RunResult's.
std::vector<FieldText> real_run_fields();
nlohmann::ordered_json to_json(const RealRunResult& result);
// Inverts to_json(), except for `host` and `op_times`. REQUIRES: such an object.
RealRunResult real_run_result_from_json(const nlohmann::ordered_json& json);

}  // namespace tandem
