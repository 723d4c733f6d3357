// Nodes of which a job takes a part.
#include <catch2/catch.hpp>

#include "planning/simulate/simulate.h"
#include "scenarios/scenario.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {
namespace {

ClusterSpec nodes_of(const Names& set) { return load(kSmall, set)[0].cluster.spec; }

TEST_CASE("a job that fills no whole nodes takes equally many GPUs of as few as hold it") {
  // A rack has 72: 256 GPUs are 64 of each of four, with their NICs, and 96 are 48 of two.
  const Names rack = {"cluster.preset=gb200-nvl72"};
  const auto on = [&](const std::string& gpus) {
    Names set = rack;
    set.push_back("cluster.gpus=" + gpus);
    set.push_back("parallel.dp=" + gpus);
    set.insert(set.end(), {"parallel.tp=1", "parallel.pp=1", "parallel.global_batch=" + gpus});
    const ClusterSpec spec = nodes_of(set);
    return std::pair{spec.gpus_per_node, spec.nics_per_node};
  };
  CHECK(on("256") == std::pair{64, 64});
  CHECK(on("96") == std::pair{48, 48});
  CHECK(on("144") == std::pair{72, 72});  // two whole ones
  CHECK(on("64") == std::pair{72, 72});   // part of one
  CHECK(on("145") == std::pair{72, 72});  // 145 = 5 x 29 on three: not even
}

TEST_CASE("a job takes as many GPUs of a node as it says, with their part of the NICs") {
  const ClusterSpec spec = nodes_of({"cluster.preset=jz-a100", "cluster.gpus_of_node=4"});
  CHECK(spec.gpus_per_node == 4);
  CHECK(spec.nics_per_node == 2);
  const Folder folder;
  const auto most = try_load(folder, kSmall, {"cluster.gpus_of_node=9"});
  REQUIRE(!most.ok());
  CHECK(most.error().text() ==
        "--set: cluster.gpus_of_node: found 9, expected at most a node's 8 GPUs");
  const auto listed = try_load(folder, kSmall, {"cluster.preset=dgx-1", "cluster.gpus_of_node=4"});
  REQUIRE(!listed.ok());
  CHECK(listed.error().text() ==
        "--set: cluster.gpus_of_node: found 4, expected none where a node's links are listed");
}

TEST_CASE("GPUs of a part of a node keep the NICs that they have in the whole one") {
  const auto part = [](const Names& set) {
    const ClusterSpec spec = nodes_of(set);
    return std::vector<int>{spec.gpus_per_node, spec.nics_per_node, spec.gpus_per_nic};
  };
  const std::string two_nics = "cluster.nics_per_node=2";
  CHECK(part({"cluster.gpus_of_node=6", two_nics}) == std::vector<int>{6, 2, 4});
  CHECK(part({"cluster.gpus_of_node=4", two_nics}) == std::vector<int>{4, 1, 4});
  CHECK(part({"cluster.gpus_of_node=3", two_nics}) == std::vector<int>{3, 1, 4});
  const Names five_of_8 = {"cluster.preset=aws-p4d",  "parallel.tp=1",   "parallel.pp=5",
                           "parallel.dp=2",           "cluster.gpus=10", "model.layers=10",
                           "parallel.global_batch=20"};
  CHECK(part(five_of_8) == std::vector<int>{5, 3, 2});
  CHECK(simulate(load(kSmall, five_of_8)[0], Engine::Ideal).ok());
  // Of the whole node, as it is written, and not of its part.
  const auto uneven = simulate(
      load(kSmall, {"cluster.gpus_of_node=6", "cluster.nics_per_node=3"})[0], Engine::Ideal);
  REQUIRE(!uneven.ok());
  CHECK(uneven.error().text() ==
        "--set: found gpus_per_node = 8, expected a multiple of nics_per_node = 3");
}

}  // namespace
}  // namespace tandem
