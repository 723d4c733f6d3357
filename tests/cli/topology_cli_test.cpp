// tandem import of topologies, and the commands that take what it writes.
#include "tests/sandbox.h"

using namespace tandem;

namespace {

// Two hosts of two GPUs each on a leaf, a third host on another.
const std::string kTree =
    "SwitchName=leaf1 Nodes=gpu[1-2]\nSwitchName=leaf2 Nodes=gpu3\n"
    "SwitchName=spine Switches=leaf[1-2]\n";

const std::string kTable =
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV18\tPIX\t0-3\nGPU1\tNV18\t X \tPIX\t0-3\n"
    "NIC0\tPIX\tPIX\t X \n";

const std::string kJob =
    "[model]\nlayers = 4\nhidden = 512\nheads = 4\nseq = 512\nvocab = 1024\n"
    "[parallel]\ntp = 2\npp = 2\nglobal_batch = 4\n[cluster]\nfrom = \"mine.toml\"\n";

}  // namespace

TEST_CASE("cyclic placement deals whole nodes, whatever number of GPUs is asked for") {
  const Sandbox box;
  box.file("dealt.toml", "[cluster]\npreset = \"dgx-h100\"\nplacement = \"cyclic\"\ngpus = 16\n");
  check_refused(box.tandem("topology dealt.toml --gpus 12"),
                "found 12 GPUs with cyclic placement, expected whole nodes: a multiple of 8");
}

TEST_CASE("a tree and a node's table are a cluster that is printed, drawn and simulated on") {
  const Sandbox box;
  box.file("topology.conf", kTree);
  box.file("topo.txt", kTable);
  box.file("job.toml", kJob);
  const Ran ran = box.tandem("import topology.conf topo.txt --cluster dgx-h100 -o mine.toml");
  check_done(ran);
  // 3 x (2 NVLinks, 1 NIC's cable, 3 + 1 of PCIe), and 2 uplinks.
  CHECK(ran.out ==
        "mine.links.csv: 23 links\n"
        "mine.toml: 4 keys; 5 assumed, 0 left out, 0 not expressed, 0 not understood, 0 without "
        "effect\n");
  CHECK(box.read("mine.links.csv").find("\ngpu3.nic_NIC0,leaf2,50,2.5,\n") != std::string::npos);

  const Ran shown = box.tandem("topology mine.toml");
  check_done(shown);
  CHECK(shown.out.find("6 GPUs on 3 nodes of 2") != std::string::npos);
  CHECK(shown.out.find("3 between nodes, 2 of them leaves") != std::string::npos);
  CHECK(shown.out.find("1: 2 x 50 GB/s down, 1 x 100 GB/s up, oversubscription 1\n") !=
        std::string::npos);
  CHECK(shown.out.find("1 switch: 1 pair, 33.3 %\n") != std::string::npos);
  CHECK(shown.out.find("3 switches: 2 pairs, 66.7 %\n") != std::string::npos);
  const Ran dot = box.tandem("topology mine.toml --format dot");
  check_done(dot);
  CHECK(dot.out.find("label=\"gpu3\"") != std::string::npos);
  CHECK(box.tandem("topology mine.toml --format svg -o mine.svg").status == 0);
  CHECK(box.read("mine.svg").starts_with("<svg class=\"cluster-picture\" "));
  CHECK(box.read("mine.svg") == box.tandem("topology mine.toml --format svg").out);

  // A picture goes over none of the files that it is of.
  const std::string before = box.read("mine.toml"), links = box.read("mine.links.csv");
  check_refused(box.tandem("topology mine.toml --format svg -o mine.toml"), "-o: found");
  check_refused(box.tandem("topology mine.toml --format dot -o mine.links.csv"), "-o: found");
  check_refused(box.tandem("topology mine.toml -o table.txt"),
                "found --output, expected --format dot or --format svg with it");
  CHECK(box.read("mine.toml") == before);
  CHECK(box.read("mine.links.csv") == links);

  const Ran block = box.tandem("simulate job.toml --json");
  check_done(block);
  CHECK(block.out.find("\"cluster\": \"mine\"") != std::string::npos);
  box.file("hosts", "gpu3\ngpu1\n");
  const Ran placed = box.tandem("simulate job.toml --json --set cluster.hostfile=hosts");
  check_done(placed);
  CHECK(placed.out != block.out);
  box.file("named.toml", kJob + "hostfile = \"hosts\"\n");
  check_refused(box.tandem("simulate named.toml --trace hosts"), "--trace: found");
}

