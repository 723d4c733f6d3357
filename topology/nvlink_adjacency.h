// NvlinkAdjacency: the NVLinks of nodes without a switch, and the number of rings that fit into
// them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// [i][j]: the links between GPU i and GPU j of a node. Empty: a switch joins them.
using NvlinkAdjacency = std::vector<std::vector<int>>;

// Parses "0222 2022 2202 2220": for each GPU one digit of links to each GPU. Errors: no square, not
// symmetric, a link to itself, a GPU without links, more than 8 GPUs. An empty text is no
// adjacency.
Result<NvlinkAdjacency> parse_nvlink_adjacency(std::string_view text);

// Returns the rate of a pair of GPUs, or of a collective's rings among more, as a multiple of the
// rate of the best joined pair. `places`: the GPUs by their number in the node.
double nvlink_rate(const NvlinkAdjacency& adjacency, std::span<const int> places);

}  // namespace tandem
