// Op times out of a profile: a Program that takes what a real run's kernels took, and the seconds
// of its passes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/profile/profile.h"

namespace tandem {

// How much of a Program a profile has measured.
struct MeasuredOps {
  std::int64_t compute = 0, compute_as_priced = 0;  // ops of all bodies
  std::int64_t comm = 0, comm_as_priced = 0;

  // For people: what was not measured and goes as priced; none: all was.
  std::vector<std::string> warnings(const std::string& path) const;
};

// A compute op takes what the kernels of its pass took (its stage, kind and microbatch, of a rank
// of its body: the union of their times, the mean of steps); several ops of a pass share that by
// their prices. Where the profile tells no microbatches it is the median of its passes. A
// communication takes, from when its last participant was ready, what the one at its place took, by
// kind and collective; where the profile has more or fewer of them, their median. SMs are no longer
// taken: what was measured holds the contention already.
//
// Error(BadInput) where the profile tells no passes, or none of a body's stages.
Result<MeasuredOps> reprice(Program* program, const Profile& profile);

// What a pass of one microbatch through a stage takes: the median over stages and microbatches.
struct PassSeconds {
  std::optional<double> forward_s, backward_s, input_s, weight_s;
  std::optional<double> p2p_s;                          // a transfer between stages
  int stages = 0, microbatches = 0, stages_a_rank = 0;  // 0: not told
  std::vector<double> forward_by_stage;                 // where stages differ, to say so
};

// `passes`: of a microbatch through a rank's stages, in a step of it, where the profile does not
// tell them apart; 0: it must. Error(BadInput) where it does not.
Result<PassSeconds> pass_seconds(const Profile& profile, int passes);

}  // namespace tandem
