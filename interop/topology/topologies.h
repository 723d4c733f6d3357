// Topologies: reads files of other tools that describe a cluster, recognised by their content.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/document/import_source.h"
#include "interop/topology/imported_topology.h"

namespace tandem {

// Names the kinds of files.
std::string topology_kinds();

bool is_topology(std::string_view text);

// Imports a file of a node's inside and one of a fabric, perhaps with blocks; the order does not
// matter. Errors: those of the readers, and two files of one kind.
Result<ImportedTopology> import_topology(const std::vector<ImportSource>& sources);

// Returns the preset that the files' GPUs point to; empty: they name none.
std::string preset_of(const ImportedTopology& topology);

}  // namespace tandem
