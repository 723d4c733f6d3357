// Files of Chakra traces: PREFIX.<rank>.et, messages each behind its length; the JSON form of
// Chakra's feeder; and ASTRA-sim's process groups.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "interop/chakra/chakra_trace.h"

namespace tandem {

std::string encode_chakra(const ChakraTrace& trace);

// Errors name the message or the node: cut short, another schema version, no message at all.
Result<ChakraTrace> decode_chakra(std::string_view bytes, const std::string& path);

// {"workload_graph": [{"Id", "Name", "NodeType", "runtime", "data_deps", ...}]}.
Result<ChakraTrace> parse_chakra_json(const std::string& text, const std::string& path);

// Whether a path is that of a rank's trace: "x.0.et", or "x.0.json" where that has a
// workload_graph.
bool is_chakra_path(const std::string& path);

// The traces of all ranks, by the path of any one of them. `groups_path`: empty for
// PREFIX.groups.json, where it is there. Errors: a rank that is missing, and those of each file.
Result<ChakraJob> read_chakra_job(const std::string& path, const std::string& groups_path);

// {"1": [0, 1], ...}.
std::string groups_json(const ChakraGroups& groups);

}  // namespace tandem
