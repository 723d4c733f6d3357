// Reads presets and devices from their TOML files.
#include "topology/preset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "base/data_dir.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/toml/sourced_file.h"
#include "topology/cluster_keys.h"

namespace tandem {
namespace {

constexpr const char *kPresets = "topology/presets", *kDevices = "topology/presets/devices";

std::string presets_dir() { return data_dir() + '/' + kPresets; }
std::string devices_dir() { return data_dir() + '/' + kDevices; }

// Opens the file of a name, which must be one of `known`.
Result<SourcedFile> open_known(const std::string& name, std::string_view kind,
                               const std::string& folder, const std::vector<std::string>& known) {
  if (known.empty()) {
    return Error{fmt::format("found no {}s in {}, expected TANDEM_DATA_DIR to name the folder that "
                             "holds topology/presets",
                             kind, folder),
                 Error::Missing};
  }
  if (std::ranges::find(known, name) == known.end()) {
    return Error{
        fmt::format("found {} '{}', expected a known one; the nearest is '{}'; known "
                    "are {}",
                    kind, name, nearest(name, known), fmt::join(known, ", "))};
  }
  return SourcedFile::read(fmt::format("{}/{}.toml", folder, name));
}

// Checks the keys that every file of its kind must have.
Status check_has(const SourcedFile* file, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!file->has(key))
      return file->expected(key, "{value = ..., source = \"where it comes from\"}");
  }
  return Done{};
}

Result<DeviceSpec> read_device(const std::string& name, Sources* sources) {
  ASSIGN_OR_RETURN(SourcedFile file, open_known(name, "device", devices_dir(), device_names()));
  DeviceSpec device;
  ASSIGN_OR_RETURN(device.name, file.text("name"));
  ASSIGN_OR_RETURN(device.profile, file.text("software"));
  for (const BoundKey<DeviceSpec>& key : device_keys()) RETURN_IF_ERROR(file.set(key, &device));
  RETURN_IF_ERROR(check_has(&file, {"memory_GiB", "memory_GBps", "sms"}));
  for (const std::string& precision : file.stems("_Tflops")) {
    ASSIGN_OR_RETURN(const double peak, file.number(precision + "_Tflops"));
    device.flops_per_s[precision] = peak * 1e12;
  }
  for (const std::string& precision : file.stems("_gemm_efficiency")) {
    // The ends of a tile take as long as in 16 bits, where products take twice as long.
    OwnGemms own{.ramp_k = 2 * device.gemm_ramp_k, .training_clock = device.training_clock};
    const auto set = [&](const char* key, double* place) -> Status {
      if (!file.has(precision + key)) return Done{};
      ASSIGN_OR_RETURN(*place, file.number(precision + key));
      return *place >= 0 ? Status(Done{})
                         : file.expected(precision + key, "a number of at least 0");
    };
    ASSIGN_OR_RETURN(own.efficiency, file.share(precision + "_gemm_efficiency"));
    RETURN_IF_ERROR(set("_gemm_ramp_k", &own.ramp_k));
    RETURN_IF_ERROR(set("_training_clock", &own.training_clock));
    device.own_gemms[precision] = own;
  }
  RETURN_IF_ERROR(file.finish());
  for (const auto& [key, source] : file.sources()) {
    sources->emplace_back(fmt::format("{}.{}", name, key), source);
  }
  return device;
}

Result<ClusterSpec> read_preset(const std::string& name, Sources* sources) {
  ASSIGN_OR_RETURN(SourcedFile file, open_known(name, "preset", presets_dir(), preset_names()));
  ClusterSpec spec;
  spec.name = name;
  ASSIGN_OR_RETURN(const std::string device, file.text("device"));
  for (const BoundKey<ClusterSpec>& key : cluster_keys()) RETURN_IF_ERROR(file.set(key, &spec));
  RETURN_IF_ERROR(check_has(
      &file, {"gpus_per_node", "intra_GBps", "intra_efficiency", "intra_latency_us",
              "nics_per_node", "nic_Gbitps", "inter_efficiency", "inter_latency_us", "fabric"}));
  if (spec.fabric.kind != Fabric::Star)
    RETURN_IF_ERROR(check_has(&file, {"nodes_per_leaf", "oversubscription"}));
  RETURN_IF_ERROR(file.finish());
  sources->insert(sources->end(), file.sources().begin(), file.sources().end());
  ASSIGN_OR_RETURN(spec.device, read_device(device, sources));
  return spec;
}

}  // namespace

Result<ClusterSpec> load_preset(const std::string& name) {
  Sources unused;
  return read_preset(name, &unused);
}

Result<DeviceSpec> load_device(const std::string& name) {
  Sources unused;
  return read_device(name, &unused);
}

std::vector<std::string> preset_names() { return data_names(kPresets); }
std::vector<std::string> device_names() { return data_names(kDevices); }
std::string preset_path(const std::string& name) {
  return fmt::format("{}/{}.toml", presets_dir(), name);
}
std::string device_path(const std::string& name) {
  return fmt::format("{}/{}.toml", devices_dir(), name);
}

Result<std::vector<std::pair<std::string, std::string>>> preset_sources(const std::string& name) {
  Sources sources;
  ASSIGN_OR_RETURN([[maybe_unused]] const ClusterSpec spec, read_preset(name, &sources));
  return sources;
}

}  // namespace tandem
