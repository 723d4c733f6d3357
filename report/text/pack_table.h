// The text of a pack: iterations over the same sequences, padded to a fixed length or packed into
// bins of tokens.
#pragma once

#include <string>

#include "planning/pack/pack.h"
#include "report/text/text_table.h"

namespace tandem {

// Returns the sequences, a row for each way to batch them, and a sentence that compares two ways.
std::string pack_text(const PackStudy& study, int width = kAnyWidth);

}  // namespace tandem
