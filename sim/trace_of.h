// Makes a Trace of what was played.
#pragma once

#include <string>

#include "schedule/program/rank_folding.h"
#include "schedule/program/replay.h"
#include "sim/engines.h"
#include "traces/trace.h"

namespace tandem {

Trace trace_of(const Program& program, const RankFolding& folding, Replay played,
               const std::string& engine, const SimOptions& options);

}  // namespace tandem
