// What a training reaches and needs: rates by GPU, how FLOPs are counted, what fits beside the
// reserve.
#include <fmt/format.h>

#include "planning/simulate/simulate.h"
#include "report/text/table.h"
#include "tests/scenarios/small_scenario.h"
#include "tests/text.h"
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

TEST_CASE("what is no tensor grows with the communicators, and a scenario can state its own") {
  const auto outside = [](const std::vector<std::string>& sets) {
    return played(sets).training->memory.outside / GiB;
  };
  const double communicator = 24 * 3 * (524'288 + 4'915'200 + 4'194'304) / GiB;  // 0.65 GiB
  // Two stages, and tied embeddings that these two add up; dp and tp have a communicator each.
  const double pipeline = outside({"parallel.tp=1", "parallel.dp=4"});
  CHECK(pipeline == Approx(0.6 + communicator / 3 + 2 * communicator));
  CHECK(outside({"parallel.tp=2", "parallel.dp=2"}) == Approx(pipeline + communicator));
  CHECK(outside({"cluster.memory_reserve_GiB=2"}) == Approx(2));
}

TEST_CASE("the allocator may waste more in fp8, by experts and interleaved, and less if told to") {
  const auto share = [](const std::vector<std::string>& sets) {
    const MemoryBytes memory = played(sets).training->memory;
    CHECK(memory.reserve == memory.outside + memory.fragmentation);
    return memory.fragmentation / memory.total;
  };
  CHECK(share({}) == Approx(0.09));
  CHECK(share({"train.precision=fp8", "cluster.gpu=h100-80gb"}) == Approx(0.19));
  CHECK(share({"model.experts=4", "model.top_k=1", "train.sequence_parallel=true"}) ==
        Approx(0.19));
  CHECK(share({"parallel.vpp=2"}) == Approx(0.19));
  CHECK(share({"parallel.vpp=2", "train.expandable_segments=true"}) == Approx(0.01));
  CHECK(share({"cluster.memory_reserve_GiB=2"}) == 0);
}

TEST_CASE("a plan fits, fits if unfragmented, or does not, and says by how much") {
  const Training all = *played({}).training;
  const double tensors = all.memory.total + all.memory.outside;
  const auto with = [](double bytes) {
    return *played({fmt::format("cluster.memory_GiB={}", bytes / GiB)}).training;
  };
  const double share = all.memory.fragmentation;
  CHECK(with(tensors + 1.01 * share).verdict == Verdict::Yes);
  const Training tight = with(tensors + 0.5 * share);
  CHECK(tight.verdict == Verdict::IfUnfragmented);
  CHECK(tight.fits);
  CHECK(tight.spare_bytes == Approx(0.5 * share));
  CHECK(verdict_cell(tight) == fmt::format("if unfragmented {:+.1f}", tight.spare_bytes / GiB));
  const Training over = with(tensors - 0.5 * share);
  CHECK(over.verdict == Verdict::No);
  CHECK(!over.fits);
  CHECK(over.spare_bytes == Approx(-0.5 * share));
  CHECK(verdict_cell(over) == fmt::format("NO {:+.1f}", over.spare_bytes / GiB));
}

TEST_CASE("a reserve of all the memory is refused") {
  const Folder folder;
  const auto scenarios = try_load(folder, kSmall, {"cluster.memory_reserve_GiB=79.3"});
  REQUIRE(!scenarios.ok());
  CHECK(scenarios.error().text() ==
        "--set: found cluster.memory_reserve_GiB = 79.3, expected less "
        "than the GPU's memory, 79.3 GiB");
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

TEST_CASE("tables say tokens a second and GPU, MFU, how FLOPs count and what is spare") {
  const RunResult result = played({"cluster.memory_reserve_GiB=5"});
  const std::string table = run_table({result});
  CHECK(table.find("tokens/s/GPU  MFU %") != std::string::npos);
  CHECK(table.find(tokens_rate(*result.training)) != std::string::npos);
  const std::string below = explanatory_notes(std::vector{result});
  CHECK(below.find("count all of attention's products") != std::string::npos);
  CHECK(table.find("  fits") != std::string::npos);
  CHECK(table.find(verdict_cell(*result.training)) != std::string::npos);
  CHECK(below.find("what is left then") != std::string::npos);
  const std::string causal = explanatory_notes(std::vector{played({"report.causal_flops=true"})});
  CHECK(causal.find("count the half of attention's products") != std::string::npos);
  CHECK(explanatory_notes(std::vector<RunResult>{}).empty());
}

TEST_CASE("an MFU beyond that of every published run is told, with the best of them") {
  RunResult result = played({});
  const double mfu = result.training->mfu;
  result.best_published_mfu = BestMfu{mfu, "H100-SXM5-80GB in bf16", "A-1", "a paper"};
  CHECK(explanatory_notes(std::vector{result}).find("is beyond") == std::string::npos);
  result.best_published_mfu->mfu = mfu - 1e-9;  // both are shown as the same
  CHECK(explanatory_notes(std::vector{result}).find("is beyond") == std::string::npos);
  result.best_published_mfu->mfu = mfu / 2;
  const std::string best = fmt::format(
      "% is beyond the {:.1f} % of the best published run on H100-SXM5-80GB in bf16 in "
      "cases.csv (A-1, a paper).\n",
      50 * mfu);
  CHECK(
      explanatory_notes(std::vector{result}).find(fmt::format("MFU {:.1f} {}", 100 * mfu, best)) !=
      std::string::npos);
  // Of several runs the highest is told.
  RunResult lower = result;
  lower.training->mfu *= 0.9;
  CHECK(explanatory_notes(std::vector{lower, result})
            .find(fmt::format("MFU up to {:.1f} {}", 100 * mfu, best)) != std::string::npos);
  // Of two runs one is beyond, so its own MFU is told.
  lower.best_published_mfu->mfu = mfu;
  CHECK(has(explanatory_notes(std::vector{lower, result}),
            fmt::format("MFU {:.1f} {}", 100 * mfu, best)));
}
