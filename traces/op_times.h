// Op times: gives a Program the durations that a trace of it measured, op by op. When it is then
// simulated, only the model of waiting can still be wrong.
#pragma once

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/trace_files.h"

namespace tandem {

// Gives every compute op the median duration over the ranks of its body, and every communication
// the median over its participants; of an even number the lower of the two in the middle. No op
// takes SMs any more: the measured times already contain the contention.
//
// Returns an Error, and leaves the Program as it was, if the trace is not complete, is of another
// Program, or lacks ops.
Status reprice_by_trace(Program* program, const TraceTable& measured);

}  // namespace tandem
