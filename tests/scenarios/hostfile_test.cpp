// Hostfiles: which GPU each rank is on, on a cluster whose hosts have names.
#include <catch2/catch.hpp>

#include "job/compile.h"
#include "job/site.h"
#include "scenarios/hostfile.h"
#include "scenarios/scenario.h"
#include "tests/folder.h"

using namespace tandem;

namespace {

// Three hosts of two GPUs.
const std::string kLinks =
    "from,to,GBps,latency_us\n"
    "a1.gpu0,a1.s,1,1\na1.gpu1,a1.s,1,1\na1.s,core,1,1\n"
    "a2.gpu0,a2.s,1,1\na2.gpu1,a2.s,1,1\na2.s,core,1,1\n"
    "b1.gpu0,b1.s,1,1\nb1.gpu1,b1.s,1,1\nb1.s,core,1,1\n";

const std::string kJob =
    "[parallel]\npp = 4\nglobal_batch = 4\n"
    "[costs]\nforward_s = 1\nbackward_s = 1\np2p_MB = 1\n"
    "[cluster]\nlinks_file = \"links.csv\"\nhostfile = \"hosts\"\n";

Result<Scenario> loaded(const std::string& hosts, const std::string& more = "") {
  const Folder folder;
  folder.with("links.csv", kLinks);
  folder.with("hosts", hosts);
  const auto scenarios = load_scenarios(folder.with("job.toml", kJob + more));
  if (!scenarios.ok()) return scenarios.error();
  return scenarios->front();
}

std::vector<int> gpus_of_ranks(const std::string& hosts, const std::string& more = "") {
  const auto scenario = loaded(hosts, more);
  INFO((scenario ? "" : scenario.error().text()));
  REQUIRE(scenario.ok());
  const auto cluster = make_cluster(*scenario);
  REQUIRE(cluster.ok());
  std::vector<int> gpus;
  for (const DeviceId gpu : place_ranks(scenario->cluster, *cluster)) gpus.push_back(index(gpu));
  return gpus;
}

std::string refused(const std::string& hosts, const std::string& more = "") {
  const auto scenario = loaded(hosts, more);
  REQUIRE(!scenario.ok());
  const std::string text = scenario.error().text();
  return text.substr(text.rfind("/") + 1);
}

using Gpus = std::vector<int>;

}  // namespace

TEST_CASE("ranks fill the hosts of a hostfile in its order, or are dealt round over them") {
  CHECK(gpus_of_ranks("b1\na1\n") == Gpus{4, 5, 0, 1});
  CHECK(gpus_of_ranks("b1\na1\n", "placement = \"cyclic\"\n") == Gpus{4, 0, 5, 1});
  CHECK(gpus_of_ranks("# all\na2 slots=1\nb1:2\na1 slots=2 max_slots=2\n") == Gpus{2, 4, 5, 0});
  CHECK(gpus_of_ranks("a2\nb1\na2\nb1\n") == Gpus{2, 3, 4, 5});
  CHECK(gpus_of_ranks("a2 slots=1\nb1\na1\n", "placement = \"cyclic\"\n") == Gpus{2, 4, 0, 5});
}

TEST_CASE("slots that a job without a number of GPUs leaves idle are a warning") {
  const auto warnings = [](const std::string& hosts, const std::string& more) {
    const auto scenario = loaded(hosts, more);
    REQUIRE(scenario.ok());
    const auto job = compile(*scenario);
    REQUIRE(job.ok());
    return job->warnings;
  };
  const std::vector<std::string> idle = warnings("a1\na2\nb1\n", "");
  REQUIRE(idle.size() == 1);
  CHECK(
      idle[0].ends_with("job.toml:10: cluster.hostfile has 6 slots, of which the job takes 4: "
                        "cluster.gpus says more"));
  CHECK(warnings("a1\na2\n", "").empty());
  CHECK(warnings("a1\na2\nb1\n", "gpus = 4\n").empty());
}

TEST_CASE("a hostfile may have Slurm's short form, and names with their domains") {
  CHECK(gpus_of_ranks("a[1-2] slots=2\n") == Gpus{0, 1, 2, 3});
  CHECK(gpus_of_ranks("b1.cluster.org\na1.cluster.org\n") == Gpus{4, 5, 0, 1});
  CHECK(refused("a1\na[2-1]\n").starts_with("hosts:2: "));
  CHECK(refused("a1\nc9.cluster.org\n").starts_with("hosts:2: found host 'c9.cluster.org'"));
}

