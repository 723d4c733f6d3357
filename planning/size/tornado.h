// Tornado: how far each input moves the recommended machine over its range.
#pragma once

#include <vector>

#include "planning/size/size.h"

namespace tandem {

// Returns a bar for each input that moves the days or the total, or changes the choice. Ranges are
// those of size.range_*, and of the time of an iteration the cost model's own 5th and 95th
// percentile. Only the machines of the result are compared; none is tuned anew. Empty: none is
// recommended.
std::vector<TornadoBar> tornado(const std::vector<SizeCase>& cases, const SizeResult& result);

}  // namespace tandem
