// Makes a timeline with a lane for each stream and activity of a rank, and an event for each
// kernel.
#include "traces/profile/profile_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "schedule/program/program.h"
#include "traces/profile/kernel_names.h"
#include "traces/profile/profile_metrics.h"
#include "traces/timeline.h"

namespace tandem {
namespace {

// Numbers of the timeline's kinds and scopes that only profiles use. They follow those of op kinds
// and of group kinds.
constexpr int kOtherCompute = kOpKinds, kCopies = kGroupKinds, kOtherComm = kGroupKinds + 1;

// Returns the op kind, as a number, in whose colour the page draws a phase.
int kind_of(PassPhase phase) {
  if (phase == PassPhase::Unknown) return kOtherCompute;
  constexpr OpKind kKinds[] = {OpKind::Forward, OpKind::Backward, OpKind::BackwardInput,
                               OpKind::BackwardWeight,
                               OpKind::Optimizer};  // by phase after Unknown
  return static_cast<int>(kKinds[static_cast<std::size_t>(phase) - 1]);
}

// A stream's kernels of one activity. They share a lane: a lane has one colour scheme, and its
// events must not overlap.
struct StreamLane {
  std::int32_t stream = 0;
  Activity activity = Activity::Compute;

  auto operator<=>(const StreamLane&) const = default;
};

// Adds the rank's kernels as events. Numbers their names in `event_names`. Where two kernels of a
// lane overlap, the later one's event begins at the end of the earlier one's.
void add_stream_events(const ProfileRank& from, std::map<std::string, int>* event_names,
                       TimelineRank* made, Timeline* timeline) {
  std::map<StreamLane, TimelineLane> lanes;
  for (const ProfileKernel& kernel : from.kernels) {
    TimelineLane& lane = lanes[{kernel.stream, kernel.activity}];
    const Nanoseconds before =
        lane.events.empty() ? 0 : lane.events.back().start_ns + lane.events.back().length_ns;
    const Nanoseconds start = std::max(kernel.start_ns, before);
    if (start < 0 || kernel.end_ns <= start) continue;
    timeline->count(kernel.end_ns);
    const ProfileAction action = kernel.action < 0 ? ProfileAction{} : from.actions[kernel.action];
    TimelineEvent event{.start_ns = start,
                        .length_ns = kernel.end_ns - start,
                        .kind = kind_of(kernel.phase),
                        .stage = action.stage,
                        .microbatch = action.microbatch};
    event.name =
        event_names
            ->try_emplace(short_name(from.name_of(kernel)), static_cast<int>(event_names->size()))
            .first->second;
    if (kernel.activity == Activity::Memory) event.scope = kCopies;
    if (kernel.activity == Activity::Communication) {
      const std::optional<GroupKind> kind = label_of(from, kernel).kind;
      event.scope = kind ? static_cast<int>(*kind) : kOtherComm;
      event.waited_ns =
          std::clamp<Nanoseconds>(kernel.transfer_start_ns - start, 0, event.length_ns);
      event.bytes = static_cast<Bytes>(bytes_of(from, kernel).value_or(0));
    }
    lane.events.push_back(event);
  }
  for (auto& [key, lane] : lanes) {
    constexpr std::string_view short_names[] = {"compute", "comm", "copies"};
    lane.name = fmt::format("{} {}", short_names[static_cast<int>(key.activity)], key.stream);
    made->lanes.push_back(std::move(lane));
  }
}

}  // namespace

std::string timeline_json(const Profile& profile) {
  Timeline timeline;
  for (const ProfileRank& rank : profile.ranks)
    timeline.events += static_cast<std::int64_t>(rank.kernels.size());
  // A page cannot show so many events: it gives their number alone.
  if (timeline.has_too_many()) return timeline_json(std::move(timeline));
  timeline.events = 0;  // add_stream_events() counts those that are shown
  std::map<std::string, int> event_names;
  for (const ProfileRank& rank : profile.ranks) {
    TimelineRank& made =
        timeline.ranks.emplace_back(TimelineRank{rank.rank, rank.multiplicity, {}});
    add_stream_events(rank, &event_names, &made, &timeline);
  }
  if (event_names.empty()) return timeline_json(std::move(timeline));
  timeline.kinds.emplace_back("compute");
  timeline.scopes.insert(timeline.scopes.end(), {"copies", "unknown"});
  timeline.names.resize(event_names.size());
  for (const auto& [event_name, place] : event_names) timeline.names[place] = event_name;
  return timeline_json(std::move(timeline));
}

}  // namespace tandem
