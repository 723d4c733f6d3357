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
  // The ops that kept their price: "all-reduce of 8 ranks", and their number.
  std::map<std::string, std::int64_t> kept;
};

// Gives compute ops the table's times for their kernels, and the kernels the table's memory shares.
// Gives communication the table's time for its kind, number of ranks and bytes, inside a node or
// between nodes. Communication that the table lacks, and compute without a kernel, keep their
// prices. Returns an Error, with the Program unchanged, if the table has nothing similar to a
// kernel's shape.
Result<Repriced> reprice(Program* program, const CostTable& table);

// Returns lines for warnings.
std::vector<std::string> lines_of(const Repriced& repriced, const CostTable& table);

}  // namespace tandem
