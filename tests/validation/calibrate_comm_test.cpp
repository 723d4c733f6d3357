// tandem calibrate comm: from tables of nccl-tests to a calibration, and what it says of them.
#include <nlohmann/json.hpp>

#include "tests/interop/made_comm_log.h"
#include "tests/sandbox.h"

using namespace tandem;

namespace {

// shaped-dgx has two GPUs a node.
const std::string kCalibrate = "calibrate comm --cluster shaped-dgx ";
const MadeCommLog kTwoNodes{.hosts = 2, .latency_us = 300, .bus_GBps = 0.08};

}  // namespace

TEST_CASE(
    "tables of a known latency and bus bandwidth come back within a percent, and price a job") {
  const Sandbox sandbox;
  MadeCommLog gather{.name = "all_gather",
                     .redop = "none",
                     .by_part = true,
                     .factor = 0.5,
                     .ranks = 2,
                     .latency_us = 70,
                     .bus_GBps = 0.25,
                     .sizes = {1 << 10, 1 << 14, 1 << 18, 1 << 22}};
  sandbox.file("ar.txt", kTwoNodes.text());
  sandbox.file("ag.txt", gather.text());
  const Ran ran = sandbox.tandem(kCalibrate + "ar.txt ag.txt -o F.toml");
  check_done(ran);
  const auto row = [&](const std::string& group, const std::string& sizes) {
    for (const std::string& line : lines_of(ran.out)) {
      if (line.starts_with(group) && has(line, sizes)) return line;
    }
    return std::string("no such row");
  };
  CHECK(has(row("all_reduce      4      2", "1 MiB to 64 MiB"), " 0.08 "));
  CHECK(row("all_reduce      4      2", "up to 1 MiB") != "no such row");
  CHECK(has(row("all_gather      2      1", "1 KiB to 4 MiB"), " 70.0"));
  CHECK(has(ran.out, "no table of p2p, reduce_scatter, alltoall, sendrecv: shaped-dgx's numbers"));
  CHECK(
      has(ran.out, "all_reduce of 4 ranks on 2 nodes: its latency is not determined: it is 1.5 %"));
  CHECK_FALSE(has(ran.out, "no table between nodes"));
  // The bench reads the file as it reads its own, and has the tables' times.
  sandbox.file("c.toml", "[cluster]\npreset = \"shaped-dgx\"\ncalibration = \"F.toml\"\n");
  const Ran bench = sandbox.tandem("bench comm --cluster c.toml --ranks 4 -b 8M -e 8M --json");
  check_done(bench);
  const double us = nlohmann::json::parse(bench.out)[0]["rows"][0]["time_us"];
  CHECK(us == Approx(300 + 1.5 * (1 << 23) / 80.0).epsilon(0.01));
  const Ran inside =
      sandbox.tandem("bench comm --cluster c.toml --ranks 2 --op all_gather -b 1K -e 1K --json");
  CHECK(nlohmann::json::parse(inside.out)[0]["rows"][0]["time_us"] ==
        Approx(70 + 0.5 * 1024 / 250.0).epsilon(0.01));
}

TEST_CASE("what bench comm prints can be calibrated by, with its ranks given") {
  const Sandbox sandbox;
  const Ran bench = sandbox.tandem("bench comm --cluster shaped-dgx --ranks 4 -b 64K -e 4M -f 8");
  check_done(bench);
  sandbox.file("bench.txt", bench.out);
  const Ran ran = sandbox.tandem(kCalibrate + "bench.txt --ranks 4 --nodes 2 --op all_reduce");
  check_done(ran);
  // A ring over two nodes of two, in six messages of 50 us at 100 MB/s.
  CHECK(has(ran.out, "all_reduce      4      2  64 KiB to 4 MiB"));
  CHECK(has(ran.out, "      0.10 "));
}

TEST_CASE("two tables that differ are named with the size at which they differ most") {
  const Sandbox sandbox;
  MadeCommLog slow = kTwoNodes;
  slow.bus_GBps = 0.04;
  sandbox.file("a.txt", kTwoNodes.text());
  sandbox.file("b.txt", slow.text());
  const Ran ran = sandbox.tandem(kCalibrate + "a.txt b.txt");
  check_done(ran);
  CHECK(has(ran.out, "all_reduce of 4 ranks on 2 nodes: 67108864 bytes take"));
  CHECK(has(ran.out, "us in a.txt:12 and "));
  CHECK(has(ran.out, "us in b.txt:12; the fit has both"));
  CHECK_FALSE(has(sandbox.tandem(kCalibrate + "a.txt a.txt").out, "the fit has both"));
}

