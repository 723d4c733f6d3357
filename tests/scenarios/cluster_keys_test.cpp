// The keys of [cluster] that say how collectives go, what a GPU's kernels reach and where ranks
// are; and uniform costs on a cluster.
#include <catch2/catch.hpp>

#include "planning/simulate/simulate.h"
#include "sim/engines.h"
#include "tests/needs.h"
#include "tests/scenarios/small_scenario.h"
#include "topology/preset.h"

namespace tandem {
namespace {

Scenario with(const Names& keys) { return load(kSmall, keys)[0]; }

std::string refused(const std::string& key) {
  const Folder folder;
  const auto scenarios = try_load(folder, kSmall, {key});
  return scenarios.ok() ? "" : scenarios.error().text();
}

TEST_CASE("a cluster says how its collectives go, in flat rings by default") {
  CHECK(with({}).cluster.spec.collectives == Collectives::Ring);
  CHECK_FALSE(with({}).cluster.spec.in_network_reduction);
  CHECK(with({"cluster.collectives=hierarchical"}).cluster.spec.collectives ==
        Collectives::Hierarchical);
  CHECK(with({"cluster.collectives=auto"}).cluster.spec.collectives == Collectives::Auto);
  CHECK(with({"cluster.in_network_reduction=true"}).cluster.spec.in_network_reduction);
  CHECK(refused("cluster.collectives=tree") ==
        "--set: found cluster.collectives = tree, expected one of auto hierarchical ring");
}

TEST_CASE("hierarchical rings that no group fits, as on 8, 8 and 4 GPUs, are a warning") {
  const auto warnings = [](const std::string& gpus, const Names& more = {}) {
    Names keys = {"parallel.tp=1",
                  "parallel.pp=1",
                  "parallel.dp=" + gpus,
                  "cluster.gpus=" + gpus,
                  "parallel.global_batch=" + gpus,
                  "cluster.collectives=hierarchical"};
    keys.insert(keys.end(), more.begin(), more.end());
    const auto job = compile(with(keys));
    REQUIRE(job.ok());
    return job->warnings;
  };
  CHECK(warnings("20") == Names{"small: --set: cluster.collectives = hierarchical, but data groups "
                                "of 20 ranks have unequal parts on their 3 nodes and take flat "
                                "rings"});
  CHECK(warnings("16").empty());
  // Groups of 12 experts lie unevenly on three nodes, but exchange tokens all to all, in no rings.
  for (const std::string& line :
       warnings("24", {"model.experts=12", "model.top_k=2", "parallel.ep=12"}))
    CHECK(line.find("hierarchical") == std::string::npos);
}

TEST_CASE("a communicator has its own rate where it is given one, without limit by default") {
  CHECK(with({}).cluster.spec.communicator_bytes_per_s == 0);
  CHECK(with({"cluster.communicator_GBps=4.5"}).cluster.spec.communicator_bytes_per_s == 4.5e9);
  CHECK(with({"cluster.preset=jz-a100"}).cluster.spec.communicator_bytes_per_s == 10.5e9);
  CHECK(refused("cluster.communicator_GBps=0") ==
        "--set: found cluster.communicator_GBps = 0, expected a number above 0");
  // Of that, and of the NICs, rings may reach a share.
  CHECK(with({"cluster.ring_efficiency=0.5"}).cluster.spec.ring_efficiency == 0.5);
}

TEST_CASE("efficiencies that are set hold for every precision and whatever GPU") {
  const DeviceSpec plain = with({"cluster.gpu=h100-80gb"}).cluster.spec.device;
  const DeviceSpec h100 = *load_device("h100-80gb");
  CHECK(plain.gemm_efficiency == h100.gemm_efficiency);
  CHECK(plain.training_clock == h100.training_clock);
  CHECK(plain.own_gemms == h100.own_gemms);
  CHECK(plain.own_gemms.contains("fp8"));
  // cluster.gpu is applied after cluster.gemm_efficiency, and leaves it.
  for (const char* gpu : {"cluster.gpu=h100-80gb", "cluster.gpus_per_node=8"}) {
    const DeviceSpec set = with({gpu, "cluster.gemm_efficiency=0.5", "cluster.preset=dgx-h200",
                                 "cluster.attention_efficiency=0.4"})
                               .cluster.spec.device;
    CHECK(set.gemm_efficiency == 0.5);
    CHECK(set.own_gemms.empty());
    CHECK(set.attention_efficiency == 0.4);
    CHECK(set.training_clock ==
          with({gpu, "cluster.preset=dgx-h200"}).cluster.spec.device.training_clock);
  }
  CHECK(refused("cluster.gemm_efficiency=1.1") ==
        "--set: found cluster.gemm_efficiency = 1.1, expected a number above 0 and at most 1");
}

// Transfers of 4 MB between actions of 1 and 2 s, over two nodes of two GPUs: 300 MB/s inside a
// node, 100 MB/s between, 50 us a message.
const std::string kOnCluster = kUniform + "p2p_MB = 4\n[cluster]\npreset = \"shaped-dgx\"\n";
constexpr double kInside = 4e6 / 300e6 + 50e-6, kBetween = 4e6 / 100e6 + 50e-6;
constexpr double kBetweenByTwo = 4e6 / 50e6 + 50e-6;  // two share the uplink

RunResult played(const Names& keys, Engine engine) {
  const auto results = simulate_all(load(kOnCluster, keys), engine, 1);
  INFO((results[0].ok() ? "" : results[0].error().text()));
  REQUIRE(results[0].ok());
  return results[0].value();
}

std::string refused_on_cluster(const Names& keys, const std::string& text = kOnCluster) {
  const Folder folder;
  const auto scenarios = try_load(folder, text, keys);
  return scenarios.ok() ? "" : scenarios.error().text();
}

TEST_CASE("with uniform costs the cluster carries transfers, inside and between nodes") {
  need_simgrid();
  const auto iteration_s = [](Names keys, Engine engine) {
    keys.push_back("parallel.global_batch=" + std::string(keys[0] == "parallel.dp=2" ? "2" : "1"));
    return played(keys, engine).iteration_s;
  };
  for (const Engine engine : {Engine::Ideal, Engine::SimGrid}) {
    // One microbatch: four stages one after the other, and three transfers each way.
    CHECK(iteration_s({"parallel.pp=4"}, engine) ==
          Approx(4 * 3 + 2 * (2 * kInside + kBetween)).epsilon(1e-9));
    CHECK(iteration_s({"parallel.pp=4", "cluster.placement=cyclic"}, engine) ==
          Approx(4 * 3 + 2 * 3 * kBetween).epsilon(1e-9));
    // Two replicas of two stages: a node has a stage, or a replica. Data costs nothing.
    CHECK(iteration_s({"parallel.dp=2"}, engine) ==
          Approx(2 * 3 + 2 * kBetweenByTwo).epsilon(1e-9));
    CHECK(iteration_s({"parallel.dp=2", "cluster.placement=cyclic"}, engine) ==
          Approx(2 * 3 + 2 * kInside).epsilon(1e-9));
  }
  CHECK(played({}, Engine::Ideal).cluster == "shaped-dgx");
}

TEST_CASE("transfers of uniform costs contend where ranks that are dealt round share an uplink") {
  need_simgrid();
  // Steps of 40 ms, as long as a transfer between nodes: the stages' transfers meet.
  const auto iteration_s = [](const char* placement, Engine engine) {
    return played({"parallel.pp=4", "parallel.global_batch=8", "overlap.p2p=true",
                   "costs.forward_s=0.02", "costs.backward_s=0.04", placement},
                  engine)
        .iteration_s;
  };
  const char* block = "cluster.placement=block";
  CHECK(iteration_s(block, Engine::SimGrid) ==
        Approx(iteration_s(block, Engine::Ideal)).epsilon(1e-8));
  const char* cyclic = "cluster.placement=cyclic";
  CHECK(iteration_s(cyclic, Engine::SimGrid) > 1.1 * iteration_s(cyclic, Engine::Ideal));
}

TEST_CASE("an order that is made for costs knows what its transfers take where") {
  const auto order_of = [](const char* placement) {
    const auto job = order_job(
        load(kOnCluster, {"parallel.pp=4", "schedule.order=zb1p", "costs.forward_s=0.02",
                          "costs.backward_s=0.04", "parallel.global_batch=8", placement})[0]);
    REQUIRE(job.ok());
    return job->order.ranks;
  };
  CHECK(order_of("cluster.placement=block") != order_of("cluster.placement=cyclic"));
}

TEST_CASE("ranks are dealt round over whole nodes: rank i is on node i mod nodes") {
  const Placement dealt = round_robin(6, 3);
  const std::vector<int> expected = {0, 3, 1, 4, 2, 5};
  for (int i = 0; i < 6; ++i) CHECK(index(dealt[i]) == expected[i]);
  const auto job = compile(
      with({"cluster.placement=cyclic", "cluster.gpus_per_node=4", "cluster.nics_per_node=4"}));
  REQUIRE(job.ok());
  CHECK(index(job->site.placement[3]) == 5);
  CHECK(job->warnings == Names{"small: cluster.placement = cyclic parts neighbouring ranks: "
                               "tensor communication crosses nodes"});
  CHECK(refused_on_cluster({"parallel.pp=3", "cluster.placement=cyclic"}) ==
        "--set: found cluster.placement = cyclic with 3 GPUs, expected whole nodes: a multiple of "
        "cluster.gpus_per_node = 2");
  CHECK(refused("cluster.placement=random") ==
        "--set: found cluster.placement = random, expected one of block cyclic");
}

TEST_CASE("costs.p2p_MB wants uniform costs, a cluster, and no seconds beside it") {
  CHECK(refused_on_cluster({"costs.p2p_s=1"})
            .ends_with("small.toml:8: found costs.p2p_s and costs.p2p_MB, expected one of them: "
                       "seconds, or what the cluster carries"));
  CHECK(refused_on_cluster({"costs.p2p_MB=1"}, kUniform)
            .ends_with("small.toml: found no cluster, expected [cluster] with a preset or with "
                       "its numbers"));
  CHECK(refused("costs.p2p_MB=1") ==
        "--set: found costs.p2p_MB with costs.source = analytic, expected uniform: a model says "
        "what its transfers carry");
}

}  // namespace
}  // namespace tandem
