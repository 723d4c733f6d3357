// Tables of results, for a terminal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/text/text_table.h"
#include "results/run_result.h"

namespace tandem {

// Returns whether the figures are a guess: no measured run supports them. Pass
// RunResult::calibrated.
inline bool is_guess(std::optional<bool> calibrated) { return calibrated == false; }

// Returns the seconds of an iteration: "14.452", or "14.452*" if that is a guess.
std::string iteration_text(const RunResult& result);

// Returns how far at most the iteration is above its lower bound, in percent, rounded up: "1.3".
// REQUIRES: above_bound(result).
std::string percent_above(const RunResult& result);

// Returns the verdict on a plan's memory: "yes", "if unfragmented", "NO".
std::string verdict_word(const Training& training);

// Returns that verdict, and the GiB that are left or (below 0) missing: "yes
// +12.3", "if unfragmented +1.2", "NO -2.0".
std::string verdict_cell(const Training& training);

// Returns tokens a second and GPU: "4512", "31.4".
std::string tokens_rate(const Training& training);

// Returns a row a run. `traffic`: with columns of the GB that a GPU sends and the seconds in which
// communication is exposed.
std::string run_table(const std::vector<RunResult>& results, bool traffic = false,
                      int width = kAnyWidth);

// Returns lines below a table of these runs: what '*' marks, which FLOPs count, when a plan fits
// into the GPU's memory, and which changes make the others fit.
std::string explanatory_notes(const std::vector<const RunResult*>& results);
std::string explanatory_notes(const std::vector<RunResult>& results);

// Returns the line that explains '*': no measured run supports that cost model.
std::string uncalibrated_line(const std::string& cost_model);

// Returns a row for each run that has a baseline: the time that it saves. Empty: none has one.
std::string savings_table(const std::vector<RunResult>& results, int width = kAnyWidth);

// Returns a line for each point of the first axis, on the runs that have it: which two parts take
// most of each iteration, how each run compares with the one before it and why, how far at most it
// is above its lower bound, and the least bandwidth between nodes that is enough.
std::string conclusions(const std::vector<RunResult>& results);

}  // namespace tandem