TEST_CASE("hosts of one NVLink domain have their GPUs in order of cluster.hosts") {
  // The nodes' six GPUs are six hosts of one GPU.
  CHECK(gpus_of_ranks("h6\nh1\nh3\nh2\n", "hosts = \"h[1-6]\"\n") == Gpus{5, 0, 2, 1});
}

TEST_CASE("a hostfile that does not fit the cluster or the job is refused") {
  CHECK(refused("a1\nc9\n") ==
        "hosts:2: found host 'c9', expected one of the cluster's 3; the nearest is 'a1'");
  CHECK(refused("a1 slots=3\n") == "hosts:1: found 3 slots on a1, expected at most its 2 GPUs");
  CHECK(refused("a1 slots=0\n") ==
        "hosts:1: found 'a1 slots=0', expected a host and a positive number of slots");
  CHECK(refused("a1:\n") == "hosts:1: found 'a1:', expected a host and a positive number of slots");
  CHECK(refused("a1 slots=\n") ==
        "hosts:1: found 'a1 slots=', expected a host and a positive number of slots");
  CHECK(refused("a1:1 slots=2 # both\n") ==
        "hosts:1: found 'a1:1 slots=2', expected a host and a positive number of slots");
  CHECK(refused("a1 maximum\n") == "hosts:1: found 'maximum', expected a host and perhaps slots=8");
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "a1 slots=1000000\n";  // together more than an int holds
  CHECK(refused(many).starts_with("hosts:2: found more than 1000000 slots on a1"));
  CHECK(refused("a1 b1\n") == "hosts:1: found 'b1', expected a host and perhaps slots=8");
  CHECK(refused("# none\n") == "hosts: found no host, expected one a line");
  CHECK(refused("a1\n") ==
        "job.toml:10: found 2 slots in cluster.hostfile, expected at least the "
        "job's 4 GPUs");
  CHECK(refused("a1\nb1\n", "hosts = \"h[1-4]\"\n") ==
        "job.toml:11: found 4 hosts in cluster.hosts, expected as many GPUs on each of the "
        "cluster's 6");
  CHECK(refused("a1\nb1\n", "hosts = \"h[1-\"\n") ==
        "job.toml:11: cluster.hosts: found 'h[1-' among host names, expected each [ closed by a ]");
}

TEST_CASE("a rate or a fabric beside a file of links is refused, and a GPU's rate is the file's") {
  for (const std::string key : {"nic_Gbitps = 50", "intra_GBps = 50", "fabric = \"star\""})
    CHECK(refused("a1\nb1\n", key + "\n") ==
          "job.toml:11: found cluster." + key.substr(0, key.find(' ')) +
              " with cluster.links_file, expected one of them: the file has the links, their rates "
              "and latencies");
  const auto scenario = loaded("a1\nb1\n", "preset = \"dgx-h100\"\n");
  REQUIRE(scenario.ok());
  CHECK(scenario->cluster.spec.intra_bytes_per_s == 1e9);
}

TEST_CASE("cluster.from stands for what the scenario does not say, its files beside it") {
  const Folder folder;
  std::filesystem::create_directory(folder.path() / "lab");
  folder.with("lab/links.csv", kLinks);
  folder.with("lab/c.toml",
              "[cluster]\nlinks_file = \"links.csv\"\nname = \"lab\"\nintra_efficiency = 0.5\n"
              "gpus = 6\n");
  const std::string job =
      "[parallel]\npp = 2\n[costs]\nforward_s = 1\nbackward_s = 1\np2p_MB = 1\n"
      "[cluster]\nintra_efficiency = 0.25\nfrom = ";
  const auto scenarios = load_scenarios(folder.with("job.toml", job + "\"lab/c.toml\"\n"));
  INFO((scenarios ? "" : scenarios.error().text()));
  REQUIRE(scenarios.ok());
  const ClusterSettings& cluster = scenarios->front().cluster;
  CHECK(cluster.spec.name == "lab");
  CHECK(cluster.spec.cables->size() == 9);
  CHECK(cluster.spec.intra_efficiency == 0.25);
  CHECK(cluster.gpus == 2);  // the job's
  folder.with("none.toml", "[model]\nlayers = 2\n");
  const auto none = load_scenarios(folder.with("n.toml", job + "\"none.toml\"\n"));
  REQUIRE(!none.ok());
  CHECK(none.error().text().ends_with("none.toml: found no [cluster], expected one"));
}
