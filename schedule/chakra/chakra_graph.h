// ChakraGraph: the checked nodes of one rank, in the order in which lanes take them, and what each
// waits for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/chakra/chakra_trace.h"

namespace tandem {

// The role of a node in the Program.
enum class ChakraPart : std::uint8_t {
  Passed,      // takes no time: its followers wait for what it waits for
  Compute,     // on the compute lane
  Queued,      // a collective or a send, on the communication lane
  Received,    // a receive that is posted when its dependencies have ended
  PostedFirst  // a receive posted at the start; what it depends on delays only the nodes after it
};

struct ChakraGraph {
  std::vector<ChakraPart> parts;     // by node
  std::vector<std::uint32_t> order;  // nodes in topological order; ready ones by id
  // By node: the nodes that must have ended before it, none of them Passed.
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
