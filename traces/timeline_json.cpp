#include "traces/timeline_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "traces/event_order.h"
#include "traces/timeline.h"

namespace tandem {
namespace {

int group_kind_of(const TraceRow& row) {
  return is_compute(row.kind) ? TimelineEvent::kNoScope
                              : static_cast<int>(group_kind_of_lane(row.lane));
}

// Returns the table's ranks and lanes, without events.
std::vector<TimelineRank> empty_ranks(const TraceTable& table) {
  std::map<Rank, int> stands_for;
  for (const RankSplit& split : table.splits) stands_for[split.rank] = split.multiplicity;
  std::vector<TimelineRank> ranks;
  for (const auto& [rank, lanes] : shown_lanes(table)) {
    const auto at = stands_for.find(rank);
    TimelineRank& made =
        ranks.emplace_back(TimelineRank{index(rank), at == stands_for.end() ? 1 : at->second, {}});
    for (const std::string_view lane : lanes) made.lanes.push_back({std::string(lane), {}});
  }
  return ranks;
}

}  // namespace

std::string timeline_json(const Program& program, const Trace& trace) {
  Timeline timeline;
  for (const EventTimes& event : trace.events) {
    if (is_shown(event)) timeline.count(event.end_ns);
  }
  if (timeline.has_too_many()) return timeline_json(std::move(timeline));
  for (const RankTrace& rank : trace.ranks) {
    const Body& body = program.bodies[rank.body];
    const std::span<const EventTimes> events = trace.events_of(program, rank);
    TimelineRank& made =
        timeline.ranks.emplace_back(TimelineRank{index(rank.rank), rank.multiplicity, {}});
    for (const Lane& lane : body.lanes) made.lanes.push_back({lane.name, {}});
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (!is_shown(events[i])) continue;
      const auto& [arrive_ns, start_ns, end_ns] = events[i];
      const Op& op = body.ops[i];
      const bool computes = is_compute(op.kind);
      made.lanes[op.lane].events.push_back(
          {.start_ns = start_ns,
           .length_ns = end_ns - start_ns,
           .waited_ns = computes ? 0 : start_ns - arrive_ns,
           .kind = static_cast<int>(op.kind),
           .scope = computes ? TimelineEvent::kNoScope
                             : static_cast<int>(body.slots[op.slot].group_kind),
           .stage = op.stage,
           .microbatch = op.microbatch,
           .part = op.part,
           .bytes = op.bytes});
    }
  }
  return timeline_json(std::move(timeline));
}

std::string timeline_json(const TraceTable& table) {
  Nanoseconds begin_ns = std::numeric_limits<Nanoseconds>::max();
  for (const TraceRow& row : table.rows) begin_ns = std::min(begin_ns, row.start_ns);
  Timeline timeline;
  for (const TraceRow& row : table.rows) {
    if (is_shown(row)) timeline.count(row.end_ns - begin_ns);
  }
  if (timeline.has_too_many()) return timeline_json(std::move(timeline));
  timeline.ranks = empty_ranks(table);
  std::map<std::pair<Rank, std::string_view>, TimelineLane*> lanes;  // by rank and lane name
  for (TimelineRank& rank : timeline.ranks) {
    for (TimelineLane& lane : rank.lanes) lanes[{Rank{rank.rank}, lane.name}] = &lane;
  }
  for (const TraceRow& row : table.rows) {
    if (!is_shown(row)) continue;
    lanes.at({row.rank, row.lane})
        ->events.push_back({.start_ns = row.start_ns - begin_ns,
                            .length_ns = row.end_ns - row.start_ns,
                            .waited_ns = is_compute(row.kind) ? 0 : row.start_ns - row.arrive_ns,
                            .kind = static_cast<int>(row.kind),
                            .scope = group_kind_of(row),
                            .stage = row.stage,
                            .microbatch = row.microbatch,
                            .part = row.part,
                            .bytes = row.bytes});
  }
  return timeline_json(std::move(timeline));
}

std::string split_json(std::span<const RankSplit> splits) {
  fmt::memory_buffer out;
  const auto column = [&](std::string_view before_it, std::string_view name, const auto& get) {
    fmt::format_to(std::back_inserter(out), "{}\"{}\":", before_it, name);
    char before = '[';
    for (const RankSplit& split : splits)
      fmt::format_to(std::back_inserter(out), "{}{}", std::exchange(before, ','), get(split));
    fmt::format_to(std::back_inserter(out), "{}]", splits.empty() ? "[" : "");
  };
  column("{", "rank", [](const RankSplit& split) { return index(split.rank); });
  column(",", "stands_for", [](const RankSplit& split) { return split.multiplicity; });
  column(",", "compute_ns", [](const RankSplit& split) { return split.compute_ns; });
  fmt::format_to(std::back_inserter(out), ",\n\"exposed_ns\":{{");
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind)
    column(group_kind > 0 ? "," : "", group_kind_name(static_cast<GroupKind>(group_kind)),
           [group_kind](const RankSplit& split) { return split.exposed_ns[group_kind]; });
  column("},\n", "bubble_ns", [](const RankSplit& split) { return split.bubble_ns; });
  out.push_back('}');
  return fmt::to_string(out);
}

}  // namespace tandem
