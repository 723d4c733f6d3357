// The pages of tune and of size: tables of plans and of candidates, and their runs.
#pragma once

#include <string>

#include "planning/size/size.h"
#include "planning/tune/tune.h"
#include "report/page/page_data.h"

namespace tandem {

// Returns a page with a row and a run for each finalist. A key has a column if the plans differ in
// it. The frontier is that of iteration time over memory, of the plans that fit.
PageData tune_page(const std::string& title, const Tuned& tuned);

// Returns a page with the machines to buy, and a row for each job on each machine. Each job has its
// own frontier, of cost over days at p95. The page has no runs yet: those to show are simulated
// again with their details, and added with size_run().
PageData size_page(const std::string& title, const SizeResult& result);

// Returns a job's run, with the detail of its plan. REQUIRES: the job has a result.
PageRun size_run(const SizedJob& job, const std::string& detail);

}  // namespace tandem
