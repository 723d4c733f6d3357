// Writes a timeline as JSON. A lane's events are columns of numbers. Pipeline schedules repeat, so
// a lane is shorter as a list of its different steps and their order, if it has few of them.
#include "traces/timeline.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "schedule/program/program.h"
#include "traces/perfetto_file.h"

namespace tandem {
namespace {

struct EventHash {
  std::size_t operator()(const TimelineEvent& e) const {
    std::uint64_t hash = 0;
    for (const std::int64_t value : {e.start_ns, e.length_ns, e.waited_ns, std::int64_t{e.kind},
                                     std::int64_t{e.stage}, std::int64_t{e.microbatch}})
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(hash ^ (hash >> 32));
  }
};

using Text = fmt::memory_buffer;

// Appends a column, a member of all events: one number if they agree on it, else an array.
template <class Number>
void append_column(std::string_view name, const std::vector<TimelineEvent>& events,
                   Number TimelineEvent::*number, Text* out) {
  const auto at = std::back_inserter(*out);
  fmt::format_to(at, FMT_COMPILE(",\n\"{}\":"), name);
  const std::int64_t first = events.front().*number;
  if (std::ranges::all_of(events, [&](const auto& event) { return event.*number == first; })) {
    fmt::format_to(at, FMT_COMPILE("{}"), first);
    return;
  }
  char before = '[';
  for (const TimelineEvent& event : events)
    fmt::format_to(at, FMT_COMPILE("{}{}"), std::exchange(before, ','),
                   std::int64_t{event.*number});
  out->push_back(']');
}

// A lane's events as steps, each different step listed once. A step is an event whose start counts
// from the end of the event before, and whose microbatch counts from the last event of the same
// kind and stage. Example: if F0 F1 F2 F3 have equal lengths and stand 5 ns apart, F1, F2 and F3
// are the same step: a gap of 5 ns, and one microbatch on.
struct Steps {
  std::vector<TimelineEvent> different;
  std::vector<std::size_t> order;  // by event: its step's place in `different`
};

// Returns nothing if more than a quarter of the steps differ, as with jitter: they save nothing.
std::optional<Steps> steps_of(const std::vector<TimelineEvent>& events) {
  Steps steps;
  std::unordered_map<TimelineEvent, std::size_t, EventHash> numbers;
  std::map<std::pair<int, int>, int> last;  // by kind and stage: the last microbatch
  Nanoseconds end_ns = 0;
  for (const TimelineEvent& event : events) {
    TimelineEvent step = event;
    step.start_ns = event.start_ns - end_ns;
    end_ns = event.start_ns + event.length_ns;
    int& microbatch = last[{event.kind, event.stage}];
    step.microbatch = event.microbatch - microbatch;
    microbatch = event.microbatch;
    const auto [at, is_new] = numbers.try_emplace(step, numbers.size());
    if (is_new) steps.different.push_back(step);
    if (4 * numbers.size() > events.size()) return std::nullopt;
    steps.order.push_back(at->second);
  }
  return steps;
}

void append_lane(TimelineLane* lane, Text* out) {
  std::ranges::stable_sort(lane->events, {}, &TimelineEvent::start_ns);
  const std::optional<Steps> steps = steps_of(lane->events);
  const std::vector<TimelineEvent>& events = steps ? steps->different : lane->events;
  fmt::format_to(std::back_inserter(*out), "{{\"name\":{},\"events\":{}", json_string(lane->name),
                 lane->events.size());
  if (steps)
    fmt::format_to(std::back_inserter(*out), ",\n\"order\":[{}]", fmt::join(steps->order, ","));
  append_column("kind", events, &TimelineEvent::kind, out);
  append_column("scope", events, &TimelineEvent::scope, out);
  append_column("stage", events, &TimelineEvent::stage, out);
  append_column(steps ? "microbatch_step" : "microbatch", events, &TimelineEvent::microbatch, out);
  append_column("part", events, &TimelineEvent::part, out);
  append_column("bytes", events, &TimelineEvent::bytes, out);
  append_column(steps ? "gap_ns" : "start_ns", events, &TimelineEvent::start_ns, out);
  append_column("length_ns", events, &TimelineEvent::length_ns, out);
  append_column("waited_ns", events, &TimelineEvent::waited_ns, out);
  if (events.front().name >= 0) append_column("name_of", events, &TimelineEvent::name, out);
  out->push_back('}');
}

// Returns the stages that the rank computes, in order.
std::vector<int> stages_of(const TimelineRank& rank) {
  std::vector<int> stages;
  for (const TimelineLane& lane : rank.lanes) {
    for (const TimelineEvent& event : lane.events) {
      if (event.scope == TimelineEvent::kNoScope && event.stage >= 0) stages.push_back(event.stage);
    }
  }
  std::ranges::sort(stages);
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

void append_names(const std::vector<std::string>& names, Text* out) {
  std::string_view before = "[";
  for (const std::string& each : names)
    fmt::format_to(std::back_inserter(*out), "{}{}", std::exchange(before, ","), json_string(each));
  out->push_back(']');
}

}  // namespace

Timeline::Timeline() {
  for (int i = 0; i < kOpKinds; ++i) kinds.emplace_back(op_kind_name(static_cast<OpKind>(i)));
  for (int i = 0; i < kGroupKinds; ++i)
    scopes.emplace_back(group_kind_name(static_cast<GroupKind>(i)));
}

std::string timeline_json(Timeline timeline) {
  std::ranges::stable_sort(timeline.ranks, {}, &TimelineRank::rank);
  Text out;
  const auto at = std::back_inserter(out);
  fmt::format_to(at, "{{\"events\":{},\"end_ns\":{},\n\"kinds\":", timeline.events,
                 timeline.end_ns);
  append_names(timeline.kinds, &out);
  fmt::format_to(at, ",\n\"scopes\":");
  append_names(timeline.scopes, &out);
  if (!timeline.names.empty()) {
    fmt::format_to(at, ",\n\"names\":");
    append_names(timeline.names, &out);
  }
  fmt::format_to(at, ",\n\"ranks\":[");
  std::string_view comma = "";
  for (TimelineRank& rank : timeline.ranks) {
    fmt::format_to(at, "{}\n{{\"rank\":{},\"stands_for\":{},\"stages\":[{}],\"lanes\":[",
                   std::exchange(comma, ","), rank.rank, rank.stands_for,
                   fmt::join(stages_of(rank), ","));
    std::string_view lane_comma = "";
    for (TimelineLane& lane : rank.lanes) {
      if (lane.events.empty()) continue;
      fmt::format_to(at, "{}\n", std::exchange(lane_comma, ","));
      append_lane(&lane, &out);
    }
    fmt::format_to(at, "]}}");
  }
  fmt::format_to(at, "]}}");
  return fmt::to_string(out);
}

}  // namespace tandem
