// Calibrations: what was measured takes that long, and shares links as before.
#include "topology/calibration.h"

#include <catch2/catch.hpp>

#include "planning/simulate/simulate.h"
#include "sim/engines.h"
#include "tests/needs.h"
#include "tests/scenarios/small_scenario.h"
#include "topology/traffic.h"

namespace tandem {
namespace {

// Four GPUs a node, a byte a nanosecond everywhere, one NIC.
Cluster cluster_with(std::vector<CalibrationRow> rows) {
  ClusterSpec spec;
  spec.name = "test";
  spec.gpus_per_node = 4;
  spec.nics_per_node = 1;
  spec.intra_bytes_per_s = spec.nic_bytes_per_s = 1e9;
  spec.intra_latency_s = spec.inter_latency_s = 1e-6;
  spec.calibration = std::move(rows);
  auto cluster = Cluster::build(spec, 8);
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

std::vector<DeviceId> devices(std::initializer_list<int> numbers) {
  std::vector<DeviceId> list;
  for (const int number : numbers) list.push_back(DeviceId{number});
  return list;
}

std::string refused(const std::string& text) {
  const Folder folder;
  const auto rows = read_calibration(folder.with("F.toml", text));
  REQUIRE(!rows.ok());
  const std::string& message = rows.error().text();
  return message.substr(message.find("F.toml"));
}

const std::string kRow = "[[fit]]\nop = \"p2p\"\nranks = 2\nnodes = 1\nlatency_us = 1000\n";

TEST_CASE("names of communications are nccl-tests', and lead back to them") {
  for (int i = 0; i < kCommKinds; ++i) {
    const auto kind = static_cast<CommKind>(i);
    CHECK(comm_kind_named(comm_kind_name(kind)) == kind);
  }
  CHECK(comm_kind_name(CommKind::RingShift) == "sendrecv");
  CHECK_FALSE(comm_kind_named("broadcast"));
}

TEST_CASE("an operation with a row takes latency + bytes x factor / bus bandwidth alone") {
  const Cluster cluster = cluster_with({{CommKind::AllReduce, 4, 1, 10e-6, 2e9},
                                        {CommKind::AllToAll, 4, 2, 20e-6, 0.25e9},
                                        {CommKind::SendRecv, 2, 2, 30e-6, 0.5e9}});
  const auto node = devices({0, 1, 2, 3}), two_nodes = devices({0, 1, 4, 5});
  // 2 x 3/4 of 1 MB at 2 GB/s; 3/4 at 0.25 GB/s; 1 MB at 0.5 GB/s.
  CHECK(collective_ns(cluster, CommKind::AllReduce, 1'000'000, node) == 10'000 + 750'000);
  CHECK(collective_ns(cluster, CommKind::AllToAll, 1'000'000, two_nodes) == 20'000 + 3'000'000);
  CHECK(transfer_ns(cluster, 1'000'000, DeviceId{0}, DeviceId{4}) == 30'000 + 2'000'000);
  // Other kinds, and groups on other numbers of nodes, stay: 3 steps, 3/4 of the bytes.
  CHECK(collective_ns(cluster, CommKind::AllGather, 1'000'000, node) == 3'000 + 750'000);
  CHECK(transfer_ns(cluster, 1'000'000, DeviceId{0}, DeviceId{1}) == 1'000 + 1'000'000);
  CHECK(collective_ns(cluster, CommKind::AllReduce, 1'000'000, devices({0})) == 0);
}

TEST_CASE("operations with a row still share links") {
  const Cluster cluster = cluster_with({{CommKind::SendRecv, 2, 2, 30e-6, 0.5e9}});
  const std::vector<std::vector<DeviceId>> two = {devices({0, 4}), devices({1, 5})};
  const std::vector<Choices> both = lockstep_choices(cluster, CommKind::SendRecv, two);
  REQUIRE(both.size() == 1);
  CHECK(duration_ns(both[0], 1'000'000) == 30'000 + 2 * 2'000'000);
}

TEST_CASE("a calibration's mistakes are one line with its place") {
  CHECK(refused("") == "F.toml:1: found no [[fit]], expected one a measured operation");
  CHECK(refused(kRow + "busbw_GBps = 0\n") ==
        "F.toml:6: found busbw_GBps = 0, expected a number above 0");
  CHECK(refused(kRow) ==
        "F.toml:1: found a [[fit]] without 'busbw_GBps', expected a number above 0");
  CHECK(refused("speed = 1\n" + kRow) ==
        "F.toml:1: found key 'speed', expected a known key; the nearest is 'real'");
  CHECK(refused("[[fit]]\nop = \"broadcast\"\n") ==
        "F.toml:2: found op = broadcast, expected one of p2p all_reduce reduce_scatter all_gather "
        "alltoall sendrecv");
  CHECK(refused("[[fit]]\nop = \"alltoall\"\nranks = 4\nnodes = 5\n") ==
        "F.toml:4: found nodes = 5, expected no more nodes than ranks");
  CHECK(refused("[[fit]]\nop = \"p2p\"\nranks = 4\nnodes = 1\n") ==
        "F.toml:3: found ranks = 4, expected 2 with op = p2p");
  CHECK(refused(kRow + "busbw_GBps = 1\n" + kRow + "busbw_GBps = 1\n") ==
        "F.toml:7: found a second p2p of 2 ranks on 1 nodes, expected one");
  CHECK(refused("fit = [1]\n") == "F.toml:1: found a value, expected [[fit]] tables");
  CHECK(refused("[[fit]\n").starts_with("F.toml:1: "));
}

// Transfers of 4 MB between actions of 1 and 2 s; 300 MB/s inside a node of two, 100 MB/s between.
const std::string kOnCluster = kUniform + "p2p_MB = 4\n[cluster]\npreset = \"shaped-dgx\"\n";

double iteration_s(const Folder& folder, const Names& keys, Engine engine) {
  const auto scenarios = try_load(folder, kOnCluster + "calibration = \"F.toml\"\n", keys);
  INFO((scenarios.ok() ? "" : scenarios.error().text()));
  REQUIRE(scenarios.ok());
  const auto results = simulate_all(*scenarios, engine, 1);
  REQUIRE(results[0].ok());
  return results[0]->iteration_s;
}

TEST_CASE("a scenario's calibration says what its transfers take") {
  const Folder folder;
  folder.with("F.toml", kRow + "busbw_GBps = 0.04\n");
  const double measured = 0.001 + 4e6 / 0.04e9, between = 4e6 / 100e6 + 50e-6;
  need_simgrid();
  for (const Engine engine : {Engine::Ideal, Engine::SimGrid}) {
    // One microbatch: the stages one after the other, and a transfer each way.
    CHECK(iteration_s(folder, {"parallel.global_batch=1"}, engine) ==
          Approx(2 * 3 + 2 * measured).epsilon(1e-9));
    // Only inside a node.
    CHECK(iteration_s(folder, {"parallel.global_batch=1", "parallel.pp=4"}, engine) ==
          Approx(4 * 3 + 2 * (2 * measured + between)).epsilon(1e-9));
  }
}

TEST_CASE("communication that a calibration has no row for, and another cluster, are said") {
  const Folder folder;
  folder.with("F.toml", kRow + "busbw_GBps = 0.04\n");
  const auto warnings = [&](const Names& keys) {
    const auto scenarios = try_load(folder, kOnCluster + "calibration = \"F.toml\"\n", keys);
    REQUIRE(scenarios.ok());
    const auto result = simulate(scenarios->front(), Engine::Ideal);
    REQUIRE(result.ok());
    return result->warnings;
  };
  CHECK(warnings({}).empty());
  const Names between = warnings({"parallel.pp=4"});
  REQUIRE(between.size() == 1);
  CHECK(between.front().ends_with(
      ": cluster.calibration has no row for pipeline p2p of 2 ranks on 2 nodes: the cluster's "
      "links say what these take"));
  folder.with("F.toml", "cluster = \"shaped-dgx\"\n" + kRow + "busbw_GBps = 0.04\n");
  CHECK(warnings({}).empty());
  folder.with("F.toml", "cluster = \"dgx-h100\"\n" + kRow + "busbw_GBps = 0.04\n");
  const Names elsewhere = warnings({});
  REQUIRE(elsewhere.size() == 1);
  CHECK(elsewhere.front().ends_with(
      ": cluster.calibration was measured on dgx-h100, this cluster is shaped-dgx"));
}

TEST_CASE("what a scenario says of its calibration is checked") {
  const Folder folder;
  folder.with("F.toml", kRow + "busbw_GBps = -1\n");
  const auto error = [&](const std::string& lines, const Names& keys = {}) {
    const auto scenarios = try_load(folder, kOnCluster + lines, keys);
    return scenarios.ok() ? "" : scenarios.error().text();
  };
  CHECK(error("calibration = \"F.toml\"\n")
            .ends_with("F.toml:6: found busbw_GBps = -1, expected a number above 0"));
  CHECK(error("calibration = \"none.toml\"\n")
            .ends_with(
                "small.toml:11: found cluster.calibration = none.toml: no such file, expected a "
                "file that tandem bench comm --fit or calibrate comm wrote"));
  folder.with("F.toml", kRow + "busbw_GBps = 1\n");
  CHECK(error("calibration = \"F.toml\"\n", {"report.least_bandwidth=true"}) ==
        "--set: found report.least_bandwidth with cluster.calibration, expected one of them: a "
        "measured time holds at every bandwidth");
}

}  // namespace
}  // namespace tandem
