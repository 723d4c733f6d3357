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
  std::vector<std::string> left_out;  // about ignored nodes, one line each
};

// Makes a Program of a job's traces. A rank has one lane for compute, one for collectives and
// sends, and one for the receives from each sender. Of several ready nodes the one with the least
// id runs first. As in ASTRA-sim, a send does not wait for its receive unless the trace is marked
// as `rendezvous`. Communication has the trace's durations; a collective takes the least of its
// ranks' durations, since longer ones include waiting. `to_be_priced`: a cluster will price
// communication, which may therefore lack a duration. The Errors name file and node: unknown
// groups, ranks and dependencies, sends without a receive, collectives that differ among their
// ranks, a deadlock.
Result<ImportedProgram> import_chakra(const ChakraJob& job, bool to_be_priced);

}  // namespace tandem
