// The page of runs that were simulated.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "report/page/page_data.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns the page of the results of the file `input`, the first one chosen. `scenarios`: those of
// the results, in their order; none: the file is a Program or holds Chakra traces. `live`: each run
// goes along with what it is simulated again from. Errors: as run_inputs(). REQUIRES: results.
Result<PageData> runs_page(const std::string& input, const std::vector<RunResult>& results,
                           const std::vector<Scenario>& scenarios, bool live);

}  // namespace tandem
