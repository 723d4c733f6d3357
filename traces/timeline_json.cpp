#include "traces/timeline_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "traces/timeline.h"

namespace tandem {
namespace {

bool is_shown(Nanoseconds start_ns, Nanoseconds end_ns) {
  return start_ns >= 0 && end_ns > start_ns;
}

int group_kind_of(const TraceRow& row) {
  return is_compute(row.kind) ? TimelineEvent::kNoScope
                              : static_cast<int>(group_kind_of_lane(row.lane));
}

}  // namespace

std::string timeline_json(const Program& program, const Trace& trace) {
  Timeline timeline;
  for (const EventTimes& event : trace.events) {
    if (is_shown(event.start_ns, event.end_ns)) timeline.count(event.end_ns);
  }
  if (timeline.has_too_many()) return timeline_json(std::move(timeline));
  for (const RankTrace& rank : trace.ranks) {
    const Body& body = program.bodies[rank.body];
    const std::span<const EventTimes> events = trace.events_of(program, rank);
    TimelineRank& made =
        timeline.ranks.emplace_back(TimelineRank{index(rank.rank), rank.multiplicity, {}});
    for (const Lane& lane : body.lanes) made.lanes.push_back({lane.name, {}});
    for (std::size_t i = 0; i < events.size(); ++i) {
      const auto& [arrive_ns, start_ns, end_ns] = events[i];
      if (!is_shown(start_ns, end_ns)) continue;
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
  std::map<Rank, int> stands_for;
  for (const RankSplit& split : table.splits) stands_for[split.rank] = split.multiplicity;
  // Lanes are ordered by the smallest number of an op on them, compute first. So two tables of one
  // Program have their lanes in the same order, whatever the times.
  std::map<Rank, std::map<std::string_view, std::int64_t>> first_op;
  Timeline timeline;
  for (const TraceRow& row : table.rows) {
    if (!is_shown(row.start_ns, row.end_ns)) continue;
    timeline.count(row.end_ns - begin_ns);
    const std::int64_t op = is_compute(row.kind) ? -1 : row.op;
    const auto [at, is_new] = first_op[row.rank].try_emplace(row.lane, op);
    if (!is_new) at->second = std::min(at->second, op);
  }
  if (timeline.has_too_many()) return timeline_json(std::move(timeline));
  struct LanePlace {
    std::size_t rank, lane;  // numbers in timeline.ranks and in that rank's lanes
  };
  std::map<std::pair<Rank, std::string_view>, LanePlace> places;  // by rank and lane name
  for (const auto& [rank, lanes] : first_op) {
    const auto at = stands_for.find(rank);
    timeline.ranks.push_back({index(rank), at == stands_for.end() ? 1 : at->second, {}});
    std::vector<std::pair<std::int64_t, std::string_view>> in_order;
    for (const auto& [lane, op] : lanes) in_order.emplace_back(op, lane);
    std::ranges::sort(in_order);
    for (const auto& [op, lane] : in_order) {
      places[{rank, lane}] = {timeline.ranks.size() - 1, timeline.ranks.back().lanes.size()};
      timeline.ranks.back().lanes.push_back({std::string(lane), {}});
    }
  }
  for (const TraceRow& row : table.rows) {
    if (!is_shown(row.start_ns, row.end_ns)) continue;
    const auto [rank, lane] = places.at({row.rank, row.lane});
    timeline.ranks[rank].lanes[lane].events.push_back(
        {.start_ns = row.start_ns - begin_ns,
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
  const auto column = [&](std::string_view name, const auto& get) {
    fmt::format_to(std::back_inserter(out), "\"{}\":", name);
    char before = '[';
    for (const RankSplit& split : splits)
      fmt::format_to(std::back_inserter(out), "{}{}", std::exchange(before, ','), get(split));
    fmt::format_to(std::back_inserter(out), "{}]", splits.empty() ? "[" : "");
  };
  out.push_back('{');
  column("rank", [](const RankSplit& split) { return index(split.rank); });
  out.push_back(',');
  column("stands_for", [](const RankSplit& split) { return split.multiplicity; });
  out.push_back(',');
  column("compute_ns", [](const RankSplit& split) { return split.compute_ns; });
  fmt::format_to(std::back_inserter(out), ",\n\"exposed_ns\":{{");
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind) {
    if (group_kind > 0) out.push_back(',');
    column(group_kind_name(static_cast<GroupKind>(group_kind)),
           [group_kind](const RankSplit& split) { return split.exposed_ns[group_kind]; });
  }
  fmt::format_to(std::back_inserter(out), "}},\n");
  column("bubble_ns", [](const RankSplit& split) { return split.bubble_ns; });
  out.push_back('}');
  return fmt::to_string(out);
}

}  // namespace tandem
