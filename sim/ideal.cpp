// The ideal engine: a replay, as a Trace.
#include "schedule/replay.h"
#include "sim/engines.h"
#include "sim/trace_of.h"

namespace tandem {

Result<Trace> ideal(const Program& program, const SimOptions& options) {
  const Cast cast = options.folded() ? fold(program) : unfold(program);
  ASSIGN_OR_RETURN(Replay played, replay(program, cast, {options.jitter, options.seed}));
  return trace_of(program, cast, std::move(played), "ideal", options);
}

}  // namespace tandem
