#include "validation/compare/simulated_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "traces/profile/simulated_profile.h"

namespace tandem {

SimulatedSide played_side(const Program& program, const Trace& trace, const Profile& measured,
                          const std::string& by) {
  const int world = static_cast<int>(program.ranks.size());
  SimulatedSide side{.by = by, .world = world};
  std::set<std::size_t> wanted;
  for (const ProfileRank& rank : measured.ranks) {
    const bool has_other_world = rank.world > 0 && rank.world != world;  // 0: not known
    if (!rank.rank_is_given || rank.rank >= world || has_other_world) {
      side.note = fmt::format(
          "The profile is of {}, the simulation of {} ranks: means over all of its ranks stand "
          "against those of the profile.",
          rank.world > 0 ? fmt::format("{} ranks", rank.world) : fmt::format("rank {}", rank.rank),
          world);
      side.profile = profile_of(program, trace);
      return side;
    }
    auto at = std::ranges::find(trace.ranks, Rank{rank.rank}, &RankTrace::rank);
    if (at == trace.ranks.end())
      at = std::ranges::find(trace.ranks, program.ranks[rank.rank].body, &RankTrace::body);
    if (at != trace.ranks.end()) wanted.insert(static_cast<std::size_t>(at - trace.ranks.begin()));
  }
  for (const std::size_t i : wanted)
    side.profile.ranks.push_back(profile_rank_of(program, trace, trace.ranks[i]));
  return side;
}

}  // namespace tandem
