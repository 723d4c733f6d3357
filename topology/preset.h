// Presets: clusters as data, in topology/presets/NAME.toml, each number with its source. Their GPUs
// are data too, in topology/presets/devices/NAME.toml.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"

namespace tandem {

// Loads a preset or a device. The Error for an unknown name gives the nearest known one.
Result<ClusterSpec> load_preset(const std::string& name);
Result<DeviceSpec> load_device(const std::string& name);

// Return the known names, sorted.
std::vector<std::string> preset_names();
std::vector<std::string> device_names();
// Return the file of a known name.
std::string preset_path(const std::string& name);
std::string device_path(const std::string& name);

// Returns where each number of a preset comes from, {"intra_GBps", "NVIDIA DGX A100 data sheet,
// ..."}, followed by those of its GPU, {"a100-80gb.sms", ...}.
Result<std::vector<std::pair<std::string, std::string>>> preset_sources(const std::string& name);

}  // namespace tandem
