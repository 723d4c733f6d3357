// Issue order: puts communication into one order that all ranks keep.
#pragma once

#include "base/result.h"
#include "schedule/program/program.h"

namespace tandem {

// Sorts each body's ops by their start in a replay of the unpriced program. All ranks then issue
// communication in one common order, which cannot deadlock: of all communications not yet issued,
// the first to start is the next one on all its ranks. Returns an Error if the replay deadlocks.
Status sort_by_issue_order(Program* program);

}  // namespace tandem
