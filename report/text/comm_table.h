// Tables of communication alone, as nccl-tests prints them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "validation/microbench/comm_run.h"

namespace tandem {

// Returns a table a test: nccl-tests' lines, with its out-of-place columns only. `step`: how one
// size follows from the one before, "2(factor)".
std::string comm_text(const CommResult& result, const CommBench& bench, const std::string& step);

// Returns an array of tables.
nlohmann::ordered_json to_json(const CommResult& result, const CommBench& bench);

// Returns "p2p 0 > 1" or "all_reduce".
std::string title(const CommTest& test);

}  // namespace tandem
