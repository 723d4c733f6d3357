// Tables of how much repeated runs vary, and of how much a slower part delays a run.
#pragma once

#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "results/run_result.h"

namespace tandem {

// Returns a row for each run that was played several times. Empty: none was.
std::string repeats_table(const std::vector<RunResult>& results, int width = kAnyWidth);

// Returns a row for each part of each run: how much longer an iteration takes if the part is 10 %
// slower, the largest delay first. Empty: no run has any.
std::string sensitivity_table(const std::vector<RunResult>& results, int width = kAnyWidth);

}  // namespace tandem
