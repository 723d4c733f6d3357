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

// nvidia-smi's table of GPUs with so many NVLinks to a switch: a pair has as many as the GPU of the
// two with fewer.
std::string switched_table(const std::vector<int>& links) {
  std::string header, rows;
  for (std::size_t i = 0; i < links.size(); ++i) {
    header += fmt::format("\tGPU{}", i);
    rows += fmt::format("GPU{}", i);
    for (std::size_t j = 0; j < links.size(); ++j) {
      const int both = std::min(links[i], links[j]);
      rows += i == j ? "\tX" : both > 0 ? fmt::format("\tNV{}", both) : "\tNODE";
    }
    rows += '\n';
  }
  return header + '\n' + rows;
}

PresetNode node_of(const std::string& preset, const std::string& device, double intra_GBps) {
  PresetNode node = eight_h100();
  node.preset = preset;
  node.device = device;
  node.intra_GBps = intra_GBps;
  return node;
}

std::string compose_fault(const std::string& text, const PresetNode& preset) {
  const auto cluster = compose(topology_in("file", text), preset, {});
  REQUIRE(!cluster.ok());
  return cluster.error().text();
}

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

TEST_CASE("a table of nvidia-smi with GPUs in another order, or cut on the right, is refused") {
  CHECK(topology_fault("t", "\tGPU0\tGPU2\tGPU1\nGPU0\tX\tSYS\tSYS\n") ==
        "t:1: found GPU1 behind GPU2, expected GPUs in their order");
  CHECK(topology_fault("t", "\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\nGPU2\tSYS\tSYS\n") ==
        "t:4: found a row GPU2 without a column, expected the whole table");
}

TEST_CASE("two GPUs of a host at one bus id are refused") {
  CHECK(topology_fault("a.xml",
                       "<system version=\"1\"><cpu>\n<pci busid=\"1\" class=\"0x030200\"/>\n"
                       "<pci busid=\"1\" class=\"0x030200\"/></cpu></system>") ==
        "a.xml:3: found a second GPU at busid '1', expected one of a host");
}

TEST_CASE("ports of one adapter share its PCIe slot, also where they stand as one NIC") {
  const auto dump = [](int gpus) {
    std::string text = "<system version=\"1\"><cpu><pci busid=\"s\" class=\"0x060400\">";
    for (int i = 0; i < gpus; ++i)
      text += fmt::format(
          "<pci busid=\"g{0}\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\">"
          "<gpu dev=\"{0}\" sm=\"90\"/></pci>",
          i);
    return text +
           "<pci busid=\"n\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"><nic>"
           "<net name=\"a\" dev=\"0\" speed=\"200000\"/><net name=\"b\" dev=\"1\" "
           "speed=\"200000\"/>"
           "</nic></pci></pci></cpu></system>";
  };
  const ComposedCluster two = composed(topology_in("t.xml", dump(2)), eight_h100());
  CHECK(cables_at(two, "slot0") == std::vector<std::string>{"n0.slot0 n0.pcie0 24",
                                                            "n0.nic_a n0.slot0 24",
                                                            "n0.nic_b n0.slot0 24"});
  const ComposedCluster one = composed(topology_in("t.xml", dump(1)), eight_h100());
  CHECK(cables_at(one, "nic_a") ==
        std::vector<std::string>{"n0.nic_a core 50", "n0.nic_a n0.pcie0 24"});
  CHECK(says(one.assumed, "2 NICs stand as 1 with their rates together"));
}

TEST_CASE("network devices without GPUDirect RDMA are said, as links do not price it") {
  const auto topology = [](const std::string& gdr) {
    return topology_in(
        "g.xml",
        "<system version=\"1\"><cpu><pci busid=\"g\" class=\"0x030200\"><gpu dev=\"0\" "
        "sm=\"90\" gdr=\"1\"/></pci><pci busid=\"n\" class=\"0x020700\"><nic>"
        "<net name=\"a\" dev=\"0\" speed=\"200000\" gdr=\"" +
            gdr + "\"/></nic></pci></cpu></system>");
  };
  CHECK(topology("1").not_expressed.empty());
  CHECK(says(topology("0").not_expressed, "g.xml: 1 of 1 network devices have gdr = 0: "));
}

