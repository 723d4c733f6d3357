// Metrics: what is derived from a trace: iteration time, bubble, exposed communication, overlap.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

using ByGroupKind = std::array<double, kGroupKinds>;  // indexed by GroupKind

// One rank's iteration, split without rest: compute + exposed (of all group kinds) + bubble =
// iteration. An instant in which the compute lane idles is exposed communication while one of those
// that its next compute op waits for is in flight (of several, the one that ends last; of those the
// one on the first lane), and bubble otherwise.
struct RankSplit {
  Rank rank{};
  int multiplicity = 1;  // how many ranks it stands for
  Nanoseconds compute_ns = 0;
  Nanoseconds bubble_ns = 0;
  Nanoseconds window_bubble_ns = 0;  // of bubble_ns: from first_start_ns to last_end_ns
  std::array<Nanoseconds, kGroupKinds> exposed_ns{};
  std::array<Nanoseconds, kGroupKinds> comm_ns{};     // |union of the kind's communication|
  std::array<Nanoseconds, kGroupKinds> overlap_ns{};  // |that union, beside compute|
  Nanoseconds exposed_between_nodes_ns = 0;  // of exposed_ns: on communicators across nodes
  ByGroupKind sent_bytes{};                  // that the rank puts on the wire
  Nanoseconds first_start_ns = 0;            // of compute; both 0 where there is none
  Nanoseconds last_end_ns = 0;
};

// Means over ranks, each counted as many times as the ranks that it stands for.
struct Metrics {
  double iteration_s = 0;
  double compute_s = 0;
  double bubble_s = 0;
  double bubble_ratio = 0;            // idle / compute, mean over ranks
  double bubble_fraction = 0;         // idle / iteration
  double bubble_window_fraction = 0;  // idle inside a rank's own first-to-last window / that window
  double bubble_window_fraction_max = 0;
  ByGroupKind exposed_s{};
  ByGroupKind comm_s{};
  // Of the ranks that have such communication.
  std::array<std::optional<double>, kGroupKinds> overlap_fraction;
  double exposed_between_nodes_s = 0;
  // What a rank puts on the wire, collectives as rings: of n ranks each sends 2(n-1)/n of an
  // all-reduce's bytes, (n-1)/n of the others', and all of a send's or a ring shift's.
  ByGroupKind sent_bytes{};
  std::vector<RankSplit> ranks;
};

// The iteration is from the first start to the last end over all ranks. Linear in the events for a
// trace in which every op starts after what it waits for; any other one still splits without rest.
//
// REQUIRES: every event of the trace has ended, 0 <= start <= end; compute ops stand on lane 0.
Metrics measure(const Program& program, const Trace& trace);

// A stretch of a rank's iteration, from its begin on: compute of a kind, or exposed communication.
struct SplitSpan {
  Nanoseconds begin_ns = 0, end_ns = 0;
  bool exposed = false;
  OpKind kind = OpKind::Forward;               // of compute
  GroupKind group_kind = GroupKind::Pipeline;  // of exposed communication
};

struct SplitSpans {
  Nanoseconds iteration_ns = 0;
  std::vector<std::vector<SplitSpan>> ranks;  // those asked for; what no span covers is bubble
};

// What measure() adds up. `ranks`: numbers into trace.ranks. REQUIRES: as measure.
SplitSpans split_spans(const Program& program, const Trace& trace,
                       std::span<const std::size_t> ranks);

// Of each rank of a trace that may be a part of all ranks', over an iteration from 0 to
// `iteration_ns`. REQUIRES: as measure.
std::vector<RankSplit> split_ranks(const Program& program, const Trace& trace,
                                   Nanoseconds iteration_ns);

// What a body's ops send over one of its slots: all of `whole`, and of n ranks (n-1)/n of
// `in_rings`, where all-reduces count twice.
struct SlotBytes {
  Bytes whole = 0, in_rings = 0;
};
std::vector<SlotBytes> bytes_by_slot(const Body& body);
// What a rank with these puts on the wire.
ByGroupKind sent_bytes(const Program& program, Rank rank, std::span<const SlotBytes> by_slot);

// The means of these splits of an iteration.
Metrics means_of(std::vector<RankSplit> splits, Nanoseconds iteration_ns);

}  // namespace tandem
