// The pages of tune and of size: tables of plans and of candidates, and the runs to look into.
#pragma once

#include <string>

#include "planning/size/size.h"
#include "planning/tune/tune.h"
#include "report/page/page_data.h"

namespace tandem {

// Returns a page with a row and a run a finalist. Keys of the plans have a column if the plans
// differ in them. The frontier is of the iteration over memory, among plans that fit.
PageData tune_page(const std::string& title, const Tuned& tuned);

// Returns a page with what to buy, and a row a job on each machine. Each job has a frontier of its
// own, of cost over days at p95. The page has no runs: what to show of them is played again
// (size_run).
PageData size_page(const std::string& title, const SizeResult& result);

// Returns a job's run, with the detail of its plan. REQUIRES: it has a result.
PageRun size_run(const SizedJob& one, const std::string& detail);

}  // namespace tandem
