// tandem calibrate run: constants that were changed and are hidden come back from profiles; from an
// iteration's time alone they come back in part; the file that is written says so.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <map>

#include "planning/choose/resolve.h"
#include "planning/play/play_job.h"
#include "tests/draw.h"
#include "tests/folder.h"
#include "tests/random/random_jobs.h"
#include "tests/seed.h"
#include "traces/profile/simulated_profile.h"
#include "validation/calibrate/calibrate_run.h"
#include "validation/calibrate/calibration_check.h"
#include "validation/calibrate/run_constants.h"

using namespace tandem;
using Catch::Contains;

namespace {

constexpr double kBack = 0.03;  // how near a constant has to come

// A random job whose kernels are long enough that their launches do not hide them.
std::optional<Scenario> large_job(std::uint64_t seed) {
  JobKeys keys = random_job(seed);
  for (const char* key : {"model.hidden", "model.heads", "model.seq"})
    keys[key] = std::to_string(8 * std::stoi(keys.at(key)));
  const auto scenario = scenario_of(keys);
  if (!scenario) return std::nullopt;
  auto closed = resolved(*scenario);
  if (!closed.ok()) return std::nullopt;
  return *std::move(closed);
}

std::vector<RunConstant> constants_of(const Scenario& scenario) {
  return run_constants(scenario.job.plan, scenario.cluster.spec.gpus_per_node, true);
}

// The profile that the scenario's run would leave with other constants.
std::optional<Profile> hidden_profile(Scenario scenario, const std::vector<double>& values) {
  scenario.costs.profile = moved_profile(scenario.costs.profile, constants_of(scenario), values);
  const auto played = play_once(scenario, Engine::Ideal);
  if (!played.ok()) return std::nullopt;
  return profile_of(played->job.program, played->trace);
}

struct Back {
  int determined = 0, near = 0;
  std::map<std::string, int> by_key;
  std::string wrong;
};

// Hides changed constants in a profile, and counts those that come back.
void hide_and_find(std::uint64_t seed, const Scenario& scenario, Back* back) {
  Draw draw(seed);
  const std::vector<RunConstant> constants = constants_of(scenario);
  std::vector<double> values;
  for (const RunConstant& each : constants)
    values.push_back(each.is_sum ? each.spread * draw.below(101) / 100
                                 : 0.01 * (draw.below(51) - 25));
  RunEvidence evidence{.profile = hidden_profile(scenario, values)};
  if (!evidence.profile) return;
  const FrameworkProfile truth = moved_profile(scenario.costs.profile, constants, values);
  const auto found = calibrate_run(scenario, evidence);
  INFO("seed " << seed << (found.ok() ? "" : found.error().text()));
  REQUIRE(found.ok());
  for (const ToldConstant& each : found->told) {
    if (!each.is_determined()) continue;
    const double is = value_of(truth, each.key.c_str());
    ++back->determined;
    ++back->by_key[each.key];
    if (std::abs(each.after - is) <= kBack * is)
      ++back->near;
    else
      back->wrong += fmt::format("seed {}: {} was {:.4g}, is {:.4g}, found {:.4g}\n", seed,
                                 each.key, each.before, is, each.after);
  }
}

}  // namespace

TEST_CASE("constants that a profile determines come back within 3 %") {
  const int jobs = random_jobs(20);
  const unsigned seed = test_seed();
  Back back;
  int counted = 0;
  for (std::uint64_t number = 0; counted < jobs; ++number) {
    const std::uint64_t own = seed * 1'000'003ULL + number;
    const auto scenario = large_job(own);
    if (!scenario) continue;
    ++counted;
    hide_and_find(own, *scenario, &back);
  }
  std::string keys;
  for (const auto& [key, count] : back.by_key) keys += fmt::format(" {} {}", key, count);
  const std::string figures = fmt::format("{} jobs, {} constants determined, {} within 3 %:{}\n",
                                          jobs, back.determined, back.near, keys);
  INFO(figures << back.wrong);
  CHECK(back.near >= 0.95 * back.determined);
  CHECK(back.by_key["compute_stretch"] >= jobs / 2);
  CHECK(back.by_key["data_stretch"] > 0);
  std::cout << figures << back.wrong;
}

namespace {

constexpr const char* kJob =
    "model.layers = 24\nmodel.hidden = 2304\nmodel.heads = 24\nmodel.seq = 2048\n"
    "model.vocab = 51200\nparallel.dp = 32\nparallel.micro_batch = 16\n"
    "parallel.global_batch = 512\ntrain.recompute = \"full\"\ntrain.precision = \"fp16\"\n"
    "cluster.preset = \"selene\"\ncluster.gpus = 32\n";

Scenario job_of(const Folder& folder) {
  const auto scenarios = load_scenarios(folder.with("job.toml", kJob), {});
  REQUIRE(scenarios.ok());
  const auto closed = resolved(scenarios->front());
  REQUIRE(closed.ok());
  return *closed;
}

double iteration_s(const Scenario& scenario) {
  const auto result = simulate(scenario, Engine::Ideal);
  REQUIRE(result.ok());
  return result->iteration_s;
}

RunCalibration calibrated(const Scenario& scenario, double measured_s) {
  const auto found = calibrate_run(scenario, {.profile = {}, .iteration_s = measured_s});
  REQUIRE(found.ok());
  return *found;
}

}  // namespace

