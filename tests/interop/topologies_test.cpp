// Topology files of other tools: what is read of each form, and what is refused.
#include <fmt/format.h>

#include "interop/topology/nccl_rates.h"
#include "tests/interop/topologies.h"

namespace tandem {
namespace {

using Names = std::vector<std::string>;

// Two H100s behind a PCIe switch with a NIC each on it, as NCCL dumps a host.
const std::string kTwoGpus = R"(<system version="1">
  <cpu host_hash="0x1" numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:19:00.0" class="0x060400" link_speed="2.5 GT/s PCIe" link_width="1">
      <pci busid="0000:1b:00.0" class="0x030200" vendor="0x10de" device="0x2330"
           link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90"><nvlink target="0000:05:00.0" count="10" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="8" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:1c:00.0" class="0x030200" vendor="0x10de" device="0x2330"
           link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90"><nvlink target="0000:05:00.0" count="18" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu host_hash="0x1" numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:9a:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
      <nic><net name="mlx5_1" dev="1" speed="0"/></nic>
    </pci>
  </cpu>
</system>)";

// Two leaves and a spine, two cables up from each; two hosts of two rails, a storage host.
const std::string kFabric = R"(#
# Topology file: generated on a day

vendid=0x2c9
devid=0xd2f2
switchguid=0xa1(a1)
Switch 65 "S-a1" # "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 1 lmc 0
[1] "H-01"[1](01) # "h1 mlx5_0" lid 11 4xNDR
[2] "H-02"[1](02) # "h2 HCA-1" lid 12 4xNDR
[3] "H-05"[1](05) # "store mlx5_0" lid 15 4xHDR
[33] "S-b1"[1] # "MF0;spine:MQM9700/U1" lid 3 4xNDR
[34] "S-b1"[2] # "MF0;spine:MQM9700/U1" lid 3 4xNDR
[65] "H-09"[1](09) # "Mellanox Technologies Aggregation Node" lid 19 4xNDR

switchguid=0xa2(a2)
Switch 65 "S-a2" # "MF0;leaf2:MQM9700/U1" enhanced port 0 lid 2 lmc 0
[1] "H-03"[1](03) # "h1 mlx5_1" lid 13 4xNDR
[2] "H-04"[1](04) # "h2 HCA-2" lid 14 4xNDR
[3] "H-06"[1](06) # "MT4129 ConnectX7   Mellanox Technologies" lid 16 4xNDR
[33] "S-b1"[3] # "MF0;spine:MQM9700/U1" lid 3 4xNDR

switchguid=0xb1(b1)
Switch 65 "S-b1" # "MF0;spine:MQM9700/U1" enhanced port 0 lid 3 lmc 0
[1] "S-a1"[33] # "MF0;leaf1:MQM9700/U1" lid 1 4xNDR
[2] "S-a1"[34] # "MF0;leaf1:MQM9700/U1" lid 1 4xNDR
[3] "S-a2"[33] # "MF0;leaf2:MQM9700/U1" lid 2 4xNDR

caguid=0x01
Ca 1 "H-01" # "h1 mlx5_0"
[1](01)  "S-a1"[1] # lid 11 lmc 0 "MF0;leaf1:MQM9700/U1" lid 1 4xNDR
)";

}  // namespace

TEST_CASE("NCCL counts NVLinks, lanes and sockets by the constants of its topo.h") {
  CHECK(nccl_nvlink_GBps(60) == 18);
  CHECK(nccl_nvlink_GBps(70) == 20);
  CHECK(nccl_nvlink_GBps(80) == 20);
  CHECK(nccl_nvlink_GBps(86) == 12);
  CHECK(18 * nccl_nvlink_GBps(90) == Approx(370.8));
  CHECK(18 * nccl_nvlink_GBps(103) == Approx(721.8));
  CHECK(nccl_nvlink_GBps(50) == 0);
  CHECK(pcie_GBps("8 GT/s", 16) == 12);
  CHECK(pcie_GBps("16.0 GT/s PCIe", 8) == 12);
  CHECK(pcie_GBps("32.0 GT/s PCIe", 16) == 48);
  CHECK(pcie_GBps("", 0) == 12);  // as 8 GT/s and 16 lanes
  CHECK(socket_GBps("x86_64", "GenuineIntel", 6, 85) == 10);
  CHECK(socket_GBps("x86_64", "GenuineIntel", 6, 143) == 22);
  CHECK(socket_GBps("x86_64", "GenuineIntel", 6, 207) == 40);
  CHECK(socket_GBps("x86_64", "AuthenticAMD", 23, 49) == 16);
  CHECK(socket_GBps("arm64", "", 0, 0) == 6);
}

