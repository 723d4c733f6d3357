// Listed cables: a cluster of any form, as a CSV that lists it cable by cable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"

namespace tandem {

// Columns from, to, GBps (a direction) and latency_us; and perhaps efficiency, of wires inside a
// node that do not reach what the spec's others do. Errors name file and line.
Result<std::shared_ptr<const std::vector<ListedCable>>> read_cables(const std::string& path);

// Of each node; the cables are read_cables'.
Result<int> gpus_per_node(const std::vector<ListedCable>& cables);
// In the order of their numbers.
Result<std::vector<std::string>> node_names(const std::vector<ListedCable>& cables);

}  // namespace tandem
