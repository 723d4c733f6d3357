// A table of readers: the first one that recognises a file's text reads the file.
#include "interop/topology/topologies.h"

#include <array>

#include "base/split.h"
#include "interop/topology/nccl_rates.h"
#include "interop/topology/readers.h"

namespace tandem {
namespace {

struct TopologyReader {
  bool (*is)(std::string_view text);
  Status (*read)(const TopologySource& source, ImportedTopology* topology);
};

// Whether a text begins with a table of amd-smi, such as "LINK TYPE TABLE:". The command may stand
// before it.
bool is_amd_smi(std::string_view text) {
  for (const std::string& line : split(text, "\n")) {
    const std::vector<std::string> words = split_words(line);
    if (words.empty() || line.find("amd-smi topology") != line.npos) continue;
    return words.size() > 1 && words.back() == "TABLE:";
  }
  return false;
}

bool is_amd_table(std::string_view text) {
  return is_amd_smi(text) ||
         text.find("ROCm System Management Interface") != std::string_view::npos ||
         text.find("Weight between two GPUs") != std::string_view::npos;
}

Status refuse_amd_table(const TopologySource& source, ImportedTopology*) {
  return Error::at(source.path,
                   "found rocm-smi --showtopo or amd-smi topology, which is not read: give the "
                   "machine's preset with --cluster, such as azure-nd-mi300x or mi355x-roce");
}

constexpr std::array kTopologyReaders = {TopologyReader{is_amd_table, refuse_amd_table},
                                         TopologyReader{is_nccl_xml, read_nccl_xml},
                                         TopologyReader{is_nvidia_smi, read_nvidia_smi},
                                         TopologyReader{is_ibnetdiscover, read_ibnetdiscover},
                                         TopologyReader{is_slurm_conf, read_slurm_conf},
                                         TopologyReader{is_topology_yaml, read_topology_yaml}};

}  // namespace

std::string TopologySource::at(int line) const { return path + ':' + std::to_string(line); }

std::string topology_kinds() {
  return "NCCL topology XML, nvidia-smi topo -m, ibnetdiscover output, Slurm topology.conf or "
         "topology.yaml, or topograph's model";
}

bool is_topology(std::string_view text) {
  for (const TopologyReader& reader : kTopologyReaders) {
    if (reader.is(text)) return true;
  }
  return false;
}

Result<ImportedTopology> import_topology(const std::vector<ImportSource>& sources) {
  ImportedTopology topology;
  for (const ImportSource& source : sources) {
    for (const TopologyReader& reader : kTopologyReaders) {
      if (!reader.is(source.text)) continue;
      RETURN_IF_ERROR(reader.read({source.path, source.text}, &topology));
      break;
    }
  }
  return topology;
}

std::string preset_of(const ImportedTopology& topology) {
  if (!topology.node) return "";
  bool aws = false;
  for (const ImportedNic& nic : topology.node->nics) aws |= nic.pci_id.starts_with("1d0f:");
  for (const ImportedGpu& gpu : topology.node->gpus) {
    const KnownGpu* known = known_gpu(gpu.pci_id);
    if (known == nullptr) known = usual_gpu(gpu.sm);
    if (known != nullptr)
      return std::string(aws && !known->preset_on_aws.empty() ? known->preset_on_aws
                                                              : known->preset);
  }
  return "";
}

}  // namespace tandem
