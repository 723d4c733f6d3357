// The text of a tune: the best plans, how many plans the search cut off, and whether the rules of
// training guides hold.
#pragma once

#include <string>

#include "planning/tune/tune.h"
#include "report/text/text_table.h"

namespace tandem {

// `command`: simulates the scenario: "tandem simulate FILE". The text shows it with the settings of
// the best plan.
std::string tune_text(const Tuned& tuned, const std::string& command, int width = kAnyWidth);

// Returns the line that reports a better plan while the search goes on. `keeps_rules`: it is the
// best among those that keep the guides' rules.
std::string better_line(const Found& found, bool keeps_rules);

}  // namespace tandem
