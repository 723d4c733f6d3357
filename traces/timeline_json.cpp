#include "traces/timeline_json.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "traces/perfetto_file.h"
#include "traces/profile/kernel_names.h"
#include "traces/profile/profile_metrics.h"

namespace tandem {
namespace {

constexpr int kNoGroupKind = -1;  // of compute
// Numbers that profiles alone use, after those of the kinds of ops and of groups.
constexpr int kOtherCompute = kOpKinds, kCopies = kGroupKinds, kOtherComm = kGroupKinds + 1;

struct Event {
  Nanoseconds start_ns = 0, length_ns = 0, waited_ns = 0;
  int kind = 0;  // OpKind's number
  int group_kind = kNoGroupKind;
  int stage = -1, microbatch = -1, part = 0;
  Bytes bytes = 0;
  int name = -1;  // into the timeline's names; -1 in a Program's events

  bool operator==(const Event&) const = default;
};

struct EventHash {
  std::size_t operator()(const Event& e) const {
    std::size_t hash = 0;
    for (const std::int64_t value : {e.start_ns, e.length_ns, e.waited_ns, std::int64_t{e.kind},
                                     std::int64_t{e.stage}, std::int64_t{e.microbatch}})
      hash = (hash ^ static_cast<std::size_t>(value)) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 32);
  }
};

struct LaneEvents {
  std::string name;
  std::vector<Event> events;
};

struct RankEvents {
  int rank = 0;
  int stands_for = 1;
  std::vector<LaneEvents> lanes;
};

using Text = fmt::memory_buffer;

// Appends a column: one number if all events agree on it, else an array.
template <class Get>
void append_column(std::string_view name, const std::vector<Event>& events, const Get& get,
                   Text* out) {
  const auto at = std::back_inserter(*out);
  fmt::format_to(at, FMT_COMPILE(",\n\"{}\":"), name);
  const std::int64_t first = get(events.front());
  if (std::ranges::all_of(events, [&](const Event& event) { return get(event) == first; })) {
    fmt::format_to(at, FMT_COMPILE("{}"), first);
    return;
  }
  char before = '[';
  for (const Event& event : events)
    fmt::format_to(at, FMT_COMPILE("{}{}"), std::exchange(before, ','), std::int64_t{get(event)});
  out->push_back(']');
}

// A lane's events as steps from one to the next, each different step listed once. In a step, the
// start counts from the end of the event before, and the microbatch from that of the last event of
// the same kind and stage. Example: if F0 F1 F2 F3 stand 5 ns apart, F1, F2 and F3 are one and the
// same step.
struct Steps {
  std::vector<Event> different;
  std::vector<std::size_t> order;  // by event: its step's place in `different`
};

// Returns nothing if there are too many different steps to save anything, as with jitter.
std::optional<Steps> steps_of(const std::vector<Event>& events) {
  Steps steps;
  std::unordered_map<Event, std::size_t, EventHash> numbers;
  std::map<std::pair<int, int>, int> last;
  Nanoseconds end_ns = 0;
  for (const Event& event : events) {
    Event step = event;
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

void append_lane(LaneEvents* lane, Text* out) {
  std::ranges::stable_sort(lane->events, {}, &Event::start_ns);
  const std::optional<Steps> steps = steps_of(lane->events);
  const std::vector<Event>& events = steps ? steps->different : lane->events;
  fmt::format_to(std::back_inserter(*out), "{{\"name\":{},\"events\":{}", json_string(lane->name),
                 lane->events.size());
  if (steps)
    fmt::format_to(std::back_inserter(*out), ",\n\"order\":[{}]", fmt::join(steps->order, ","));
  append_column(
      "kind", events, [](const Event& e) { return e.kind; }, out);
  append_column(
      "scope", events, [](const Event& e) { return e.group_kind; }, out);
  append_column(
      "stage", events, [](const Event& e) { return e.stage; }, out);
  append_column(
      steps ? "microbatch_step" : "microbatch", events, [](const Event& e) { return e.microbatch; },
      out);
  append_column(
      "part", events, [](const Event& e) { return e.part; }, out);
  append_column(
      "bytes", events, [](const Event& e) { return e.bytes; }, out);
  append_column(
      steps ? "gap_ns" : "start_ns", events, [](const Event& e) { return e.start_ns; }, out);
  append_column(
      "length_ns", events, [](const Event& e) { return e.length_ns; }, out);
  append_column(
      "waited_ns", events, [](const Event& e) { return e.waited_ns; }, out);
  if (events.front().name >= 0)
    append_column(
        "name_of", events, [](const Event& e) { return e.name; }, out);
  out->push_back('}');
}

// Returns the stages that the rank computes, in order.
std::vector<int> stages_of(const RankEvents& rank) {
  std::vector<int> stages;
  for (const LaneEvents& lane : rank.lanes) {
    for (const Event& event : lane.events) {
      if (event.group_kind == kNoGroupKind && event.stage >= 0) stages.push_back(event.stage);
    }
  }
  std::ranges::sort(stages);
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

template <class Name>
void append_names(int count, const Name& name_of, Text* out) {
  for (int i = 0; i < count; ++i)
    fmt::format_to(std::back_inserter(*out), "{}\"{}\"", i == 0 ? "[" : ",", name_of(i));
  out->push_back(']');
}

// The number of events and the end of the last one.
struct Totals {
  std::int64_t events = 0;
  Nanoseconds end_ns = 0;

  void add(Nanoseconds event_end_ns) {
    ++events;
    end_ns = std::max(end_ns, event_end_ns);
  }
  bool are_too_many() const { return events > kTimelineEventsMax; }
};

std::string text_of(std::vector<RankEvents> ranks, const Totals& totals,
                    const std::vector<std::string>& event_names = {}) {
  std::ranges::stable_sort(ranks, {}, &RankEvents::rank);
  Text out;
  const auto at = std::back_inserter(out);
  fmt::format_to(at, "{{\"events\":{},\"end_ns\":{},\n\"kinds\":", totals.events, totals.end_ns);
  const bool is_profile = !event_names.empty();
  append_names(
      kOpKinds + (is_profile ? 1 : 0),
      [](int i) { return i == kOtherCompute ? "compute" : name(static_cast<OpKind>(i)); }, &out);
  fmt::format_to(at, ",\n\"scopes\":");
  append_names(
      kGroupKinds + (is_profile ? 2 : 0),
      [](int i) {
        return i == kCopies      ? "copies"
               : i == kOtherComm ? "unknown"
                                 : name(static_cast<GroupKind>(i));
      },
      &out);
  if (is_profile) {
    fmt::format_to(at, ",\n\"names\":");
    std::string_view before = "[";
    for (const std::string& event_name : event_names)
      fmt::format_to(at, "{}{}", std::exchange(before, ","), json_string(event_name));
    out.push_back(']');
  }
  fmt::format_to(at, ",\n\"ranks\":[");
  std::string_view comma = "";
  for (RankEvents& rank : ranks) {
    fmt::format_to(at, "{}\n{{\"rank\":{},\"stands_for\":{},\"stages\":[{}],\"lanes\":[",
                   std::exchange(comma, ","), rank.rank, rank.stands_for,
                   fmt::join(stages_of(rank), ","));
    std::string_view lane_comma = "";
    for (LaneEvents& lane : rank.lanes) {
      if (lane.events.empty()) continue;
      fmt::format_to(at, "{}\n", std::exchange(lane_comma, ","));
      append_lane(&lane, &out);
    }
    fmt::format_to(at, "]}}");
  }
  fmt::format_to(at, "]}}");
  return fmt::to_string(out);
}

bool is_shown(Nanoseconds start_ns, Nanoseconds end_ns) {
  return start_ns >= 0 && end_ns > start_ns;
}

int group_kind_of(const TraceRow& row) {
  return is_compute(row.kind) ? kNoGroupKind : static_cast<int>(group_kind_of_lane(row.lane));
}

// Returns the number of the kind as which the page draws a phase.
int kind_of(PassPhase phase) {
  switch (phase) {
    case PassPhase::Forward:
      return static_cast<int>(OpKind::Forward);
    case PassPhase::Backward:
      return static_cast<int>(OpKind::Backward);
    case PassPhase::BackwardInput:
      return static_cast<int>(OpKind::BackwardInput);
    case PassPhase::BackwardWeight:
      return static_cast<int>(OpKind::BackwardWeight);
    case PassPhase::Step:
      return static_cast<int>(OpKind::Optimizer);
    case PassPhase::Unknown:
      break;
  }
  return kOtherCompute;
}

// A stream's kernels of one activity. They share a lane: a lane has one colour scheme, and its
// events must not overlap.
struct StreamLane {
  std::int32_t stream = 0;
  Activity activity = Activity::Compute;

  auto operator<=>(const StreamLane&) const = default;
};

void add_stream_events(const ProfileRank& from, std::map<std::string, int>* event_names,
                       RankEvents* made, Totals* totals) {
  std::map<StreamLane, LaneEvents> lanes;
  for (const ProfileKernel& kernel : from.kernels) {
    LaneEvents& lane = lanes[{kernel.stream, kernel.activity}];
    const Nanoseconds before =
        lane.events.empty() ? 0 : lane.events.back().start_ns + lane.events.back().length_ns;
    const Nanoseconds start = std::max(kernel.start_ns, before);
    if (!is_shown(start, kernel.end_ns)) continue;
    totals->add(kernel.end_ns);
    const ProfileAction action = kernel.action < 0 ? ProfileAction{} : from.actions[kernel.action];
    Event event{.start_ns = start,
                .length_ns = kernel.end_ns - start,
                .kind = kind_of(kernel.phase),
                .stage = action.stage,
                .microbatch = action.microbatch};
    event.name =
        event_names
            ->try_emplace(short_name(from.name_of(kernel)), static_cast<int>(event_names->size()))
            .first->second;
    if (kernel.activity == Activity::Memory) event.group_kind = kCopies;
    if (kernel.activity == Activity::Communication) {
      const std::optional<GroupKind> kind = label_of(from, kernel).kind;
      event.group_kind = kind ? static_cast<int>(*kind) : kOtherComm;
      event.waited_ns = kernel.transfer_ns - kernel.start_ns;
      event.bytes = static_cast<Bytes>(bytes_of(from, kernel).value_or(0));
    }
    lane.events.push_back(event);
  }
  for (auto& [of, lane] : lanes) {
    constexpr std::string_view short_names[] = {"compute", "comm", "copies"};
    lane.name = fmt::format("{} {}", short_names[static_cast<int>(of.activity)], of.stream);
    made->lanes.push_back(std::move(lane));
  }
}

}  // namespace

std::string timeline_json(const Profile& profile) {
  Totals totals;
  for (const ProfileRank& rank : profile.ranks)
    totals.events += static_cast<std::int64_t>(rank.kernels.size());
  if (totals.are_too_many()) return text_of({}, totals);
  totals.events = 0;
  std::map<std::string, int> event_names;
  std::vector<RankEvents> ranks;
  for (const ProfileRank& rank : profile.ranks) {
    RankEvents& made = ranks.emplace_back(RankEvents{rank.rank, rank.multiplicity, {}});
    add_stream_events(rank, &event_names, &made, &totals);
  }
  std::vector<std::string> in_order(event_names.size());
  for (const auto& [event_name, place] : event_names) in_order[place] = event_name;
  return text_of(std::move(ranks), totals, in_order);
}

std::string timeline_json(const Program& program, const Trace& trace) {
  Totals totals;
  for (const EventTimes& event : trace.events) {
    if (is_shown(event.start_ns, event.end_ns)) totals.add(event.end_ns);
  }
  if (totals.are_too_many()) return text_of({}, totals);
  std::vector<RankEvents> ranks;
  for (const RankTrace& rank : trace.ranks) {
    const Body& body = program.bodies[rank.body];
    const std::span<const EventTimes> events = trace.events_of(program, rank);
    RankEvents& made = ranks.emplace_back(RankEvents{index(rank.rank), rank.multiplicity, {}});
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
           .group_kind = computes ? kNoGroupKind : static_cast<int>(body.slots[op.slot].group_kind),
           .stage = op.stage,
           .microbatch = op.microbatch,
           .part = op.part,
           .bytes = op.bytes});
    }
  }
  return text_of(std::move(ranks), totals);
}

