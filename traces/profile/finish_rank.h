// The steps that all readers of profiles share, once they have read all rows.
#pragma once

#include <vector>

#include "base/result.h"
#include "traces/profile/profile.h"

namespace tandem {

// Times are within this of 0. It is 126 years: no sum or difference of two overflows.
inline constexpr Nanoseconds kMostTime = 4'000'000'000'000'000'000;

// Checks that all times stay in range when `ns` is added, that no kernel ends before it starts, and
// that none takes longer than a day.
Status check_times(const ProfileRank& rank, Nanoseconds ns);

// Adds `ns` to all of the rank's times.
void shift(Nanoseconds ns, ProfileRank* rank);

// Sorts rows, joins kernels with the calls that launched them, takes steps from annotations
// (ProfilerStep#N on a CPU thread), and finds the passes of kernels (phases.cpp).
void finish_rank(ProfileRank* rank);

// Finds the phase and the action of each kernel: those of the annotation in which the kernel was
// launched, else of the one in which it runs on its stream. A kernel without annotation is Backward
// if one of autograd's threads launched it, else Forward; in profiles without such threads it stays
// Unknown. (phases.cpp)
void find_phases(ProfileRank* rank);

// Keeps the steps that all ranks have, by name ("ProfilerStep#3"). Drops the others with the
// kernels launched in them; a note of the first rank says how many. Profiles without steps, or with
// one of one name, stay whole. An Error names a rank that has none of the steps, or no kernel in
// them.
Status keep_common_steps(std::vector<ProfileRank>* ranks);

}  // namespace tandem
