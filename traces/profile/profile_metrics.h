// Splits a profile's time by the definitions of Holistic Trace Analysis (HTA). A rank's span is
// from its first kernel's start to the last one's end. It is idle while no kernel, copy or fill
// runs. Communication is overlapped while a kernel of compute runs beside it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "traces/profile/profile.h"
#include "workload/model/pass.h"

namespace tandem {

// Says how to read the times and the activity of each kernel.
struct ProfileView {
  // Reads kernels as HTA does, to compare its numbers with ours: starts are rounded up and ends
  // down to whole microseconds, so that short kernels may vanish, and a kernel's activity is the
  // one that HTA gives its name.
  bool as_hta = false;
  // Counts communication from the arrival of its last participant, where that is known (align.h),
  // so that waiting for a peer is idle.
  bool without_waiting = false;
};

// How the steps that count were found.
enum class StepsBy { Whole, ProfilerStep, Repetition };

// The steps that count, on all ranks.
struct ProfileWindow {
  StepsBy by = StepsBy::Whole;
  int steps = 1;                              // equally many on each rank
  std::vector<std::vector<bool>> is_counted;  // by rank and kernel; empty: all kernels
  // The shortest and longest step, from first kernel to first kernel of the ranks on the first
  // clock, or, of repetitions, of the first rank; 0: not known.
  Nanoseconds shortest_ns = 0, longest_ns = 0;

  // Returns whether steps differ so much that their mean is the length of none.
  bool steps_differ() const {
    return static_cast<double>(longest_ns) > 1.2 * static_cast<double>(shortest_ns);
  }
};

// Chooses the steps as HTA does (window.cpp):
// - With two ProfilerSteps or more (by name, over all ranks), the kernels count that were launched
//   before each rank's last step began.
// - Without ProfilerSteps, whole repetitions count if the compute kernels repeat in one order, at
//   least twice and equally often on each rank.
// - Otherwise all kernels count.
ProfileWindow window_of(const Profile& profile);

// How a rank's steps follow one another. They overlap if the pipeline is not drained between steps.
struct StepsBeside {
  Nanoseconds overlap_ns = 0;  // the longest: a step's first kernel to the previous step's end
  Nanoseconds every_ns = 0;    // from first kernel to first kernel, the mean
};
StepsBeside steps_beside(const ProfileRank& rank);

// Returns how often the optimizer ran. Runs without a backward between them count once.
int optimizer_rounds(const ProfileRank& rank);

// A kind of communication: what it is for, and what it does, as far as each is known.
struct CommLabel {
  std::optional<GroupKind> kind;
  std::string collective;

  std::string text() const;  // "tensor all-gather", "all-reduce"
  auto operator<=>(const CommLabel&) const = default;
};

struct CommTotal {
  CommLabel label;
  std::int64_t count = 0;
  Nanoseconds time_ns = 0;          // of the union of its kernels
  Nanoseconds overlap_ns = 0;       // part of time_ns beside compute
  Nanoseconds exposed_ns = 0;       // without compute; shared time counts once
  Nanoseconds waiting_ns = 0;       // part of time_ns: none transfers, as all wait for peers
  std::int64_t with_arguments = 0;  // those of `count` whose arguments are known
  // The members below cover only the communication whose size is known.
  std::int64_t sized = 0;    // how many
  double bytes = 0;          // as nccl-tests counts them
  double bus_bytes = 0;      // bytes times nccl-tests' factor from algbw to busbw
  double largest = 0;        // bytes of the largest one
  Nanoseconds sized_ns = 0;  // their times added up, without waiting

  double bus_bytes_per_s() const {
    return sized_ns > 0 ? bus_bytes / (1e-9 * static_cast<double>(sized_ns)) : 0;
  }
};

struct KernelTotal {
  std::string name;
  std::int64_t count = 0;
  Nanoseconds time_ns = 0;  // added up
};

// Durations of a pass's kernels of compute, added up.
struct PhaseTotal {
  PassPhase phase = PassPhase::Unknown;
  int stage = -1;
  std::int64_t passes = 0;  // passes that annotations tell apart; 0: none
  Nanoseconds time_ns = 0;
  Nanoseconds median_ns = 0;  // of one pass
};

// A rank's times. compute + exposed communication + memory alone + bubble = step. If waits are not
// recorded, also compute + exposed communication + memory alone + idle = span.
struct ProfileSplit {
  int rank = 0;
  int multiplicity = 1;
  std::int64_t kernels = 0, copies = 0;   // copies with fills
  std::int64_t below_us = 0;              // kernels and copies shorter than 1 us
  Nanoseconds first_ns = 0, span_ns = 0;  // span: from the first kernel's start
  Nanoseconds compute_ns = 0;             // while any compute kernel runs
  Nanoseconds communication_ns = 0;       // while any communication runs
  Nanoseconds overlap_ns = 0;             // part of communication_ns: while compute runs
  Nanoseconds memory_alone_ns = 0;        // copies and fills while nothing else runs
  Nanoseconds idle_ns = 0;
  // Communication that compute waits for, where waits are recorded (awaited.h); else all that runs
  // without compute.
  Nanoseconds exposed_ns = 0;
  Nanoseconds step_ns = 0;       // from the first kernel of all ranks to the last one's end
  Nanoseconds bubble_ns = 0;     // part of step_ns: neither compute, nor exposed, nor memory alone
  Nanoseconds waiting_ns = 0;    // part of communication_ns: for peers, where known
  std::vector<CommTotal> comms;  // by label
  std::vector<CommTotal> kinds;  // by what it is for, or by collective where that is unknown
  std::vector<KernelTotal> categories;  // of compute, the longest first
  std::vector<KernelTotal> names;       // of all kernels, the longest first
  std::vector<PhaseTotal> phases;       // by phase and stage

  std::optional<double> overlap_fraction() const;  // of communication; nothing if there is none
  double idle_fraction() const;                    // of the span
};

// Returns the split of a rank by itself: its step is its span. Error(BadInput), naming the file, if
// no kernel counts.
Result<ProfileSplit> split_of(const ProfileRank& rank, const std::vector<bool>& is_counted,
                              const ProfileView& view = {});
// Returns the splits of all ranks. Ranks on one clock share a step: from their first kernel to the
// last one's end. In a profile with several clocks a rank's step is at least as long as its own
// ProfilerSteps from begin to begin.
Result<std::vector<ProfileSplit>> splits_of(const Profile& profile, const ProfileWindow& window,
                                            const ProfileView& view = {});

// Intervals by start that neither touch nor overlap.
using Intervals = std::vector<std::pair<Nanoseconds, Nanoseconds>>;
Intervals union_of(Intervals intervals);
Nanoseconds length_of(const Intervals& intervals);
Intervals intersection_of(const Intervals& a, const Intervals& b);

CommLabel label_of(const ProfileRank& rank, const ProfileKernel& kernel);
// Returns the bytes as nccl-tests counts them; nothing if the profile does not say them.
std::optional<double> bytes_of(const ProfileRank& rank, const ProfileKernel& kernel);

}  // namespace tandem
