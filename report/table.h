// Tables of outcomes, for a terminal.
#pragma once

#include <string>
#include <vector>

#include "scenarios/outcome.h"

namespace tandem {

// Rows of cells, aligned: the first `left` columns to the left, the others to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t left);

// A row a run. `traffic`: with columns of what a GPU sends, and of what of it is exposed.
std::string outcome_table(const std::vector<Outcome>& outcomes, bool traffic = false);

// What '*' in the tables means: a line for a cost model that no measured run stands behind, and one
// for each of many outcomes'; empty where there is none.
std::string uncalibrated_line(const std::string& cost_model);
std::string uncalibrated_text(const std::vector<const Outcome*>& outcomes);

// A row a run that has a baseline: what it saves. Empty where none has one.
std::string savings_table(const std::vector<Outcome>& outcomes);

// A line for each point of the first axis: what binds it on each of the others, how each compares
// with the one before it and why, and the least bandwidth between nodes that it can do with.
std::string conclusions(const std::vector<Outcome>& outcomes);

}  // namespace tandem
