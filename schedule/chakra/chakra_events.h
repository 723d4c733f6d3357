// ChakraEvents: the events of a job. An event is a compute node, a collective with the nodes of all
// its members, or a send with its receive.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "interop/chakra/chakra_trace.h"
#include "schedule/chakra/chakra_graph.h"
#include "schedule/program/program.h"

namespace tandem {

// A node of a rank.
struct ChakraPlace {
  std::int32_t rank = 0;
  std::uint32_t node = 0;
};

struct ChakraEvent {
  std::vector<ChakraPlace> places;    // of a transfer: the send, then the receive
  std::vector<std::int32_t> members;  // ranks of the communicator, in its order; empty: compute
  OpKind kind = OpKind::Forward;      // a transfer's is Send
  GroupKind group_kind = GroupKind::Data;
  Bytes bytes = 0;
  Nanoseconds duration_ns = 0;
  std::int32_t depth = 0;  // events in the longest chain of dependencies before it
};

struct ChakraEvents {
  std::vector<ChakraGraph> graphs;  // by rank
  std::vector<ChakraEvent> events;
  std::vector<std::vector<std::int32_t>> event_of;  // by rank and node; -1: none
};

// Makes the events of a job. Returns the Errors of import_chakra().
Result<ChakraEvents> chakra_events(const ChakraJob& job, bool to_be_priced);

}  // namespace tandem
