// Topologies: files of other tools that describe a cluster, known by what is in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/import.h"
#include "interop/topology/imported_topology.h"

namespace tandem {

// The kinds of files, in words.
std::string topology_kinds();

bool is_topology(std::string_view text);

// A file of a node's inside and one of a fabric, with blocks perhaps; the order does not matter.
// Errors: what a reader refuses; two files of one kind.
Result<ImportedTopology> import_topology(const std::vector<ImportSource>& sources);

// The preset that the files' GPUs point to; empty: they name none.
std::string preset_of(const ImportedTopology& topology);

}  // namespace tandem
