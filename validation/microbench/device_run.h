// Device run: a DeviceBench played by a backend, and its table.
#pragma once

#include <optional>

#include "base/result.h"
#include "exec/backend.h"
#include "schedule/program/program.h"
#include "workload/cost/cost_table.h"

namespace tandem {

// What the Program's kernels and communication take, by matrices that are really multiplied.
// Nothing on ranks that have no results to tell (mpi, cuda). Error::Failed where the run did.
Result<std::optional<CostTable>> calibrate_device(const Program& program, const Backend& backend,
                                                  ExecOptions options);

}  // namespace tandem
