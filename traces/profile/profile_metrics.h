// Where a profile's time goes, by Holistic Trace Analysis' definitions: a rank's span is from its
// first kernel's start to the last one's end; idle is when no kernel, copy or fill runs; what is
// overlapped of communication is the part beside compute.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "traces/profile/profile.h"
#include "workload/model/pass.h"

namespace tandem {

// Which kernels count, and how their times are read.
struct ProfileView {
  // As HTA computes it, to hold its numbers against ours: starts rounded up and ends down to whole
  // microseconds, so that what is shorter may vanish; communication by HTA's names alone.
  bool as_hta = false;
  // Communication from when its last participant arrived, where that is known (align.h), so that
  // waiting for a peer is idle.
  bool without_waiting = false;
};

// How the kernels that count were chosen.
enum class StepsBy { Whole, ProfilerStep, Repetition };

// The steps of all ranks that count.
struct ProfileWindow {
  StepsBy by = StepsBy::Whole;
  int steps = 1;                              // as many on each rank
  std::vector<std::vector<bool>> is_counted;  // by rank and kernel; empty: all of the rank's
};

// As HTA: with ProfilerSteps of two names or more, over all ranks, the kernels that were launched
// before each rank's last step began. With none, and kernels of compute that repeat in one order
// (twice or more, on each rank as often), whole repetitions. Else all.
ProfileWindow window_of(const Profile& profile);

// A kind of communication: what it is for, and what it does, where either is known.
struct CommLabel {
  std::optional<GroupKind> kind;
  std::string collective;

  std::string text() const;  // "tensor all-gather", "all-reduce"
  auto operator<=>(const CommLabel&) const = default;
};

struct CommTotal {
  CommLabel label;
  std::int64_t count = 0;
  Nanoseconds time_ns = 0;     // the union
  Nanoseconds overlap_ns = 0;  // of it beside compute
  Nanoseconds exposed_ns = 0;  // beside none; what is in flight with other labels counts once
  Nanoseconds waiting_ns = 0;  // for peers, added up, where it is known
  std::int64_t told = 0;       // of count: whose arguments the profile tells
  // Of those whose size is known: bytes, as nccl-tests counts them, the time of these alone, added
  // up, and the bytes on the bus that busbw is made of.
  std::int64_t sized = 0;
  double bytes = 0, bus_bytes = 0;
  Nanoseconds sized_ns = 0;

  double bus_bytes_per_s() const {
    return sized_ns > 0 ? bus_bytes / (1e-9 * static_cast<double>(sized_ns)) : 0;
  }
};

struct KernelTotal {
  std::string name;
  std::int64_t count = 0;
  Nanoseconds time_ns = 0;  // added up
};

// What the kernels of a pass took: their durations added up, compute alone.
struct PhaseTotal {
  PassPhase phase = PassPhase::Unknown;
  int stage = -1;
  std::int64_t passes = 0;  // that annotations tell apart; 0: none is told apart
  Nanoseconds time_ns = 0;
  Nanoseconds median_ns = 0;  // of a pass
};

// One rank: compute + exposed communication + memory alone + idle = span, where waits are not told;
// and always + bubble, in the place of idle, = step.
struct ProfileSplit {
  int rank = 0;
  int multiplicity = 1;
  std::int64_t kernels = 0, copies = 0;   // with fills
  std::int64_t below_us = 0;              // of both: shorter than 1 us
  Nanoseconds first_ns = 0, span_ns = 0;  // from the first kernel's start on
  Nanoseconds compute_ns = 0;             // unions
  Nanoseconds communication_ns = 0;
  Nanoseconds overlap_ns = 0;       // of communication
  Nanoseconds memory_alone_ns = 0;  // copies and fills, nothing else running
  Nanoseconds idle_ns = 0;
  Nanoseconds exposed_ns = 0;    // of communication: what compute waits for where that is told
                                 // (awaited.h), else all that is in flight without compute
  Nanoseconds step_ns = 0;       // from the first kernel of all ranks to the last one's end
  Nanoseconds bubble_ns = 0;     // of it: neither compute, nor exposed, nor memory alone
  Nanoseconds waiting_ns = 0;    // of communication, added up: for peers, where known
  std::vector<CommTotal> comms;  // by label
  std::vector<CommTotal> kinds;  // by what it is for; where that is unknown by collective
  std::vector<KernelTotal> categories;  // of compute, the longest first
  std::vector<KernelTotal> names;       // of all, the longest first
  std::vector<PhaseTotal> phases;       // by phase and stage

  std::optional<double> overlap_fraction() const;  // of communication; nothing without any
  double idle_fraction() const;                    // of the span
};

// The rank by itself: its step is its span. Error(BadInput), naming the file, where no kernel is
// left to count.
Result<ProfileSplit> split_of(const ProfileRank& rank, const std::vector<bool>& is_counted,
                              const ProfileView& view = {});
// The same of all ranks, with the step that they have in common: their clocks are taken as one.
Result<std::vector<ProfileSplit>> splits_of(const Profile& profile, const ProfileWindow& window,
                                            const ProfileView& view = {});

// Intervals that neither touch nor overlap, by start.
using Intervals = std::vector<std::pair<Nanoseconds, Nanoseconds>>;
Intervals union_of(Intervals intervals);
Nanoseconds length_of(const Intervals& intervals);
Intervals common_of(const Intervals& a, const Intervals& b);

CommLabel label_of(const ProfileRank& rank, const ProfileKernel& kernel);
// As nccl-tests counts them; nothing where the profile does not say, or the collective has none.
std::optional<double> bytes_of(const ProfileRank& rank, const ProfileKernel& kernel);

}  // namespace tandem
