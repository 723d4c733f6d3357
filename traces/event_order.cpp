#include "traces/event_order.h"

#include <algorithm>
#include <span>

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

}  // namespace tandem