TEST_CASE(
    "an iteration's time moves constants a part of the way, and one far off counts as nearer") {
  const Folder folder;
  const Scenario job = job_of(folder);
  const double before = iteration_s(job);
  const RunCalibration same = calibrated(job, before);
  CHECK(same.profile == job.costs.profile);
  CHECK(same.notes.empty());
  const RunCalibration slower = calibrated(job, 1.1 * before);
  CHECK(slower.before_s == before);
  CHECK(slower.after_s > 1.04 * before);
  CHECK(slower.after_s < 1.1 * before);
  CHECK(slower.told.front().key == "compute_stretch");
  CHECK(!slower.told.front().is_determined());
  CHECK(!slower.is_far);
  REQUIRE(slower.notes.size() == 1);
  CHECK_THAT(slower.notes[0], Contains("moves the constants a part of the way"));
  // Beyond what sites differ by, more counts no more.
  const RunCalibration far = calibrated(job, 2 * before), farther = calibrated(job, 3 * before);
  CHECK(far.after_s > slower.after_s);
  CHECK(farther.after_s == Approx(far.after_s).epsilon(1e-6));
  CHECK(far.is_far);
  CHECK_THAT(far.notes[0], Contains("It is no evidence"));
  const auto text = calibrated_text(job, far, "megatron-a100", "a run");
  REQUIRE(text.ok());
  CHECK(text->find("measured_on") == std::string::npos);
  CHECK(text->find("interval") == std::string::npos);
  const auto refused = calibrate_run(job, {.profile = {}, .iteration_s = 6 * before});
  CHECK_THAT(refused.error().text(), Contains("at most 5 times more or less"));
}

TEST_CASE("the written software has the moved constants, a narrower interval and the run's kind") {
  const Folder folder;
  const Scenario job = job_of(folder);
  const RunCalibration found = calibrated(job, 1.03 * iteration_s(job));
  const auto text = calibrated_text(job, found, job.costs.profile.name, "a log of job.toml");
  REQUIRE(text.ok());
  const auto mine = load_framework_profile(folder.with("mine.toml", *text));
  REQUIRE(mine.ok());
  for (const ToldConstant& each : found.told)
    CHECK(value_of(*mine, each.key.c_str()) == Approx(each.after).epsilon(1e-3));
  const FrameworkProfile& base = job.costs.profile;
  CHECK(mine->interval_low >= base.interval_low);
  CHECK(mine->interval_high <= base.interval_high);
  CHECK(mine->experts_high == base.experts_high);  // dense runs say nothing of experts
  CHECK(std::ranges::includes(mine->measured_on, base.measured_on));
  CHECK(std::ranges::find(mine->measured_on, "A100-SXM4-80GB fp16 dense") !=
        mine->measured_on.end());
  CHECK(mine->framework == base.framework);
  // The next plan is predicted by it.
  Scenario next = job;
  next.costs.profile = *mine;
  CHECK(iteration_s(next) == Approx(found.after_s).epsilon(1e-9));
}

TEST_CASE("the written interval holds the run: the base's does not count where it lies outside") {
  const Folder folder;
  const Scenario job = job_of(folder);
  const auto written = [&](const RunCalibration& found) {
    const auto text = calibrated_text(job, found, job.costs.profile.name, "a log of job.toml");
    REQUIRE(text.ok());
    const auto mine = load_framework_profile(folder.with("mine.toml", *text));
    REQUIRE(mine.ok());
    return *mine;
  };
  const FrameworkProfile& base = job.costs.profile;
  const double before = iteration_s(job);
  const FrameworkProfile near = written(calibrated(job, before));
  CHECK(near.interval_high == base.interval_high);
  for (const double times : {0.85, 0.9, 1.15, 1.2}) {
    const RunCalibration found = calibrated(job, times * before);
    REQUIRE(!found.is_far);
    REQUIRE((times < base.interval_low || times > base.interval_high));
    const FrameworkProfile mine = written(found);
    CHECK(found.after_s * mine.interval_low < found.measured_s);
    CHECK(found.after_s * mine.interval_high > found.measured_s);
    CHECK(mine.interval_low < base.interval_low);
    CHECK(mine.interval_high > base.interval_high);
  }
  // Profiles may leave more open than the interval of calibrated runs has, as pauses do.
  RunCalibration paused = calibrated(job, before);
  paused.measured_s = 1.4 * before;
  CHECK(written(paused).interval_high == Approx(1.4 * 1.002).epsilon(1e-3));
  // A base's interval that does not overlap that of calibrated runs leaves it as it is.
  RunCalibration apart = calibrated(job, before);
  apart.profile.interval_low = 1.3;
  apart.profile.interval_high = 1.6;
  apart.measured_s = 1.4 * before;
  apart.after_s = 1.12 * before;
  const FrameworkProfile whole = written(apart);
  CHECK(whole.interval_low < 0.9);
  CHECK(whole.interval_high == Approx(1.25 * 1.002).epsilon(1e-3));
  // So does one that reaches a little into it: the overlap alone would be narrower than either.
  RunCalibration barely = calibrated(job, before);
  barely.profile.interval_low = 0.7;
  barely.profile.interval_high = 0.886;
  barely.measured_s = 0.88 * before;
  barely.after_s = 0.88 * before;
  CHECK(written(barely).interval_high > 1.2);
}

