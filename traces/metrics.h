// Metrics: the figures that are derived from a trace: iteration time, bubble, exposed
// communication, overlap.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

using ByGroupKind = std::array<double, kGroupKinds>;  // indexed by GroupKind

// A rank's iteration, split without a rest: compute + exposed (of all group kinds) + bubble =
// iteration. While the compute lane idles, an instant is exposed communication if a communication
// is in flight that the next compute op waits for; otherwise it is bubble. If there are several,
// the instant counts for the one that ends last, and among those for the one on the first lane.
// Example, of group kind pipeline:
//
//   compute lane   F0 F0 F0 .  .  .  .  F1 F1
//   recv of F1     .  .  .  .  R  R  R  .  .       1 bubble, 3 exposed
struct RankSplit {
  Rank rank{};
  int multiplicity = 1;  // how many ranks it stands for
  Nanoseconds compute_ns = 0;
  Nanoseconds bubble_ns = 0;
  Nanoseconds window_bubble_ns = 0;  // part of bubble_ns: from first_start_ns to last_end_ns
  std::array<Nanoseconds, kGroupKinds> exposed_ns{};
  std::array<Nanoseconds, kGroupKinds> comm_ns{};     // union of the kind's communication
  std::array<Nanoseconds, kGroupKinds> overlap_ns{};  // part of that union beside compute
  Nanoseconds exposed_between_nodes_ns = 0;  // part of exposed_ns: on communicators across nodes
  ByGroupKind sent_bytes{};                  // what the rank puts on the wire
  Nanoseconds first_start_ns = 0;            // of compute; both 0 where there is none
  Nanoseconds last_end_ns = 0;
};

// Means over ranks, each counted as many times as the ranks that it stands for.
struct Metrics {
  double iteration_s = 0;
  double compute_s = 0;
  double bubble_s = 0;
  double bubble_ratio = 0;            // idle / compute
  double bubble_fraction = 0;         // idle / iteration
  double bubble_window_fraction = 0;  // idle inside a rank's own first-to-last window / that window
  double bubble_window_fraction_max = 0;
  ByGroupKind exposed_s{};
  ByGroupKind comm_s{};
  // Means over the ranks that have such communication.
  std::array<std::optional<double>, kGroupKinds> overlap_fraction;
  double exposed_between_nodes_s = 0;
  // Bytes that a rank puts on the wire, with collectives as rings: each of n ranks sends 2(n-1)/n
  // of an all-reduce's bytes, (n-1)/n of other collectives', and all of a send's or a ring shift's.
  ByGroupKind sent_bytes{};
  std::vector<RankSplit> ranks;
};

// Returns the metrics of the iteration from the first start to the last end over all ranks. Takes
// time linear in the events if every op starts after all that it waits for. Other traces still
// split without a rest.
//
// REQUIRES: every event of the trace has ended, 0 <= start <= end; compute ops stand on lane 0.
Metrics measure(const Program& program, const Trace& trace);

// A stretch of a rank's iteration, counted from its begin: compute of one kind, or exposed
// communication.
struct SplitSpan {
  Nanoseconds begin_ns = 0, end_ns = 0;
  bool exposed = false;
  OpKind kind = OpKind::Forward;               // of the compute
  GroupKind group_kind = GroupKind::Pipeline;  // of the exposed communication
};

struct SplitSpans {
  Nanoseconds iteration_ns = 0;
  std::vector<std::vector<SplitSpan>> ranks;  // those asked for; time that no span covers is bubble
};

// Returns the stretches that measure() adds up. `ranks` are numbers into trace.ranks. REQUIRES: as
// for measure.
SplitSpans split_spans(const Program& program, const Trace& trace,
                       std::span<const std::size_t> ranks);

// Returns the split of each rank of `trace`, over an iteration from 0 to `iteration_ns`. The trace
// may hold only some of all ranks. REQUIRES: as for measure.
std::vector<RankSplit> split_ranks(const Program& program, const Trace& trace,
                                   Nanoseconds iteration_ns);

// The bytes that a body's ops send over one of its slots. Of n ranks, one puts on the wire all of
// `whole` and (n-1)/n of `in_rings`, where all-reduces count twice.
struct SlotBytes {
  Bytes whole = 0, in_rings = 0;
};
std::vector<SlotBytes> bytes_by_slot(const Body& body);
// Returns what a rank with these bytes by slot puts on the wire.
ByGroupKind sent_bytes(const Program& program, Rank rank, std::span<const SlotBytes> by_slot);

// Returns the means over the splits of an iteration of this length.
Metrics means_of(std::vector<RankSplit> splits, Nanoseconds iteration_ns);

}  // namespace tandem
