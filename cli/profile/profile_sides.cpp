#include "cli/profile/profile_sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "traces/profile/profile_timeline.h"
#include "traces/profile/simulated_profile.h"
#include "traces/timeline_json.h"

namespace tandem {
namespace {

// Gives the splits as JSON for the page's bars, one a kind of communication; "null" where a kind is
// not known.
std::string split_of_side(const ComparedSide& side) {
  std::vector<RankSplit> splits;
  for (const ProfileSplit& from : side.splits) {
    RankSplit split{.rank = Rank{from.rank}, .multiplicity = from.multiplicity};
    split.compute_ns = from.compute_ns;
    split.bubble_ns = from.bubble_ns + from.memory_alone_ns;
    for (const CommTotal& kind : from.kinds) {
      if (!kind.label.kind) return "null";
      split.exposed_ns[static_cast<int>(*kind.label.kind)] += kind.exposed_ns;
    }
    splits.push_back(split);
  }
  return split_json(splits);
}

}  // namespace

SimulatedSide played_side(const Program& program, const Trace& trace, const Profile& measured,
                          const std::string& by) {
  const int world = static_cast<int>(program.ranks.size());
  SimulatedSide side{.by = by, .world = world};
  std::set<std::size_t> wanted;
  for (const ProfileRank& rank : measured.ranks) {
    if (!rank.rank_is_given || rank.rank >= world || (rank.world > 0 && rank.world != world)) {
      side.note = fmt::format(
          "The profile is of {}, the simulation of {} ranks: means over all of its ranks stand "
          "against those of the profile.",
          rank.world > 0 ? fmt::format("{} ranks", rank.world) : fmt::format("rank {}", rank.rank),
          world);
      side.profile = profile_of(program, trace);
      return side;
    }
    const auto is_it = [&](const RankTrace& played) { return index(played.rank) == rank.rank; };
    const auto plays_it = [&](const RankTrace& played) {
      return played.body == program.ranks[rank.rank].body;
    };
    auto at = std::ranges::find_if(trace.ranks, is_it);
    if (at == trace.ranks.end()) at = std::ranges::find_if(trace.ranks, plays_it);
    if (at != trace.ranks.end()) wanted.insert(static_cast<std::size_t>(at - trace.ranks.begin()));
  }
  for (const std::size_t i : wanted)
    side.profile.ranks.push_back(profile_rank_of(program, trace, trace.ranks[i]));
  return side;
}

std::string detail_of_side(const ComparedSide& side, const Profile& profile) {
  return fmt::format("{{\"split\":{},\n\"memory\":null,\n\"timeline\":{}}}", split_of_side(side),
                     timeline_json(profile));
}

}  // namespace tandem
