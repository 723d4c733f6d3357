// Texts on a GPU's memory: what it holds at its peak, and what to do about a plan that does not
// fit.
#pragma once

#include <string>
#include <vector>

#include "results/run_result.h"

namespace tandem {

// Returns for each run what its fullest GPU holds at its peak, by class of tensor, and when that
// is.
std::string memory_table(const std::vector<RunResult>& results, int width);

// Returns lines on a run that does not fit: by how much, what holds the most, and the changes with
// which it fits. Empty: it fits.
std::string unfit_lines(const RunResult& result);

}  // namespace tandem
