// RoutingFile: reads how many tokens of each layer went to each expert.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "workload/model/routing.h"

namespace tandem {

// Reads one of two forms. Errors name file, line and what was found.
//
// A CSV file has the columns expert and tokens, and perhaps layer (counted from 0) and step. Each
// step is one exchange. Without a layer, all layers are alike. Experts without a line get nothing.
//
// Megatron-LM (--moe-routing-trace-path) writes router_trace_rank0.jsonl. The files of all other
// ranks beside it are read as well, as ranks of one expert-parallel group without a pipeline, and
// their tokens are added up for each microbatch. Records of multi-token prediction are left out.
Result<Routing> read_routing(const std::string& path);

// Returns the files that it reads: the traces of all ranks beside one of them; else `path` alone.
std::vector<std::string> routing_files(const std::string& path);

}  // namespace tandem
