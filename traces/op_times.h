// Op times: a Program that takes what a trace of it measured, op by op. Simulated with them, only
// the model of waiting is left to be wrong.
#pragma once

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/trace_files.h"

namespace tandem {

// Every compute op takes the median of what the ranks of its body took from start to end, every
// communication the median of its participants: of an even number the shorter in the middle. SMs
// are no longer taken: what was measured holds the contention already.
//
// An Error, and the Program as it was, where the trace is not complete, of another Program, or
// lacks ops.
Status reprice(Program* program, const TraceTable& measured);

}  // namespace tandem