TEST_CASE("hosts may be called as nodes by number are, with zeros or without the first ones") {
  const Sandbox box;
  box.file("zeros.conf",
           "SwitchName=leaf1 Nodes=n[01-02]\nSwitchName=leaf2 Nodes=n[03-04]\n"
           "SwitchName=spine Switches=leaf[1-2]\n");
  box.file("plain.conf", "SwitchName=leaf1 Nodes=n[0-3]\n");
  box.file("topo.txt", kTable);
  box.file("job.toml", kJob);
  box.file("hosts", "n03\nn01\n");
  const std::string rest = " topo.txt --cluster dgx-h100 -o mine.toml";
  check_done(box.tandem("import zeros.conf" + rest));
  CHECK(box.read("mine.toml").find("hosts = \"n[01-04]\"") != std::string::npos);
  CHECK(box.read("mine.links.csv").find("\nn03.nic_NIC0,leaf2,") != std::string::npos);
  check_done(box.tandem("topology mine.toml"));
  const Ran first = box.tandem("simulate job.toml --json");
  check_done(first);
  const Ran placed = box.tandem("simulate job.toml --json --set cluster.hostfile=hosts");
  check_done(placed);
  CHECK(placed.out != first.out);

  check_done(box.tandem("import plain.conf" + rest));
  CHECK(box.read("mine.toml").find("hosts =") == std::string::npos);
  check_done(box.tandem("import plain.conf" + rest + " --hosts 'n[1-3]'"));
  CHECK(box.read("mine.toml").find("hosts = \"n[1-3]\"") != std::string::npos);
  check_done(box.tandem("simulate job.toml"));
}

TEST_CASE("a cluster beside costs that send nothing over it is refused by what is missing") {
  const Sandbox box;
  box.file("uniform.toml",
           "[parallel]\npp = 2\nglobal_batch = 2\n[costs]\nforward_s = 1\nbackward_s = 2\n"
           "[cluster]\npreset = \"selene\"\n");
  check_refused(
      box.tandem("topology uniform.toml"),
      "uniform.toml: found uniform costs without costs.p2p_MB, which send nothing over [cluster]; "
      "expected costs.p2p_MB, or [cluster] alone");
}

TEST_CASE("the page of a run on listed links has their picture, that of a preset has none") {
  const Sandbox box;
  box.file("topology.conf", kTree);
  box.file("job.toml", kJob);
  check_done(box.tandem("import topology.conf --cluster dgx-h100 -o mine.toml"));
  check_done(box.tandem("simulate job.toml --report page.html"));
  CHECK(box.read("page.html").find("\"cluster\":\"\\u003csvg class") != std::string::npos);
  box.file("preset.toml", kTinyModel);
  CHECK(box.tandem("simulate preset.toml --report page.html").status == 0);
  CHECK(box.read("page.html").find("\"cluster\":null") != std::string::npos);
}

TEST_CASE(
    "topology prices an all-reduce of the GPUs that are asked for, and counts the built ones") {
  const Sandbox box;
  const Ran preset = box.tandem("topology dgx-h100 --gpus 12");
  check_done(preset);
  CHECK(preset.out.find("12 of 16 GPUs on 2 nodes of 8\n") != std::string::npos);
  CHECK(preset.out.find("all-reduce of 1 GiB, 12 GPUs") != std::string::npos);
  CHECK(preset.out.find("all-reduce of 1 GiB, 16 GPUs") == std::string::npos);
  box.file("topology.conf", kTree);
  box.file("topo.txt", kTable);
  check_done(box.tandem("import topology.conf topo.txt --cluster dgx-h100 -o mine.toml"));
  const Ran listed = box.tandem("topology mine.toml --gpus 4");
  CHECK(listed.out.find("4 of 6 GPUs on 3 nodes of 2\n") != std::string::npos);
  CHECK(listed.out.find("all-reduce of 1 GiB, 4 GPUs") != std::string::npos);
  check_refused(box.tandem("topology mine.toml --gpus 8"), "mine.toml");
}

