// RoutingFile: reads which experts the tokens of each layer went to.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "workload/model/routing.h"

namespace tandem {

// Reads one of two forms:
//
// - a CSV file with the columns expert and tokens, and where they are known layer (counted from 0)
//   and step, of which each is one exchange. Without a layer all layers are alike; experts without
//   a line get nothing.
// - router_trace_rank0.jsonl of Megatron-LM (--moe-routing-trace-path), with the files of all other
//   ranks beside it, which are taken for one expert-parallel group without a pipeline. Microbatch
//   by microbatch their tokens are added up. Records of multi-token prediction are left out.
//
// Errors name file, line and what was found.
Result<Routing> read_routing(const std::string& path);

// Returns the files that it reads: the traces of all ranks beside one of them; else `path` alone.
std::vector<std::string> routing_files(const std::string& path);

}  // namespace tandem
