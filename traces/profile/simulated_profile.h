// Turns a trace of a Program into the profile that a profiler would have made of it, so that both
// can be measured, and written, in the same way.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "schedule/program/program.h"
#include "traces/profile/profile.h"
#include "traces/trace.h"
#include "traces/trace_files.h"

namespace tandem {

// Returns a group's ranks as torch writes them: "[0, 1]", or the first 30 and "...".
std::string ranks_text(const std::vector<Rank>& members);

// Makes the profile of one rank: a stream for each lane (the compute lane is stream 7, PyTorch's),
// a kernel for each event. A communication has the name of NCCL's kernel and all arguments of its
// collective. Its kernel begins when its last participant is ready; waiting before that is idle.
// Passes are annotations ("PP:1F3") on the compute stream; the iteration is one ProfilerStep.
//
// REQUIRES: lane 0 is the compute lane; every event has ended.
ProfileRank profile_rank_of(const Program& program, const Trace& trace, const RankTrace& rank);
Profile profile_of(const Program& program, const Trace& trace);

// Makes the same from a trace file, which does not have groups: collectives have no ranks and no
// size.
Profile profile_of(const TraceTable& table);

}  // namespace tandem
