#include "sim/trace_of.h"

#include <fmt/format.h>

namespace tandem {

Trace trace_of(const Program& program, const RankFolding& folding, Replay played,
               const std::string& engine, const SimOptions& options) {
  Trace trace;
  trace.meta = {
      {"engine", engine},
      {"real", "nothing: simulated"},
      {"ranks", fmt::format("{} of {}{}", folding.folded_ranks.size(), program.ranks.size(),
                            folding.folded ? ", one for each class of equal ranks" : "")},
      {"jitter", fmt::format("{}", options.jitter)},
      {"seed", fmt::format("{}", options.seed)},
      {"iteration", "1 of 1"},
      {"complete", "yes"}};
  for (std::size_t p = 0; p < folding.folded_ranks.size(); ++p) {
    const FoldedRank& folded_rank = folding.folded_ranks[p];
    trace.ranks.push_back(
        {folded_rank.rank, folded_rank.body, folded_rank.multiplicity, played.first[p]});
  }
  trace.events = std::move(played.events);
  return trace;
}

}  // namespace tandem
