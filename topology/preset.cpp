// Reads presets.
#include "topology/preset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>

#include "base/data_dir.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/sourced_file.h"

namespace tandem {
namespace {

std::string presets_dir() { return data_dir() + "/topology/presets"; }
std::string devices_dir() { return presets_dir() + "/devices"; }

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code missing;  // no folder: no names
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

// The file of a name that must be one of `known`.
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

Result<DeviceSpec> read_device(const std::string& name, Sources* sources) {
  ASSIGN_OR_RETURN(SourcedFile file, open_known(name, "device", devices_dir(), device_names()));
  DeviceSpec device;
  ASSIGN_OR_RETURN(device.name, file.text("name"));
  ASSIGN_OR_RETURN(device.profile, file.text("software"));
  ASSIGN_OR_RETURN(const double memory_GiB, file.number("memory_GiB"));
  ASSIGN_OR_RETURN(const double memory_GBps, file.number("memory_GBps"));
  ASSIGN_OR_RETURN(device.sms, file.count("sms"));
  device.memory_bytes = memory_GiB * GiB;
  device.memory_bytes_per_s = memory_GBps * GB;
  if (file.has("memory_reserve_GiB")) {
    ASSIGN_OR_RETURN(const double reserve_GiB, file.number("memory_reserve_GiB"));
    device.own_memory_reserve_bytes = reserve_GiB * GiB;
  }
  for (const std::string& precision : file.stems("_Tflops")) {
    ASSIGN_OR_RETURN(const double peak, file.number(precision + "_Tflops"));
    device.flops_per_s[precision] = peak * 1e12;
  }
  if (file.has("gemm_efficiency")) {
    ASSIGN_OR_RETURN(device.gemm_efficiency, file.share("gemm_efficiency"));
  }
  for (const std::string& precision : file.stems("_gemm_efficiency")) {
    ASSIGN_OR_RETURN(device.own_gemm_efficiency[precision],
                     file.share(precision + "_gemm_efficiency"));
  }
  if (file.has("attention_efficiency")) {
    ASSIGN_OR_RETURN(device.attention_efficiency, file.share("attention_efficiency"));
  }
  RETURN_IF_ERROR(file.finish());
  for (const auto& [key, source] : file.sources()) {
    sources->emplace_back(fmt::format("{}.{}", name, key), source);
  }
  return device;
}

Result<Fabric> read_fabric(SourcedFile* file) {
  Fabric fabric;
  ASSIGN_OR_RETURN(const std::string kind, file->word("fabric"));
  if (kind == "star") return fabric;
  if (kind == "rail-optimised") {
    fabric.kind = Fabric::RailOptimised;
  } else if (kind == "fat-tree") {
    fabric.kind = Fabric::FatTree;
  } else {
    return file->expected("fabric", "star, rail-optimised or fat-tree");
  }
  ASSIGN_OR_RETURN(fabric.nodes_per_leaf, file->count("nodes_per_leaf"));
  ASSIGN_OR_RETURN(fabric.oversubscription, file->number("oversubscription"));
  return fabric;
}

Result<Collectives> read_collectives(SourcedFile* file) {
  ASSIGN_OR_RETURN(const std::string word, file->word("collectives"));
  if (word == "ring") return Collectives::Ring;
  if (word == "hierarchical") return Collectives::Hierarchical;
  if (word == "auto") return Collectives::Auto;
  return file->expected("collectives", "ring, hierarchical or auto");
}

// What may be left out: the choice of algorithms and protocols, and what they cost.
Status read_algorithms(SourcedFile* file, ClusterSpec* spec) {
  for (const auto& [key, place, unit] :
       {std::tuple{"ring_efficiency", &spec->ring_efficiency, 1.0},
        {"communicator_GBps", &spec->communicator_bytes_per_s, GB},
        {"nvls_efficiency", &spec->nvls_efficiency, 1.0},
        {"ring_fill_steps", &spec->ring_fill_steps, 1.0},
        {"intra_base_us", &spec->intra_base_s, 1e-6},
        {"intra_ll_latency", &spec->intra_low_latency.latency, 1.0},
        {"intra_ll_rate", &spec->intra_low_latency.rate, 1.0},
        {"inter_base_us", &spec->inter_base_s, 1e-6},
        {"inter_ll_latency", &spec->inter_low_latency.latency, 1.0},
        {"inter_ll_rate", &spec->inter_low_latency.rate, 1.0}}) {
    if (!file->has(key)) continue;
    ASSIGN_OR_RETURN(const double value, file->number(key));
    *place = value * unit;
  }
  for (const auto& [key, place] : {std::pair{"nvls", &spec->nvls}, {"trees", &spec->trees}}) {
    if (!file->has(key)) continue;
    ASSIGN_OR_RETURN(*place, file->flag(key));
  }
  if (file->has("nvlinks")) {
    ASSIGN_OR_RETURN(const std::string text, file->word("nvlinks"));
    const auto adjacency = parse_nvlink_adjacency(text);
    if (!adjacency.ok()) return file->expected("nvlinks", "links as in '0222 2022 2202 2220'");
    spec->nvlinks = adjacency.value();
  }
  return Done{};
}

Result<ClusterSpec> read_preset(const std::string& name, Sources* sources) {
  ASSIGN_OR_RETURN(SourcedFile file, open_known(name, "preset", presets_dir(), preset_names()));
  ClusterSpec spec;
  spec.name = name;
  ASSIGN_OR_RETURN(const std::string device, file.text("device"));
  ASSIGN_OR_RETURN(spec.gpus_per_node, file.count("gpus_per_node"));
  ASSIGN_OR_RETURN(const double intra_GBps, file.number("intra_GBps"));
  ASSIGN_OR_RETURN(spec.intra_efficiency, file.number("intra_efficiency"));
  ASSIGN_OR_RETURN(const double intra_latency_us, file.number("intra_latency_us"));
  ASSIGN_OR_RETURN(spec.nics_per_node, file.count("nics_per_node"));
  ASSIGN_OR_RETURN(const double nic_Gbitps, file.number("nic_Gbitps"));
  ASSIGN_OR_RETURN(spec.inter_efficiency, file.number("inter_efficiency"));
  ASSIGN_OR_RETURN(const double inter_latency_us, file.number("inter_latency_us"));
  RETURN_IF_ERROR(read_algorithms(&file, &spec));
  if (file.has("nics_on_switch")) {
    ASSIGN_OR_RETURN(spec.nics_on_switch, file.flag("nics_on_switch"));
  }
  if (file.has("collectives")) {
    ASSIGN_OR_RETURN(spec.collectives, read_collectives(&file));
  }
  if (file.has("in_network_reduction")) {
    ASSIGN_OR_RETURN(spec.in_network_reduction, file.flag("in_network_reduction"));
  }
  ASSIGN_OR_RETURN(spec.fabric, read_fabric(&file));
  RETURN_IF_ERROR(file.finish());
  spec.intra_bytes_per_s = intra_GBps * GB;
  spec.intra_latency_s = intra_latency_us * 1e-6;
  spec.nic_bytes_per_s = nic_Gbitps * Gbit;
  spec.inter_latency_s = inter_latency_us * 1e-6;
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

std::vector<std::string> preset_names() { return names_in(presets_dir()); }
std::vector<std::string> device_names() { return names_in(devices_dir()); }

Result<std::vector<std::pair<std::string, std::string>>> preset_sources(const std::string& name) {
  Sources sources;
  ASSIGN_OR_RETURN([[maybe_unused]] const ClusterSpec spec, read_preset(name, &sources));
  return sources;
}

}  // namespace tandem
