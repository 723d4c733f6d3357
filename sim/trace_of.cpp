#include "sim/trace_of.h"

#include <fmt/format.h>

namespace tandem {

Trace trace_of(const Program& program, const Cast& cast, Replay played, const std::string& engine,
               const SimOptions& options) {
  Trace trace;
  trace.meta = {{"engine", engine},
                {"real", "nothing: simulated"},
                {"ranks", fmt::format("{} of {}{}", cast.players.size(), program.ranks.size(),
                                      cast.folded ? ", one for each class of equal ranks" : "")},
                {"jitter", fmt::format("{}", options.jitter)},
                {"seed", fmt::format("{}", options.seed)},
                {"iteration", "1 of 1"},
                {"complete", "yes"}};
  for (std::size_t p = 0; p < cast.players.size(); ++p) {
    const Player& player = cast.players[p];
    trace.ranks.push_back({player.rank, player.body, player.multiplicity, played.first[p]});
  }
  trace.events = std::move(played.events);
  return trace;
}

}  // namespace tandem
