// Tables of communication alone, as nccl-tests prints them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "validation/microbench/comm_fit.h"
#include "validation/microbench/comm_run.h"

namespace tandem {

// Returns a table a test: nccl-tests' lines, with its out-of-place columns only. `step`: how one
// size follows from the one before, "2(factor)".
std::string comm_text(const CommResult& result, const CommBench& bench, const std::string& step);

// Returns an array of tables.
nlohmann::ordered_json to_json(const CommResult& result, const CommBench& bench);

// Returns "p2p 0 > 1" or "all_reduce".
std::string title(const CommTest& test);

struct JudgedFit {
  CommFit fit;
  std::vector<JudgedTime> times;
};

// Returns "all_reduce of 8 ranks on 1 node".
std::string group_text(const CalibrationRow& row);

// Returns a row a fit, and rows by size: errors beside those of `cluster`, as it is without the
// fit.
std::string comm_fit_table(const std::vector<JudgedFit>& fits, const std::string& cluster,
                           int width = kAnyWidth);

// Returns lines on what the times of the fits do not determine.
std::vector<std::string> undetermined(const std::vector<JudgedFit>& fits,
                                      const std::string& cluster);

}  // namespace tandem
