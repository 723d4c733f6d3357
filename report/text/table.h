// Tables of results, for a terminal.
#pragma once

#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "results/run_result.h"

namespace tandem {

// "14.452", or "14.452*" where that is a guess: seconds of an iteration.
std::string iteration_text(const RunResult& result);

// "1.3": by how much the run may be above the best possible, in percent, rounded up. REQUIRES:
// above_bound(result).
std::string percent_above(const RunResult& result);

// "4512", "31.4": tokens a second and GPU.
std::string tokens_rate(const Training& training);

// A row a run. `traffic`: with columns of what a GPU sends, and of what of it is exposed.
std::string run_table(const std::vector<RunResult>& results, bool traffic = false,
                      int width = kAnyWidth);

// What the figures of these runs mean, a line each: what '*' marks, how FLOPs count attention, and
// beside what a plan fits into the GPU's memory.
std::string notes(const std::vector<const RunResult*>& results);
std::string notes(const std::vector<RunResult>& results);

// The first of them: no measured run stands behind that cost model.
std::string uncalibrated_line(const std::string& cost_model);

// A row a run that has a baseline: what it saves. Empty where none has one.
std::string savings_table(const std::vector<RunResult>& results, int width = kAnyWidth);

// A line for each point of the first axis: what binds it on each of the others, how each compares
// with the one before it and why, how far at most it is from the best possible, and the least
// bandwidth between nodes that it can do with.
std::string conclusions(const std::vector<RunResult>& results);

}  // namespace tandem
