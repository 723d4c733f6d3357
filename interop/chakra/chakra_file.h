// Files of Chakra traces: PREFIX.<rank>.et, in which each message follows its length; the JSON form
// of Chakra's feeder; and ASTRA-sim's process groups.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "interop/chakra/chakra_trace.h"

namespace tandem {

// Returns the binary form of a rank's trace.
std::string encode_chakra(const ChakraTrace& trace);

// Reads the binary form. Errors name the message or the node: a file cut short, another schema
// version, no message at all.
Result<ChakraTrace> decode_chakra(std::string_view bytes, const std::string& path);

// Reads {"workload_graph": [{"Id", "Name", "NodeType", "runtime", "data_deps", ...}]}.
Result<ChakraTrace> parse_chakra_json(const std::string& text, const std::string& path);

// Returns whether a path is that of a rank's trace: "x.0.et", or an "x.0.json" with a
// workload_graph.
bool is_chakra_path(const std::string& path);

// Reads the traces of all ranks, found by the path of any of them. `groups_path`: empty for
// PREFIX.groups.json, if there is one. Errors: a missing rank, and those of each file.
Result<ChakraJob> read_chakra_job(const std::string& path, const std::string& groups_path);

// Returns process groups as ASTRA-sim reads them: {"1": [0, 1], ...}.
std::string groups_json(const ChakraGroups& groups);

}  // namespace tandem
