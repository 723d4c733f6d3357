// The page of simulated runs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "report/page/page_data.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns the page of the results of the file `input`, on which the first run is chosen.
// `scenarios`: those of the results, in their order; none if the file is a Program or holds Chakra
// traces. `live`: the page has each run's inputs, to simulate it again. Errors: as run_inputs().
// REQUIRES: results.
Result<PageData> runs_page(const std::string& input, const std::vector<RunResult>& results,
                           const std::vector<Scenario>& scenarios, bool live);

}  // namespace tandem
