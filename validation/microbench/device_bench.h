// Device bench: what a Program's kernels and communication take on a device, measured by another
// Program that every backend plays; and the cost table that comes of it.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/trace.h"
#include "workload/cost/cost_table.h"

namespace tandem {

// A block for every row: a barrier of all ranks, then one op that is not counted and `repeats` that
// are, one after the other. All ranks compute side by side; of a kind of communication the groups
// of one class do, as they would in lock step. A Slowdown's block has such GEMMs beside a chain of
// communication; those that it does not cover do not count.
struct DeviceBench {
  Program program;
  std::vector<CostRow> rows;  // by block; not measured yet
};

struct DeviceBenchOptions {
  int repeats = 3;
  bool collectives = true;  // false: they are emulated, and none is measured
  bool transfers = true;
  bool copies = false;  // transfers are by the copy engine
};

// Of `of`'s kernels: each GEMM, each attention, each kernel of several parts, and passes of 1 MiB
// to 1 GiB by factors of 4 and of its largest. Of its communication, for each kind, number of ranks
// and place: each size in it, and 64 KiB to 256 MiB by factors of 4, none larger than the largest.
// Ops are priced as `of` is, in proportion. An Error where no op of `of` has a kernel.
Result<DeviceBench> device_bench(const Program& of, const DeviceBenchOptions& options = {});

// What iterations of the bench's Program measured, over all ranks and repeats: rows without one
// time left out.
std::vector<CostRow> cost_rows(const DeviceBench& bench, std::span<const Trace> iterations);

}  // namespace tandem
