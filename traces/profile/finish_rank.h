// What readers of profiles do when all rows are there.
#pragma once

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// A profile's times are within this of 0: 126 years, of which no sum or difference overflows.
inline constexpr Nanoseconds kMostTime = 4'000'000'000'000'000'000;

// Checks that all times stay in range when `ns` is added, that no kernel ends before it starts, and
// that none takes longer than a day.
Status check_times(const ProfileRank& rank, Nanoseconds ns);

// Adds so much to all of its times.
void shift(Nanoseconds ns, ProfileRank* rank);

// Sorts; joins kernels with what launched them; takes steps from annotations (ProfilerStep#N on a
// CPU thread), and the passes that kernels belong to (phases.cpp).
void finish_rank(ProfileRank* rank);

// The PassPhase and the action of each kernel: of the annotation that it was launched in, or runs
// in on its stream; else Backward of what autograd's threads launched, Forward of other threads' in
// a profile that has both.
void find_phases(ProfileRank* rank);

}  // namespace tandem