TEST_CASE("a topology and a job's files are one scenario") {
  const Sandbox box;
  box.file("topology.conf", kTree);
  box.file("config.json", R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
"num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256,
"max_position_embeddings": 64})");
  check_done(box.tandem(
      "import config.json topology.conf --partial --cluster dgx-h100 --gpus 16 -o job.toml"));
  const std::string text = box.read("job.toml");
  CHECK(text.find("links_file = \"job.links.csv\"") != std::string::npos);
  CHECK(text.find("[model]") != std::string::npos);
  const Ran ran = box.tandem("simulate job.toml --json");
  CHECK(ran.status == 0);
  CHECK(ran.out.find("\"gpus\": 16") != std::string::npos);
  // The job's GPUs are said without a job's files as well, and are GPUs of the cluster.
  check_done(box.tandem("import topology.conf --cluster dgx-h100 --gpus 16 -o part.toml"));
  CHECK(box.read("part.toml").find("\ngpus = 16 ") != std::string::npos);
  check_refused(box.tandem("import topology.conf --cluster dgx-h100 --gpus 999 -o more.toml"),
                "topology.conf: --gpus: found 999, expected at most the 24 of its cluster");
}

TEST_CASE("an imported cluster's links have the numbers of --set that no file says") {
  const Sandbox box;
  box.file("topology.conf", kTree);
  box.file("topo.txt", kTable);
  const std::string import = "import topology.conf topo.txt --cluster dgx-h100 -o mine.toml --set ";
  check_done(box.tandem(import + "cluster.nic_Gbitps=200 --set cluster.inter_latency_us=8"));
  CHECK(box.read("mine.links.csv").find("\ngpu3.nic_NIC0,leaf2,25,4,\n") != std::string::npos);
  const std::string text = box.read("mine.toml");
  CHECK(text.find("NICs of 200 Gbit/s, by --set") != std::string::npos);
  CHECK(text.find("cluster.inter_latency_us = 8 of the links, by --set") != std::string::npos);
  CHECK(text.find("\nnic_Gbitps") == std::string::npos);
  check_done(box.tandem("topology mine.toml"));
  check_refused(box.tandem(import + "cluster.intra_GBps=100"),
                "--set: found cluster.intra_GBps, expected none: the files say a node's NVLinks");
  check_refused(box.tandem(import + "cluster.fabric=star"),
                "--set: found cluster.fabric beside files of a cluster, expected none");
  for (const auto& [set, error] :
       {std::pair{"cluster.nic_Gbitps=fast", "cluster.nic_Gbitps = \"fast\", expected a number"},
        std::pair{"cluster.nic_Gbitps=0", "cluster.nic_Gbitps = 0, expected a number above 0"},
        std::pair{"cluster.oversubscription=0.5",
                  "cluster.oversubscription = 0.5, expected a number of at least 1"}})
    check_refused(box.tandem(import + set), std::string("--set: found ") + error);
  check_done(box.tandem(import + "cluster.inter_latency_us=0 --set cluster.oversubscription=2"));
  CHECK(box.read("mine.toml").find("carry 1/2 of what its hosts' NICs do, by --set, ") !=
        std::string::npos);
}

TEST_CASE("a node of another generation than --cluster's is refused") {
  const Sandbox box;
  box.file("topo.xml",
           "<system version=\"1\"><cpu><pci busid=\"1\" class=\"0x030200\"><gpu dev=\"0\" "
           "sm=\"90\"/></pci></cpu></system>");
  check_refused(box.tandem("import topo.xml --cluster dgx-a100 -o mine.toml"),
                "topo.xml: found GPUs of compute capability 90, as dgx-h100 has, beside --cluster "
                "dgx-a100 (A100-SXM4-80GB), expected those of the cluster's GPUs, 80");
}

