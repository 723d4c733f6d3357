// Topology files that others captured: how many of what is in them. Skipped where they are not.
#include <fmt/format.h>

#include <filesystem>

#include "base/gzip.h"
#include "tests/interop/topologies.h"

namespace tandem {
namespace {

const std::string kSamples = TANDEM_SOURCE_DIR "/../shared/samples/";

ImportedTopology captured(const std::vector<std::string>& names) {
  std::vector<ImportSource> sources;
  for (const std::string& name : names) {
    if (!std::filesystem::exists(kSamples + name)) FAIL("skipped: " << name << " is not there");
    const auto text = read_maybe_gzip(kSamples + name);
    REQUIRE(text.ok());
    sources.push_back({name, *text});
  }
  return topology_in(sources);
}

ImportedTopology captured(const std::string& name) { return captured(std::vector{name}); }

const std::string kTopology = "interop/topology/";

}  // namespace

TEST_CASE("captured dumps have the GPUs, NICs and presets of their machines") {
  struct Machine {
    std::string file;
    std::size_t gpus, nics;
    std::string preset;
  };
  for (const Machine& machine :
       {Machine{"aws_p4d-24xl-topo.xml", 8, 4, "aws-p4d"},
        Machine{"aws_p5.48xl-topo.xml", 0, 32, ""},
        Machine{"azure_ncv4-topo.xml", 4, 1, "dgx-a100"}, Machine{"azure_ndv2-topo.xml", 8, 1, ""},
        Machine{"azure_ndv4-topo.xml", 8, 8, ""}, Machine{"azure_ndv5-topo.xml", 8, 8, ""},
        Machine{"made_hgx_h100_dump.xml", 8, 8, "dgx-h100"},
        Machine{"made_gb200_tray_dump.xml", 4, 4, "gb200-nvl72"}}) {
    INFO(machine.file);
    const ImportedTopology topology = captured(kTopology + machine.file);
    REQUIRE(topology.node);
    CHECK(topology.node->gpus.size() == machine.gpus);
    CHECK(topology.node->nics.size() == machine.nics);
    CHECK(preset_of(topology) == machine.preset);
  }
  CHECK(captured("nccl_topo_a100_partial.xml").node->wires.front().nvlinks == 12);
}

TEST_CASE("a captured HGX H100 has NCCL's 370.8 GB/s a GPU, and a GB200 tray 721.8") {
  const ComposedCluster hgx =
      composed(captured(kTopology + "made_hgx_h100_dump.xml"), eight_h100());
  CHECK(cables_at(hgx, "gpu7").front() == "n0.gpu7 n0.nvswitch 370.8");
  const ComposedCluster rack =
      composed(captured(kTopology + "made_gb200_tray_dump.xml"), rack_of_72());
  CHECK(rack.nodes == 1);
  CHECK(rack.gpus_per_node == 72);
  CHECK(cables_at(rack, "gpu71") == std::vector<std::string>{"rack0.gpu71 rack0.nvswitch 721.8",
                                                             "rack0.gpu71 rack0.n17_cpu1 223.56"});
}

TEST_CASE("the three captured tables of nvidia-smi are read") {
  const auto node = [](const std::string& name) {
    return composed(captured("nvidia_smi_topo_" + name), eight_h100());
  };
  CHECK(node("h100x8.txt").gpus_per_node == 8);
  CHECK(cables_at(node("h100x8.txt"), "nvswitch").size() == 8);
  CHECK(cables_at(node("h100x8.txt"), "cpu1").size() == 5);  // four GPUs and the other socket
  CHECK(node("nic_4gpu.txt").gpus_per_node == 4);
  CHECK(cables_at(node("nic_4gpu.txt"), "pcie").size() == 6);  // two pairs of NICs, and up
  CHECK(node("raw_ansi_6gpu.txt").gpus_per_node == 6);
  CHECK(cables_at(node("raw_ansi_6gpu.txt"), "gpu5") ==
        std::vector<std::string>{"n0.gpu5 n0.nic5 50", "n0.gpu5 n0.pcie2 48"});
}

TEST_CASE(
    "a captured GB200 fabric has 9 spines, 31 leaves and 121 named hosts, 109 of them whole") {
  const ImportedTopology topology = captured(kTopology + "topograph_ibnetdiscover.out.gz");
  REQUIRE(topology.fabric);
  CHECK(topology.fabric->switches.size() == 40);
  CHECK(topology.fabric->hosts.size() == 121);
  // 582 ends: 40 aggregation nodes, 69 + 3 without a host's name, 470 of hosts.
  std::size_t ports = 0;
  for (const FabricHost& host : topology.fabric->hosts) ports += host.ports.size();
  CHECK(ports == 470);
  const ComposedCluster cluster = composed(topology, rack_of_72());
  CHECK(cluster.nodes == 109);
  CHECK(cluster.gpus_per_node == 4);
}

TEST_CASE("captured trees and blocks have their hosts") {
  CHECK(captured(kTopology + "slurm_topology_tree.conf").fabric->hosts.size() == 96);
  CHECK(captured(kTopology + "slurm_topology_tree.conf").fabric->cables.size() == 18);
  CHECK(captured(kTopology + "slurm_topology_block.conf").domains.size() == 12);
  const ImportedTopology yaml = captured(kTopology + "made_topology.yaml");
  CHECK(yaml.fabric->hosts.size() == 36);
  CHECK(yaml.domains.size() == 2);
  const ComposedCluster racks =
      composed(captured(kTopology + "topograph_nvl72.yaml"), rack_of_72());
  CHECK(racks.nodes == 4);
  CHECK(racks.gpus_per_node == 72);
}

TEST_CASE("what a host without a link sees is refused in one line") {
  const std::string path = kSamples + kTopology + "topograph_ibnetdiscover_bad.out";
  if (!std::filesystem::exists(path)) FAIL("skipped: " << path << " is not there");
  CHECK(topology_fault("bad.out", *read_maybe_gzip(path))
            .starts_with("bad.out: found one channel adapter and no switch"));
}

TEST_CASE("NICs that no GPU reaches by a PCIe switch are for storage, if others are") {
  const auto table = [](const std::string& near) {
    return "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\n"
           "GPU0\t X \tNV18\t" +
           near +
           "\tSYS\tNODE\t0-3\n"
           "GPU1\tNV18\t X \tNODE\tSYS\tNODE\t0-3\n"
           "NIC0\t" +
           near +
           "\tNODE\t X \tSYS\tNODE\n"
           "NIC1\tSYS\tSYS\tSYS\t X \tSYS\n"
           "NIC2\tNODE\tNODE\tNODE\tSYS\t X \n\nNIC Legend:\n\n"
           "  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n  NIC2: mlx5_4\n";
  };
  const ImportedTopology node = topology_in("smi", table("PXB"));
  REQUIRE(node.node->nics.size() == 1);
  CHECK(node.node->nics[0].name == "mlx5_0");
  CHECK(says(node.left_out, "mlx5_bond_0, mlx5_4, which no GPU reaches by PIX or PXB"));
  // The preset's rate, not its share of three.
  const ComposedCluster composed_node = composed(node, eight_h100());
  CHECK(says(composed_node.assumed, "NICs of 400 Gbit/s"));
  // Without a switch that anybody shares all count, as in virtual machines.
  CHECK(topology_in("smi", table("NODE")).node->nics.size() == 3);
  // Older drivers write SOC for SYS.
  std::string old = table("PXB");
  for (std::size_t at = 0; (at = old.find("SYS", at)) != std::string::npos;)
    old.replace(at, 3, "SOC");
  CHECK(topology_in("smi", old).node->nics.size() == 1);
}

TEST_CASE("fewer bare GPUs than the preset has keep its NVLinks among the first, and no switch") {
  PresetNode preset = eight_h100();
  preset.gpus = 4;
  preset.nvlinks = {{0, 2, 1, 1}, {2, 0, 1, 1}, {1, 1, 0, 2}, {1, 1, 2, 0}};
  const std::string gpu = R"(<pci class="0x030200" link_speed="16 GT/s" link_width="16"/>)";
  const ComposedCluster node = composed(
      topology_in("three.xml", "<system version=\"1\"><cpu>" + gpu + gpu + gpu + "</cpu></system>"),
      preset);
  CHECK(node.nvlinks == "021 201 110");
  CHECK(cables_at(node, "gpu2").front() == "n0.gpu2 n0.nvlinks 450");
  CHECK(cables_at(node, "nvswitch").empty());
  CHECK_FALSE(node.nvls);
}

}  // namespace tandem
