// FrameworkProfile's files, and the fit that writes them: what a fit leads back to, and what it
// refuses.
#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "tests/folder.h"
#include "validation/published/profile_text.h"
#include "validation/published/published_checks.h"
#include "validation/published/published_fit.h"
#include "workload/frameworks/framework_profile.h"

using namespace tandem;
using Catch::Contains;

namespace {

constexpr const char* kCases =
    "id,family,system,layers,hidden,heads,seq,vocab,tp,pp,dp,micro_batch,global_batch,schedule,"
    "precision,recompute,gpus,iteration_s\n"
    "a,f,selene,8,2304,24,2048,51200,1,1,8,4,64,1f1b,fp16,full,8,1\n"
    "b,f,selene,8,4096,32,2048,51200,4,2,1,2,16,1f1b,fp16,full,8,1\n"
    "c,g,selene,16,6144,48,2048,51200,8,1,1,4,16,1f1b,fp16,none,8,1\n";

// Three runs of two families, and one constant. What is "measured" is what the model says with
// `truth`.
FitData data_of(const Folder& folder, double truth) {
  const auto cases = read_cases(folder.with("cases.csv", kCases));
  REQUIRE(cases.ok());
  const FitPlan plan = {{{"megatron-a100", "compute_stretch", 1, 0.5, 0.5, 2}},
                        {{"f", 0.01, 10}, {"g", 0.01, 10}}};
  auto data = fit_data(*cases, plan, 2);
  REQUIRE(data.ok());
  const auto found = residuals(*data, all_rows(*data), {truth});
  REQUIRE(found.ok());
  for (std::size_t i = 0; i < found->size(); ++i) data->cases[i].measured_s = std::exp((*found)[i]);
  return *std::move(data);
}

}  // namespace

TEST_CASE("a fit leads back to the constant that the runs were made with") {
  const Folder folder;
  const FitData data = data_of(folder, 1.1);
  const auto done = fit(data, all_rows(data), {1.0}, 4);
  REQUIRE(done.ok());
  // Nothing is left but the prior: (1.1 - 1) / 0.5 squared.
  CHECK(done->values[0] == Approx(1.1).epsilon(1e-3));
  CHECK(done->cost == Approx(0.04).epsilon(0.05));
  // Residuals of 1 % each leave less than 1 % of it open.
  CHECK(done->sigma[0] < 0.01);
}

TEST_CASE("a wild run pulls with constant force, so the others keep the fit") {
  const Folder folder;
  FitData data = data_of(folder, 1.0);
  data.cases[1].measured_s *= 3;
  const auto done = fit(data, all_rows(data), {1.0}, 4);
  REQUIRE(done.ok());
  CHECK(done->values[0] == Approx(1.0).epsilon(0.02));
}

TEST_CASE("a GPU's constant is fitted as well, for all GPUs of its chip") {
  const Folder folder;
  const FitData given = data_of(folder, 1.0);
  FitData data = given;
  data.plan.constants = {{"a100-40gb a100-80gb", "training_clock", 0.8, 0.2, 0.4, 1}};
  const auto found = residuals(data, all_rows(data), {0.7});
  REQUIRE(found.ok());
  for (std::size_t i = 0; i < found->size(); ++i)
    data.cases[i].measured_s = given.cases[i].measured_s * std::exp((*found)[i]);
  const auto done = fit(data, all_rows(data), {0.8}, 4);
  REQUIRE(done.ok());
  CHECK(done->values[0] == Approx(0.7).epsilon(2e-3));
  CHECK(determined_by(*done, 0) == std::vector<std::string>{"f", "g"});
  // On other GPUs it says nothing, and stays where it was believed to be.
  data.plan.constants[0].profile = "h100-80gb";
  const auto open = fit(data, all_rows(data), {0.9}, 4);
  REQUIRE(open.ok());
  CHECK(open->values[0] == 0.8);
  CHECK(determined_by(*open, 0).empty());
}