TEST_CASE("a dump's node has its GPUs, NVLinks to one switch, PCIe switches and NICs") {
  const ImportedTopology topology = topology_in("topo.xml", kTwoGpus);
  CHECK(preset_of(topology) == "dgx-h100");
  const ComposedCluster node = composed(topology, eight_h100());
  CHECK(node.nodes == 1);
  CHECK(node.gpus_per_node == 2);
  CHECK(node.nvls);
  // 18 NVLinks each; PCIe 5 x16, the bridge as fast as what is below: it states nonsense. Nets
  // without a speed have 10 Gbit/s.
  CHECK(cables_at(node, "") == Names{"n0.gpu0 n0.nvswitch 370.8", "n0.gpu1 n0.nvswitch 370.8",
                                     "n0.nic_mlx5_0 core 50", "n0.nic_mlx5_1 core 1.25",
                                     "n0.gpu0 n0.pcie0 48", "n0.gpu1 n0.pcie0 48",
                                     "n0.nic_mlx5_0 n0.pcie0 48", "n0.nic_mlx5_1 n0.cpu1 24",
                                     "n0.pcie0 n0.cpu0 48", "n0.cpu0 n0.cpu1 22"});
  // The preset's NVLinks reach 0.81 of 450 GB/s: as much of 370.8.
  CHECK(node.intra_efficiency == Approx(0.81 * 450 / 370.8));
  for (const ComposedCable& cable : node.cables) {
    const bool inside = cable.to.starts_with("n0.") && cable.to != "n0.nvswitch";
    CHECK(cable.efficiency == (inside ? 1 : 0));
  }
}

TEST_CASE("NVLinks from GPU to GPU are counted once, and one to itself is left out") {
  const auto gpu = [](int i, const std::string& links) {
    return fmt::format(
        "<pci busid=\"000{0}:00:00.0\" class=\"0x030200\"><gpu dev=\"{0}\" sm=\"70\">{1}</gpu>"
        "</pci>\n",
        i, links);
  };
  const auto link = [](int to, int count) {
    return fmt::format("<nvlink target=\"000{}:00:00.0\" count=\"{}\" tclass=\"0x030200\"/>", to,
                       count);
  };
  const ImportedTopology topology = topology_in(
      "v.xml", "<system version=\"1\"><cpu>\n" + gpu(0, link(1, 2) + link(0, 6)) +
                   gpu(1, link(0, 2) + link(2, 1)) + gpu(2, link(1, 1)) + "</cpu></system>");
  PresetNode jz = eight_h100();
  jz.preset = "dgx-1";
  jz.device = "V100-32GB";
  jz.intra_GBps = 50;
  jz.intra_efficiency = 0.6;
  jz.nvlinks = {{0, 2}, {2, 0}};
  const ComposedCluster node = composed(topology, jz);
  CHECK(cables_at(node, "gpu1") ==
        Names{"n0.gpu1 n0.nvlinks 40", "n0.gpu1 n0.nic1 50", "n0.gpu1 n0.cpu0 12"});
  CHECK(says(topology.left_out, "v.xml:2: an NVLink from 0000:00:00.0 to itself"));
  CHECK(node.nvlinks == "020 201 010");
  CHECK(node.intra_efficiency == Approx(0.6 * 50 / 40));
  CHECK(!node.nvls);
  CHECK(preset_of(topology) == "dgx-1");  // by its compute capability
}

TEST_CASE("NVLinks to nowhere, NICs without a net and devices of no CPU are said to be left out") {
  const ImportedTopology topology = topology_in("w.xml", R"(<system version="1"><cpu>
    <pci busid="1" class="0x030200"><gpu dev="0" sm="90">
      <nvlink target="7" count="4" tclass="0x060400"/>
      <nvlink target="" count="18" tclass="0x030200"/></gpu></pci>
    <pci busid="2" class="0x020700">
      <nic/></pci></cpu>
    <pci busid="3" class="0x030200"><gpu dev="1" sm="90"/></pci>
    </system>)");
  CHECK(topology.node->gpus.size() == 1);
  CHECK(composed(topology, eight_h100()).nvls == false);
  CHECK(says(topology.left_out, "w.xml:3: 4 NVLinks to '7', which is neither a switch nor a GPU"));
  CHECK(says(topology.left_out, "w.xml:4: 18 NVLinks to ''"));
  CHECK(says(topology.left_out, "w.xml:6: a <nic> without a <net>"));
  CHECK(says(topology.left_out, "w.xml:7: a <pci> of no <cpu>"));
}

