// A trace of a Program as the profile that a profiler would have made of it, so that both are
// measured, and written, alike.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "schedule/program/program.h"
#include "traces/profile/profile.h"
#include "traces/trace.h"
#include "traces/trace_files.h"

namespace tandem {

// A group's ranks as torch writes them: "[0, 1]", of many the first 30.
std::string ranks_text(const std::vector<Rank>& members);

// One rank: a stream a lane (the compute lane is stream 7, PyTorch's), a kernel an event.
// Communication has the name of NCCL's kernel and all arguments of its collective; its kernel
// begins when its last participant is ready: what it waits before is idle. Passes are annotations
// ("PP:1F3") on the compute stream; the iteration is one ProfilerStep.
//
// REQUIRES: lane 0 is the compute lane; every event has ended.
ProfileRank profile_of(const Program& program, const Trace& trace, const RankTrace& rank);
Profile profile_of(const Program& program, const Trace& trace);

// The same of a trace file, which does not tell groups: collectives have no ranks and no size.
Profile profile_of(const TraceTable& table);

}  // namespace tandem
