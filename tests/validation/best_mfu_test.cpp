// The best MFU of published runs: the shipped table against the cases that it is made of.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/csv.h"
#include "scenarios/evidence.h"
#include "tests/text.h"
#include "validation/published/cases.h"
#include "workload/model/model.h"

using namespace tandem;

namespace {

struct Best {
  double mfu = 0;
  std::string row;
};

double mfu_of(const Scenario& scenario, double iteration_s, AttentionFlops attention) {
  const Plan& plan = scenario.job.plan;
  return model_flops(scenario.job.model, plan, attention) / iteration_s / scenario.cluster.gpus /
         scenario.cluster.spec.device.flops_per_s.at(plan.precision);
}

// The table that follows from the cases.
std::string table_of(const std::vector<Case>& cases) {
  std::map<std::string, Best> best;  // by the row's key
  for (const Case& run : cases) {
    const auto scenario = scenario_of(run);
    if (!scenario.ok() || scenario->costs.uniform) continue;
    for (const auto& [attention, word] :
         {std::pair{AttentionFlops::Whole, "whole"}, std::pair{AttentionFlops::Causal, "causal"}}) {
      const double mfu = mfu_of(*scenario, run.measured_s, attention);
      const std::string key = fmt::format("{},{},{}", scenario->cluster.spec.device.name,
                                          scenario->job.plan.precision, word);
      if (mfu > best[key].mfu)
        best[key] = {
            mfu, fmt::format("{},{:.4f},{},{}", key, mfu, csv_cell(run.id), csv_cell(run.source))};
    }
  }
  std::string text = "gpu,precision,attention,mfu,run,source\n";
  for (const auto& [key, one] : best) text += one.row + '\n';
  return text;
}

}  // namespace

TEST_CASE("workload/best_mfu.csv has the best of cases.csv, for each GPU and precision") {
  // With TANDEM_WRITE_DOCS=1 it is written anew.
  const auto cases = read_cases(TANDEM_SOURCE_DIR "/validation/published/cases.csv");
  REQUIRE(cases.ok());
  const std::string path = TANDEM_SOURCE_DIR "/workload/best_mfu.csv";
  if (std::getenv("TANDEM_WRITE_DOCS") != nullptr) std::ofstream(path) << table_of(*cases);
  CHECK(contents(path) == table_of(*cases));
}

TEST_CASE("the best published MFU is found by GPU, precision and how FLOPs are counted") {
  // MPT105: 3 B parameters on 8 A100, 512 tokens a sequence: little attention.
  const auto whole = best_published_mfu("A100-SXM4-80GB", "bf16", false);
  REQUIRE((whole.ok() && whole->has_value()));
  CHECK((*whole)->run == "MPT105");
  CHECK((*whole)->on == "A100-SXM4-80GB in bf16");
  CHECK((*whole)->mfu > 0.6);
  const auto causal = best_published_mfu("A100-SXM4-80GB", "bf16", true);
  REQUIRE((causal.ok() && causal->has_value()));
  CHECK((*causal)->mfu < (*whole)->mfu);
  const auto none = best_published_mfu("A100-SXM4-80GB", "nvfp4", false);
  REQUIRE(none.ok());
  CHECK(!none->has_value());
}
