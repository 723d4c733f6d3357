// DeviceBench: measures the kernels and the communication of a Program on a device, by another
// Program that every backend can play. The result is a cost table.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/trace.h"
#include "workload/cost/cost_table.h"

namespace tandem {

// The Program, with a block for every row of the table. A block is a barrier of all ranks, then one
// op that does not count and `repeats` that count, one after another. All ranks compute at the same
// time, and so do all groups of one class communicate. The block of a Slowdown runs GEMMs beside a
// chain of communication. GEMMs that have communication beside them only in part do not count.
struct DeviceBench {
  Program program;
  std::vector<CostRow> rows;  // by block, without measured times
};

struct DeviceBenchOptions {
  int repeats = 3;
  bool collectives = true;  // measures them; false where they are only emulated
  bool transfers = true;    // the same for transfers
  bool copies = false;      // the copy engine makes the transfers
};

// Makes the bench for the Program `of`. Of its kernels it measures each GEMM, each attention, each
// kernel of several parts, and passes over memory of 1 MiB to 1 GiB, by factors of 4 and the
// largest. Of its communication it measures, for each kind, number of ranks and place, each size
// that occurs and 64 KiB to 256 MiB by factors of 4, up to the largest. Ops are priced as those of
// `of`, in proportion. Error: no op of `of` has a kernel.
Result<DeviceBench> device_bench(const Program& of, const DeviceBenchOptions& options = {});

// Returns the rows with the times that iterations of the bench measured, over all ranks and
// repeats. Rows without a time are left out.
std::vector<CostRow> cost_rows(const DeviceBench& bench, std::span<const Trace> iterations);

}  // namespace tandem
