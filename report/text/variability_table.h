// Tables of how much runs vary, and of what they hang on.
#pragma once

#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "results/run_result.h"

namespace tandem {

// A row a run that was played several times. Empty where none was.
std::string repeats_table(const std::vector<RunResult>& results, int width = kAnyWidth);

// A row a part of each run, the one that counts most first. Empty where no run has any.
std::string sensitivity_table(const std::vector<RunResult>& results, int width = kAnyWidth);

}  // namespace tandem
