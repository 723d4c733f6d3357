// The text of a sizing: answers, machines, jobs, plans, network tiers, sensitivity.
#pragma once

#include <string>

#include "planning/size/size.h"
#include "report/text/text_table.h"

namespace tandem {

// Returns a line an answer, the recommendation first; then which jobs' times are guesses, and how
// sure the recommendation is.
std::string size_answers(const SizeResult& result);

// Returns lines on what cannot be built or bought as the file has it, and on times that are bounds.
std::string size_warnings(const SizeResult& result);

// Returns lines on how to read the figures.
std::string size_notes(const SizeResult& result);

// Returns all of it, with the tables.
std::string size_text(const SizeResult& result, int width = kAnyWidth);

}  // namespace tandem