TEST_CASE("a scenario without a model's prices, and no evidence, are refused") {
  const Folder folder;
  Scenario job = job_of(folder);
  CHECK_THAT(calibrate_run(job, {}).error().text(), Contains("found no times of a run"));
  job.costs.uniform.emplace();
  CHECK_THAT(calibrate_run(job, {.profile = {}, .iteration_s = 1}).error().text(),
             Contains("expected prices of a model"));
}

TEST_CASE("families of runs made with another constant are nearer once one was calibrated on") {
  // Family f's site is 10 % slower than the others, which alone are fitted.
  const Folder folder;
  const std::string head =
      "id,family,system,layers,hidden,heads,seq,vocab,tp,pp,dp,micro_batch,global_batch,schedule,"
      "precision,recompute,gpus,iteration_s\n";
  std::string rows;
  for (const char* family : {"f", "g", "h"}) {
    for (const int layers : {8, 12, 16})
      rows +=
          fmt::format("{0}{1},{0},selene,{1},4096,32,2048,51200,1,1,8,4,64,1f1b,fp16,full,8,1\n",
                      family, layers);
  }
  const auto cases = read_cases(folder.with("cases.csv", head + rows));
  REQUIRE(cases.ok());
  const FitPlan plan = {{{"megatron-a100", "optimizer_bytes", 55, 5, 30, 90}},
                        {{"f", 0.01, 10}, {"g", 0.01, 10}, {"h", 0.01, 10}}};
  auto data = fit_data(*cases, plan, 2);
  REQUIRE(data.ok());
  const auto found = residuals(*data, all_rows(*data), {55.0});
  REQUIRE(found.ok());
  for (std::size_t i = 0; i < found->size(); ++i)
    data->cases[i].measured_s = std::exp((*found)[i]) * (data->cases[i].family == "f" ? 1.1 : 1);
  const auto check = check_calibration(*data, {55.0}, {"f", "g"}, [](int, int) {});
  REQUIRE(check.ok());
  REQUIRE(check->families.size() == 2);
  CHECK(check->families[0].runs == 3);
  CHECK(check->families[0].before == Approx(1 - 1 / 1.1).epsilon(0.05));
  CHECK(check->families[0].after < 0.5 * check->families[0].before);
  CHECK(check->families[1].before < 0.005);
  CHECK(check->families[1].after < 0.005);
  CHECK_THAT(calibration_table(*check), Contains("| f | 3 | 3 | 9."));
  CHECK_THAT(check_calibration(*data, {55.0}, {"x"}, [](int, int) {}).error().text(),
             Contains("found no two runs of families 'x...'"));
}

TEST_CASE("an order that is made for costs stays the same while constants move") {
  const Folder folder;
  const auto scenarios = load_scenarios(
      folder.with("job.toml",
                  "model.layers = 16\nmodel.hidden = 4096\nmodel.heads = 32\nmodel.seq = 4096\n"
                  "model.vocab = 50304\nparallel.tp = 8\nparallel.pp = 4\nparallel.vpp = 2\n"
                  "parallel.global_batch = 8\nschedule.order = \"v-min\"\n"
                  "cluster.preset = \"dgx-h100\"\ncluster.gpus = 32\n"),
      {});
  REQUIRE(scenarios.ok());
  const Scenario job = *resolved(scenarios->front());
  const std::vector<RunConstant> constants = constants_of(job);
  std::vector<double> values(constants.size());
  for (std::size_t k = 0; k < constants.size(); ++k)
    values[k] = constants[k].keys.front() == std::string_view("tensor_stretch") ? 0.4 : 0;
  const auto found = calibrate_run(job, {.profile = hidden_profile(job, values)});
  REQUIRE(found.ok());
  for (const ClassTime& each : found->classes_after) {
    INFO(each.name << " " << each.ratio);
    CHECK((each.share < 0.005 || std::abs(each.ratio - 1) < 0.02));
  }
}
