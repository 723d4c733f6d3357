// Event order: the order in which the files of a trace list its events and lanes.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "schedule/program/program.h"
#include "traces/trace.h"
#include "traces/trace_files.h"

namespace tandem {

// Sort key of an event: start, then rank, lane, op. The last three share one word, so that sorting
// moves and compares little.
struct EventPlace {
  Nanoseconds start_ns = 0;
  std::uint64_t rank_lane_op = 0;

  static constexpr int kOpBits = 32;
  static constexpr int kLaneBits = 8;

  // `rank` is a position in what ranks_in_order returns.
  EventPlace(Nanoseconds start, std::uint64_t rank, std::uint8_t lane, std::uint64_t op)
      : start_ns(start),
        rank_lane_op(rank << (kOpBits + kLaneBits) | std::uint64_t{lane} << kOpBits | op) {}

  std::size_t rank() const { return rank_lane_op >> (kOpBits + kLaneBits); }
  std::size_t op() const { return rank_lane_op & ((std::uint64_t{1} << kOpBits) - 1); }
  auto operator<=>(const EventPlace&) const = default;
};

// Returns the trace's ranks, sorted by number.
std::vector<const RankTrace*> ranks_in_order(const Trace& trace);

// Returns the sort keys, sorted, of the events that have ended. `ranks` is what ranks_in_order
// returned.
std::vector<EventPlace> places_of(const Program& program, const Trace& trace,
                                  const std::vector<const RankTrace*>& ranks);

// Returns, by body, the number of its first op, counted through all bodies.
std::vector<std::int64_t> first_ops(const Program& program);

// Events and rows that pictures show: those that have started, and have a length.
inline bool is_shown(const EventTimes& event) {
  return event.start_ns >= 0 && event.end_ns > event.start_ns;
}
inline bool is_shown(const TraceRow& row) { return row.end_ns > row.start_ns; }

// Returns each rank's lanes with rows that are shown: the compute lane, then the others by their
// smallest op. So two tables of one Program have their lanes in one order, whatever the times.
std::map<Rank, std::vector<std::string_view>> shown_lanes(const TraceTable& table);

}  // namespace tandem
