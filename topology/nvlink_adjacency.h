// NvlinkAdjacency: the NVLinks of nodes without a switch, and how many rings fit into them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// [i][j]: links between GPU i and GPU j of a node; empty: a switch joins them.
using NvlinkAdjacency = std::vector<std::vector<int>>;

// "0222 2022 2202 2220": GPU i's links to each, a digit each. Error: no square, not symmetric, a
// link to itself, no links, or more than 8 GPUs. An empty text is no adjacency.
Result<NvlinkAdjacency> parse_nvlink_adjacency(std::string_view text);

// The rate of a pair, or of a collective's rings among `places`, over that of the best joined pair.
double nvlink_rate(const NvlinkAdjacency& adjacency, std::span<const int> places);

}  // namespace tandem
