// ChakraGraph: the checked nodes of one rank in topological order, each with its role and the nodes
// that it waits for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/chakra/chakra_trace.h"

namespace tandem {

// The role of a node in the Program.
enum class ChakraPart : std::uint8_t {
  Passed,      // takes no time and is left out: its followers wait for its dependencies
  Compute,     // on the compute lane
  Queued,      // a collective or a send, on the communication lane
  Received,    // a receive that is posted when its dependencies have ended
  PostedFirst  // a receive posted at the start; its dependencies delay only its followers
};

struct ChakraGraph {
  std::vector<ChakraPart> parts;     // by node
  std::vector<std::uint32_t> order;  // nodes in topological order; of ready ones the least id first
  // By node: the nodes that must end before it starts, none of them Passed.
  std::vector<std::vector<std::uint32_t>> waits;
};

// Returns "node 3 'x'".
std::string chakra_text(const ChakraNode& node);

// Returns the Error "PATH: node 3 'x': what".
Error chakra_error(const ChakraJob& job, std::int32_t rank, const ChakraNode& node,
                   const std::string& what);

// Checks and sorts a rank's nodes. Errors: an id twice, a dependency that is not there, nodes that
// wait for each other, a node of a kind that a Program does not have.
Result<ChakraGraph> chakra_graph(const ChakraJob& job, std::int32_t rank);

// Returns the name of the node's process group, or "0" for all ranks if the node has none.
std::string chakra_group_name(const ChakraNode& node);

// Returns the members of a collective's process group. An Error if there is no such group, if it
// has ranks that the job does not have, or if it is group "0" and does not have all ranks.
Result<std::vector<std::int32_t>> chakra_group(const ChakraJob& job, std::int32_t rank,
                                               const ChakraNode& node);

}  // namespace tandem
