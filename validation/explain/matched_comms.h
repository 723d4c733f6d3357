// Matches a step's kernels of communication with ops of a Program, and tells what has no match.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schedule/program/program.h"
#include "traces/profile/op_keys.h"
#include "traces/profile/profile.h"

namespace tandem {

using OpsByComm = std::map<CommKey, std::vector<std::uint32_t>>;             // numbers in the body
using KernelsByComm = std::map<CommKey, std::vector<const ProfileKernel*>>;  // by start

// How many communications there are, and how many of them have no match; by label.
struct CommCount {
  std::int64_t all = 0, unmatched = 0;
};
struct CommCounts {
  std::map<std::string, CommCount> ops, kernels;

  void add(const CommCounts& other);
  // Names what has no match in one sentence; empty if all has.
  std::string note() const;
};

struct MatchedComms {
  std::vector<std::pair<std::uint32_t, const ProfileKernel*>> pairs;  // an op's number, its kernel
  CommCounts counts;
};

// Matches kernels and ops of one key: label and ranks. Where the profile does not tell a group's
// kind or ranks, kernels match by the rest if only one of the ops' keys has it. Of one key they
// match in order if both sides are equally many and of like sizes; else those of a size do of which
// both sides have equally many, first of an equal size and then of the nearest. Ops come in the
// order in which they are simulated.
MatchedComms matched_comms(const Body& body, const OpsByComm& ops, const ProfileRank& profile,
                           const KernelsByComm& kernels);

}  // namespace tandem
