// Trace: when every op of a Program arrived, started and ended on every rank that was played.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
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

}  // namespace tandem
