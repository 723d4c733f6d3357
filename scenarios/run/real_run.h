// Real run: a scenario's Program, or one by itself, on an executor; what its iterations gave.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "exec/backend.h"
#include "exec/execute.h"
#include "scenarios/config/scenario.h"
#include "scenarios/config/variability.h"
#include "scenarios/run/job_result.h"
#include "scenarios/run/run.h"
#include "scenarios/run/run_result.h"

namespace tandem {

struct RealOptions {
  const Backend* backend = &backends().front();
  ExecOptions exec;
  OutputFiles files;  // of the median iteration; of a run that failed only the trace, partial
};

// How long compute ops of one kind and stage took, all ranks and iterations together.
struct OpTimes {
  OpKind kind = OpKind::Forward;
  int stage = -1;
  std::int64_t count = 0;
  Spread seconds;
};

// The host that a run was played on, as far as it may have made times longer; of many hosts rank
// 0's.
struct HostConditions {
  int cores = 0;    // that the process may use
  double load = 0;  // threads that ran or could have, in the mean of the minute before
  LateWakeUps late;

  // Times are longer by late.share, where the ops of the critical path are like the others.
  bool unreliable() const { return late.share > 0.01; }
};

struct RealRunResult {
  RunResult result;  // of the median iteration (of an even number, the shorter in the middle)
  std::string backend;
  std::string real;
  int iterations = 0;
  Spread iteration_s, bubble_fraction;  // over the iterations
  std::int64_t payloads_checked = 0;
  bool shares_queues = false;  // as in Execution
  HostConditions host;
  std::vector<OpTimes> op_times;  // of matrix products; none where compute is timed
};

// Matrices have the scenario's precision where the options name none.
//
// Nothing on ranks that have no results to tell (mpi). Error::Failed where the run did, its partial
// trace written. `path`: the Program's file, for Errors.
Result<std::optional<RealRunResult>> run_for_real(const Scenario& scenario, const CompiledJob& job,
                                                  RealOptions options);
Result<std::optional<RealRunResult>> run_for_real(const Program& program,
                                                  const RealOptions& options,
                                                  const std::string& path);

// The RunResult's object, with `backend`, `real`, `iterations`, `spread`, `payloads_checked`,
// `shares_queues`, `host`, `op_times`.
nlohmann::ordered_json to_json(const RealRunResult& result);
// The inverse, but for `host` and `op_times`. REQUIRES: that object.
RealRunResult real_run_result_from_json(const nlohmann::ordered_json& json);

}  // namespace tandem
