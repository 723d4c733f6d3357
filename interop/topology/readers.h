// Readers of topology files, one a format. Each adds to an ImportedTopology; Errors name file and
// line, what was found and what was expected.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "interop/topology/imported_topology.h"

namespace tandem {

// A file's unpacked text, and the path that Errors and notes call it by.
struct TopologySource {
  std::string path;
  const std::string& text;

  // Returns "path:line".
  std::string at(int line) const;
};

// NCCL_TOPO_DUMP_FILE's <system>: full dumps, and lists of devices as clouds ship them.
bool is_nccl_xml(std::string_view text);
Status read_nccl_xml(const TopologySource& source, ImportedTopology* topology);

// The table of `nvidia-smi topo -m`.
bool is_nvidia_smi(std::string_view text);
Status read_nvidia_smi(const TopologySource& source, ImportedTopology* topology);

// An InfiniBand fabric.
bool is_ibnetdiscover(std::string_view text);
Status read_ibnetdiscover(const TopologySource& source, ImportedTopology* topology);

// Slurm's topology.conf: tree or block.
bool is_slurm_conf(std::string_view text);
Status read_slurm_conf(const TopologySource& source, ImportedTopology* topology);

// Slurm's topology.yaml, and topograph's model of racks and switches.
bool is_topology_yaml(std::string_view text);
Status read_topology_yaml(const TopologySource& source, ImportedTopology* topology);

}  // namespace tandem
