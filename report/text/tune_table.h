// The text of a tune: the best plans, what the search cut, and how the guides' rules fared.
#pragma once

#include <string>

#include "planning/tune/tune.h"
#include "report/text/text_table.h"

namespace tandem {

// `command`: how to simulate the best plan, without its settings: "tandem simulate FILE".
std::string tune_text(const Tuned& tuned, const std::string& command, int width = kAnyWidth);

// Returns one line of a search under way.
std::string better_line(const Found& found, bool of_rules);

}  // namespace tandem