std::string timeline_json(const TraceTable& table) {
  Nanoseconds begin_ns = std::numeric_limits<Nanoseconds>::max();
  for (const TraceRow& row : table.rows) begin_ns = std::min(begin_ns, row.start_ns);
  std::map<Rank, int> stands_for;
  for (const RankSplit& split : table.splits) stands_for[split.rank] = split.multiplicity;
  // Lanes stand in the order of their first op, compute first; so two tables of one Program have
  // them in the same order.
  std::map<Rank, std::map<std::string_view, std::int64_t>> first_op;
  Totals totals;
  for (const TraceRow& row : table.rows) {
    if (!is_shown(row.start_ns, row.end_ns)) continue;
    totals.add(row.end_ns - begin_ns);
    const std::int64_t op = is_compute(row.kind) ? -1 : row.op;
    const auto [at, is_new] = first_op[row.rank].try_emplace(row.lane, op);
    if (!is_new) at->second = std::min(at->second, op);
  }
  if (totals.are_too_many()) return text_of({}, totals);
  std::vector<RankEvents> ranks;
  std::map<std::pair<Rank, std::string_view>, std::pair<std::size_t, std::size_t>> places;
  for (const auto& [rank, lanes] : first_op) {
    const auto at = stands_for.find(rank);
    ranks.push_back({index(rank), at == stands_for.end() ? 1 : at->second, {}});
    std::vector<std::pair<std::int64_t, std::string_view>> in_order;
    for (const auto& [lane, op] : lanes) in_order.emplace_back(op, lane);
    std::ranges::sort(in_order);
    for (const auto& [op, lane] : in_order) {
      places[{rank, lane}] = {ranks.size() - 1, ranks.back().lanes.size()};
      ranks.back().lanes.push_back({std::string(lane), {}});
    }
  }
  for (const TraceRow& row : table.rows) {
    if (!is_shown(row.start_ns, row.end_ns)) continue;
    const auto [rank, lane] = places.at({row.rank, row.lane});
    ranks[rank].lanes[lane].events.push_back(
        {.start_ns = row.start_ns - begin_ns,
         .length_ns = row.end_ns - row.start_ns,
         .waited_ns = is_compute(row.kind) ? 0 : row.start_ns - row.arrive_ns,
         .kind = static_cast<int>(row.kind),
         .group_kind = group_kind_of(row),
         .stage = row.stage,
         .microbatch = row.microbatch,
         .part = row.part,
         .bytes = row.bytes});
  }
  return text_of(std::move(ranks), totals);
}

std::string split_json(std::span<const RankSplit> splits) {
  Text out;
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
    column(name(static_cast<GroupKind>(group_kind)),
           [group_kind](const RankSplit& split) { return split.exposed_ns[group_kind]; });
  }
  fmt::format_to(std::back_inserter(out), "}},\n");
  column("bubble_ns", [](const RankSplit& split) { return split.bubble_ns; });
  out.push_back('}');
  return fmt::to_string(out);
}

}  // namespace tandem
