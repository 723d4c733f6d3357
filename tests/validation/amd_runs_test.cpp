// What AMD published of Primus' runs (validation/published/primus), and hipBLASLt's products,
// against what is predicted.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/csv.h"
#include "planning/simulate/simulate.h"
#include "scenarios/scenario.h"
#include "tests/scenarios/small_scenario.h"
#include "tests/text.h"
#include "topology/preset.h"
#include "workload/cost/kernel.h"

namespace tandem {
namespace {

const std::string kFolder = TANDEM_SOURCE_DIR "/validation/published/primus/";

struct PrimusRun {
  std::string name;
  double measured;   // tokens/s/GPU
  double predicted;  // the same
  bool fitted;
};

// Returns a scenario's runs in the order of measured.csv.
std::vector<PrimusRun> runs_of(const std::string& scenario, const Names& sets = {}) {
  const auto settings = parse_sets(sets);
  REQUIRE(settings.ok());
  const auto loaded = load_scenarios(kFolder + scenario + ".toml", *settings);
  INFO((loaded.ok() ? "" : loaded.error().text()));
  REQUIRE(loaded.ok());
  const auto table = CsvTable::read(kFolder + "measured.csv");
  REQUIRE(table.ok());
  std::vector<PrimusRun> runs;
  for (int row = 0; row < table->size(); ++row) {
    if (table->text(row, "scenario") != scenario) continue;
    const std::string name(table->text(row, "run"));
    const auto found = std::ranges::find(*loaded, name, &Scenario::name);
    REQUIRE(found != loaded->end());
    const auto result = simulate(*found, Engine::Ideal);
    INFO(name << ": " << (result.ok() ? "" : result.error().text()));
    REQUIRE(result.ok());
    runs.push_back({name, *table->number(row, "tokens_per_s_gpu"),
                    result->training->tokens_per_s_per_gpu, table->text(row, "use") == "fitted"});
  }
  return runs;
}

// The page has these lines, one below the other.
void check_page(const std::string& lines) {
  INFO("docs/accuracy.md is to have\n" << lines);
  CHECK(has(contents(TANDEM_SOURCE_DIR "/docs/accuracy.md"), lines));
}

double gain(const PrimusRun& run, const PrimusRun& base, double PrimusRun::*rate) {
  return run.*rate / (base.*rate) - 1;
}

TEST_CASE("Primus' schedules gain and lose within 35 % of what AMD measured, but for one") {
  std::string lines;
  for (const auto& [scenario, gpus] :
       {std::pair{"llama2-7b", "Llama 2 7B, 8 MI300X"}, {"qwen3-235b", "Qwen3 235B, 32 MI355X"}}) {
    const std::vector<PrimusRun> runs = runs_of(scenario);
    for (std::size_t i = 1; i < runs.size(); ++i) {
      const double measured = gain(runs[i], runs[0], &PrimusRun::measured);
      const double predicted = gain(runs[i], runs[0], &PrimusRun::predicted);
      lines += fmt::format("| {} | {} | {:+.1f} | {:+.1f} | {} |\n", gpus, runs[i].name,
                           100 * measured, 100 * predicted, runs[i].fitted ? "yes" : "no");
      INFO(lines);
      // 98.7 % of the memory was full there; ours is 13 % faster than 1F1B, and not 8.
      if (runs[i].name == "zbv-formatted") continue;
      CHECK(std::abs(predicted - measured) <= std::abs(measured) / 2.9);
    }
  }
  check_page(lines);
}

// The names from the fastest to the slowest but for zbv, which comes out 2 to 5 % too fast.
Names order_of(std::vector<PrimusRun> runs, double PrimusRun::*rate) {
  std::erase_if(runs, [](const PrimusRun& run) { return run.name.starts_with("zbv"); });
  std::ranges::sort(runs, std::greater(), rate);
  Names names;
  for (const PrimusRun& run : runs) names.push_back(run.name);
  return names;
}

TEST_CASE(
    "Primus' schedules of Llama come in the order that AMD measured, ours at other batches, too") {
  const auto llama = runs_of("llama2-7b");
  CHECK(order_of(llama, &PrimusRun::predicted) == order_of(llama, &PrimusRun::measured));
  // The other batches by our own orders, which are better than Primus' tables: zb1p is still the
  // fastest but for zbv, then interleaved, 1F1B behind them.
  for (const char* batch : {"16", "24", "48", "64", "128"}) {
    INFO(batch);
    const auto seconds = [&](const char* order, const char* vpp) {
      const auto sets = parse_sets({fmt::format("parallel.global_batch={}", batch),
                                    fmt::format("schedule.order={}", order),
                                    fmt::format("parallel.vpp={}", vpp)});
      REQUIRE(sets.ok());
      const auto loaded = load_scenarios(kFolder + "llama2-7b.toml", *sets);
      INFO((loaded.ok() ? "" : loaded.error().text()));
      REQUIRE(loaded.ok());
      const auto result = simulate(loaded->front(), Engine::Ideal);
      REQUIRE(result.ok());
      return result->iteration_s;
    };
    const double interleaved = seconds("interleaved", "2"), v_half = seconds("v-half", "2");
    CHECK(seconds("zb1p", "1") < interleaved);
    CHECK(interleaved < seconds("1f1b", "1"));
    CHECK(v_half < seconds("1f1b", "1"));
    CHECK(v_half < seconds("v-min", "2"));
  }
}

TEST_CASE("throughput of MI325X and MI355X that no constant was fitted to is met within 4 %") {
  std::string lines;
  for (const PrimusRun& run : runs_of("throughput")) {
    const double error = run.measured / run.predicted - 1;  // of the time
    lines += fmt::format("| {} | {:.0f} | {:.0f} | {:+.1f} | {} |\n", run.name, run.measured,
                         run.predicted, 100 * error, run.fitted ? "yes" : "no");
    INFO(lines);
    CHECK(std::abs(error) <= (run.fitted ? 0.01 : 0.04));
  }
  check_page(lines);
}

TEST_CASE(
    "hipBLASLt's products on an MI355X take what its file says, within 3 % in bf16, 7 in fp8") {
  // Microseconds by AMD-AGI/Primus@fd1eeab,
  // examples/mlperf/gpt_oss_20b/tune_gemm_results-v26.5.txt.
  const struct {
    const char* precision;
    std::int64_t m, n, k;
    double us;
  } products[] = {{"bf16", 4096, 2880, 32768, 536.2},   {"bf16", 2880, 5120, 32768, 678.4},
                  {"bf16", 2880, 32768, 4096, 538.1},   {"bf16", 4096, 32768, 2880, 525.4},
                  {"bf16", 2880, 32768, 5120, 659.8},   {"bf16", 5120, 32768, 2880, 630.4},
                  {"bf16", 2880, 32768, 128256, 15720}, {"bf16", 2880, 128256, 32768, 16240},
                  {"bf16", 128256, 32768, 2880, 16570}, {"fp8", 4096, 2880, 32768, 276.5},
                  {"fp8", 2880, 32768, 4096, 274.4},    {"fp8", 2880, 5120, 32768, 325.1},
                  {"fp8", 2880, 32768, 5120, 336.3},    {"fp8", 4096, 32768, 2880, 301.1},
                  {"fp8", 5120, 32768, 2880, 380.3}};
  const auto device = load_device("mi355x-288gb");
  REQUIRE(device.ok());
  for (const auto& product : products) {
    CostModel model{.device = *device, .precision = product.precision};
    for (auto& [precision, own] : model.device.own_gemms) own.training_clock = 1;
    model.device.training_clock = 1;
    const double us = gemm_s(model, {.m = product.n, .n = product.m, .k = product.k}) * 1e6;
    INFO(product.precision << " " << product.m << " " << product.n << " " << product.k);
    const bool is_bf16 = product.precision == std::string("bf16");
    CHECK(us == Approx(product.us).epsilon(is_bf16 ? 0.03 : 0.07));
  }
}

}  // namespace
}  // namespace tandem
