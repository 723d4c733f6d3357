#include "traces/event_order.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace tandem {

std::vector<const RankTrace*> ranks_in_order(const Trace& trace) {
  std::vector<const RankTrace*> ranks;
  for (const RankTrace& rank : trace.ranks) ranks.push_back(&rank);
  std::sort(ranks.begin(), ranks.end(),
            [](const RankTrace* a, const RankTrace* b) { return a->rank < b->rank; });
  return ranks;
}

std::vector<EventPlace> places_of(const Program& program, const Trace& trace,
                                  const std::vector<const RankTrace*>& ranks) {
  CHECK(ranks.size() < std::size_t{1} << (64 - EventPlace::kOpBits - EventPlace::kLaneBits));
  std::vector<EventPlace> places;
  places.reserve(trace.events.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<Op>& ops = program.bodies[ranks[rank]->body].ops;
    const std::span<const EventTimes> events = trace.events_of(program, *ranks[rank]);
    for (std::size_t op = 0; op < events.size(); ++op) {
      if (events[op].end_ns >= 0) places.emplace_back(events[op].start_ns, rank, ops[op].lane, op);
    }
  }
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<std::int64_t> first_ops(const Program& program) {
  std::vector<std::int64_t> first;
  std::int64_t ops = 0;
  for (const Body& body : program.bodies) {
    first.push_back(ops);
    ops += static_cast<std::int64_t>(body.ops.size());
  }
  return first;
}

std::map<Rank, std::vector<std::string_view>> shown_lanes(const TraceTable& table) {
  constexpr std::int64_t kBeforeAllOps = -1;
  std::map<Rank, std::map<std::string_view, std::int64_t>> first;
  for (const TraceRow& row : table.rows) {
    if (!is_shown(row)) continue;
    const std::int64_t op = is_compute(row.kind) ? kBeforeAllOps : row.op;
    const auto [at, is_new] = first[row.rank].try_emplace(row.lane, op);
    if (!is_new) at->second = std::min(at->second, op);
  }
  std::map<Rank, std::vector<std::string_view>> in_order;
  for (const auto& [rank, lanes] : first) {
    std::vector<std::pair<std::int64_t, std::string_view>> by_op;
    for (const auto& [lane, op] : lanes) by_op.emplace_back(op, lane);
    std::sort(by_op.begin(), by_op.end());
    for (const auto& [op, lane] : by_op) in_order[rank].push_back(lane);
  }
  return in_order;
}

}  // namespace tandem
