// Sureness: the probability that the recommended machine turns out to be the best.
#pragma once

#include <optional>
#include <vector>

#include "planning/size/size.h"

namespace tandem {

// Draws what is not known of the runs' times, `size.seed` seeded, and each time takes the cheapest
// machine of those that are in time and within the limits. The error of a prediction has three
// causes of equal variance: the software, the GPU with the precision, and the job on that machine.
// Runs with the same software or GPU share that cause. Machines that are equal share the draw.
// Nothing: none is recommended.
std::optional<Sureness> sureness(const std::vector<SizeCase>& cases, const SizeResult& result);

}  // namespace tandem