TEST_CASE("a constant stays between its bounds") {
  const Folder folder;
  FitData data = data_of(folder, 1.5);
  data.plan.constants[0].most = 1.2;
  const auto done = fit(data, all_rows(data), {1.0}, 4);
  REQUIRE(done.ok());
  CHECK(done->values[0] == 1.2);
}

TEST_CASE("a family that was left out of runs without noise is predicted as well as before") {
  const Folder folder;
  const FitData data = data_of(folder, 1.1);
  const auto whole = fit(data, all_rows(data), {1.0}, 4);
  REQUIRE(whole.ok());
  const auto checks = check_fit(data, *whole, {{"f", "g"}});
  REQUIRE(checks.ok());
  REQUIRE(checks->families.size() == 2);  // nothing is left without both
  for (const LeftOut& row : checks->families) CHECK(row.unseen.mape < 2e-3);
  // All are of one GPU: nothing is left without it.
  CHECK(checks->gpus.empty());
  for (const Unmeasured& one : checks->unmeasured) CHECK(one.key == "parallelism");
  const Interval& all = interval_for(checks->intervals, "no such", /*experts=*/false);
  CHECK(all.profile == "all");
  CHECK(all.low == Approx(1).epsilon(5e-3));
  CHECK(all.high == Approx(1).epsilon(5e-3));
  CHECK(interval_for(checks->intervals, "megatron-a100", /*experts=*/true).n == 0);
  // Of the two configurations of f each was left out once; g has but one, which stays in.
  REQUIRE(checks->measured.size() == 1);
  CHECK(checks->measured[0].most_gpus == 8);
  CHECK(checks->measured[0].kinds ==
        std::map<std::string, int>{{"A100-SXM4-80GB fp16 dense", 1},
                                   {"A100-SXM4-80GB fp16 dense+tensor+pipeline", 1}});
}

TEST_CASE("errors are shares of what was measured") {
  const Errors errors = errors_of({std::log(1.1), std::log(0.8), std::log(1.0)});
  CHECK(errors.n == 3);
  CHECK(errors.mape == Approx(0.1));
  CHECK(errors.median == Approx(0.1));
  CHECK(errors.bias == Approx(-0.1 / 3));
  CHECK(errors.worst == Approx(-0.2));
}

TEST_CASE("a family with more rows than it may count is thinned in a shuffled order") {
  const Folder folder;
  FitData data = data_of(folder, 1.0);
  data.plan.weights[0].most_rows = 1;
  CHECK(thinned(data, all_rows(data)).size() == 2);
}

TEST_CASE("a plan of a fit with a wrong line is refused at that line") {
  const Folder folder;
  folder.with("weights.csv", "family,noise_percent,most_rows\nf,1,10\n");
  const std::string header = "software,key,prior,sigma,least,most\n";
  const auto refused = [&](const std::string& line) {
    folder.with("constants.csv", header + line);
    const auto plan = read_fit_plan(folder.path().string());
    REQUIRE(!plan.ok());
    CHECK_THAT(plan.error().text(), Contains("constants.csv:2: "));
    return plan.error().text();
  };
  CHECK_THAT(refused("megatron-a100,compute_strech,1,0.1,0,2\n"), Contains("compute_strech"));
  CHECK_THAT(refused("megatron-b100,compute_stretch,1,0.1,0,2\n"), Contains("megatron-a100"));
  CHECK_THAT(refused("megatron-a100,compute_stretch,3,0.1,0,2\n"), Contains("least <= prior"));
}

TEST_CASE("a value takes its line in a profile's file, or a new one, and all else stays") {
  const std::string text = "# Of all.\na = {value = 1, source = \"s\"}\nab = {value = 2}\n";
  CHECK(with_value(text, "a", 0.123456, "fit") ==
        "# Of all.\na = {value = 0.1235, source = \"fit\"}\nab = {value = 2}\n");
  CHECK(with_value(text, "b", 3, "fit") == text + "b = {value = 3, source = \"fit\"}\n");
}

