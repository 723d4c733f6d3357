// Tornado: how far each input moves the recommended machine over its range.
#pragma once

#include <vector>

#include "planning/size/size.h"

namespace tandem {

// Returns a bar for each input that moves the days or the total, or changes which machine is
// recommended. Inputs range over size.range_*; the iteration's time also ranges from the 5th to the
// 95th percentile of the cost model's error. Only the machines of the result are compared; none is
// tuned anew. Empty: no machine is recommended.
std::vector<TornadoBar> tornado(const std::vector<SizeCase>& cases, const SizeResult& result);

}  // namespace tandem
