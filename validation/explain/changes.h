// Changes: what of a profiled run differs from its simulation, as changes of durations.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "validation/explain/explain.h"
#include "validation/explain/op_durations.h"
#include "validation/explain/profiled_run.h"

namespace tandem {

// A cause before it is played: how it changes durations.
struct Change {
  std::string what, evidence, advice;
  std::function<void(OpDurations*)> apply;
};

std::string times_text(double factor);  // "take 1.2 times as long"

// Returns the changes that make of `base` what was measured, in the order in which they apply:
// kinds of kernels, stages, ranks, experts, single ops, links, single communications, delays, gaps
// between steps. They refer to the arguments, which must stay.
std::vector<Change> changes_of(const Program& program, const OpDurations& base,
                               const ProfiledRun& run);

// Returns the measured ranks, each with its compute over the simulated, and its delays.
std::vector<ExplainedRank> explained_ranks(const Program& program, const OpDurations& base,
                                           const ProfiledRun& run);

}  // namespace tandem
