// ChakraGraph: one rank's nodes checked, in the order in which lanes take them, and what each waits
// for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/chakra/chakra_trace.h"

namespace tandem {

// What becomes of a node.
enum class ChakraPart : std::uint8_t {
  Passed,      // takes no time: others wait for what it waits for
  Compute,     // on the compute lane
  Queued,      // a collective or a send, on the lane of communication
  Received,    // a receive that is posted where its dependencies have ended
  PostedFirst  // a receive that is posted from the start: only what waits for it waits for them
};

struct ChakraGraph {
  std::vector<ChakraPart> parts;     // by node
  std::vector<std::uint32_t> order;  // nodes, ready ones by id
  // By node: those that must have ended, none Passed.
  std::vector<std::vector<std::uint32_t>> waits;
};

// "node 3 'x'".
std::string chakra_text(const ChakraNode& node);

// The Error "PATH: node 3 'x': what".
Error chakra_error(const ChakraJob& job, std::int32_t rank, const ChakraNode& node,
                   const std::string& what);

// Errors: an id twice, a dependency that is not there, nodes that wait for each other, a node of a
// kind that a Program does not have.
Result<ChakraGraph> chakra_graph(const ChakraJob& job, std::int32_t rank);

// "0" where the node names none: all ranks.
std::string chakra_group_name(const ChakraNode& node);

// The members of a collective's process group; an Error where there is no such group, it has ranks
// that the job does not have, or is that of all ranks and has others.
Result<std::vector<std::int32_t>> chakra_group(const ChakraJob& job, std::int32_t rank,
                                               const ChakraNode& node);

}  // namespace tandem
