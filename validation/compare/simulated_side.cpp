#include "validation/compare/simulated_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "traces/profile/simulated_profile.h"

namespace tandem {
namespace {

// Says whether the profile's rank may be one of a job of `world` ranks.
bool may_be_of(const ProfileRank& rank, int world) {
  if (rank.world > 0 && rank.world != world) return false;  // 0: not known
  return rank.rank_is_given && rank.rank < world;
}

// Returns the played rank with this number, or else the first one with its body; or the end.
auto stand_in_for(int rank, const Program& program, const Trace& trace) {
  const auto own = std::ranges::find_if(
      trace.ranks, [&](const RankTrace& played) { return index(played.rank) == rank; });
  if (own != trace.ranks.end()) return own;
  return std::ranges::find(trace.ranks, program.ranks[rank].body, &RankTrace::body);
}

}  // namespace

SimulatedSide played_side(const Program& program, const Trace& trace, const Profile& measured,
                          const std::string& by) {
  const int world = static_cast<int>(program.ranks.size());
  SimulatedSide side{.by = by, .world = world};
  std::set<std::size_t> wanted;
  for (const ProfileRank& rank : measured.ranks) {
    if (!may_be_of(rank, world)) {
      side.note = fmt::format(
          "The profile is of {}, the simulation of {} ranks: means over all of its ranks stand "
          "against those of the profile.",
          rank.world > 0 ? fmt::format("{} ranks", rank.world) : fmt::format("rank {}", rank.rank),
          world);
      side.profile = profile_of(program, trace);
      return side;
    }
    const auto at = stand_in_for(rank.rank, program, trace);
    if (at != trace.ranks.end()) wanted.insert(static_cast<std::size_t>(at - trace.ranks.begin()));
  }
  for (const std::size_t i : wanted)
    side.profile.ranks.push_back(profile_rank_of(program, trace, trace.ranks[i]));
  return side;
}

}  // namespace tandem
