// DeviceRun: plays a DeviceBench on a backend and returns its table.
#pragma once

#include <optional>

#include "base/result.h"
#include "exec/backend.h"
#include "schedule/program/program.h"
#include "workload/cost/cost_table.h"

namespace tandem {

// Measures the Program's kernels and communication, with matrices that are really multiplied.
// Returns nothing on ranks that have no results to report (mpi, cuda). Error::Failed: the run
// failed.
Result<std::optional<CostTable>> calibrate_device(const Program& program, const Backend& backend,
                                                  ExecOptions options);

}  // namespace tandem
