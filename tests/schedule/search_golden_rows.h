// Orders that are found for the sizes, costs and memory of the golden rows.
#pragma once

#include <string>

#include "tests/schedule/golden_rows.h"
#include "tests/schedule/search_checks.h"

namespace tandem {

// The row's stages where its order has them, of two chains those of one; each rank may hold what
// the reference does.
inline SearchProblem problem_of(const GoldenRow& row) {
  const OrderTraits& traits = traits_of(row.spec);
  SearchProblem problem{.microbatches = row.spec.microbatches,
                        .rank_of_stage = ranks_of_chain(traits, row.spec.pp, row.spec.vpp)};
  problem.costs.assign(problem.rank_of_stage.size(), row.spec.costs);
  problem.bytes.assign(problem.rank_of_stage.size(), {1, 0});
  problem.limit_bytes.assign(row.spec.pp, row.peak_live);
  return problem;
}

// Every so many-th row: never above the best named order that fits, nor above the reference.
inline void check_golden_rows(int every, int candidates) {
  const std::vector<GoldenRow> rows = golden_rows();
  int below_named = 0, below_reference = 0, one_chain = 0, looked_at = 0;
  for (std::size_t i = 0; i < rows.size(); i += static_cast<std::size_t>(every)) {
    const GoldenRow& row = rows[i];
    INFO(row.spec.name << " against " << row.file << ", I = " << row.spec.costs.input);
    const auto [named, found] = compared({{problem_of(row)}}, candidates);
    CHECK(found <= named);
    ++looked_at;
    below_named += found < named * (1 - kRounding) ? 1 : 0;
    if (traits_of(row.spec).chains > 1) continue;
    CHECK(found <= row.makespan * (1 + kRounding));
    ++one_chain;
    below_reference += found < row.makespan * (1 - kRounding) ? 1 : 0;
  }
  WARN("of " << looked_at << " rows " << below_named << " are below the best named order, and of "
             << one_chain << " of one chain " << below_reference << " below the reference");
}

}  // namespace tandem