TEST_CASE("GPUs of two hosts in one dump may have the same bus ids") {
  const auto host = [](const std::string& hash) {
    return "<cpu host_hash=\"" + hash + R"(">
      <pci busid="1" class="0x030200"><gpu dev="0" sm="100"><nvlink target="2" count="2"/>
        <nvlink target="fffffff:ff:ff.0" count="18"/></gpu></pci>
      <pci busid="2" class="0x030200"><gpu dev="1" sm="100"/></pci></cpu>)";
  };
  const ImportedTopology topology =
      topology_in("two.xml", "<system version=\"1\">" + host("a") + host("b") + "</system>");
  // Those of host a come first, so gpu0 is beside gpu1, and gpu2 beside gpu3.
  std::vector<std::string> pairs;
  for (const NodeWire& wire : topology.node->wires) {
    if (wire.kind == NodeWire::Nvlink && wire.to != "nvswitch")
      pairs.push_back(wire.from + ' ' + wire.to);
  }
  CHECK(pairs == Names{"gpu0 gpu1", "gpu2 gpu3"});
}

TEST_CASE("NVLinks of GPUs that have none by NCCL's count are as the preset's, never of no rate") {
  const ImportedTopology topology = topology_in("old.xml", R"(<system version="1"><cpu>
    <pci busid="1" class="0x030200"><gpu dev="0" sm="50"><nvlink target="2" count="4"/></gpu></pci>
    <pci busid="2" class="0x030200"><gpu dev="1" sm="50"/></pci></cpu></system>)");
  const ComposedCluster node = composed(topology, eight_h100());
  CHECK(cables_at(node, "nvlinks").front() == "n0.gpu0 n0.nvlinks 450");
}

TEST_CASE("bare devices are known by their class, and have the preset's NVLinks and NICs") {
  const ImportedTopology topology = topology_in("azure.xml", R"(<system version="1"><cpu>
    <pci busid="1" class="0x030200" link_speed="16 GT/s" link_width="16"/>
    <pci busid="2" class="0x030200" link_speed="16 GT/s" link_width="16"/>
    <pci busid="3" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </cpu></system>)");
  CHECK(preset_of(topology).empty());
  const ComposedCluster node = composed(topology, eight_h100(), {{}, 4});
  CHECK(node.nodes == 2);
  CHECK(cables_at(node, "n1.") == Names{"n1.gpu0 n1.nvswitch 450", "n1.gpu1 n1.nvswitch 450",
                                        "n1.nic0 core 50", "n1.gpu0 n1.cpu0 24",
                                        "n1.gpu1 n1.cpu0 24", "n1.nic0 n1.cpu0 24"});
  CHECK(node.intra_efficiency == 0);
  CHECK(says(node.assumed, "2 nodes like this one, and a core between them"));
  // A job of three GPUs takes whole nodes, too.
  CHECK(composed(topology, eight_h100(), {{}, 3}).nodes == 2);
}

TEST_CASE("XML that is no topology of NCCL's is refused with its line") {
  CHECK(topology_fault("g.xml", "<graphs version=\"1\"/>") ==
        "g.xml:1: found NCCL's graphs (NCCL_GRAPH_DUMP_FILE), expected its topology "
        "(NCCL_TOPO_DUMP_FILE): <system>");
  CHECK(topology_fault("v.xml", "<!-- a -->\n<system version=\"3\"/>") ==
        "v.xml:2: found NCCL topology version '3', expected 1");
  CHECK(topology_fault("o.xml", "<html/>") == "o.xml:1: found <html>, expected NCCL's <system>");
  CHECK(topology_fault("e.xml", "<system version=\"1\"><cpu/></system>")
            .starts_with("e.xml:1: found neither a GPU"));
  const std::string cut = kTwoGpus.substr(0, kTwoGpus.size() / 2);
  CHECK(topology_fault("c.xml", cut).starts_with("c.xml:10: found no XML ("));
  CHECK(topology_fault("n.xml",
                       "<system version=\"1\"><cpu>\n<pci class=\"0x0302\"><gpu>\n"
                       "<nvlink count=\"many\"/></gpu></pci></cpu></system>") ==
        "n.xml:3: found count = 'many' of a nvlink, expected 0 to 1000");
  std::string mixed = kTwoGpus;
  mixed.replace(mixed.rfind("sm=\"90\""), 7, "sm=\"80\"");
  CHECK(topology_fault("m.xml", mixed) ==
        "m.xml: found GPUs of compute capability 90 and 80, expected GPUs of one kind");
  CHECK(topology_fault("s.xml",
                       "<system version=\"1\"><cpu>\n<nic><net speed=\"nan\"/></nic>"
                       "</cpu></system>") ==
        "s.xml:2: found speed = 'nan' of a net, expected -1 to 1e+08");
}

