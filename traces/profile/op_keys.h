// Keys that match kernels of a profile with ops of a Program: compute by pass, communication by
// label and ranks. If a key occurs more than once, its kernels and ops match in order.
#pragma once

#include <string>
#include <utility>
#include <vector>

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

// A communication: its label and its ranks.
using CommKey = std::pair<CommLabel, std::string>;

CommLabel label_of(const Body& body, const Op& op);

// Returns the ranks of a communication as text: "0>1", "[0, 1]"; empty: the profile does not say.
std::string ranks_of(const ProfileRank& rank, const ProfileKernel& kernel);
std::string ranks_of(const Program& program, int rank, const Op& op);

// Returns the keys that a profile may give an op's communication, the surest first: it may not tell
// what the group is for, or its ranks, or either.
std::vector<CommKey> keys_in_profile(const CommKey& op);

}  // namespace tandem
