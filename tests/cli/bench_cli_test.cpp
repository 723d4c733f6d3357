// tandem bench comm: its tables, JSON and calibration, its exit statuses.
#include <nlohmann/json.hpp>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

const std::string kShaped = "bench comm --cluster shaped-dgx --ranks 4 ";

int lines_that_begin(const std::string& text, const std::string& begin) {
  int count = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    count += text.compare(at, begin.size(), begin) == 0 ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("bench comm prints a table an operation, a line a size") {
  const Sandbox sandbox;
  const Ran ran = sandbox.tandem(kShaped + "-b 1M -e 4M --op all_reduce --op p2p --pair 0,2");
  check_done(ran);
  CHECK(lines_that_begin(ran.out, "#       size         count") == 2);
  CHECK(lines_that_begin(ran.out, "# Avg bus bandwidth    : ") == 2);
  CHECK(ran.out.size() > 1000);
  // A ring over two nodes of two: 2 x 3/4 of 1 MiB at 100 MB/s, and 6 messages of 50 us.
  CHECK(ran.out.find("     1048576        262144     float     sum      -1    16029    0.07    0.10"
                     "    N/A\n") != std::string::npos);
  CHECK(ran.out.find("# p2p 0 > 2: 2 ranks on 2 nodes\n") != std::string::npos);
}

TEST_CASE("bench comm takes nccl-tests' flags, long and short") {
  const Sandbox sandbox;
  const auto sizes = [&](const std::string& flags) {
    const Ran ran = sandbox.tandem(kShaped + "--json " + flags);
    check_done(ran);
    std::vector<std::int64_t> found;
    const Json tables = Json::parse(ran.out);
    for (const Json& row : tables[0]["rows"]) found.push_back(row["size"]);
    return found;
  };
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes("-b 1K -e 8K -f 4") == Sizes{1024, 4096});
  CHECK(sizes("--minbytes 1000 --maxbytes 2000 --stepbytes 500") == Sizes{1000, 1500, 2000});
  CHECK(sizes("--minbytes 1k --maxbytes 2k --stepfactor 2 --iters 1 --warmup_iters 0") ==
        Sizes{1024, 2048});
}

TEST_CASE("bench comm on the host checks payloads, and its JSON says so") {
  const Sandbox sandbox;
  const Ran ran = sandbox.tandem(kShaped +
                                 "--backend host -b 1K -e 2K -n 2 -w 1 --op alltoall --op sendrecv "
                                 "--op all_gather --op reduce_scatter --op p2p --json");
  check_done(ran);
  const Json tables = Json::parse(ran.out);
  REQUIRE(tables.size() == 5);
  for (const Json& table : tables) {
    CHECK(table["backend"] == "host");
    CHECK(table["cluster"] == "shaped-dgx");
    CHECK(table["iters"] == 2);
    for (const Json& row : table["rows"]) {
      CHECK(row["wrong"] == 0);
      CHECK(row["time_us"] > 50);
    }
  }
  CHECK(tables[4]["pair"] == Json({0, 1}));
}

TEST_CASE("a scenario's cluster can be timed, and be given the times of another backend") {
  const Sandbox sandbox;
  sandbox.file("two.toml", R"([parallel]
pp = 2
global_batch = 1
[costs]
source = "uniform"
forward_s = 0.01
backward_s = 0.02
p2p_MB = 4
[cluster]
preset = "shaped-dgx"
)");
  check_done(sandbox.tandem("bench comm --cluster two.toml --op p2p --fit F.toml -b 1M -e 8M"));
  CHECK(sandbox.read("F.toml").find("[[fit]]\nop = \"p2p\"\nranks = 2\nnodes = 1\n") !=
        std::string::npos);
  const auto iteration_s = [&](const std::string& set) {
    const Ran ran = sandbox.tandem("simulate two.toml --engine ideal --json" + set);
    check_done(ran);
    return Json::parse(ran.out)[0]["iteration_s"].get<double>();
  };
  CHECK(iteration_s(" --set cluster.calibration=F.toml") == Approx(iteration_s("")).epsilon(1e-6));
  // Two transfers of 4 MB, each 40 ms and nothing else.
  sandbox.file("F.toml",
               "[[fit]]\nop = \"p2p\"\nranks = 2\nnodes = 1\nlatency_us = 0\nbusbw_GBps = 0.1\n");
  CHECK(iteration_s(" --set cluster.calibration=F.toml") == Approx(0.06 + 0.08).epsilon(1e-9));
}