TEST_CASE("nvidia-smi's table: alike pairs of many links are a switch, others are NVLinks") {
  const std::string four =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tNV4\tNV4\tNV4\tPIX\t0-15\t0\n"
      "GPU1\tNV4\t X \tNV4\tNV4\tNODE\t0-15\t0\n"
      "GPU2\tNV4\tNV4\t X \tNV4\tSYS\t16-31\t1\n"
      "GPU3\tNV4\tNV4\tNV4\t X \tSYS\t16-31\t1\n"
      "NIC0\tPIX\tNODE\tSYS\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_7\n";
  PresetNode a100 = eight_h100();
  a100.preset = "dgx-a100";
  a100.device = "A100-SXM4-80GB";
  a100.intra_GBps = 300;
  const ComposedCluster direct = composed(topology_in("smi", four), a100);
  // Three times four links are a GPU's twelve: no switch. Each carries 0.81 of 25 GB/s.
  CHECK(cables_at(direct, "gpu3") == Names{"n0.gpu3 n0.nvlinks 81", "n0.gpu3 n0.cpu1 24"});
  CHECK(direct.nvlinks == "0444 4044 4404 4440");
  CHECK(cables_at(direct, "nic_mlx5_7") ==
        Names{"n0.nic_mlx5_7 core 50", "n0.nic_mlx5_7 n0.pcie0 24"});
  CHECK(cables_at(direct, "cpu0") ==
        Names{"n0.pcie0 n0.cpu0 24", "n0.gpu1 n0.cpu0 24", "n0.cpu0 n0.cpu1 10"});

  std::string switched = four;
  for (std::size_t at = 0; (at = switched.find("NV4", at)) != std::string::npos;)
    switched.replace(at, 3, "NV12");
  CHECK(cables_at(composed(topology_in("smi", switched), a100), "nvswitch").front() ==
        "n0.gpu0 n0.nvswitch 243");
  // Of GPUs that nothing names the links share the preset's rate.
  a100.device = "MI355X-288GB";
  CHECK(cables_at(composed(topology_in("smi", four), a100), "gpu3").front() ==
        "n0.gpu3 n0.nvlinks 100");
}

TEST_CASE("several NICs of a GPU are one, and share what the preset has") {
  PresetNode preset = eight_h100();
  preset.gpus = preset.nics = 1;
  const std::string table =
      "$ nvidia-smi topo -m\n\tGPU0\tNIC0\tNIC1\nGPU0\t X \tPIX\tPIX\n"
      "NIC0\tPIX\t X \tPIX\nNIC1\tPIX\tPIX\t X \n";
  CHECK(cables_at(composed(topology_in("smi", table), preset), "core") ==
        Names{"n0.nic_NIC0 core 50"});
}

TEST_CASE("pairs on an NVLink bridge keep it, and reach the others by PCIe") {
  const ComposedCluster node =
      composed(topology_in("smi",
                           "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tNV4\tSYS\tSYS\n"
                           "GPU1\tNV4\t X \tSYS\tSYS\nGPU2\tSYS\tSYS\t X \tNV4\n"
                           "GPU3\tSYS\tSYS\tNV4\t X \n"),
               eight_h100());
  CHECK(node.nvlinks.empty());
  CHECK(cables_at(node, "gpu3").front() == "n0.gpu2 n0.gpu3 82.4");
}

TEST_CASE("nvidia-smi's table is read with its header underlined and with blanks") {
  const ImportedTopology ansi =
      topology_in("smi",
                  "\x1b[4m\tGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tSYS\t0-3\n"
                  "GPU1\tSYS\t X \t4-7\n");
  const ImportedTopology blanks =
      topology_in("smi",
                  "$ nvidia-smi topo -m\n      GPU0  GPU1  CPU Affinity\nGPU0   X    SYS   0-3\n"
                  "GPU1  SYS    X    4-7\n");
  for (const ImportedTopology& topology : {ansi, blanks}) {
    const ComposedCluster node = composed(topology, eight_h100());
    CHECK(cables_at(node, "cpu") ==
          Names{"n0.gpu0 n0.cpu0 48", "n0.cpu0 n0.cpu1 10", "n0.gpu1 n0.cpu1 48"});
    CHECK(says(node.assumed, "2 NICs, as dgx-h100 has: the file names none"));
    // GPUs that PCIe alone joins take a message's time on it: 0.5 + 0.5 us.
    for (const ComposedCable& cable : node.cables) {
      const bool is_gpus = cable.from.starts_with("n0.gpu") && cable.to.starts_with("n0.cpu");
      if (is_gpus) CHECK(cable.latency_us == 0.5);
    }
  }
}

