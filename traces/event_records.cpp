#include "traces/event_records.h"

#include <algorithm>

#include "base/check.h"
#include "traces/event_order.h"

namespace tandem {
namespace {

constexpr std::size_t kRecordsAtOnce = 1 << 14;

// Returns each lane's place in `names`, by body and lane.
std::vector<std::vector<std::uint16_t>> lane_numbers(const Program& program,
                                                     const std::vector<std::string>& names) {
  std::vector<std::vector<std::uint16_t>> numbers;
  for (const Body& body : program.bodies) {
    std::vector<std::uint16_t>& of = numbers.emplace_back();
    for (const Lane& lane : body.lanes)
      of.push_back(static_cast<std::uint16_t>(std::ranges::find(names, lane.name) - names.begin()));
  }
  return numbers;
}

EventRecord record_of(Rank rank, const Body& body, const Op& op, const EventTimes& event) {
  return {.rank = index(rank),
          .kind = static_cast<std::uint8_t>(op.kind),
          .group = op.slot < 0 ? std::int8_t{-1}
                               : static_cast<std::int8_t>(body.slots[op.slot].group_kind),
          .stage = op.stage,
          .part = op.part,
          .microbatch = op.microbatch,
          .bytes = op.bytes,
          .arrive_ns = event.arrive_ns,
          .start_ns = event.start_ns,
          .end_ns = event.end_ns};
}

}  // namespace

std::vector<std::string> lane_names(const Program& program) {
  std::vector<std::string> names;
  for (const Body& body : program.bodies) {
    for (const Lane& lane : body.lanes) {
      if (std::ranges::find(names, lane.name) == names.end()) names.push_back(lane.name);
    }
  }
  CHECK(names.size() <= std::size_t{1} << 16);
  return names;
}

void stream_records(const Program& program, const Trace& trace,
                    const std::function<void(std::span<const EventRecord>)>& take) {
  const std::vector<const RankTrace*> ranks = ranks_in_order(trace);
  const std::vector<std::int64_t> first = first_ops(program);
  const auto lanes = lane_numbers(program, lane_names(program));
  std::vector<EventRecord> records;
  records.reserve(kRecordsAtOnce);
  for (const EventPlace& place : places_of(program, trace, ranks)) {
    const RankTrace& rank = *ranks[place.rank()];
    const Body& body = program.bodies[rank.body];
    const Op& op = body.ops[place.op()];
    records.push_back(record_of(rank.rank, body, op, trace.events[rank.first + place.op()]));
    records.back().lane = lanes[rank.body][op.lane];
    records.back().op = first[rank.body] + static_cast<std::int64_t>(place.op());
    if (records.size() < kRecordsAtOnce) continue;
    take(records);
    records.clear();
  }
  if (!records.empty()) take(records);
}

}  // namespace tandem
