// Import: Chakra execution traces as a Program of compute, collectives and transfers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interop/chakra/chakra_trace.h"
#include "schedule/program/program.h"

namespace tandem {

struct ImportedProgram {
  Program program;
  std::vector<std::string> left_out;  // a line each
};

// Ready nodes by id, on one lane for compute and one for collectives and sends; receives have a
// lane for each sender. As in ASTRA-sim a send goes off without its receive, unless the trace says
// that it waits. Communication takes what the trace says, a collective the least of its ranks'
// durations (the others' hold waiting as well).
// `to_be_priced`: communication without a duration may stay at 0, as a cluster will price it.
// Errors name file and node: unknown groups, ranks and dependencies, sends without a receive,
// collectives that differ among their ranks, a deadlock.
Result<ImportedProgram> import_chakra(const ChakraJob& job, bool to_be_priced);

}  // namespace tandem
