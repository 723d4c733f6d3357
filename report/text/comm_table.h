// Tables of communication alone, as nccl-tests prints them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "validation/microbench/comm_run.h"

namespace tandem {

// A table a test: nccl-tests' lines, with its out-of-place columns only. `step`: from one size to
// the next, "2(factor)".
std::string comm_text(const CommResult& result, const CommBench& bench, const std::string& step);

// An array of tables.
nlohmann::ordered_json to_json(const CommResult& result, const CommBench& bench);

// "p2p 0 > 1", "all_reduce".
std::string title(const CommTest& test);

}  // namespace tandem
