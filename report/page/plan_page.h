// The pages of tune and of size: tables of plans and of candidates, and the runs to look into.
#pragma once

#include <string>

#include "planning/size/size.h"
#include "planning/tune/tune.h"
#include "report/page/page_data.h"

namespace tandem {

// A row and a run a finalist; of the plans' keys and of the results those columns in which they
// differ. The frontier is of the iteration over memory, among plans that fit.
PageData tune_page(const std::string& title, const Tuned& tuned);

// A row a candidate. The frontier is each job's own, of cost over days at p95. No runs: what to
// show of them is played again (size_run).
PageData size_page(const std::string& title, const SizeResult& result);

// A candidate's run, with the detail of its plan. REQUIRES: a result.
PageRun size_run(const Sized& one, const std::string& detail);

}  // namespace tandem
