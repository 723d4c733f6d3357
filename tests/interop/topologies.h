// What tests of topologies share: files by their text, and what is composed of them.
#pragma once

#include <fmt/format.h>
#include <algorithm>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "interop/topology/compose.h"
#include "interop/topology/topologies.h"

namespace tandem {

inline ImportedTopology topology_in(const std::vector<ImportSource>& sources) {
  const auto topology = import_topology(sources);
  if (!topology.ok()) FAIL(topology.error().text());
  return *topology;
}

inline ImportedTopology topology_in(const std::string& name, const std::string& text) {
  return topology_in(std::vector<ImportSource>{{name, text}});
}

// The Error of files that are refused.
inline std::string topology_fault(const std::string& name, const std::string& text) {
  const auto topology = import_topology({{name, text}});
  REQUIRE(!topology.ok());
  return topology.error().text();
}

// dgx-h100 in plain numbers: 8 GPUs at 450 GB/s and 1 us, 8 NICs at 50 GB/s and 5 us.
inline PresetNode eight_h100() {
  return {.preset = "dgx-h100",
          .device = "H100-SXM5-80GB",
          .gpus = 8,
          .nics = 8,
          .intra_GBps = 450,
          .intra_efficiency = 0.81,
          .intra_latency_us = 1,
          .nic_GBps = 50,
          .inter_efficiency = 0.95,
          .inter_latency_us = 5,
          .oversubscription = 1,
          .nvlinks = {},
          .nvls = true};
}

inline PresetNode rack_of_72() {
  PresetNode rack = eight_h100();
  rack.preset = "gb200-nvl72";
  rack.gpus = rack.nics = 72;
  rack.intra_GBps = 900;
  rack.intra_efficiency = 0.76;
  return rack;
}

inline ComposedCluster composed(const ImportedTopology& topology, const PresetNode& preset,
                                const ComposeOptions& options = {}) {
  const auto cluster = compose(topology, preset, options);
  if (!cluster.ok()) FAIL(cluster.error().text());
  return *cluster;
}

// Its cables as "from to GBps", those that touch a site with `part` in its name.
inline std::vector<std::string> cables_at(const ComposedCluster& cluster, const std::string& part) {
  std::vector<std::string> found;
  for (const ComposedCable& cable : cluster.cables) {
    if (cable.from.find(part) != std::string::npos || cable.to.find(part) != std::string::npos)
      found.push_back(fmt::format("{} {} {:.6g}", cable.from, cable.to, cable.GBps));
  }
  return found;
}

inline bool says(const std::vector<std::string>& notes, const std::string& part) {
  return std::ranges::any_of(
      notes, [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace tandem
