// What can be bought and built: switches and cables against NVIDIA's reference architectures,
// limits of slots, boards and switches.
#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/units.h"
#include "planning/size/buildable.h"
#include "planning/size/network_bill.h"
#include "topology/preset.h"

namespace tandem {
namespace {

ClusterSpec preset_of(const std::string& name) {
  const auto spec = load_preset(name);
  REQUIRE(spec.ok());
  return *spec;
}

ClusterSpec with_fabric(ClusterSpec spec, Fabric fabric) {
  spec.fabric = fabric;
  return spec;
}

NetworkBill bill_of(const ClusterSpec& spec, int nodes, std::string_view name = {}) {
  const auto bill = network_bill(spec, nodes, name);
  INFO((bill.ok() ? "" : bill.error().message));
  REQUIRE(bill.ok());
  return *bill;
}

std::string refusal_of(const ClusterSpec& spec, int nodes, std::string_view name = {}) {
  const auto bill = network_bill(spec, nodes, name);
  REQUIRE(!bill.ok());
  return bill.error().message;
}

// A row of a table of "DGX SuperPOD reference architecture".
struct ReferenceRow {
  std::string preset;
  int nodes;
  std::int64_t leaves, spines, cores, node_cables, leaf_spine_cables, spine_core_cables;
  std::string_view switch_name = {};
};

TEST_CASE("a bill is that of NVIDIA's reference architectures") {
  const std::vector<ReferenceRow> rows = {
      // DGX H100, "Network Fabrics", table 4. Its 252 to 1020 cables to nodes hold four to the
      // fabric's managers, which take a node's place.
      {"dgx-h100", 31, 8, 4, 0, 252 - 4, 256, 0},
      {"dgx-h100", 63, 16, 8, 0, 508 - 4, 512, 0},
      {"dgx-h100", 95, 24, 16, 0, 764 - 4, 768, 0},
      {"dgx-h100", 127, 32, 16, 0, 1020 - 4, 1024, 0},
      // DGX B200, "DGX SuperPOD Architecture", larger SuperPODs.
      {"dgx-b200", 64, 16, 8, 0, 512, 512, 0},
      {"dgx-b200", 128, 32, 16, 0, 1024, 1024, 0},
      {"dgx-b200", 256, 64, 32, 0, 2048, 2048, 0},
      {"dgx-b200", 512, 128, 128, 64, 4096, 4096, 4096},
      {"dgx-b200", 1024, 256, 256, 128, 8192, 8192, 8192},
      {"dgx-b200", 2048, 512, 512, 256, 16384, 16384, 16384},
      // DGX B300 XDR, "DGX SuperPOD Architecture", table 3.
      {"dgx-b300", 72, 8, 4, 0, 576, 576, 0},
      {"dgx-b300", 144, 16, 8, 0, 1152, 1152, 0},
      {"dgx-b300", 288, 32, 18, 0, 2304, 2304, 0},
      {"dgx-b300", 576, 64, 36, 0, 4608, 4608, 0},
      {"dgx-b300", 1296, 144, 72, 0, 10368, 10368, 0},
      // DGX B300 on Ethernet, "DGX SuperPOD Architecture", table 3. Larger ones have two planes.
      {"dgx-b300", 64, 16, 8, 0, 512, 512, 0, "SN5600"},
      {"dgx-b300", 128, 32, 16, 0, 1024, 1024, 0, "SN5600"},
      {"dgx-b300", 256, 64, 32, 0, 2048, 2048, 0, "SN5600"}};
  for (const ReferenceRow& row : rows) {
    const ClusterSpec star = preset_of(row.preset);
    const int leaf = row.nodes % 72 == 0 ? 72 : 32;
    // As those architectures are rail-optimised, the bill is the same if the spec says so.
    for (const Fabric& fabric : {star.fabric, Fabric{Fabric::RailOptimised, leaf, 1}}) {
      const NetworkBill bill = bill_of(with_fabric(star, fabric), row.nodes, row.switch_name);
      INFO(row.preset << ", " << row.nodes << " nodes, fabric " << fabric.kind);
      CHECK(bill.tiers == (row.cores > 0 ? 3 : 2));
      CHECK(bill.leaf_switches == row.leaves);
      CHECK(bill.spine_switches == row.spines);
      CHECK(bill.core_switches == row.cores);
      CHECK(bill.node_cables == row.node_cables);
      CHECK(bill.leaf_spine_cables == row.leaf_spine_cables);
      CHECK(bill.spine_core_cables == row.spine_core_cables);
    }
  }
}

TEST_CASE(
    "a network is one switch as long as that has the ports, and three tiers end at radix^3/4") {
  ClusterSpec spec = preset_of("dgx-h100");
  spec.nics_per_node = 1;
  CHECK(bill_of(spec, 1).cables() == 0);
  ClusterSpec fast = spec;
  fast.nic_bytes_per_s = 1600 * Gbit;  // no switch is so fast, and one node needs none
  CHECK(bill_of(fast, 1).switches() == 0);
  CHECK(!network_bill(fast, 2).ok());
  CHECK(bill_of(spec, 64, "QM9700").switches() == 1);
  CHECK(bill_of(spec, 65, "QM9700").tiers == 2);
  CHECK(bill_of(spec, 2048, "QM9700").tiers == 2);
  CHECK(bill_of(spec, 2049, "QM9700").tiers == 3);
  CHECK(bill_of(spec, 65536, "QM9700").switches() == 5 * 1024);
  CHECK(refusal_of(spec, 65537, "QM9700").find("65536 NICs") != std::string::npos);
  // Without a name a switch of the same rate with more ports is taken.
  CHECK(bill_of(spec, 65536).model.name == "QM9700");
  CHECK(bill_of(spec, 65537).model.name == "SN5600");
  CHECK(refusal_of(spec, 600'000).find("524288 NICs") != std::string::npos);
}

TEST_CASE("every fabric has the ports for its cables, and the bandwidth that was asked for") {
  int billed = 0;
  for (const SwitchModel& model : switch_models()) {
    for (const Fabric& fabric : {Fabric{}, Fabric{Fabric::RailOptimised, 16, 1.5},
                                 Fabric{Fabric::FatTree, 2, 3}, Fabric{Fabric::FatTree, 200, 4}}) {
      ClusterSpec spec = with_fabric(preset_of("dgx-h100"), fabric);
      spec.nic_bytes_per_s = model.port_Gbit_per_s * Gbit;
      const std::int64_t ports = model.ports;
      for (int nodes = 2; nodes * 8 <= ports * ports * ports / 4; nodes += 1 + nodes / 3) {
        INFO(model.name << ", " << nodes << " nodes, fabric " << fabric.kind);
        const auto bill = network_bill(spec, nodes, model.name);
        CHECK((bill.ok() || fabric.kind != Fabric::Star));
        if (!bill.ok() || bill->model.ports != model.ports) continue;
        ++billed;
        CHECK(bill->node_cables + bill->leaf_spine_cables <= bill->leaf_switches * ports);
        CHECK(bill->leaf_spine_cables + bill->spine_core_cables <= bill->spine_switches * ports);
        CHECK(bill->spine_core_cables <= bill->core_switches * ports);
        const double least = static_cast<double>(bill->node_cables) / fabric.oversubscription;
        if (bill->tiers > 1) CHECK(static_cast<double>(bill->leaf_spine_cables) >= least);
        if (bill->tiers > 2) CHECK(static_cast<double>(bill->spine_core_cables) >= least);
      }
    }
  }
  CHECK(billed > 500);
}

TEST_CASE("oversubscription saves spines and the cables to them") {
  const ClusterSpec star = preset_of("dgx-h100");
  const NetworkBill half = bill_of(with_fabric(star, {Fabric::RailOptimised, 32, 2}), 128);
  CHECK(half.leaf_switches == 32);
  CHECK(half.spine_switches == 8);
  CHECK(half.leaf_spine_cables == 512);
  // All 8 NICs of 4 nodes on a leaf.
  const NetworkBill tree = bill_of(with_fabric(star, {Fabric::FatTree, 4, 4}), 128);
  CHECK(tree.leaf_switches == 32);
  CHECK(tree.spine_switches == 4);
  CHECK(tree.leaf_spine_cables == 256);
}

TEST_CASE("a fabric of several leaves is billed as such, even if one switch had the ports") {
  // 7 nodes of 8 NICs have 56 of a switch's 64 ports.
  const ClusterSpec star = preset_of("dgx-h100");
  CHECK(bill_of(star, 7).switches() == 1);
  const NetworkBill tree = bill_of(with_fabric(star, {Fabric::FatTree, 1, 32}), 7);
  CHECK(tree.leaf_switches == 7);
  CHECK(tree.spine_switches == 1);
  CHECK(tree.leaf_spine_cables == 7);  // 8 down, over 32
  CHECK(bill_of(with_fabric(star, {Fabric::FatTree, 7, 32}), 7).switches() == 1);
  const NetworkBill rails = bill_of(with_fabric(star, {Fabric::RailOptimised, 4, 1}), 7);
  CHECK(rails.leaf_switches == 16);
  CHECK(rails.leaf_spine_cables == 64);
}

TEST_CASE("a leaf larger than a switch is a pod, oversubscribed above its spines") {
  // Pods of 384 nodes, 1:7 between them. Each of the eight has 48 leaves of 64 down and 64 up, two
  // to a spine, and so 32 spines of 96 down and 14 up. The 112 cables of the eight spines of one
  // place fit into a core.
  const NetworkBill bill = bill_of(preset_of("h100-roce"), 3072);
  CHECK(bill.model.name == "SN5600");
  CHECK(bill.tiers == 3);
  CHECK(bill.leaf_switches == 8 * 48);
  CHECK(bill.spine_switches == 8 * 32);
  CHECK(bill.core_switches == 32);
  CHECK(bill.leaf_spine_cables == 24576);
  CHECK(bill.spine_core_cables == 8 * 32 * 14);
  // Inside a pod nothing is oversubscribed.
  CHECK(bill_of(preset_of("h100-roce"), 128).leaf_spine_cables == 1024);
}

TEST_CASE(
    "the price of a network is that of its parts, with a transceiver at each end of a cable") {
  const NetworkBill bill = bill_of(preset_of("dgx-h100"), 128);
  CHECK(bill.optics() == 4096);
  CHECK(network_price(bill, {}) == 0);
  CHECK(network_price(bill, {.node_switch = 1000, .optic = 10, .cable = 1}) == 48 * 1000 + 43'008);
}

TEST_CASE("what is no fabric of known switches is refused") {
  ClusterSpec spec = preset_of("dgx-b300");
  CHECK(refusal_of(spec, 16, "QM9700").find("at most 400") != std::string::npos);
  CHECK(refusal_of(spec, 16, "QM1").find("expected one of") != std::string::npos);
  spec.nic_bytes_per_s = 1600 * Gbit;
  CHECK(refusal_of(spec, 16).find("at most 800") != std::string::npos);
  spec.cables = std::make_shared<const std::vector<ListedCable>>();
  CHECK(refusal_of(spec, 16).find("list of cables") != std::string::npos);
}

TEST_CASE("the documentation lists every switch") {
  std::ifstream page(TANDEM_SOURCE_DIR "/docs/planning.md");
  std::set<std::string> lines;
  for (std::string line; std::getline(page, line);) lines.insert(line);
  for (const SwitchModel& model : switch_models()) {
    const std::string row = fmt::format("| {:g} | {} | {} | {} |", model.port_Gbit_per_s,
                                        model.name, model.ports, model.network);
    INFO(row);
    CHECK(lines.count(row) == 1);
    CHECK(model.source.size() >= 8);
  }
}

TEST_CASE("every preset can be built") {
  for (const std::string& name : preset_names()) {
    const auto lines = build_warnings(preset_of(name), 16);
    INFO(name << ": " << (lines.empty() ? "" : lines.front()));
    CHECK(lines.empty());
  }
}

TEST_CASE("every device has limits in the table") {
  for (const std::string& name : device_names()) {
    const auto device = load_device(name);
    REQUIRE(device.ok());
    ClusterSpec spec = preset_of("dgx-h100");
    spec.device = *device;
    for (const std::string& line : build_warnings(spec, 2)) {
      INFO(name << ": " << line);
      CHECK(line.find("not known here") == std::string::npos);
    }
  }
}

TEST_CASE("what cannot be built is said by limit and source") {
  struct Unbuildable {
    std::string preset;
    double nic_Gbit_per_s;
    int gpus_per_node, nodes;
    std::string said;  // empty: nothing
  };
  const std::vector<Unbuildable> cases = {
      {"dgx-2", 200, 16, 16, "16 lanes of PCIe 3 carry 126 Gbit/s (Xeon of DGX-1"},
      {"dgx-a100", 400, 8, 16, "16 lanes of PCIe 4 carry 252 Gbit/s (EPYC 7742"},
      {"dgx-h100", 800, 8, 16, "16 lanes of PCIe 5 carry 504 Gbit/s (Xeon"},
      {"dgx-b200", 800, 8, 16, "PCIe 5"},
      {"gb200-nvl72", 800, 72, 16, "PCIe 5"},
      {"gb300-nvl72", 800, 72, 16, ""},
      {"dgx-h100", 400, 16, 16, "those of 1, 2, 4, 8 are (PCIe cards"},
      {"dgx-b200", 400, 72, 16, "nodes of 72 B200"},
      {"azure-nd-mi300x", 400, 4, 16, "nodes of 4 MI300X"},
      {"gb200-nvl72", 400, 64, 16, ""},
      {"gb200-nvl72", 400, 2, 16, ""},
      {"gb200-nvl72", 400, 6, 16, "multiples of 4 up to 72"},
      {"gb300-nvl72", 800, 144, 16, "nodes of 144 GB300"},
      {"dgx-h100", 400, 8, 100'000, "the fabric cannot be built: found 100000 nodes"}};
  for (const Unbuildable& c : cases) {
    ClusterSpec spec = preset_of(c.preset);
    spec.nic_bytes_per_s = c.nic_Gbit_per_s * Gbit;
    spec.gpus_per_node = c.gpus_per_node;
    spec.nvlinks.clear();  // are of 8 GPUs
    const auto lines = build_warnings(spec, c.nodes);
    INFO(c.preset << ", " << c.said << ": " << (lines.empty() ? "" : lines.front()));
    REQUIRE(lines.size() == (c.said.empty() ? 0 : 1));
    if (!lines.empty()) CHECK(lines.front().find(c.said) != std::string::npos);
  }
  ClusterSpec spec = preset_of("dgx-h100");
  spec.device.name = "X1";
  CHECK(build_warnings(spec, 16).front().find("not known here") != std::string::npos);
}

}  // namespace
}  // namespace tandem
