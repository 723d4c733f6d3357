#include "schedule/cast.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tandem {
namespace {

// Where a communicator is used: (body, slot), the same pair once for each of its members.
using Ends = std::vector<std::pair<std::int32_t, std::int32_t>>;

std::vector<Ends> ends_of_communicators(const Program& program) {
  std::vector<Ends> ends(program.communicators.size());
  for (const RankRow& rank : program.ranks) {
    for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot)
      ends[rank.communicators[slot]].emplace_back(rank.body, static_cast<std::int32_t>(slot));
  }
  for (Ends& list : ends) std::sort(list.begin(), list.end());
  return ends;
}

}  // namespace

Cast fold(const Program& program) {
  Cast cast;
  cast.folded = true;
  std::vector<std::int32_t> player_of_body(program.bodies.size(), -1);
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const int body = program.ranks[r].body;
    if (player_of_body[body] >= 0) {
      ++cast.players[player_of_body[body]].multiplicity;
      continue;
    }
    player_of_body[body] = static_cast<std::int32_t>(cast.players.size());
    cast.players.push_back({static_cast<Rank>(r), body, 1, {}});
    cast.players.back().channels.resize(program.bodies[body].slots.size(), -1);
  }

  std::map<Ends, std::int32_t> channel_of;
  const std::vector<Ends> ends = ends_of_communicators(program);
  for (std::size_t c = 0; c < program.communicators.size(); ++c) {
    const auto [it, is_new] =
        channel_of.emplace(ends[c], static_cast<std::int32_t>(cast.channels.size()));
    if (is_new) {
      cast.channels.push_back({program.communicators[c].scope, {}, {}});
      for (const auto& [body, slot] : ends[c]) {
        const std::int32_t player = player_of_body[body];
        if (cast.players[player].channels[slot] == it->second) continue;  // a rank of the same body
        cast.players[player].channels[slot] = it->second;
        cast.channels.back().seats.push_back({player, slot});
      }
    }
    cast.channels[it->second].communicators.push_back(static_cast<std::int32_t>(c));
  }
  return cast;
}

Cast unfold(const Program& program) {
  Cast cast;
  cast.players.reserve(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankRow& row = program.ranks[r];
    cast.players.push_back({static_cast<Rank>(r), row.body, 1, row.communicators});
  }
  for (std::size_t c = 0; c < program.communicators.size(); ++c)
    cast.channels.push_back({program.communicators[c].scope, {}, {static_cast<std::int32_t>(c)}});
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(cast.players.size()); ++p) {
    const std::vector<std::int32_t>& channels = cast.players[p].channels;
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(channels.size()); ++slot)
      cast.channels[channels[slot]].seats.push_back({p, slot});
  }
  return cast;
}

}  // namespace tandem
