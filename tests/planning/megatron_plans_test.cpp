// Plans for Megatron-LM: when parameters are gathered, what CUDA graphs hold, and what its flags
// need to know of a model.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "planning/tune/frameworks.h"
#include "planning/tune/tune.h"
#include "tests/planning/stage_plans.h"
#include "tests/text.h"

namespace tandem {
namespace {

const Names kFourExperts = {"model.experts=4", "model.top_k=2", "train.sequence_parallel=true"};

// The small model's 16 sequences on 4 GPUs.
Scenario small(const Names& set = {}) {
  Names all = {"cluster.gpus=4", "parallel.dp=1", "cluster.memory_GiB=12"};
  all.insert(all.end(), set.begin(), set.end());
  return load(kSmall, all).front();
}

Scenario small_experts(Names set = {}) {
  set.insert(set.begin(), kFourExperts.begin(), kFourExperts.end());
  return small(set);
}

Space among(const Names& texts) {
  auto space = Space::among(texts);
  REQUIRE(space.ok());
  return *std::move(space);
}

bool is_aligned(const Candidate& plan) {
  const auto settings = plan_settings(plan);
  return std::ranges::find(settings, std::pair<std::string, std::string>(
                                         "overlap.align_param_gather", "false")) == settings.end();
}

// Two stages on a rank. Gathers that are not aligned make the second stage wait for its own.
TEST_CASE("without virtual stages Megatron-LM gathers parameters when they are used") {
  const Space space = among({"parallel.tp=1", "parallel.cp=1", "parallel.pp=1,2",
                             "parallel.vpp=1,2", "parallel.micro_batch=1", "train.zero=1",
                             "train.recompute=none", "overlap.grad_reduce=true"});
  const Scenario base = small({"train.framework=megatron"});
  StageLevel level = level_of(base);
  bool is_slower = false;
  const std::vector<Candidate> plans = all_of(base, space.run_by(**framework_named("megatron")));
  REQUIRE(!plans.empty());
  for (const Candidate& plan : plans) {
    INFO(plan_text(plan));
    const bool aligned = plan.layout.vpp > 1 || !plan.sharing.param_gather;
    CHECK(is_aligned(plan) == aligned);
    CHECK(scenario_with(base, plan).job.data.align_param_gather == aligned);
    Candidate other = plan;
    other.sharing.align_param_gather = true;
    const auto order = level.order_of(plan);
    REQUIRE(order.ok());
    const auto played = level.play(plan, *order), played_other = level.play(other, *order);
    REQUIRE((played.ok() && played_other.ok()));
    CHECK(*played >= *played_other);
    is_slower = is_slower || *played > *played_other;
  }
  CHECK(is_slower);
  check_bounds(base, plans);
  for (const char* other : {"torchtitan", "fsdp", "deepspeed"}) {
    const Scenario scenario = small({std::string("train.framework=") + other});
    for (const Candidate& plan : all_of(scenario, space)) CHECK(is_aligned(plan));
  }
  CHECK_FALSE(is_aligned(
      candidate_of(small({"parallel.dp=2", "parallel.pp=1", "train.zero=1",
                          "overlap.param_gather=true", "overlap.align_param_gather=false"}))));
}

TEST_CASE("the search for Megatron-LM finds what trying every plan finds") {
  check_against_all(small({"train.framework=megatron", "cluster.memory_GiB=4"}),
                    among({"parallel.micro_batch=1,4", "overlap.tensor=off,ring",
                           "parallel.vpp=1,2", "parallel.cp=1,2"}));
}

// Returns why the framework runs no plan of the scenario; empty: it runs some.
std::string why_none(const Scenario& base, const char* framework) {
  const Space narrow = among({"parallel.tp=1", "parallel.pp=1", "parallel.cp=1"})
                           .run_by(**framework_named(framework));
  for (const Layout& cut : narrow.cuts(base)) {
    if (!narrow.layouts(base, cut).empty()) return "";
  }
  return narrow.why_empty(base);
}

// Tokens of an expert vary from one microbatch to the next, which no graph can hold.
TEST_CASE("Megatron-LM has CUDA graphs of experts only in a scope without them, or padded") {
  const std::string graphs = "train.cuda_graphs=true";
  for (const char* framework : {"megatron", "nemo", "chatlearn"}) {
    INFO(framework);
    const std::string why = why_none(small_experts({graphs}), framework);
    INFO(why);
    CHECK(has(why, framework));
    CHECK(has(why,
              " by its rule 'train.cuda_graphs of experts: padded to model.capacity_factor, or a "
              "train.cuda_graph_scope without moe'; all other options allow these"));
    CHECK_FALSE(why_none(small_experts({graphs, "train.cuda_graph_scope=\"attn, moe\""}), framework)
                    .empty());
    for (const Names& set :
         {Names{}, Names{graphs, "train.cuda_graph_scope=\"attn, moe_router, moe_preprocess\""},
          Names{graphs, "model.capacity_factor=1.5", "model.pad_to_capacity=true"}})
      CHECK(why_none(small_experts(set), framework).empty());
    CHECK(why_none(small({graphs}), framework).empty());
  }
  CHECK(why_none(small_experts({graphs}), "torchtitan").empty());
}

// "mlp cuda graph is only supported for dense layers", "moe cuda graph is only supported for MoE".
TEST_CASE("Megatron-LM's scope of CUDA graphs is of parts that the model has") {
  const auto why = [](Scenario (*model)(Names), const std::string& scope, const Names& more = {}) {
    Names set = {"train.cuda_graphs=true", "train.cuda_graph_scope=\"" + scope + '"'};
    set.insert(set.end(), more.begin(), more.end());
    return why_none(model(set), "megatron");
  };
  const auto dense = [](Names set) { return small(set); };
  const std::string rule =
      "by its rule 'train.cuda_graph_scope: mlp with a dense layer, moe or moe_router with experts "
      "and not both, moe_preprocess with moe_router, no head'";
  CHECK(has(why(small_experts, "attn, mlp"), rule));
  CHECK(why(small_experts, "attn, moe_router").empty());
  CHECK(has(why(small_experts, "attn, moe_preprocess"), rule));
  const Names padded = {"model.capacity_factor=1.5", "model.pad_to_capacity=true"};
  CHECK(why(small_experts, "moe", padded).empty());
  CHECK(has(why(small_experts, "moe, moe_router", padded), rule));
  CHECK(why(dense, "attn, mlp").empty());
  CHECK(has(why(dense, "attn, moe_router"), rule));
  CHECK(has(why(dense, "attn, head"), rule));
  const Names mixed = {"model.pattern=(dense + sparse)*4", "model.kinds.sparse.experts=4",
                       "model.kinds.sparse.top_k=2", "train.sequence_parallel=true"};
  CHECK(why(dense, "attn, mlp", mixed).empty());
}

TEST_CASE("Megatron-LM overlaps experts over a pipeline with virtual stages only") {
  const Scenario base = small_experts({"overlap.expert=true"});
  Candidate plan = {{.ep = 2, .expert_tp = 1, .pp = 2, .dp = 2}, {"1f1b", false}, {}};
  for (const char* framework : {"megatron", "nemo"}) {
    plan.layout.vpp = 1;
    plan.playing = {"1f1b", false};
    CHECK(has(broken_rule(**framework_named(framework), base, plan), "and vpp > 1 if pp > 1"));
    CHECK(broken_rule(**framework_named(framework), small_experts(), plan).empty());
    plan.layout.vpp = 2;
    plan.playing = {"interleaved", true};
    CHECK(broken_rule(**framework_named(framework), base, plan).empty());
  }
}

// "CUDA graph scope on moe and mlp is not supported with overlap_moe_expert_parallel_comm", of
// Transformer Engine's graphs, which --emit nemo writes; --emit megatron writes local ones.
TEST_CASE("NeMo overlaps experts beside graphs of neither MLPs nor experts only") {
  const Candidate plan = {{.ep = 2, .expert_tp = 1, .dp = 4}, {"none", false}, {}};
  const auto breaks = [&plan](const char* framework, const Names& more) {
    Names set = {"train.cuda_graphs=true", "model.capacity_factor=1.5",
                 "model.pad_to_capacity=true"};
    set.insert(set.end(), more.begin(), more.end());
    return broken_rule(**framework_named(framework), small_experts(set), plan);
  };
  const std::string overlap = "overlap.expert=true";
  const std::string attention = "train.cuda_graph_scope=\"attn, moe_router, moe_preprocess\"";
  for (const Names& whole : {Names{overlap}, Names{overlap, "train.cuda_graph_scope=\"moe\""}}) {
    CHECK(breaks("nemo", whole) ==
          "overlap.expert with train.cuda_graphs: a train.cuda_graph_scope without mlp and moe");
    CHECK(breaks("megatron", whole).empty());
  }
  CHECK(breaks("nemo", {}).empty());
  CHECK(breaks("nemo", {overlap, attention}).empty());
}

TEST_CASE("NeMo gives a rank one stage of a hybrid") {
  const Scenario hybrid =
      small({"model.pattern=(scan + core)*4", "model.kinds.scan.mixer=mamba",
             "model.kinds.scan.mamba_heads=16", "model.kinds.scan.mamba_head_dim=64",
             "model.kinds.scan.mamba_state=64"});
  Candidate plan = {{.pp = 2, .dp = 2, .vpp = 2}, {"interleaved", true}, {}};
  CHECK(broken_rule(**framework_named("nemo"), hybrid, plan) == "a hybrid: vpp = 1");
  CHECK(broken_rule(**framework_named("megatron"), hybrid, plan).empty());
  plan.layout.vpp = 1;
  plan.playing = {"1f1b", false};
  CHECK(broken_rule(**framework_named("nemo"), hybrid, plan).empty());
}

// Without it ZeRO 3 would count DeepSpeed's buffers.
TEST_CASE("a plan's JSON has the framework whose memory and loss it was played with") {
  const Names model = {"parallel.tp=1", "parallel.pp=1", "parallel.dp=4"};
  TuneOptions options{.framework = *framework_named("megatron"),
                      .trainer = trainer_settings(**framework_named("megatron"), small(model)),
                      .keep = 1,
                      .engine = Engine::Ideal};
  Names stated = model;
  for (const auto& [key, value] : options.trainer) stated.push_back(key + "=" + value);
  const Space space = among({"parallel.tp=1", "parallel.pp=1", "parallel.cp=1", "train.zero=3",
                             "parallel.micro_batch=1", "train.recompute=none"});
  const auto tuned = tune(small(stated), space.run_by(*options.framework), options);
  REQUIRE(tuned.ok());
  const nlohmann::ordered_json best = to_json(*tuned)["best"][0];
  Names sets = model;
  for (const auto& [key, value] : best["plan"].items())
    sets.push_back(key + "=" + value.get<std::string>());
  const auto again = simulate(small(sets), Engine::Ideal);
  REQUIRE(again.ok());
  CHECK(again->training->memory.total == best["simulate"]["memory_bytes"]["total"]);
  CHECK(best["plan"]["train.framework"] == "megatron");
  CHECK(best["plan"]["train.cross_entropy"] == "native");
}

TEST_CASE("a search without a plan that fits says which loss its framework has set") {
  const Framework& fsdp = **framework_named("fsdp");
  const TuneOptions options{
      .framework = &fsdp, .trainer = trainer_settings(fsdp, small()), .engine = Engine::Ideal};
  Names stated = {"cluster.memory_GiB=0.01"};
  for (const auto& [key, value] : options.trainer) stated.push_back(key + "=" + value);
  const auto tuned = tune(small(stated), among({"parallel.tp=1"}).run_by(fsdp), options);
  REQUIRE_FALSE(tuned.ok());
  CHECK(has(tuned.error().text(),
            "with train.cross_entropy = unfused, which --framework fsdp sets where the scenario"));
}

TEST_CASE("a search without a plan names the rule that leaves none, though memory would, too") {
  const Framework& megatron = **framework_named("megatron");
  // Stages of 3 layers leave the last of 8 none of 21.
  const Space uneven = among({"parallel.pp=4", "parallel.vpp=2"}).run_by(megatron);
  for (const char* memory : {"0.01", "80"}) {
    const Names set = {"model.layers=21", std::string("cluster.memory_GiB=") + memory};
    const auto tuned = tune(small(set), uneven, {.framework = &megatron, .engine = Engine::Ideal});
    REQUIRE_FALSE(tuned.ok());
    INFO(tuned.error().text());
    CHECK(has(tuned.error().text(), "by its rule 'even cuts fill all stages: others need"));
  }
}

// torchtitan runs any list by module_fqns_per_model_part, Megatron-LM by its layout.
TEST_CASE("a plan that lists its layers breaks no rule of even cuts") {
  const Scenario base =
      small({"model.layers=13", "parallel.tp=1", "parallel.pp=4", "parallel.vpp=2", "parallel.dp=1",
             "schedule.order=interleaved", "parallel.layers_per_stage=[1, 2, 2, 2, 2, 2, 1, 1]"});
  for (const auto& [name, rule] : {std::pair{"torchtitan", "pp x vpp divides the layers"},
                                   std::pair{"megatron", "even cuts fill all stages"}}) {
    const Framework& framework = **framework_named(name);
    const Candidate own = candidate_of(base);
    CHECK(broken_rule(framework, base, own).starts_with(rule));
    INFO(name);
    CHECK(broken_rule(framework, base, own, true).empty());
  }
}

TEST_CASE("a search without a framework says whose memory it counts, where plans differ") {
  const auto assumes = [](const Names& set, const Names& texts) {
    Names all = {"parallel.cp=1", "parallel.micro_batch=1", "overlap.tensor=off"};
    all.insert(all.end(), texts.begin(), texts.end());
    const auto tuned = tune(small(set), among(all), {.keep = 1, .engine = Engine::Ideal});
    REQUIRE(tuned.ok());
    return to_json(*tuned)["assumes"];
  };
  CHECK(assumes({}, {}).is_string());
  CHECK(assumes({"train.framework=megatron"}, {}).is_null());
  CHECK(assumes({}, {"parallel.tp=2"}).is_null());
  CHECK(assumes({}, {"parallel.pp=2,4"}).is_null());
  CHECK(assumes({}, {"train.zero=0,1"}).is_null());
}

TEST_CASE("Megatron-LM's flags know of a model's experts") {
  CHECK(facts_for_flags(small_experts()).at("model.experts") == "4");
  CHECK(facts_for_flags(small()).count("model.experts") == 0);
}

}  // namespace
}  // namespace tandem
