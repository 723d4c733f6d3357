// Presets: clusters as data, topology/presets/NAME.toml, each number with its source; the GPUs in
// them are data too, topology/presets/devices/NAME.toml.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"

namespace tandem {

// A preset's spec. Error: an unknown name, with the nearest known one.
Result<ClusterSpec> load_preset(const std::string& name);
Result<DeviceSpec> load_device(const std::string& name);

// Sorted.
std::vector<std::string> preset_names();
std::vector<std::string> device_names();
// The file of a name that is known.
std::string preset_path(const std::string& name);
std::string device_path(const std::string& name);

// Where each number of a preset comes from: {"intra_GBps", "NVIDIA DGX A100 data sheet, ..."}.
// Those of its GPU follow: {"a100-80gb.sms", ...}.
Result<std::vector<std::pair<std::string, std::string>>> preset_sources(const std::string& name);

}  // namespace tandem
