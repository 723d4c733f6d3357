// Issue order: puts communication into one order that all ranks keep.
#pragma once

#include "base/result.h"
#include "schedule/program/program.h"

namespace tandem {

// Sorts each body's ops by their start in a replay without communication times. All ranks then
// issue communication in one common order. Of all communications not yet issued, the first to start
// has none before it on any rank; so issuing ends. Returns an Error if the program waits for
// itself.
Status sort_by_issue_order(Program* program);

}  // namespace tandem
