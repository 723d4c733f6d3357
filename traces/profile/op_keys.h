// Keys by which kernels of a profile and ops of a Program are told to be the same: compute by pass,
// communication by label and ranks, both by their order where a key occurs more than once.
#pragma once

#include <string>

#include "schedule/program/program.h"
#include "traces/profile/profile.h"
#include "traces/profile/profile_metrics.h"

namespace tandem {

// A pass; stage and microbatch are -1 where they are unknown.
struct PassKey {
  PassPhase phase = PassPhase::Unknown;
  int stage = -1, microbatch = -1;

  auto operator<=>(const PassKey&) const = default;
};

PassPhase phase_of(OpKind kind);

// Returns the number of the step that launched a kernel; without a recorded launch, of the step in
// which the kernel starts. 0: before the first step.
int step_of(const ProfileRank& rank, const ProfileKernel& kernel);

CommLabel label_of(const Body& body, const Op& op);

// Returns who takes part in a communication, as far as a kernel's arguments say: "0>1", "[0, 1]";
// empty: they do not.
std::string ranks_of(const ProfileRank& rank, const ProfileKernel& kernel);
std::string ranks_of(const Program& program, int rank, const Op& op);

}  // namespace tandem
