// Repricing: a Program's durations from what was measured, in place of those that it came with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "schedule/program/program.h"
#include "workload/cost/cost_table.h"

namespace tandem {

// What a table could not say of a Program.
struct Repriced {
  int interpolated = 0;  // GEMMs and attention of its kernels, of shapes that the table lacks
  std::vector<std::pair<std::string, std::int64_t>> kept;  // "all-reduce of 8 ranks": ops
};

// Compute ops take the table's time for their kernels (which also get its share of memory),
// communication that of its kind and number of ranks, inside a node or not. What the table has no
// rows for keeps its price: communication, and compute without a kernel. An Error, and the Program
// as it was, where a kernel has a shape that nothing in the table is like.
Result<Repriced> reprice(Program* program, const CostTable& table);

// One line each, for warnings.
std::vector<std::string> lines_of(const Repriced& repriced, const CostTable& table);

}  // namespace tandem