TEST_CASE("each table's ranks are priced where they are, whatever the order of the files") {
  const Sandbox sandbox;
  const MadeCommLog log{.factor = 11.0 / 6, .ranks = 12, .hosts = 2};
  std::string text = log.text();
  sandbox.file("even.txt", text);  // 6 + 6
  for (const char* rank : {"6", "7"}) {
    const std::string line = fmt::format("Pid   10{} on   host-", rank);
    text.replace(text.find(line + "1"), line.size() + 1, line + "0");
  }
  sandbox.file("uneven.txt", text);  // 8 + 4
  const auto told = [&](const std::string& files) {
    const Ran ran = sandbox.tandem("calibrate comm --wide --cluster dgx-h100 " + files);
    check_done(ran);
    return ran.out;
  };
  CHECK(told("even.txt even.txt") != told("uneven.txt uneven.txt"));
  CHECK(told("even.txt uneven.txt") == told("uneven.txt even.txt"));
}

TEST_CASE("tables of another GPU than the cluster's are told") {
  const Sandbox sandbox;
  const MadeCommLog log{.factor = 1.75, .ranks = 8};
  std::string text = log.text();
  for (std::size_t at = text.find("] GPU"); at != std::string::npos; at = text.find("] GPU"))
    text.replace(at, 5, "] NVIDIA A100-SXM4-80GB");
  sandbox.file("a.txt", text);
  const std::string command = "calibrate comm a.txt --wide --cluster ";
  CHECK(has(sandbox.tandem(command + "dgx-h100").out,
            "Measured on NVIDIA A100-SXM4-80GB, where the simulated GPU is H100-SXM5-80GB"));
  CHECK_FALSE(has(sandbox.tandem(command + "dgx-a100").out, "Measured on"));
}

TEST_CASE("sizes that do not tell latency or bandwidth are said, and one size is no fit") {
  const Sandbox sandbox;
  MadeCommLog small = kTwoNodes;
  small.sizes = {8, 64, 512};
  sandbox.file("small.txt", small.text());
  CHECK(
      has(sandbox.tandem(kCalibrate + "small.txt").out,
          "all_reduce of 4 ranks on 2 nodes: its bandwidth is not determined: latency is 97 % of"));
  small.sizes = {1 << 20};
  sandbox.file("one.txt", small.text());
  check_refused(
      sandbox.tandem(kCalibrate + "one.txt -o F.toml"),
      "found no table that gives a fit: left out: found one size of all_reduce of 4 ranks "
      "on 2 nodes, expected two or more");
  MadeCommLog broadcast{.name = "broadcast", .redop = "none", .root = "0", .factor = 1, .hosts = 2};
  sandbox.file("broadcast.txt", broadcast.text());
  CHECK(has(sandbox.tandem(kCalibrate + "small.txt broadcast.txt").out,
            "broadcast.txt:8: left out: no job here has broadcast\n"));
  CHECK_FALSE(sandbox.tandem(kCalibrate + "one.txt broadcast.txt -o F.toml").status == 0);
  CHECK(sandbox.files() == Names{"broadcast.txt", "one.txt", "small.txt"});
}

TEST_CASE("what calibrate comm needs and does not have is one line, and status 2") {
  const Sandbox sandbox;
  const auto refused = [&](const std::string& arguments, const std::string& begin) {
    INFO(arguments);
    check_refused(sandbox.tandem(arguments), begin);
  };
  sandbox.file("a.txt", kTwoNodes.text());
  MadeCommLog one_host = kTwoNodes;
  one_host.hosts = 1;
  sandbox.file("one.txt", one_host.text());
  sandbox.file("bench.txt",
               "average bandwidth of all_reduce over 4 ranks (5)\n| payload | busbw | algbw |\n"
               "| 1MiB | 30.00GBps | 20.00GBps |\n| 2MiB | 45.00GBps | 30.00GBps |\n");
  refused("calibrate comm a.txt", "--cluster is required");
  refused(kCalibrate, "files is required");
  refused(kCalibrate + "none.txt", "none.txt: no such file, expected the output of nccl-tests");
  refused(kCalibrate + "one.txt", "one.txt:8: found 4 ranks on a node, expected at most 2");
  refused(kCalibrate + "bench.txt", "bench.txt:2: found a table of 4 ranks without their hosts");
  refused(kCalibrate + "bench.txt --nodes 3", "bench.txt:2: found 4 ranks and --nodes 3");
  refused("calibrate comm --cluster gb200-nvl72 a.txt",
          "a.txt:8: found 2 hosts and nodes of 72 GPUs (gb200-nvl72), expected --hosts-per-node");
  CHECK(has(sandbox.tandem("calibrate comm --cluster gb200-nvl72 --hosts-per-node 18 a.txt").out,
            "all_reduce      4      1"));
  check_done(sandbox.tandem(kCalibrate + "bench.txt --nodes 2"));
  refused(kCalibrate + "a.txt -o a.txt", "-o: found a.txt, the same file as FILE");
}
