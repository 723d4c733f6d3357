// The text of a sizing: answers, machines, jobs, plans, network tiers, sensitivity.
#pragma once

#include <string>

#include "planning/size/size.h"
#include "report/text/text_table.h"

namespace tandem {

std::string size_text(const SizeResult& result, int width = kAnyWidth);

}  // namespace tandem
