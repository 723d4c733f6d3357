// Import: reads Chakra execution traces as a Program of compute, collectives and transfers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interop/chakra/chakra_trace.h"
#include "schedule/program/program.h"

namespace tandem {

struct ImportedProgram {
  Program program;
  std::vector<std::string> left_out;  // one line each
};

// Makes a Program of a job's traces. Ready nodes go by id, on one lane for compute and one for
// collectives and sends. Receives have a lane for each sender. As in ASTRA-sim a send does not wait
// for its receive, unless the trace says that it does. Communication takes the time that the trace
// says. A collective takes the least of its ranks' durations, since the others include waiting.
// `to_be_priced`: communication may lack a duration and stay at 0, as a cluster will price it. The
// Errors name file and node: unknown groups, ranks and dependencies, sends without a receive,
// collectives that differ among their ranks, a deadlock.
Result<ImportedProgram> import_chakra(const ChakraJob& job, bool to_be_priced);

}  // namespace tandem