TEST_CASE("a second <system> in one file is refused with its line") {
  const std::string one = R"(<system version="1"><cpu><pci class="0x030200"/></cpu></system>)";
  CHECK(topology_in("a.xml", "<!-- a -->\n" + one + "\n<!-- b -->\n").node->gpus.size() == 1);
  CHECK(topology_fault("a.xml", one + '\n' + one + '\n') ==
        "a.xml:2: found <system> behind the file's <system>, expected one element that holds all "
        "others");
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

TEST_CASE("GPUs with some NVLinks down keep a switch, with their share of its rate") {
  const PresetNode a100 = node_of("dgx-a100", "A100-SXM4-80GB", 300);
  const ComposedCluster node =
      composed(topology_in("smi", switched_table({12, 12, 12, 12, 12, 10, 12, 12})), a100);
  CHECK(cables_at(node, "nvswitch").size() == 8);
  CHECK(cables_at(node, "gpu4").front() == "n0.gpu4 n0.nvswitch 243");
  CHECK(cables_at(node, "gpu5").front() == "n0.gpu5 n0.nvswitch 202.5");
  CHECK(node.nvlinks.empty());
  CHECK(says(node.assumed, "12 NVLinks of each GPU lead to a switch, but of gpu5 10: a pair"));
  // A GPU with all of them down has PCIe.
  const ComposedCluster without =
      composed(topology_in("smi", switched_table({18, 18, 0, 18})), eight_h100());
  CHECK(cables_at(without, "nvswitch").size() == 3);
  CHECK(cables_at(without, "gpu2").front() == "n0.gpu2 n0.nic2 50");
  CHECK(says(without.assumed, "but of gpu2 0: a pair"));
}

TEST_CASE("a table's NVLinks lead to a switch by what the kind of GPU has") {
  const auto first = [](int links, std::size_t gpus, const PresetNode& preset) {
    const std::string table = switched_table(std::vector<int>(gpus, links));
    return cables_at(composed(topology_in("smi", table), preset), "gpu0").front();
  };
  // Four V100 of a DGX-2, whose preset has the rate of both directions: 0.45 of 300 GB/s.
  PresetNode dgx2 = node_of("dgx-2", "V100-32GB", 300);
  dgx2.intra_efficiency = 0.45;
  CHECK(first(6, 4, dgx2) == "n0.gpu0 n0.nvswitch 135");
  // Three H800 with 8 links each.
  const PresetNode h800 = node_of("hgx-h800", "H800-SXM5-80GB", 200);
  CHECK(first(8, 3, h800) == "n0.gpu0 n0.nvswitch 164.8");
  CHECK(first(4, 3, h800) == "n0.gpu0 n0.nvlinks 82.4");
  // H200 NVL: four joined by a bridge.
  CHECK(first(6, 4, eight_h100()) == "n0.gpu0 n0.nvlinks 123.6");
}

TEST_CASE("NICs are as fast as the fabric's file says, in bytes of data, and nothing is assumed") {
  const auto imported = [](const std::string& speed) {
    const std::string fabric = fmt::format(
        "switchguid=0xa1(a1)\nSwitch 65 \"S-a1\" # \"leaf1\" enhanced port 0\n"
        "[1] \"H-01\"[1](01) # \"h1 mlx5_0\" lid 11 {0}\n"
        "[2] \"H-02\"[1](02) # \"h2 mlx5_0\" lid 12 {0}\n",
        speed);
    const std::string table = "\tGPU0\tNIC0\nGPU0\tX\tPIX\nNIC0\tPIX\tX\n";
    return composed(topology_in({{"ib.out", "\n" + fabric}, {"topo", table}}), eight_h100());
  };
  // Data are 8 of 10 bits up to QDR.
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"4xSDR", "1"}, {"4xDDR", "2"}, {"4xQDR", "4"}, {"4xFDR", "6.82"}, {"4xHDR", "25"}};
  for (const auto& [speed, GBps] : expected) {
    const ComposedCluster cluster = imported(speed);
    CHECK(cables_at(cluster, "leaf1").front() == "h1.nic_mlx5_0 leaf1 " + GBps);
    CHECK(!says(cluster.assumed, "NICs of"));
  }
  const std::string table = "\tGPU0\tNIC0\nGPU0\tX\tPIX\nNIC0\tPIX\tX\n";
  CHECK(says(composed(topology_in("topo", table), eight_h100()).assumed, "NICs of 400 Gbit/s"));
}

TEST_CASE("a host's NICs that no file but the fabric's has are as many as its ports there") {
  std::string fabric = "\nswitchguid=0xa1(a1)\nSwitch 65 \"S-a1\" # \"leaf1\" enhanced port 0\n";
  for (int port = 0; port < 12; ++port)
    fabric += fmt::format("[{0}] \"H-0{0}\"[1](0{0}) # \"h1 mlx5_{0}\" lid {0} 4xNDR\n", port + 1);
  const ComposedCluster cluster = composed(topology_in("ib.out", fabric), eight_h100());
  CHECK(says(cluster.assumed,
             "8 GPUs a host, and its inside, by dgx-h100, with a NIC at each of its "
             "12 ports: no file has them"));
}

TEST_CASE("more NVLinks than a GPU has are refused") {
  std::string table = switched_table({18, 18, 18, 18});
  const std::string row1 = "GPU1\tNV18\tX\tNV18", row2 = "GPU2\tNV18\tNV18\tX";
  table.replace(table.find(row1), row1.size(), "GPU1\tNV18\tX\tNODE");
  table.replace(table.find(row2), row2.size(), "GPU2\tNV18\tNODE\tX");
  CHECK(compose_fault(table, eight_h100()) ==
        "found 54 NVLinks of gpu0 (nvidia-smi topo -m), expected at most the 18 of a GPU as "
        "dgx-h100 has, or pairs at a switch, each with the links of the GPU with fewer");
  CHECK(compose_fault(switched_table({18, 18}), node_of("hgx-h800", "H800-SXM5-80GB", 200))
            .starts_with("found 18 NVLinks of gpu0 (nvidia-smi topo -m), expected at most the 8 "));
  CHECK(compose_fault(R"(<system version="1"><cpu><pci busid="1" class="0x030200">
    <gpu dev="0" sm="90"><nvlink target="7" count="36" tclass="0x068000"/></gpu></pci></cpu>
    </system>)",
                      eight_h100()) ==
        "found 36 NVLinks of gpu0 (NCCL topology), expected at most the 18 of a GPU as dgx-h100 "
        "has");
}

}  // namespace tandem