TEST_CASE(
    "a fit writes where the rows that it left out were measured, and none where there are none") {
  const Folder folder;
  const auto measured_on = [&](const MeasuredOn& measured) {
    const std::string text = with_measured_on(
        "base = \"nemo-h100\"\nmeasured_on = {value = \"X fp8\", source = \"x\"}\n", measured,
        "cases.csv");
    const std::string path = folder.with("mine.toml", text);
    const auto profile = load_framework_profile(path);
    REQUIRE(profile.ok());
    return std::pair{profile->measured_on, text};
  };
  const auto [pairs, text] =
      measured_on({.kinds = {{"H100-SXM5-80GB bf16 dense", 4}, {"H200 fp8 dense", 1}}});
  CHECK(pairs == std::vector<std::string>{"H100-SXM5-80GB bf16 dense", "H200 fp8 dense"});
  CHECK_THAT(text, Contains("source = \"4, 1 rows that a fit to cases.csv left out\""));
  const auto [none, no_rows] = measured_on({});
  CHECK(none.empty());
  CHECK_THAT(no_rows, Contains("source = \"0 rows that a fit to cases.csv left out\""));
  // A base's rows are not its own.
  CHECK(load_framework_profile("nemo-h100")->measured_on.size() == 6);
  CHECK(load_framework_profile(folder.with("other.toml", "base = \"nemo-h100\"\n"))
            ->measured_on.empty());
}

TEST_CASE("every framework profile that is shipped is whole and has an interval") {
  REQUIRE(framework_profile_names().size() >= 7);
  for (const std::string& name : framework_profile_names()) {
    INFO(name);
    const auto profile = load_framework_profile(name);
    REQUIRE(profile.ok());
    CHECK(0 < profile->interval_low);
    CHECK(profile->interval_low < profile->interval_high);
  }
}

TEST_CASE(
    "a framework profile of one's own holds what differs, and is refused at the line that is "
    "wrong") {
  const Folder folder;
  const std::string mine = folder.with(
      "mine.toml", "base = \"megatron-a100\"\ncompute_stretch = {value = 1.5, source = \"x\"}\n");
  const auto profile = load_framework_profile(mine);
  REQUIRE(profile.ok());
  CHECK(profile->compute_stretch == 1.5);
  CHECK(profile->pass_share == load_framework_profile("megatron-a100")->pass_share);
  // A value in place of the file's.
  CHECK(load_framework_profile(mine, {{{mine, "compute_stretch"}, 1.2}})->compute_stretch == 1.2);
  CHECK(load_framework_profile(mine, {{{"megatron-a100", "pass_share"}, 7}})->pass_share == 7);

  const auto refused = [&](const std::string& text) {
    const auto bad = load_framework_profile(folder.with("bad.toml", text));
    REQUIRE(!bad.ok());
    return bad.error().text();
  };
  CHECK_THAT(refused("base = \"bad.toml\"\n"), Contains("bad.toml:1: ") && Contains("base"));
  CHECK_THAT(refused("base = \"megatron-a100\"\ncompute = {value = 1, source = \"x\"}\n"),
             Contains("bad.toml:2: found key 'compute', expected a known key"));
  // A key that its base holds is known, too.
  CHECK_THAT(refused("base = \"megatron-a100\"\ndata_strech = {value = 1, source = \"x\"}\n"),
             Contains("the nearest is 'data_stretch'"));
  CHECK_THAT(
      refused("base = \"megatron-a100\"\n\ncompute_stretch = {value = -1, source = \"x\"}\n"),
      Contains("bad.toml:3: ") && Contains("at least 0"));
  CHECK_THAT(refused("unaligned_gemm = {value = 1, source = \"x\"}\n"),
             Contains("attention_share"));
}
