// Listed cables: reads a cluster of any form from a CSV that lists it cable by cable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"

namespace tandem {

// Reads the columns from, to, GBps (in one direction) and latency_us. The optional column
// efficiency is for wires inside a node that reach another share than the spec says. The Errors
// name file and line. `has_hosts`: nodes are hosts by name, so that n1 and n3 need no n0 and n2.
Result<std::shared_ptr<const std::vector<ListedCable>>> read_cables(const std::string& path,
                                                                    bool has_hosts = false);

// Returns whether read_cables() refuses these names without has_hosts.
bool need_hosts(const std::vector<ListedCable>& cables);

// Returns the GPUs of each node. REQUIRES: cables that read_cables() read.
Result<int> gpus_per_node(const std::vector<ListedCable>& cables);
// Returns the rate of the fastest link of a GPU inside its node, bytes/s, of those that reach the
// cluster's intra_efficiency (NVLinks); 0: there is none.
double fastest_inside(const std::vector<ListedCable>& cables);
// Returns the names of the nodes in the order of their numbers.
Result<std::vector<std::string>> node_names(const std::vector<ListedCable>& cables);

}  // namespace tandem
