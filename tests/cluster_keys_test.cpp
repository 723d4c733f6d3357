// The keys of [cluster] that say how collectives go and what a GPU's kernels reach.
#include <catch2/catch.hpp>

#include "tests/small_scenario.h"

namespace tandem {
namespace {

Scenario with(const Names& keys) { return load(kSmall, keys)[0]; }

std::string refused(const std::string& key) {
  const Folder folder;
  const auto scenarios = try_load(folder, kSmall, {key});
  return scenarios.ok() ? "" : scenarios.error().message;
}

TEST_CASE("a cluster says how its collectives go, in flat rings by default") {
  CHECK(with({}).cluster.collectives == Collectives::Ring);
  CHECK_FALSE(with({}).cluster.in_network_reduction);
  CHECK(with({"cluster.collectives=hierarchical"}).cluster.collectives ==
        Collectives::Hierarchical);
  CHECK(with({"cluster.collectives=auto"}).cluster.collectives == Collectives::Auto);
  CHECK(with({"cluster.in_network_reduction=true"}).cluster.in_network_reduction);
  CHECK(refused("cluster.collectives=tree") ==
        "--set: found cluster.collectives = tree, expected one of auto hierarchical ring");
}

TEST_CASE("efficiencies that are set hold for every precision and whatever GPU") {
  const DeviceSpec plain = with({"cluster.gpu=h100-80gb"}).cluster.device;
  CHECK(plain.gemm_efficiency == 0.70);
  CHECK(plain.own_gemm_efficiency.at("fp8") == 0.626);
  // cluster.gpu is applied after cluster.gemm_efficiency, and leaves it.
  for (const char* gpu : {"cluster.gpu=h100-80gb", "cluster.gpus_per_node=8"}) {
    const DeviceSpec set = with({gpu, "cluster.gemm_efficiency=0.5", "cluster.preset=dgx-h200",
                                 "cluster.attention_efficiency=0.4"})
                               .cluster.device;
    CHECK(set.gemm_efficiency == 0.5);
    CHECK(set.own_gemm_efficiency.empty());
    CHECK(set.attention_efficiency == 0.4);
  }
  CHECK(refused("cluster.gemm_efficiency=1.1") ==
        "--set: found cluster.gemm_efficiency = 1.1, expected a number above 0 and at most 1");
}

}  // namespace
}  // namespace tandem
