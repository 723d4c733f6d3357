// Tables of communication alone: benchmarks as nccl-tests prints them, and fits of latency and
// bandwidth to such benchmarks.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "validation/microbench/comm_fit.h"
#include "validation/microbench/comm_run.h"

namespace tandem {

// Returns a table a test in the format of nccl-tests, with its out-of-place columns only. `step`:
// how a size follows from the one before, in nccl-tests' words: "2(factor)".
std::string comm_text(const CommResult& result, const CommBench& bench, const std::string& step);

// Returns an array of tables.
nlohmann::ordered_json to_json(const CommResult& result, const CommBench& bench);

// Returns "p2p 0 > 1" or "all_reduce".
std::string title(const CommTest& test);

// A fit with the measured times that it is compared with.
struct JudgedFit {
  CommFit fit;
  std::vector<JudgedTime> times;
};

// Returns "all_reduce of 8 ranks on 1 node".
std::string group_text(const CalibrationRow& row);

// Returns rows for each fit: one for all sizes, then one for each range of sizes. Each has the
// errors of the fit, and those of `cluster` without the fit.
std::string comm_fit_table(const std::vector<JudgedFit>& fits, const std::string& cluster,
                           int width = kAnyWidth);

// Returns lines on what the measured times do not determine: a latency or a bandwidth that hardly
// changes them, and operations and groups of ranks that were not measured.
std::vector<std::string> undetermined(const std::vector<JudgedFit>& fits,
                                      const std::string& cluster);

}  // namespace tandem
