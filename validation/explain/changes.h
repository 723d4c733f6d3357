// Changes: the differences of a profiled run from its simulation, each as a change of op durations
// that a replay can apply alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "validation/explain/explain.h"
#include "validation/explain/op_durations.h"
#include "validation/explain/profiled_run.h"

namespace tandem {

// Says what a change's factors are relative to. Its seconds are what it adds to durations that have
// all changes of the levels before its own.
enum class ChangeLevel {
  Kind,        // of kernels and links: the simulated durations
  Stage,       // those with kinds as measured
  ExpertKind,  // those with kinds and stages as measured
  Other        // those with all of these as measured
};

// A cause of a difference, before a replay tells its seconds.
struct Change {
  std::string what, evidence, advice;
  std::function<void(OpDurations*)> apply;
  ChangeLevel level = ChangeLevel::Other;
};

std::string times_text(double factor);  // "take 1.2 times as long"

// Returns the changes that turn the simulated durations `base` into the measured ones: of kinds of
// kernels, stages, ranks, experts, single ops, links, single communications, delays, late
// communications and gaps between steps. They apply by level, and in this order within one. They
// refer to the arguments, which must outlive them.
std::vector<Change> changes_of(const Program& program, const OpDurations& base,
                               const ProfiledRun& run);

// Returns the ranks of the profile.
std::vector<ExplainedRank> explained_ranks(const Program& program, const OpDurations& base,
                                           const ProfiledRun& run);

}  // namespace tandem
