// What a training reaches and needs: rates by GPU, how FLOPs are counted, what fits beside the
// reserve.
#include <fmt/format.h>

#include "planning/simulate/simulate.h"
#include "report/text/table.h"
#include "tests/scenarios/small_scenario.h"
#include "topology/preset.h"

using namespace tandem;

namespace {

RunResult played(const Names& set) {
  auto result = simulate(load(kSmall, set).front(), Engine::Ideal);
  REQUIRE(result.ok());
  return *std::move(result);
}

Names set_GiB(double memory, double reserve) {
  return {fmt::format("cluster.memory_GiB={}", memory),
          fmt::format("cluster.memory_reserve_GiB={}", reserve)};
}

}  // namespace

TEST_CASE("a plan fits into the memory less the reserve, to the byte") {
  const double total = played({}).training->memory.total / GiB;
  for (const double reserve : {0.0, 1.0, 7.5}) {
    const auto more = played(set_GiB((total + reserve) * (1 + 1e-9), reserve)).training;
    CHECK(more->fits);
    CHECK(more->memory.reserve == reserve * GiB);
    CHECK(more->memory.total == total * GiB);
    CHECK(!played(set_GiB((total + reserve) * (1 - 1e-9), reserve)).training->fits);
  }
}

TEST_CASE("6 % of a GPU's memory are kept where nothing says more, and a GPU can state its own") {
  const auto a100 = load_device("a100-80gb");
  REQUIRE(a100.ok());
  CHECK(memory_reserve_bytes(*a100) == Approx(0.06 * 80 * GiB));
  CHECK(usable_memory_bytes(*a100) == Approx(0.94 * 80 * GiB));
  CHECK(played({}).training->memory.reserve == memory_reserve_bytes(*a100));
  DeviceSpec own = *a100;
  own.own_memory_reserve_bytes = 2 * GiB;
  CHECK(fits_memory(own, 78 * GiB));
  CHECK(!fits_memory(own, 78 * GiB + 1));
}

TEST_CASE("a reserve of all the memory is refused") {
  const Folder folder;
  const auto scenarios = try_load(folder, kSmall, {"cluster.memory_reserve_GiB=80"});
  REQUIRE(!scenarios.ok());
  CHECK(scenarios.error().text() ==
        "--set: found cluster.memory_reserve_GiB = 80, expected less "
        "than the GPU's memory, 80 GiB");
}

TEST_CASE("report.causal_flops counts half of attention in model and hardware alike") {
  // A core is 4 B s^2 h a layer; whole 3 of them are the model's, and 3.5 the hardware's with fused
  // attention.
  const RunResult whole = played({"train.flash_attention=true"});
  const RunResult causal = played({"train.flash_attention=true", "report.causal_flops=true"});
  CHECK(causal.iteration_s == whole.iteration_s);
  const double half = 0.5 * 8 * 4.0 * 16 * 512 * 512 * 1024 / 8 / whole.iteration_s * 1e-12;
  CHECK(whole.training->model_tflops_per_gpu - causal.training->model_tflops_per_gpu ==
        Approx(3 * half));
  CHECK(whole.training->hardware_tflops_per_gpu - causal.training->hardware_tflops_per_gpu ==
        Approx(3.5 * half));
  for (const RunResult& result : {whole, causal})
    CHECK(result.training->hfu >= result.training->mfu);
}

TEST_CASE("tables say tokens a second and GPU, MFU, how FLOPs count and what is kept in reserve") {
  const RunResult result = played({"cluster.memory_reserve_GiB=5"});
  const std::string table = run_table({result});
  CHECK(table.find("tokens/s/GPU  MFU %") != std::string::npos);
  CHECK(table.find(tokens_rate(*result.training)) != std::string::npos);
  const std::string below = notes(std::vector{result});
  CHECK(below.find("count all of attention's products") != std::string::npos);
  CHECK(below.find("a reserve of 5.0 of 80.0 GiB") != std::string::npos);
  const std::string causal = notes(std::vector{played({"report.causal_flops=true"})});
  CHECK(causal.find("count the half of attention's products") != std::string::npos);
  CHECK(notes(std::vector<RunResult>{}).empty());
}
