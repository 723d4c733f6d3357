// The text of a sizing: candidates, frontier, recommendation, network tiers, sensitivity.
#pragma once

#include <string>

#include "planning/size.h"

namespace tandem {

std::string size_text(const SizeResult& result);

}  // namespace tandem
