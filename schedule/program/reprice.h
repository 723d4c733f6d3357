// Repricing: replaces a Program's durations by measured ones.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/program/program.h"
#include "workload/cost/cost_table.h"

namespace tandem {

// The parts of a Program for which the table has no exact rows.
struct Repriced {
  int interpolated = 0;  // shapes of GEMMs and attention that the table lacks
  // Prices that stayed: "all-reduce of 8 ranks", and the number of ops.
  std::map<std::string, std::int64_t> kept;
};

// Gives compute ops the table's time for their kernels, and the kernels its share of memory. Gives
// communication the time of its kind and number of ranks, inside a node or between nodes. What the
// table has no rows for keeps its price: communication, and compute without a kernel. An Error, and
// an unchanged Program, if nothing in the table is like a kernel's shape.
Result<Repriced> reprice(Program* program, const CostTable& table);

// Returns lines for warnings.
std::vector<std::string> lines_of(const Repriced& repriced, const CostTable& table);

}  // namespace tandem