TEST_CASE("a cluster that was imported can be timed, though its file has no job") {
  const Sandbox sandbox;
  sandbox.file("topo.txt",
               "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV12\tPXB\t0-63\n"
               "GPU1\tNV12\t X \tPXB\t0-63\nNIC0\tPXB\tPXB\t X \t\n");
  check_done(sandbox.tandem("import topo.txt --cluster dgx-a100 -o cluster.toml"));
  const Ran ran = sandbox.tandem("bench comm --cluster cluster.toml -b 1M -e 8M --fit F.toml");
  check_done(ran);
  CHECK(ran.out.find("# all_reduce: 2 ranks on 1 node\n") != std::string::npos);
}

TEST_CASE("ranks are timed on the GPUs that a hostfile gives them") {
  const Sandbox sandbox;
  sandbox.file("links.csv",
               "from,to,GBps,latency_us\na.gpu0,a.s,1,1\na.gpu1,a.s,1,1\na.s,core,1,1\n"
               "b.gpu0,b.s,1,1\nb.gpu1,b.s,1,1\nb.s,core,1,1\n");
  sandbox.file("hosts", "b slots=1\na\n");
  sandbox.file("c.toml", "[cluster]\nlinks_file = \"links.csv\"\nhostfile = \"hosts\"\n");
  const auto ranks = [&](const std::string& more) {
    const Ran ran = sandbox.tandem("bench comm --cluster c.toml -b 1M -e 1M " + more);
    check_done(ran);
    const std::size_t at = ran.out.find("# all_reduce: ");
    REQUIRE(at != std::string::npos);
    return ran.out.substr(at + 14, ran.out.find('\n', at) - at - 14);
  };
  CHECK(ranks("") == "3 ranks on 2 nodes");  // the slots
  CHECK(ranks("--ranks 2") == "2 ranks on 2 nodes");
  check_refused(sandbox.tandem("bench comm --cluster c.toml --ranks 4"),
                "c.toml:3: found 3 slots in cluster.hostfile, expected at least the job's 4 GPUs");
}

TEST_CASE("what bench comm cannot do is one line, and status 2") {
  const Sandbox sandbox;
  const auto refused = [&](const std::string& arguments, const std::string& begin) {
    INFO(arguments);
    check_refused(sandbox.tandem(arguments), begin);
  };
  refused("bench comm", "--cluster is required");
  refused("bench comm --cluster nowhere", "found preset 'nowhere', expected a known one");
  refused("bench comm --cluster none.toml", "none.toml");
  refused(kShaped + "--op broadcast", "--op: broadcast not in ");
  refused(kShaped + "--op p2p --op p2p", "--op: found p2p twice, expected it once");
  refused(kShaped + "-b 2M -e 1M", "--minbytes: found 2097152, expected at most --maxbytes");
  refused(kShaped + "-b 0", "--minbytes");
  refused(kShaped + "-i 4", "--stepbytes: found more than 1000 sizes");
  refused(kShaped + "-n 10000000", "--iters");
  refused(kShaped + "-n 1000000 -e 1G", "--iters: found 11000077 operations in all");
  refused(kShaped + "--pair 0,1", "found --pair, expected --op p2p with it");
  for (const char* pair : {"0", "0,4", "1,1", "a,b", "-1,0"})
    refused(kShaped + "--op p2p --pair=" + pair, "--pair: found '");
  refused(kShaped + "-b 1M -e 1M --fit F.toml", "--fit: found one size");
  refused("bench comm --cluster shaped-dgx --ranks 3 --placement cyclic", "--ranks: found 3 with ");
  // The times are printed before.
  const Ran unwritten = sandbox.tandem(kShaped + "--fit no/where.toml");
  CHECK(unwritten.status == 2);
  CHECK(unwritten.err.starts_with("no/where.toml"));
  CHECK(sandbox.files().empty());
}
