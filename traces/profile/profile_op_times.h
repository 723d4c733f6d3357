// Op times out of a profile: gives a Program the times of a real run's kernels, and computes the
// seconds of that run's passes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/profile/profile.h"

namespace tandem {

// How many ops of a Program a profile has measured. The others keep their prices.
struct MeasuredOps {
  std::int64_t compute = 0, compute_as_priced = 0;  // ops of all bodies
  std::int64_t comm = 0, comm_as_priced = 0;

  // Lists, for people, what was not measured and keeps its price; empty if all was.
  std::vector<std::string> warnings(const std::string& path) const;
};

// Gives each op its measured time.
//
// A pass (stage, kind and microbatch, on a rank of the op's body) takes the union of its kernels'
// times, the mean over steps. Several ops of a pass share it in proportion to their prices. If the
// profile does not tell microbatches apart, the median of its passes counts.
//
// A communication takes the time of the profile's communication of the same kind, collective, ranks
// and place in their order, counted from when its last participant was ready. If the profile has
// more or fewer of them than the Program, it takes their median. No op takes SMs any more: the
// measured times already contain the contention.
//
// Error(BadInput) if the profile has no passes, none of a body's stages, or another number of ranks
// or of a rank's forwards than the Program.
Result<MeasuredOps> reprice_by_profile(Program* program, const Profile& profile);

// Times of a pass of one microbatch through a stage: medians over stages and microbatches.
struct PassSeconds {
  std::optional<double> forward_s, backward_s, input_s, weight_s;
  std::optional<double> p2p_s;                          // a transfer between stages
  int stages = 0, microbatches = 0, stages_a_rank = 0;  // 0: unknown
  // Stages are of two chains that run against each other, as DualPipe's. Each has the microbatches.
  bool has_two_chains = false;
  std::vector<double> forward_by_stage;  // to show where stages differ
};

// Returns the times of passes. If the profile does not tell passes apart, a rank's time is divided
// by `passes`, the number that it runs in a step; with 0 that is an Error(BadInput).
Result<PassSeconds> pass_seconds(const Profile& profile, int passes);

}  // namespace tandem
