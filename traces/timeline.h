// Timeline: ranks, their lanes and the lanes' events as plain values; and its JSON, for the page
// that draws it, with a lane's events in columns. docs/formats.md describes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace tandem {

// A page with more events would not load in a browser; the JSON then only says how many there are.
constexpr std::int64_t kTimelineEventsMax = 1'500'000;

struct TimelineEvent {
  static constexpr int kNoScope = -1;  // of compute

  // waited_ns: how long a communication waited for its last participant.
  Nanoseconds start_ns = 0, length_ns = 0, waited_ns = 0;
  int kind = 0;          // into Timeline::kinds
  int scope = kNoScope;  // into Timeline::scopes: what a communication is for
  int stage = -1, microbatch = -1, part = 0;
  Bytes bytes = 0;
  int name = -1;  // into Timeline::names; -1: none

  bool operator==(const TimelineEvent&) const = default;
};

struct TimelineLane {
  std::string name;
  std::vector<TimelineEvent> events;
};

struct TimelineRank {
  int rank = 0;
  int stands_for = 1;  // number of ranks that do the same, itself included
  std::vector<TimelineLane> lanes;
};

struct Timeline {
  // Fills `kinds` with the names of op kinds and `scopes` with those of group kinds, by number.
  Timeline();

  // Counts one event that ends then.
  void count(Nanoseconds event_end_ns) {
    ++events;
    end_ns = std::max(end_ns, event_end_ns);
  }
  bool has_too_many() const { return events > kTimelineEventsMax; }

  std::vector<std::string> kinds, scopes;
  std::vector<std::string> names;  // of events; empty: none has any
  std::int64_t events = 0;         // in all
  Nanoseconds end_ns = 0;          // of the last one
  std::vector<TimelineRank> ranks;
};

// Events are sorted by their start; lanes without events are left out.
std::string timeline_json(Timeline timeline);

}  // namespace tandem
