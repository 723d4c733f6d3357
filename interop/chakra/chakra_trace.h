// Chakra execution traces (MLCommons; et_def.proto, schema 0.0.4) as plain values: the work of each
// rank as nodes (compute, send, receive, collective) with dependencies.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

enum class ChakraType : std::uint8_t {
  Invalid = 0,
  Metadata = 1,
  MemLoad = 2,
  MemStore = 3,
  Compute = 4,
  Send = 5,
  Recv = 6,
  Collective = 7,
};

// The attribute comm_type of a collective.
enum class ChakraCollective : std::uint8_t {
  AllReduce = 0,
  Reduce = 1,
  AllGather = 2,
  Gather = 3,
  Scatter = 4,
  Broadcast = 5,
  AllToAll = 6,
  ReduceScatter = 7,
  ReduceScatterBlock = 8,
  Barrier = 9,
};

// Returns "all-reduce" and so on; empty: Chakra has no such collective.
std::string_view collective_name(ChakraCollective collective);

struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::Invalid;
  std::vector<std::uint64_t> ctrl_deps, data_deps;
  std::uint64_t duration_us = 0;

  // Attributes that ASTRA-sim reads.
  bool is_cpu_op = false;
  std::optional<std::int64_t> num_ops, tensor_size;  // of compute nodes
  std::optional<std::int64_t> comm_type, comm_size, comm_src, comm_dst, comm_tag;
  std::string pg_name;           // process group; empty or "0": all ranks
  bool some_dimensions = false;  // involved_dim leaves out some of the network's dimensions

  // Attributes of Tandem alone, which other tools ignore.
  std::optional<std::int64_t> stage, microbatch;
  std::string kind;        // of compute: its op_kind_name()
  std::string group_kind;  // of communication: its group_kind_name()
};

// The trace of one rank.
struct ChakraTrace {
  std::string version = "0.0.4";
  bool rendezvous = false;  // a send waits for its receive (Tandem's attribute)
  std::vector<ChakraNode> nodes;
};

// Process groups by name, as in ASTRA-sim's --comm-group-configuration.
using ChakraGroups = std::map<std::string, std::vector<std::int32_t>>;

// All ranks of a job, and the paths by which Errors name their files.
struct ChakraJob {
  std::string prefix;         // of PREFIX.<rank>.et
  std::string ending = "et";  // or "json"
  std::vector<ChakraTrace> ranks;
  ChakraGroups groups;
  std::string groups_path;  // empty: none

  std::string path(std::int32_t rank) const;
};

}  // namespace tandem
