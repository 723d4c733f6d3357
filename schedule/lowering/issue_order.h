// Issue order: one order of communication that all ranks keep.
#pragma once

#include "base/result.h"
#include "schedule/program/program.h"

namespace tandem {

// Sorts each body's ops by when they start in a replay without communication times, so that the
// issue orders of all ranks follow one common order: of all communications not yet issued, the
// first to start has none before it on any rank, so that issuing ends. Errors where the program
// waits for itself.
Status sort_by_issue_order(Program* program);

}  // namespace tandem
