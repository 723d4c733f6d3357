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
// time; all groups of one class communicate at the same time. The block of a Slowdown row runs
// GEMMs beside a chain of communication; GEMMs that communication covers only in part do not count.
struct DeviceBench {
  Program program;
  std::vector<CostRow> rows;  // by block, without measured times
};

struct DeviceBenchOptions {
  int repeats = 3;
  bool collectives = true;  // whether to measure collectives; false where they are only emulated
  bool transfers = true;    // whether to measure transfers; false likewise
  bool copies = false;      // whether the copy engine makes the transfers
};

// Makes the bench for the Program `of`. It measures
// - of its kernels: each GEMM, each attention, each kernel of several parts, and passes over
//   memory of 1 MiB, 4 MiB, ... up to 1 GiB, and of the largest size;
// - of its communication, for each kind, number of ranks, and place (inside or between nodes): each
//   size that occurs, and 64 KiB, 256 KiB, ... up to 256 MiB or the largest.
// The bench's ops are priced in proportion to those of `of`. Error: no op of `of` has a kernel.
Result<DeviceBench> device_bench(const Program& of, const DeviceBenchOptions& options = {});

// Returns the rows with the times that iterations of the bench measured, over all ranks and
// repeats. Rows without a time are left out.
std::vector<CostRow> cost_rows(const DeviceBench& bench, std::span<const Trace> iterations);

}  // namespace tandem
