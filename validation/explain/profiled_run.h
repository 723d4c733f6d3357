// ProfiledRun: a profile of a Program's run as means over its steps, op by op.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "validation/explain/delays.h"
#include "validation/explain/op_durations.h"

namespace tandem {

// Means over steps, in ns. A duration below 0 is not known; one of 0, whose kernels have no length,
// tells nothing either.
struct RankOfRun {
  int rank = 0;
  std::vector<double> busy_ns;  // by op
  std::vector<Delay> delays;

  bool knows(std::size_t op) const { return busy_ns[op] > 0; }
};

struct ProfiledRun {
  std::vector<RankOfRun> ranks;
  // By communicator and its n-th operation: the median over the ranks that tell it, or the least if
  // they may wait.
  std::vector<std::vector<double>> comm_ns;
  // By the same: how late they begin (late_operations.h).
  std::vector<std::vector<double>> late_ns;
  double iteration_ns = 0;
  double between_ns = 0;  // from the last kernel of a step to the annotation of the next one
  int steps = 1;
  bool steps_differ = false;  // so much that the means are of no step that was
  // By communicator: its operations may wait for ranks that are not in the profile.
  std::vector<bool> may_wait;
  std::string unmatched;              // a sentence on communication without a match; empty: none
  std::int64_t ops_of_no_length = 0;  // whose kernels have no length, though simulated ones do
};

// Measures the profile's ranks, except those that are not on the first one's clock. `base`:
// simulated durations, by which ops share the time of a pass. Error(BadInput): a rank that the
// Program does not have, steps or forwards that cannot be told apart, or no op of compute is told.
Result<ProfiledRun> profiled_run(const Program& program, const OpDurations& base,
                                 const Profile& profile);

}  // namespace tandem
