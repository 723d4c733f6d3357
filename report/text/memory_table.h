// Texts on a GPU's memory: the tensors that it holds at its peak, and changes that make a plan fit.
#pragma once

#include <string>
#include <vector>

#include "results/run_result.h"

namespace tandem {

// Returns for each run the tensors that its fullest GPU holds at its peak, by class, and the time
// of that peak.
std::string memory_table(const std::vector<RunResult>& results, int width);

// Returns lines on a run that does not fit: the GiB that are missing, the largest tensors, and the
// changes with which it fits. Empty: it fits.
std::string unfit_lines(const RunResult& result);

}  // namespace tandem
