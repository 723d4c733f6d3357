// The text of a pack: what padding and packing make of the same sequences.
#pragma once

#include <string>

#include "planning/pack/pack.h"
#include "report/text/text_table.h"

namespace tandem {

std::string pack_text(const PackStudy& study, int width = kAnyWidth);

}  // namespace tandem