TEST_CASE("import of topologies leaves nothing behind where it is refused") {
  const Sandbox box;
  box.file("topology.conf", kTree);
  box.file("cut.xml", "<system version=\"1\"><cpu>");
  box.file("bad.conf", "SwitchName=a Nodes=n[1-\n");
  box.file("fabric.gz", "\x1f\x8b and no more");
  const Names before = box.files();
  check_refused(box.tandem("import topology.conf -o m.toml"),
                "topology.conf: found no GPU that is known by its PCI id");
  check_refused(box.tandem("import topology.conf --cluster dgx-h100"),
                "-o: found none, expected a scenario's path");
  check_refused(box.tandem("import cut.xml -o m.toml"), "cut.xml:1: found no XML (");
  check_refused(box.tandem("import bad.conf --cluster dgx-h100 -o m.toml"),
                "bad.conf:1: found 'n[1-' among host names");
  check_refused(box.tandem("import fabric.gz --cluster dgx-h100 -o m.toml"), "fabric.gz: found ");
  check_refused(box.tandem("import topology.conf --cluster dgx-h10 -o m.toml"),
                "found preset 'dgx-h10', expected a known one; the nearest is 'dgx-h100'");
  check_refused(box.tandem("import topology.conf --cluster dgx-h100 --hosts gpu9 -o m.toml"),
                "topology.conf: --hosts: found 'gpu9', expected hosts of the fabric");
  check_refused(box.tandem("import topology.conf --cluster dgx-h100 -o topology.conf"),
                "-o: found");
  CHECK(box.files() == before);
}

TEST_CASE("four V100s without a switch take all rings that fit, as the preset does") {
  const Sandbox box;
  std::string table = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\n";
  for (int i = 0; i < 4; ++i) {
    table += fmt::format("GPU{}", i);
    for (int j = 0; j < 4; ++j) table += i == j ? "\t X " : "\tNV2";
    table += "\tSYS\n";
  }
  box.file("topo.txt", table + "NIC0\tSYS\tSYS\tSYS\tSYS\t X \n");
  check_done(box.tandem("import topo.txt --cluster jz-v100 -o mine.toml"));
  const auto reduced = [&](const std::string& cluster) {
    const std::string out = box.tandem("topology --gpus 4 " + cluster).out;
    const std::size_t at = out.find("all-reduce of 1 GiB, 4 GPUs");
    REQUIRE(at != std::string::npos);
    return out.substr(at, out.find('\n', at) - at);
  };
  CHECK(reduced("mine.toml").ends_with("bus bandwidth 133.2 GB/s"));
  CHECK(reduced("jz-v100").ends_with("bus bandwidth 133.2 GB/s"));
}

TEST_CASE("an imported DGX H100 takes the times of the preset") {
  const Sandbox box;
  std::string bare = "<system version=\"1\">\n";
  for (int cpu = 0; cpu < 2; ++cpu) {
    bare += "<cpu vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">\n";
    for (int i = 4 * cpu; i < 4 * cpu + 4; ++i) {
      bare += fmt::format(
          "<pci busid=\"b{0}\" class=\"0x060400\">"
          "<pci busid=\"g{0}\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" "
          "link_speed=\"32 GT/s\" link_width=\"16\"><gpu dev=\"{0}\" sm=\"90\">"
          "<nvlink target=\"s\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
          "<pci busid=\"n{0}\" class=\"0x020700\" link_speed=\"32 GT/s\" link_width=\"16\">"
          "<nic><net name=\"mlx5_{0}\" dev=\"{0}\" speed=\"400000\"/></nic></pci></pci>\n",
          i);
    }
    bare += "</cpu>\n";
  }
  box.file("topo.xml", bare + "</system>\n");
  check_done(box.tandem("import topo.xml --gpus 32 -o mine.toml"));
  // The preset's NICs have 400, too, and all hosts hang on one switch.
  for (const std::string key : {"cluster.nic_Gbitps", "cluster.oversubscription"})
    check_refused(
        box.tandem("import topo.xml --gpus 32 -o no.toml --set " + key + "=400"),
        "--set: found " + key + " = 400, expected none: no number of these links follows from it");
  box.file("job.toml",
           "[model]\nlayers = 8\nhidden = 1024\nheads = 16\nseq = 1024\nvocab = 32000\n"
           "[parallel]\ntp = 4\npp = 2\ndp = 4\nglobal_batch = 32\n[cluster]\n");
  const auto iteration = [&](const std::string& cluster) {
    const Ran ran = box.tandem("simulate job.toml --engine ideal --json --set " + cluster);
    CHECK(ran.status == 0);
    const std::size_t at = ran.out.find("\"iteration_s\"");
    REQUIRE(at != std::string::npos);
    return std::stod(ran.out.substr(ran.out.find(':', at) + 1));
  };
  CHECK(iteration("cluster.from=mine.toml") == Approx(iteration("cluster.preset=dgx-h100")));
}

