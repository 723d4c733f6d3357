// Keys that a search chooses only where --among names them: precision and its recipe, what
// selective recompute repeats, the dispatcher, and among whom ZeRO cuts.
#include <algorithm>
#include <set>

#include "planning/tune/frameworks.h"
#include "planning/tune/layout_keys.h"
#include "planning/tune/tune.h"
#include "tests/planning/stage_plans.h"

namespace tandem {
namespace {

const Names kPlaced = {"cluster.preset=dgx-h100", "cluster.gpus=4", "cluster.memory_GiB=12",
                       "train.flash_attention=true"};

Scenario four_gpus(const Names& set = {}) {
  Names all = kPlaced;
  all.insert(all.end(), {"parallel.tp=1", "parallel.pp=1", "parallel.dp=4"});
  all.insert(all.end(), set.begin(), set.end());
  return load(kSmall, all).front();
}

const Names kExperts = {"model.experts=4", "model.top_k=2", "cluster.memory_GiB=16"};

Space among(const Names& texts) {
  auto space = Space::among(texts);
  INFO((space.ok() ? "" : space.error().text()));
  REQUIRE(space.ok());
  return *std::move(space);
}

std::string refused(const std::string& text) {
  const auto space = Space::among({text});
  REQUIRE(!space.ok());
  return space.error().text();
}

TEST_CASE("a key that nobody names is as the scenario has it") {
  const Scenario base = four_gpus({"model.experts=4", "model.top_k=2", "train.precision=fp8",
                                   "parallel.dispatcher=hybridep", "train.zero=1",
                                   "parallel.hsdp_shard=2", "train.recompute_modules=moe_act"});
  for (const Candidate& plan : drawn_of(base, among({}), 3, 40)) {
    INFO(plan_text(plan));
    for (const LayoutKey& key : layout_keys()) {
      if (key.only_named) CHECK(key.get(plan.layout) == kAsScenario);
    }
    const Plan made = plan_of(base, plan);
    CHECK(made.precision == "fp8");
    CHECK(made.dispatcher == Dispatcher::HybridEp);
    CHECK(made.hsdp_shard == 2);
    CHECK(made.recompute_modules == base.job.plan.recompute_modules);
  }
}

TEST_CASE("the search among named keys finds what trying every plan finds") {
  const Names few = {"overlap.tensor=off", "parallel.cp=1", "parallel.vpp=1",
                     "train.recompute=none", "overlap.param_gather=false"};
  const auto with_few = [&](Names texts) {
    texts.insert(texts.end(), few.begin(), few.end());
    return among(texts);
  };
  SECTION("precision") {
    const auto best =
        check_against_all(four_gpus({"train.precision=bf16"}),
                          with_few({"train.precision=bf16,fp8", "train.fp8_recipe=delayed,mxfp8",
                                    "parallel.micro_batch=1,4"}));
    std::set<int> precisions;
    for (const Found& found : best) precisions.insert(found.candidate.layout.precision);
    CHECK(!precisions.contains(kAsScenario));
  }
  SECTION("dispatcher") {
    check_against_all(
        four_gpus(kExperts),
        with_few({"parallel.dispatcher=alltoall,allgather,deepep", "parallel.micro_batch=1,4"}));
  }
  SECTION("ZeRO's cut") {
    check_against_all(four_gpus(),
                      with_few({"parallel.hsdp_shard=all,2", "parallel.zero_hpz=none,2",
                                "parallel.micro_batch=1,2"}));
  }
  SECTION("modules") {
    check_against_all(four_gpus({"train.flash_attention=false"}),
                      among({"train.recompute_modules=core_attn,mlp+core_attn,mlp", "parallel.cp=1",
                             "overlap.tensor=off", "parallel.vpp=1", "parallel.micro_batch=1,4"}));
  }
}

TEST_CASE("selective recompute that equals none is tried only where none is not") {
  const auto selective = [](const Scenario& base, const Names& texts) {
    const Space space = among(texts);
    int found = 0;
    for (const Layout& cut : space.cuts(base)) {
      for (const Layout& layout : space.layouts(base, cut))
        found += layout.recompute == Recompute::Selective ? 1 : 0;
    }
    return found;
  };
  const Names one = {"parallel.tp=1", "parallel.pp=1", "parallel.cp=1"};
  CHECK(selective(four_gpus(), one) == 0);  // flash attention keeps no scores
  CHECK(selective(four_gpus({"train.flash_attention=false"}), one) > 0);
  CHECK(selective(four_gpus({"train.recompute_modules=mlp"}), one) > 0);
  CHECK(selective(four_gpus(), {"train.recompute=selective", "parallel.pp=1"}) > 0);
}

TEST_CASE("no bound is above the iteration of a plan with named keys") {
  const unsigned seed = 20261123;
  INFO("seed " << seed);
  check_bounds(
      four_gpus(kExperts),
      drawn_of(four_gpus(kExperts),
               among({"train.precision=fp16,bf16,fp8", "train.fp8_recipe=delayed,current,blockwise",
                      "parallel.dispatcher=alltoall,allgather,deepep,hybridep",
                      "train.recompute_modules=core_attn,moe_act,moe+layernorm"}),
               seed, 200));
  check_bounds(four_gpus(),
               drawn_of(four_gpus(),
                        among({"parallel.hsdp_shard=all,1,2,4", "parallel.zero_hpz=none,2",
                               "train.precision=bf16,fp32", "overlap.tensor=off"}),
                        seed, 200));
}

TEST_CASE("settings of a plan with named keys are the plan") {
  Names stated = kExperts;  // what some of the plans do not go with
  stated.insert(stated.end(), {"train.precision=fp8", "train.amax_reduction=tensor"});
  const Scenario base = four_gpus(stated);
  const Space space = among(
      {"train.precision=bf16,fp8,fp16", "train.fp8_recipe=delayed,current",
       "parallel.dispatcher=alltoall,deepep", "train.recompute_modules=core_attn,moe_act+layernorm",
       "parallel.hsdp_shard=all,2", "parallel.zero_hpz=none,2", "parallel.micro_batch=2"});
  for (const Candidate& plan : drawn_of(base, space, 11, 25)) {
    INFO(plan_text(plan));
    Names sets = kPlaced;
    sets.insert(sets.end(), stated.begin(), stated.end());
    for (const auto& [key, value] : plan_settings(plan)) sets.push_back(key + "=" + value);
    const Scenario loaded = load(kSmall, sets).front();
    CHECK(loaded.costs.calibrated == scenario_with(base, plan).costs.calibrated);
    CHECK(loaded.costs.model_name == scenario_with(base, plan).costs.model_name);
    CHECK(loaded.costs.interval == scenario_with(base, plan).costs.interval);
    const auto written = simulate(loaded, Engine::Ideal);
    const auto built = simulate(scenario_with(base, plan), Engine::Ideal);
    REQUIRE((written.ok() && built.ok()));
    CHECK(written->iteration_s == built->iteration_s);
    CHECK(written->training->memory.total == built->training->memory.total);
  }
}

// One layer of a stage's is recomputed, or all are. 8 layers on 2 x 2 stages: every other one.
TEST_CASE("the search tries the scenario's number of recomputed layers, and all") {
  const Names stated = {"train.recompute=full", "train.recompute_layers=1",
                        "train.activation_offload_layers=1", "cluster.memory_GiB=8"};
  const Scenario base = four_gpus(stated);
  const Space space = among({"overlap.tensor=off", "parallel.cp=1", "parallel.vpp=1,2",
                             "parallel.micro_batch=1,4", "train.recompute=none,full"});
  check_against_all(base, space);
  std::set<int> layers;
  for (const Candidate& plan : drawn_of(base, space, 7, 25)) {
    INFO(plan_text(plan));
    layers.insert(plan_of(base, plan).recompute_layers);
    CHECK(plan_of(base, plan).offload_layers == 1);
    Names sets = kPlaced;
    sets.insert(sets.end(), stated.begin(), stated.end());
    for (const auto& [key, value] : plan_settings(plan)) sets.push_back(key + "=" + value);
    const auto written = simulate(load(kSmall, sets).front(), Engine::Ideal);
    const auto built = simulate(scenario_with(base, plan), Engine::Ideal);
    REQUIRE((written.ok() && built.ok()));
    CHECK(written->iteration_s == built->iteration_s);
    CHECK(written->training->memory.total == built->training->memory.total);
  }
  CHECK(layers == std::set<int>{-1, 1});
  for (const Candidate& plan : all_of(base, space.run_by(**framework_named("torchtitan"))))
    CHECK(plan_of(base, plan).recompute_layers == -1);
  const auto tuned = tune(base, space, {.keep = 1, .engine = Engine::Ideal});
  REQUIRE(tuned.ok());
  CHECK(tuned->cleared.empty());
}

// Two of eight layers a stage recomputed take a quarter of what recomputing all takes more.
TEST_CASE("stages of which some layers are recomputed take the time of both kinds") {
  const Scenario base = four_gpus({"train.recompute=full", "train.recompute_layers=2"});
  StageLevel level = level_of(base);
  const auto iteration = [&](Recompute recompute, int layers) {
    const Candidate plan = {
        {.dp = 4, .micro_batch = 4, .recompute = recompute, .recompute_layers = layers},
        {"none", false},
        {}};
    const auto order = level.order_of(plan);
    REQUIRE(order.ok());
    const auto played = level.play(plan, *order);
    REQUIRE(played.ok());
    return static_cast<double>(*played);
  };
  const double none = iteration(Recompute::None, kAsScenario);
  const double all = iteration(Recompute::Full, kAllLayers);
  REQUIRE(all > none);
  CHECK(iteration(Recompute::Full, 2) - none == Approx((all - none) / 4).epsilon(1e-3));
}

TEST_CASE("a plan leaves out what the scenario says of a cut that the search chooses") {
  const Scenario base = four_gpus({"train.zero=1", "parallel.hsdp_shard=2"});
  const TuneOptions options{.keep = 1, .engine = Engine::Ideal};
  const Names few = {"parallel.pp=1", "parallel.cp=1", "parallel.micro_batch=1",
                     "train.recompute=none"};
  const auto left = tune(base, among(few), options);
  REQUIRE(left.ok());
  CHECK(std::ranges::count(left->cleared, "parallel.hsdp_shard") == 0);
  Names chosen = few;
  chosen.emplace_back("parallel.hsdp_shard=all,2");
  const auto named = tune(base, among(chosen), options);
  REQUIRE(named.ok());
  CHECK(std::ranges::count(named->cleared, "parallel.hsdp_shard") == 1);
}

TEST_CASE("values of named keys that are none are refused by name") {
  CHECK(refused("train.precision=fp9").find("nearest is 'fp8'") != std::string::npos);
  CHECK(refused("parallel.dispatcher=deep").find("nearest is 'deepep'") != std::string::npos);
  CHECK(refused("train.recompute_modules=core").find("joined by '+'") != std::string::npos);
  CHECK(refused("train.recompute_modules=mlp++moe").find("joined by '+'") != std::string::npos);
  CHECK(refused("parallel.hsdp_shard=none").find("all or a whole number") != std::string::npos);
  CHECK(refused("parallel.zero_hpz=0").find("none or a whole number") != std::string::npos);
  const Scenario a100 = load(kSmall).front();
  const auto tuned = tune(a100, among({"train.precision=bf16,nvfp4"}), {.engine = Engine::Ideal});
  REQUIRE(!tuned.ok());
  CHECK(tuned.error().text().find("--among: train.precision") != std::string::npos);
}

TEST_CASE("mxfp8 is searched on GPUs alone whose tensor cores have it") {
  const Names fp8 = {"train.precision=fp8", "cluster.preset=dgx-h100"};
  const Names named = {"train.fp8_recipe=current,mxfp8", "parallel.tp=1", "parallel.pp=1"};
  const auto recipes = [&](const Scenario& base) {
    std::set<Fp8Recipe> found;
    for (const Layout& cut : among(named).cuts(base))
      found.insert(plan_of(base, {.layout = cut}).fp8_recipe);
    return found;
  };
  const Scenario h100 = four_gpus(fp8);
  const Scenario b200 = four_gpus({fp8[0], "cluster.preset=dgx-b200"});
  CHECK(recipes(h100) == std::set{Fp8Recipe::Current});
  CHECK(recipes(b200) == std::set{Fp8Recipe::Current, Fp8Recipe::Mxfp8});
  const auto tuned = tune(h100, among(named), {.engine = Engine::Ideal});
  REQUIRE(!tuned.ok());
  CHECK(tuned.error().kind == Error::BadInput);
  CHECK(tuned.error().text() ==
        "--among: found train.fp8_recipe = mxfp8, which tensor cores of H100-SXM5-80GB do not "
        "have, expected delayed, current, blockwise or rowwise");
  // What the scenario states a framework refuses.
  const Candidate plan = {{.dp = 4}, {"none", false}, {2, true, true}};
  for (const char* framework : {"megatron", "torchtitan"}) {
    const auto broken = [&](const char* preset) {
      const Scenario own = four_gpus({fp8[0], "train.fp8_recipe=mxfp8", preset});
      return broken_rule(**framework_named(framework), own, plan);
    };
    CHECK(broken("cluster.preset=dgx-h100") == "mxfp8 on tensor cores that have it only");
    CHECK(broken("cluster.preset=dgx-b200").empty());
  }
}

}  // namespace
}  // namespace tandem
