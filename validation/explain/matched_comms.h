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

using OpsByComm = std::map<CommKey, std::vector<std::uint32_t>>;  // indices, as simulated in order
using KernelsByComm = std::map<CommKey, std::vector<const ProfileKernel*>>;  // by start

// How many communications there are, and how many of them have no match.
struct CommCount {
  std::int64_t all = 0, unmatched = 0;
};
struct CommCounts {
  std::map<std::string, CommCount> ops, kernels;  // by label, as text

  void add(const CommCounts& other);
  // Names what has no match in one sentence; empty if all has.
  std::string note() const;
};

struct MatchedComms {
  std::vector<std::pair<std::uint32_t, const ProfileKernel*>> pairs;  // an op's index, its kernel
  CommCounts counts;
};

// Matches kernels and ops of one key. The profile's key may tell less than the ops' (no kind of
// group, or no ranks): then it matches if no other key of ops may be meant.
//
// Kernels and ops of a key match in order if they are equally many and each pair is of like size.
// Else they match size by size, where a size has as many kernels as ops. For example, of ops of 1,
// 100 and 100 bytes and kernels of 1, 1, 100 and 100, those of 100 match.
MatchedComms matched_comms(const Body& body, const OpsByComm& ops, const ProfileRank& profile,
                           const KernelsByComm& kernels);

}  // namespace tandem