TEST_CASE("a table of nvidia-smi that is cut off, or has other cells, is refused") {
  CHECK(topology_fault("t", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-3\n") ==
        "t:1: found a column GPU1 without a row, expected the whole table");
  CHECK(topology_fault("t", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \n") ==
        "t:2: found 1 cells for GPU0, expected 2, one a device");
  CHECK(topology_fault("t", "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV18\t X \n") ==
        "t:1: found 'NV18' from GPU1 to GPU0 and 'NV4' back in the table, expected the same, and X "
        "of a device to itself");
  CHECK(topology_fault("t", "\tGPU0\tGPU1\nGPU0\t X \t X \nGPU1\t X \t X \n")
            .starts_with("t:1: found 'X' from GPU1 to GPU0"));
  CHECK(topology_fault("t", "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU0\t X \tSYS\n") ==
        "t:3: found a second row GPU0, expected one a device");
  CHECK(topology_fault("t", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNVx\t0-3\n") ==
        "t:2: found 'NVx' for GPU0, expected X, NV1, PIX, PXB, PHB, NODE or SYS");
}

TEST_CASE("GPUs that NVLinks join are on one socket where a NIC is near to both") {
  // No affinity tells it, as in a container.
  const ComposedCluster node =
      composed(topology_in("smi",
                           "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV4\tNODE\n"
                           "GPU1\tNV4\t X \tNODE\nNIC0\tNODE\tNODE\t X \n"),
               eight_h100());
  CHECK(cables_at(node, "cpu1").empty());
  CHECK(cables_at(node, "cpu0").size() == 3);
}

TEST_CASE("a fabric's hosts are those with as many ports as most, and all else is said") {
  const ImportedTopology topology = topology_in("fabric.ib", kFabric);
  const ComposedCluster cluster = composed(topology, eight_h100());
  CHECK(cluster.nodes == 2);
  CHECK(cluster.hosts == Names{"h1", "h2"});
  // HCA-1 is mlx5_0; NDR with four lanes has 400 Gbit/s; each cable stands once.
  CHECK(cables_at(cluster, "leaf1") == Names{"h1.nic_mlx5_0 leaf1 50", "h2.nic_mlx5_0 leaf1 50",
                                             "leaf1 spine 50", "leaf1 spine 50"});
  CHECK(cables_at(cluster, "leaf2") ==
        Names{"h1.nic_mlx5_1 leaf2 50", "h2.nic_mlx5_1 leaf2 50", "leaf2 spine 50"});
  CHECK(says(topology.left_out, "1 aggregation node of the switches, for SHARP"));
  CHECK(says(topology.left_out, "1 end without a host's name, such as 'MT4129 ConnectX7"));
  CHECK(says(cluster.left_out,
             "1 host of other than 2 ports (--hosts takes those that it names): "
             "store"));
  const ComposedCluster named = composed(topology, eight_h100(), {{"h2", "store"}, 0});
  CHECK(named.hosts == Names{"h2", "store"});
  CHECK(cables_at(named, "store.nic") ==
        Names{"store.nic_mlx5_0 leaf1 25", "store.gpu0 store.nic_mlx5_0 50",
              "store.gpu1 store.nic_mlx5_0 50", "store.gpu2 store.nic_mlx5_0 50",
              "store.gpu3 store.nic_mlx5_0 50"});
}

TEST_CASE("a host's file and the fabric's are one cluster: NICs meet their ports by name") {
  const ImportedTopology topology = topology_in({{"fabric.ib", kFabric}, {"topo.xml", kTwoGpus}});
  const ComposedCluster cluster = composed(topology, eight_h100());
  CHECK(cluster.gpus_per_node == 2);
  CHECK(cables_at(cluster, "h2.nic") == Names{"h2.nic_mlx5_0 leaf1 50", "h2.nic_mlx5_1 leaf2 1.25",
                                              "h2.nic_mlx5_0 h2.pcie0 48",
                                              "h2.nic_mlx5_1 h2.cpu1 24"});
}

TEST_CASE("a cable that only one of its switches states is there, whichever that is") {
  // The file is cut: the uplinks of leaf2, or those that the spine has, are missing.
  for (const std::string& missing :
       {std::string("[33] \"S-b1\"[3] # \"MF0;spine:MQM9700/U1\" lid 3 4xNDR\n"),
        std::string("[3] \"S-a2\"[33] # \"MF0;leaf2:MQM9700/U1\" lid 2 4xNDR\n")}) {
    std::string cut = kFabric;
    cut.erase(cut.find(missing), missing.size());
    const ComposedCluster cluster = composed(topology_in("cut.ib", cut), eight_h100());
    std::size_t cables = 0;
    for (const std::string& cable : cables_at(cluster, "spine"))
      cables += cable.find("leaf2") != std::string::npos ? 1 : 0;
    CHECK(cables == 1);
  }
}

TEST_CASE("a plug from a switch to itself is said to be left out") {
  std::string fabric = kFabric;
  fabric.insert(fabric.find("[33] \"S-b1\"[1]"), "[50] \"S-a1\"[51] # \"leaf1\" lid 1 4xNDR\n");
  const ImportedTopology topology = topology_in("f.ib", fabric);
  CHECK(says(topology.left_out, "f.ib: 1 switch with cables to itself: leaf1"));
  CHECK(cables_at(composed(topology, eight_h100()), "leaf1").size() == 4);
}

TEST_CASE("a spine with a management host stays, and the leaf of such hosts goes") {
  std::string fabric = kFabric;
  fabric.insert(fabric.find("\ncaguid="),
                "[40] \"H-71\"[1](71) # \"ufm mlx5_0\" lid 71 4xNDR\n"
                "[10] \"S-a3\"[33] # \"MF0;leaf3:MQM9700/U1\" lid 4 4xNDR\n\n"
                "switchguid=0xa3(a3)\n"
                "Switch 65 \"S-a3\" # \"MF0;leaf3:MQM9700/U1\" enhanced port 0 lid 4 lmc 0\n"
                "[1] \"H-72\"[1](72) # \"login mlx5_0\" lid 72 4xNDR\n"
                "[33] \"S-b1\"[10] # \"MF0;spine:MQM9700/U1\" lid 3 4xNDR\n");
  const ComposedCluster cluster =
      composed(topology_in("f.ib", fabric), eight_h100(), {{"h1", "h2"}, 0});
  CHECK(cables_at(cluster, "spine") == Names{"leaf1 spine 50", "leaf1 spine 50", "leaf2 spine 50"});
  CHECK(says(cluster.left_out, "1 leaf switch of hosts that are left out: leaf3"));
}

TEST_CASE("ports without a NIC and NICs without a port are said to be left out") {
  std::string fabric = kFabric;
  fabric.insert(fabric.find("[33] \"S-b1\"[1]"),
                "[4] \"H-07\"[1](07) # \"h1 mlx5_2\" lid 17 4xNDR\n"
                "[5] \"H-08\"[1](08) # \"h2 mlx5_2\" lid 18 4xNDR\n");
  CHECK(
      says(composed(topology_in({{"f.ib", fabric}, {"topo.xml", kTwoGpus}}), eight_h100()).left_out,
           "2 ports of hosts in the fabric: the node's file has no NIC for them"));
  std::string one = kFabric;  // mlx5_1 is in no host
  for (const char* port : {"[1] \"H-03\"", "[2] \"H-04\""}) {
    const std::size_t at = one.find(port);
    one.erase(at, one.find('\n', at) + 1 - at);
  }
  const ImportedTopology topology = topology_in({{"f.ib", one}, {"topo.xml", kTwoGpus}});
  CHECK(says(composed(topology, eight_h100(), {{"h1", "h2"}, 0}).left_out,
             "2 NICs of hosts: the fabric has no port for them"));
}

TEST_CASE("a host may be called as a part is, and an adapter's GUID as a switch's") {
  std::string fabric = kFabric;
  for (std::size_t at = 0; (at = fabric.find("\"h1 ", at)) != std::string::npos;)
    fabric.replace(at, 4, "\"MTL1 ");
  fabric += "\nCa 1 \"S-00\" # \"x y\"\n[1](00) \"S-a1\"[50] # lid 1 lmc 0 \"leaf\" lid 1 4xNDR\n";
  CHECK(composed(topology_in("f.ib", fabric), eight_h100()).hosts == Names{"MTL1", "h2"});
}

TEST_CASE("ibnetdiscover without a switch, cut off, or with odd links is refused") {
  CHECK(topology_fault("bad.ib", "#\n\ncaguid=0x01\nCa\t1 \"H-01\"\t# \"n01 HCA-1\"\n") ==
        "bad.ib: found one channel adapter and no switch, expected a fabric: was it run on a host "
        "whose link is up?");
  const std::size_t line = kFabric.find("[2] \"H-02\"");
  CHECK(topology_fault("cut.ib", kFabric.substr(0, line + 12))
            .starts_with("cut.ib:9: found a link without the ports of its ends"));
  std::string odd = kFabric;
  odd.replace(odd.find("4xNDR"), 5, "4xWDR");
  CHECK(topology_fault("odd.ib", odd).starts_with("odd.ib:8: found a link without its width"));
  std::string portless = kFabric;
  portless.erase(portless.find("[33] \"S-b1\"[1]") + 11, 3);
  CHECK(topology_fault("p.ib", portless).starts_with("p.ib:11: found a link without the ports"));
  std::string lonely = "\nswitchguid=0xa1(a1)\nSwitch\t65 \"S-a1\"\t# \"leaf\" enhanced\n";
  CHECK(topology_fault("lonely.ib", lonely)
            .starts_with("lonely.ib: found 1 switches and no host that is named"));
}

TEST_CASE("Slurm's tree: uplinks carry what hangs below, by the preset's oversubscription") {
  const ImportedTopology topology =
      topology_in("topology.conf",
                  "# a comment\nSwitchName=s0 Nodes=n[1-2]\nswitchname=s1 nodes=n3 # more\n"
                  "SwitchName=top Switches=s[0-1] LinkSpeed=100\n");
  PresetNode preset = eight_h100();
  preset.oversubscription = 2;
  const ComposedCluster cluster = composed(topology, preset);
  CHECK(cluster.hosts == Names{"n1", "n2", "n3"});
  CHECK(cables_at(cluster, "top") == Names{"s0 top 400", "s1 top 200"});  // 2 x 8 x 50 / 2
  CHECK(cables_at(cluster, "n3.nic0") == Names{"n3.nic0 s1 50", "n3.gpu0 n3.nic0 50"});
}

TEST_CASE("trees meet in a core that no file has, and a tree without hosts is left out") {
  const ImportedTopology topology =
      topology_in("topology.conf",
                  "SwitchName=s0 Nodes=n1\nSwitchName=core Switches=s0\n"
                  "SwitchName=s1 Nodes=n2\nSwitchName=e0 Switches=e1\nSwitchName=e1 Switches=e2\n"
                  "SwitchName=e2 Switches=\\\ne3\nSwitchName=e3 Nodes=n3\n");
  const ComposedCluster cluster = composed(topology, eight_h100(), {{"n1", "n2"}, 0});
  CHECK(cables_at(cluster, "core") == Names{"s0 core 400", "core core-2 400", "s1 core-2 400"});
  CHECK(says(cluster.left_out, "switches without a host below them: e[0-3]"));
  CHECK(says(cluster.assumed, "a core that never blocks joins the 2 trees"));
}

TEST_CASE("a chain of very many switches is a tree like others") {
  constexpr int kSwitches = 20'000;
  std::string conf;
  for (int i = 0; i < kSwitches; ++i)
    conf += fmt::format("SwitchName=s{} Switches=s{}\n", i, i + 1);
  conf += fmt::format("SwitchName=s{} Nodes=n[1-2]\n", kSwitches);
  const ComposedCluster cluster = composed(topology_in("t.conf", conf), eight_h100());
  CHECK(cluster.left_out.empty());
  for (const ComposedCable& cable : cluster.cables) {
    if (cable.from.starts_with("s") && cable.GBps != 800) FAIL(cable.from);
  }
}

TEST_CASE("blocks are NVLink domains of a rack's GPUs, and leaves of others'") {
  const std::string conf = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-5]\nBlockSizes=2\n";
  const ImportedTopology topology = topology_in("topology.conf", conf);
  const ComposedCluster racks = composed(topology, rack_of_72());
  // Domains are alike: two hosts of four GPUs each, n5 is over.
  CHECK(racks.nodes == 2);
  CHECK(racks.gpus_per_node == 8);
  CHECK(racks.hosts == Names{"n1", "n2", "n3", "n4"});
  CHECK(says(racks.left_out, "1 host so that every NVLink domain has 2: n5"));
  CHECK(cables_at(racks, "b2.gpu7") == Names{"b2.gpu7 b2.nvswitch 900", "b2.gpu7 b2.nic_n4_3 50"});
  CHECK(cables_at(racks, "core").front() == "b1.nic_n1_0 core 50");
  const ComposedCluster leaves = composed(topology, eight_h100());
  CHECK(leaves.nodes == 5);
  CHECK(cables_at(leaves, "core") == Names{"b1 core 800", "b2 core 1200"});
}

TEST_CASE("Slurm's topology.yaml and topograph's model are read as their tables") {
  const ImportedTopology slurm = topology_in("topology.yaml", R"(
- topology: racks
  cluster_default: true
  block:
    block_sizes: [2]
    blocks: [{block: b1, nodes: "n[1-2]"}, {block: b2, nodes: "n[3-4]"}]
- topology: net
  tree:
    switches:
      - {switch: top, children: "leaf[1-2]"}
      - {switch: leaf1, nodes: "n[1-2]"}
      - {switch: leaf2, nodes: "n[3-4]"}
- topology: rings
  ring: {}
)");
  CHECK(says(slurm.left_out, "topology rings, which is neither a tree nor blocks"));
  const ImportedTopology second =
      topology_in("t.yaml",
                  "- topology: old\n  tree: {switches: [{switch: a, "
                  "nodes: n1}]}\n- topology: new\n  cluster_default: "
                  "true\n  tree: {switches: [{switch: b, nodes: n2}]}\n");
  CHECK(second.fabric->switches == Names{"b"});
  CHECK(says(second.left_out, "t.yaml: a second tree, of topology old"));
  const ComposedCluster rows = composed(slurm, rack_of_72());
  CHECK(rows.nodes == 2);
  CHECK(cables_at(rows, "top") == Names{"leaf1 top 400", "leaf2 top 400"});

  const ImportedTopology model = topology_in("model.yaml", R"(
switches:
  top: {switches: [leaf-1, leaf-2]}
blocks:
- switch: leaf-1
  nodes: ["n[1-2]"]
  annotations: {accelerator.topology.test/domain: nvl-1}
- switch: leaf-2
  nodes: [n3, n4]
  annotations: {accelerator.topology.test/domain: nvl-2}
)");
  const ComposedCluster racks = composed(model, rack_of_72());
  CHECK(racks.nodes == 2);
  CHECK(cables_at(racks, "nvl-2.gpu0").front() == "nvl-2.gpu0 nvl-2.nvswitch 900");
  CHECK(cables_at(racks, "top") == Names{"leaf-1 top 400", "leaf-2 top 400"});
}

TEST_CASE("trees that are none, malformed hostlists and empty switches are refused with a line") {
  const auto conf = [](const std::string& text) { return topology_fault("t.conf", text); };
  CHECK(conf("SwitchName=a Nodes=n[1-\n") ==
        "t.conf:1: found 'n[1-' among host names, expected each [ closed by a ]");
  CHECK(conf("SwitchName=a\n") ==
        "t.conf:1: found switch 'a' with neither switches nor nodes below "
        "it, expected one of them");
  CHECK(conf("SwitchName=a Switches=b\nSwitchName=c Nodes=n1\n") ==
        "t.conf:1: found switch 'b' below 'a', expected one that has a line of its own");
  CHECK(conf("SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=c Nodes=n1\n")
            .ends_with("below itself, expected a tree"));
  CHECK(conf("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n") ==
        "t.conf:2: found host 'n1' at 'a' and 'b', expected it at one switch");
  CHECK(conf("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n") ==
        "t.conf:2: found switch 'a' a second time, after line 1, expected each once");
  CHECK(conf("BlockName=a Nodes=n1\nBlockName=b Nodes=n1\n") ==
        "t.conf:2: found host 'n1' in blocks 'a' and 'b', expected it in one");
  CHECK(conf("BlockName=a\n") == "t.conf:1: found block 'a' without nodes, expected some");
  for (const char* word : {"RingName=r", "SwitchName=b Nodes=n2 n3", "SwitchName=b Node=n3",
                           "SwitchName=b Nodes=n2 nodes=n3"}) {
    INFO(word);
    CHECK(conf("SwitchName=a Nodes=n1\n" + std::string(word) + '\n')
              .starts_with("t.conf:2: found '"));
  }
  CHECK(conf("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2 n3\n") ==
        "t.conf:2: found 'n3', expected SwitchName=, Switches=, Nodes= and LinkSpeed=, or "
        "BlockName= and Nodes=, or BlockSizes=, each once: a tree or blocks");
  CHECK(conf("SwitchName=a Nodes=n1\nNodes=n2\n") ==
        "t.conf:2: found a switch without a name, expected one");
  CHECK(topology_fault("t.yaml",
                       "- topology: t\n  tree: {switches: [{switch: \"a\\nb\", nodes: "
                       "n1}]}\n") ==
        "t.yaml:2: found switch 'a b', expected a name without blanks and quotes");
  CHECK(topology_fault("t.yaml", "- topology: t\n  flat: true\n") ==
        "t.yaml: found no tree and no blocks, expected one of them");
  CHECK(topology_fault("t.yaml", "- topology: t\n  tree: {switches: [{switch: a}]}\n")
            .starts_with("t.yaml:2: found switch 'a' with neither"));
}

TEST_CASE("two files of one kind, and hosts that are not there, are refused") {
  const auto both = import_topology({{"a.xml", kTwoGpus}, {"b.xml", kTwoGpus}});
  REQUIRE(!both.ok());
  CHECK(both.error().text() == "b.xml: found a second file of a node's inside, expected one");
  const auto none = compose(topology_in("f.ib", kFabric), eight_h100(), {{"h7"}, 0});
  REQUIRE(!none.ok());
  CHECK(none.error().text() == "--hosts: found 'h7', expected hosts of the fabric, such as 'h1'");
}

TEST_CASE("files of jobs are no topologies") {
  for (const char* text : {"{\"model_type\": \"llama\"}", "#!/bin/bash\ntorchrun --x 1\n",
                           "tp: 8\nmodel:\n  layers: 2\n", "[model]\nlayers = 2\n", ""}) {
    INFO(text);
    CHECK(!is_topology(text));
  }
}

}  // namespace tandem
