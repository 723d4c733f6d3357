// Trace: when every op of a Program arrived, started and ended on every rank that was played.
#pragma once

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "schedule/program/program.h"
#include "schedule/program/replay.h"

namespace tandem {

// A played rank's events. There is one for each op of its body, in the body's order, from
// Trace::events[first] on.
struct RankTrace {
  Rank rank{};
  int body = 0;
  int multiplicity = 1;
  std::size_t first = 0;
};

// Times are counted from the start of the iteration.
struct Trace {
  std::vector<std::pair<std::string, std::string>> meta;  // the file's "# key: value" lines
  std::vector<RankTrace> ranks;
  std::vector<EventTimes> events;

  std::span<const EventTimes> events_of(const Program& program, const RankTrace& rank) const {
    return {events.data() + rank.first, program.bodies[rank.body].ops.size()};
  }
};

// Returns the stages that a rank of this body computes.
inline std::set<int> computed_stages(const Body& body) {
  std::set<int> stages;
  for (const Op& op : body.ops) {
    if (is_compute(op.kind) && op.stage >= 0) stages.insert(op.stage);
  }
  return stages;
}

}  // namespace tandem
