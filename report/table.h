// Tables of outcomes, for a terminal.
#pragma once

#include <string>
#include <vector>

#include "report/text_table.h"
#include "scenarios/outcome.h"

namespace tandem {

// A row a run. `traffic`: with columns of what a GPU sends, and of what of it is exposed.
std::string outcome_table(const std::vector<Outcome>& outcomes, bool traffic = false,
                          int width = kAnyWidth);

// A row a run that has a baseline: what it saves. Empty where none has one.
std::string savings_table(const std::vector<Outcome>& outcomes, int width = kAnyWidth);

// A line for each point of the first axis: what binds it on each of the others, how each compares
// with the one before it and why, and the least bandwidth between nodes that it can do with.
std::string conclusions(const std::vector<Outcome>& outcomes);

}  // namespace tandem
