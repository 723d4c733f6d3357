// The ideal engine: replays the Program. Where communication slows compute, it uses a Playback
// without links. Declared in sim/engines.h.
#include "schedule/program/replay.h"
#include "sim/engines.h"
#include "sim/playback.h"
#include "sim/trace_of.h"

namespace tandem {

Result<Trace> ideal(const Program& program, const SimOptions& options) {
  const RankFolding folding = options.folded() ? fold(program) : unfold(program);
  const Jitter jitter{options.jitter, options.seed};
  const auto play = [&]() -> Result<Replay> {
    if (!takes_sms(program)) return replay(program, folding, jitter);
    return Playback(program, folding, {jitter, /*closed_forms=*/true, options.on_progress}).run();
  };
  ASSIGN_OR_RETURN(Replay played, play());
  return trace_of(program, folding, std::move(played), "ideal", options);
}

}  // namespace tandem