TEST_CASE("every captured file is a cluster that a job is simulated on") {
  const std::string samples = TANDEM_SOURCE_DIR "/../shared/samples/";
  struct Captured {
    std::string files, preset, size;
  };
  const std::string ib = "interop/topology/topograph_ibnetdiscover.out.gz";
  const Sandbox box;
  box.file("job.toml",
           "[parallel]\npp = 4\nglobal_batch = 4\n[costs]\nforward_s = 1\nbackward_s = 1\n"
           "p2p_MB = 1\n[cluster]\nfrom = \"c.toml\"\n");
  for (const Captured& captured :
       {Captured{"interop/topology/aws_p4d-24xl-topo.xml", "", "8 GPUs on 1 nodes of 8"},
        Captured{"interop/topology/aws_p5.48xl-topo.xml", "aws-p5", "8 GPUs on 1 nodes of 8"},
        Captured{"interop/topology/azure_ncv4-topo.xml", "", "4 GPUs on 1 nodes of 4"},
        Captured{"interop/topology/azure_ndv2-topo.xml", "dgx-1", "8 GPUs on 1 nodes of 8"},
        Captured{"interop/topology/azure_ndv4-topo.xml", "dgx-a100", "8 GPUs on 1 nodes of 8"},
        Captured{"interop/topology/azure_ndv5-topo.xml", "azure-nd-h100", "8 GPUs on 1 nodes of 8"},
        Captured{"interop/topology/made_hgx_h100_dump.xml", "", "8 GPUs on 1 nodes of 8"},
        Captured{"interop/topology/made_gb200_tray_dump.xml", "", "72 GPUs on 1 nodes of 72"},
        Captured{"interop/topology/slurm_topology_tree.conf", "dgx-h200", "768 GPUs on 96 nodes"},
        Captured{"interop/topology/slurm_topology_block.conf", "gb200-nvl72",
                 "384 GPUs on 12 nodes"},
        Captured{"interop/topology/made_topology.yaml", "gb300-nvl72", "144 GPUs on 2 nodes of 72"},
        Captured{"interop/topology/topograph_nvl72.yaml", "gb200-nvl72", "288 GPUs on 4 nodes"},
        Captured{"nvidia_smi_topo_h100x8.txt", "dgx-h100", "8 GPUs on 1 nodes of 8"},
        Captured{"nvidia_smi_topo_nic_4gpu.txt", "dgx-a100", "4 GPUs on 1 nodes of 4"},
        Captured{"nvidia_smi_topo_raw_ansi_6gpu.txt", "dgx-a100", "6 GPUs on 1 nodes of 6"},
        Captured{ib, "gb200-nvl72", "436 GPUs on 109 nodes of 4"}}) {
    const std::string path = samples + captured.files;
    if (!std::filesystem::exists(path)) FAIL("skipped: " << captured.files << " is not there");
    INFO(captured.files);
    const std::string cluster = captured.preset.empty() ? "" : " --cluster " + captured.preset;
    check_done(box.tandem("import " + path + cluster + " -o c.toml"));
    const Ran shown = box.tandem("topology c.toml --wide");
    check_done(shown);
    CHECK(shown.out.find(captured.size) != std::string::npos);
    CHECK(shown.out.find("nan") == std::string::npos);
    for (const char* format : {"dot", "svg"})
      check_done(box.tandem(fmt::format("topology c.toml --format {}", format)));
    const Ran ran = box.tandem("simulate job.toml --json --engine ideal");
    CHECK(ran.status == 0);
    CHECK(ran.out.find("\"gpus\": 4") != std::string::npos);
  }
}
