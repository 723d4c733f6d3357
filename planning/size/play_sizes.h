// PlaySizes: simulates the jobs of a sizing, and the same jobs on changed clusters.
#pragma once

#include <vector>

#include "planning/size/size.h"

namespace tandem {

// Plays the plans of the jobs that have one, and sets their results. Sets ramp_s of jobs with a
// batch ramp: the smaller batches are played on the ideal engine, and their times scaled to
// `engine` as the whole batch's.
Status play_sizes(const std::vector<SizeCase>& cases, Engine engine, const SizeOptions& options,
                  const std::vector<SizedJob*>& jobs);

// Plays each job that has a result with a more oversubscribed fabric and with other NICs, on the
// ideal engine, and sets the ratios of SizedJob. Also finds the least bandwidth between nodes that
// is enough, unless the cluster has a calibration: measured times hold at one bandwidth.
Status play_changes(const SizeOptions& options, const std::vector<SizedJob*>& jobs);

}  // namespace tandem
