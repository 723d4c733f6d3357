// PlaySizes: plays the jobs of a sizing, and changes of them.
#pragma once

#include <vector>

#include "planning/size/size.h"

namespace tandem {

// Plays the plans of the jobs that have one, and sets their results. A job whose ramp has batches
// of its own gets their time by the ideal engine's ratios.
Status play_sizes(const std::vector<SizeCase>& cases, Engine engine, const SizeOptions& options,
                  const std::vector<SizedJob*>& jobs);

// Plays changes of each job that has a result, on the ideal engine, and sets their ratios: a fabric
// that is oversubscribed more, other NICs, and the least bandwidth between nodes that is enough.
// Jobs whose cluster has a calibration get no least bandwidth: measured times hold at one
// bandwidth.
Status play_changes(const SizeOptions& options, const std::vector<SizedJob*>& jobs);

}  // namespace tandem
