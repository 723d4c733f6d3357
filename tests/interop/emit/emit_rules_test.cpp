// What is emitted starts: random plans that tune may return keep the rules of the frameworks' own
// checks, and a text that breaks a rule is caught.
#include <fmt/format.h>
#include <algorithm>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <vector>

#include "interop/emit/emit.h"
#include "planning/tune/frameworks.h"
#include "tests/interop/emit/emit_rules.h"
#include "tests/scenarios/small_scenario.h"
#include "tests/seed.h"

namespace tandem {
namespace {

// TANDEM_RANDOM_PLANS where it is set, else so many plans a framework.
int random_plans() {
  const char* const text = std::getenv("TANDEM_RANDOM_PLANS");
  return text == nullptr ? 200 : std::atoi(text);
}

// Models of which each has something that some plans cannot be told: layers that stages do not
// divide, experts, scans, long sequences.
const std::vector<Names> kModels = {
    {"model.layers=32", "model.hidden=4096", "model.heads=32", "model.kv_heads=8",
     "model.ffn_hidden=14336", "model.gated_mlp=true", "model.seq=8192", "model.vocab=128256",
     "cluster.gpus=64", "parallel.global_batch=256"},
    {"model.layers=32", "model.hidden=4096", "model.heads=32", "model.kv_heads=8",
     "model.ffn_hidden=14336", "model.gated_mlp=true", "model.seq=4096", "model.vocab=32000",
     "model.experts=8", "model.top_k=2", "cluster.gpus=64", "parallel.global_batch=512"},
    {"model.layers=94", "model.hidden=4096", "model.heads=64", "model.kv_heads=4",
     "model.ffn_hidden=12288", "model.gated_mlp=true", "model.seq=4096", "model.vocab=151936",
     "model.experts=128", "model.top_k=8", "model.expert_ffn_hidden=1536", "cluster.gpus=128",
     "parallel.global_batch=512"},
    {"model.layers=61", "model.hidden=4096", "model.heads=64", "model.kv_heads=8",
     "model.ffn_hidden=12288", "model.gated_mlp=true", "model.seq=4096", "model.vocab=129280",
     "model.mtp_layers=1", "cluster.gpus=64", "parallel.global_batch=256"},
    {"model.layers=48", "model.hidden=2048", "model.heads=16", "model.kv_heads=2",
     "model.ffn_hidden=5120", "model.gated_mlp=true", "model.seq=32768", "model.vocab=151936",
     "cluster.gpus=64", "parallel.global_batch=128"},
    {"model.layers=24", "model.hidden=2048", "model.heads=16", "model.kv_heads=8",
     "model.ffn_hidden=8192", "model.seq=4096", "model.vocab=32000",
     "model.pattern=\"(scan + dense + scan + core)*6\"", "model.kinds.scan.mixer=\"mamba\"",
     "model.kinds.scan.mamba_heads=32", "model.kinds.scan.mamba_head_dim=64",
     "model.kinds.scan.mamba_state=128", "model.kinds.scan.mamba_groups=8",
     "model.kinds.scan.mlp=false", "model.kinds.dense.mixer=\"none\"", "model.kinds.core.mlp=false",
     "cluster.gpus=32", "parallel.global_batch=64", "parallel.cp_comm=\"all_to_all\""}};

// Keys whose values a plan must find in the file. DeepSpeed's pipelines are in the model's code.
constexpr std::string_view kWritten[] = {
    "parallel.tp",         "parallel.cp", "parallel.ep",    "parallel.vpp",           "train.zero",
    "parallel.hsdp_shard", "parallel.pp", "schedule.order", "train.sequence_parallel"};

// Settings of which a draw has some.
const std::vector<Names> kSettings = {
    {"train.precision=\"fp8\""},
    {"train.precision=\"fp8\"", "train.fp8_param_gather=true"},
    {"train.precision=\"fp8\"", "train.fp8_recipe=\"mxfp8\"", "train.fp8_param_gather=true",
     "cluster.preset=\"dgx-b200\""},
    {"train.fp8_param_gather=true"},
    {"train.precision=\"fp8\"", "train.flash_attention=true", "train.fp8_attention=true"},
    {"train.optimizer_offload=0.5"},
    {"train.optimizer_dtype=\"bf16\""},
    {"train.param_remainders=true", "train.zero=1"},
    {"train.optimizer=\"muon\""},
    {"train.optimizer=\"muon\"", "train.muon_tp=\"blockwise\"", "train.zero=1"},
    {"train.cuda_graphs=true"},
    {"train.cuda_graphs=true", "train.cuda_graph_scope=\"attn\""},
    {"overlap.expert=true"},
    {"overlap.expert=true", "train.recompute_modules=\"moe\""},
    {"train.gradient_dtype=\"bf16\""},
    {"train.flash_attention=true"},
    {"parallel.cp_comm=\"all_gather\""},
    {"parallel.cp_comm=\"all_to_all\""},
    {"train.cross_entropy=\"unfused\""},
    {"train.cross_entropy=\"te\""},
    {"train.activation_offload_modules=\"core_attn, attn_proj, moe_act\""},
    {"train.activation_offload_modules=\"fused_group_mlp\"", "train.cuda_graphs=true"},
    {"train.activation_offload_layers=4"},
    {"train.activation_offload_layers=4", "train.cuda_graphs=true"}};

// Values that a user may name for a search.
const std::vector<Names> kAmong = {
    {},
    {},
    {"parallel.pp=2,4,8"},
    {"train.zero=0,1,2,3"},
    {"train.zero=2,3", "parallel.pp=1"},
    {"parallel.ep=2,4,8", "parallel.dispatcher=alltoall,allgather,deepep"},
    {"train.recompute=selective", "train.recompute_modules=core_attn,moe,moe_act+layernorm,mlp"},
    {"train.precision=bf16,fp8", "train.fp8_recipe=delayed,current,blockwise,mxfp8"},
    {"parallel.hsdp_shard=all,8", "train.zero=1,3"},
    {"parallel.zero_hpz=none,8"},
    {"parallel.vpp=2,3,6,17,25"}};

std::string without_quotes(std::string text) {
  std::erase(text, '"');
  return text;
}

// A scenario, and the settings that it was made of.
struct Base {
  Scenario scenario;
  PlanSettings settings;
};

std::optional<Base> try_base(const Names& settings) {
  const Folder folder;
  Names all = {"cluster.preset=\"dgx-h100\""};
  all.insert(all.end(), settings.begin(), settings.end());
  auto scenarios = try_load(folder, "[parallel]\n", all);
  if (!scenarios.ok()) return std::nullopt;
  Base base{std::move(scenarios->front()), {}};
  for (const std::string& setting : all) {
    const std::size_t equals = setting.find('=');
    base.settings[setting.substr(0, equals)] = without_quotes(setting.substr(equals + 1));
  }
  return base;
}

// What the script's other flags say, and the sizes that a format leaves to it.
void add_script(const Base& base, const Candidate& plan, Fields* fields) {
  const Model& model = base.scenario.job.model;
  const auto set = [&](const std::string& name, long long value) {
    (*fields)["script." + name] = std::to_string(value);
  };
  set("layers", model.layers);
  set("heads", model.layer(model.layers - 1).heads);
  set("kv_heads", model.layer(model.layers - 1).key_value_heads());
  set("seq", model.seq);
  set("experts", model.experts);
  set("gpus", base.scenario.cluster.gpus);
  set("gpus_per_node", base.scenario.cluster.spec.gpus_per_node);
  set("pp", plan.layout.pp);
  const bool scans = std::ranges::any_of(
      model.kinds, [](const Model& kind) { return kind.mixer == Mixer::Mamba; });
  if (!scans) return;
  std::string& pattern = (*fields)["script.hybrid"];
  for (int i = 0; i < model.layers; ++i)
    pattern += model.layer(i).mixer == Mixer::Mamba ? 'M' : model.layer(i).has_mlp ? '-' : '*';
}

std::string emitted(const std::string& framework, const Base& base, const Candidate& plan) {
  PlanSettings settings = base.settings;
  for (const auto& [key, value] : facts_for_flags(base.scenario)) settings[key] = value;
  for (const auto& [key, value] : plan_settings(plan)) settings[key] = value;
  const auto text = emit_plan(framework, settings);
  REQUIRE(text.ok());
  return *text;
}

std::vector<const EmitRule*> rules_of(const std::string& framework) {
  std::vector<const EmitRule*> rules;
  for (const std::span<const EmitRule> table : {megatron_rules(), trainer_rules()}) {
    for (const EmitRule& rule : table) {
      std::istringstream words{std::string(rule.frameworks)};
      for (std::string word; words >> word;) {
        if (word == framework) rules.push_back(&rule);
      }
    }
  }
  return rules;
}

// Draws a plan that the framework's search may return; nothing where this try finds none.
std::optional<Candidate> drawn(const Base& base, const Space& space, std::mt19937* random) {
  const auto one_of = [&](const auto& values) { return values[(*random)() % values.size()]; };
  const std::vector<Layout> cuts = space.cuts(base.scenario);
  for (int i = 0; i < 30 && !cuts.empty(); ++i) {
    const std::vector<Layout> layouts = space.layouts(base.scenario, one_of(cuts));
    if (layouts.empty()) continue;
    const Layout layout = one_of(layouts);
    const std::vector<Playing> playings = space.playings(base.scenario, layout);
    if (playings.empty()) continue;
    const Playing playing = one_of(playings);
    const std::vector<Sharing> sharings = space.sharings(base.scenario, layout, playing);
    if (!sharings.empty()) return Candidate{layout, playing, one_of(sharings)};
  }
  return std::nullopt;
}

// A plan of 64 GPUs, 16 microbatches and 32 layers that has something of everything.
PlanSettings good_plan(const std::string& framework) {
  PlanSettings plan = {{"parallel.tp", "2"},
                       {"parallel.pp", "4"},
                       {"parallel.vpp", "2"},
                       {"parallel.ep", "4"},
                       {"parallel.expert_tp", "1"},
                       {"parallel.micro_batch", "1"},
                       {"parallel.global_batch", "64"},
                       {"schedule.order", "interleaved"},
                       {"overlap.p2p", "true"},
                       {"overlap.grad_reduce", "true"},
                       {"train.sequence_parallel", "true"},
                       {"train.zero", "1"},
                       {"model.layers", "32"},
                       {"model.experts", "8"},
                       {"model.seq", "8192"},
                       {"cluster.gpus", "64"},
                       {"cluster.gpus_per_node", "8"}};
  if (framework == "torchtitan") {
    plan["train.zero"] = "3";
    plan["overlap.tensor"] = "ring";
  } else if (framework == "deepspeed") {
    for (const char* key : {"tp", "pp", "vpp"}) plan["parallel." + std::string(key)] = "1";
    plan["train.zero"] = "2";
    plan["parallel.global_batch"] = "128";
  } else if (framework == "fsdp") {
    for (const char* key : {"pp", "vpp", "ep"}) plan["parallel." + std::string(key)] = "1";
    plan["train.zero"] = "3";
  } else {
    plan["parallel.cp"] = "2";
    plan["overlap.expert"] = "true";
    if (framework == "chatlearn") return plan;
    plan["overlap.param_gather"] = "true";
    plan["overlap.tensor"] = "ring";
    plan["overlap.delay_wgrad"] = "true";
    plan["train.precision"] = "fp8";
    plan["train.fp8_recipe"] = "current";
    plan["train.fp8_param_gather"] = "true";
    plan["train.optimizer_dtype"] = "bf16";
  }
  return plan;
}

Fields good_fields(const std::string& framework) {
  const auto text = emit_plan(framework, good_plan(framework));
  REQUIRE(text.ok());
  Fields fields = fields_of(framework, *text);
  for (const auto& [name, value] : {std::pair{"layers", "32"},
                                    {"heads", "32"},
                                    {"kv_heads", "8"},
                                    {"seq", "8192"},
                                    {"experts", "8"},
                                    {"gpus", "64"},
                                    {"gpus_per_node", "8"}})
    fields["script." + std::string(name)] = value;
  return fields;
}

}  // namespace

TEST_CASE("plans that tune may return are emitted as the frameworks' rules want them") {
  const unsigned seed = test_seed();
  for (const Framework& framework : frameworks()) {
    const std::string name(framework.name);
    const std::vector<const EmitRule*> rules = rules_of(name);
    std::mt19937 random(seed);
    std::set<std::string> kinds;
    int plans = 0, tries = 0, broken = 0;
    while (plans < random_plans() && broken < 10) {
      REQUIRE(++tries < 20 * random_plans());
      Names settings = kModels[random() % kModels.size()];
      for (int i = static_cast<int>(random() % 4); i > 0; --i)
        for (const std::string& one : kSettings[random() % kSettings.size()])
          settings.push_back(one);
      const auto base = try_base(settings);
      if (!base) continue;
      const auto among = Space::among(kAmong[random() % kAmong.size()]);
      REQUIRE(among.ok());
      const Space space = among->run_by(framework);
      // Several plans of one scenario, as loading it takes longest.
      for (int i = 0; i < 5 && plans < random_plans(); ++i) {
        const auto plan = drawn(*base, space, &random);
        if (!plan) break;
        ++plans;
        kinds.insert(plan_text(*plan));
        const std::string text = emitted(name, *base, *plan);
        Fields fields = fields_of(name, text);
        add_script(*base, *plan, &fields);
        for (const EmitRule* rule : rules) {
          const bool holds = rule->holds(fields);
          if (!holds) ++broken;
          INFO("seed " << seed << ", plan " << plans << ": " << rule->what << "\n" << text);
          CHECK(holds);
        }
        for (const std::string_view key : kWritten) {
          if (key == "parallel.pp" && name == "deepspeed") continue;
          INFO("seed " << seed << ", plan " << plans << ": " << text);
          CHECK(text.find(fmt::format("{} = ", key)) == std::string::npos);
        }
      }
    }
    std::cout << name << ": " << plans << " plans, " << kinds.size() << " of them different, "
              << rules.size() << " rules, " << broken << " broken, seed " << seed << '\n';
    CHECK(plans == random_plans());
  }
}

TEST_CASE("each rule, broken once on purpose, is caught") {
  for (const RuleVersion& version : kVersions) {
    const std::string name(version.framework);
    if (name.empty()) continue;
    const Fields good = good_fields(name);
    int caught = 0;
    for (const EmitRule* rule : rules_of(name)) {
      INFO(name << ": " << rule->what << " (" << rule->file << ":" << rule->lines << ")");
      CHECK(rule->holds(good));
      Fields fields = good;
      std::istringstream edits{std::string(rule->broken)};
      for (std::string edit; edits >> edit;) {
        const std::size_t equals = edit.find('=');
        const std::string value = edit.substr(equals + 1);
        if (value.empty()) fields.erase(edit.substr(0, equals));
        if (!value.empty()) fields[edit.substr(0, equals)] = value;
      }
      CHECK_FALSE(rule->holds(fields));
      caught += rule->holds(fields) ? 0 : 1;
    }
    std::cout << name << ": " << caught << " planted faults caught\n";
  }
}

TEST_CASE("experts are not overlapped beside Transformer Engine's graphs of MLPs or experts") {
  PlanSettings plan = good_plan("nemo");
  plan["train.cuda_graphs"] = "true";
  const auto fields = [&plan](const char* framework) {
    const auto text = emit_plan(framework, plan);
    REQUIRE(text.ok());
    const bool is_left =
        text->find("overlap.expert = true: with a train.cuda_graph_scope without mlp and moe") !=
        std::string::npos;
    const Fields found = fields_of(framework, *text);
    CHECK(is_left != found.on("overlap_moe_expert_parallel_comm"));
    return found;
  };
  for (const char* scope : {"", "mlp", "attn, moe", "attn, moe_router, moe_preprocess"}) {
    INFO(scope);
    plan["train.cuda_graph_scope"] = scope;
    if (*scope == '\0') plan.erase("train.cuda_graph_scope");
    const Fields nemo = fields("nemo");
    CHECK(nemo.text("cuda_graph_impl") == "transformer_engine");
    CHECK(nemo.on("overlap_moe_expert_parallel_comm") == (std::string(scope).size() > 10));
    CHECK(nemo.on("delay_wgrad_compute") == nemo.on("overlap_moe_expert_parallel_comm"));
    CHECK(fields("megatron").on("overlap_moe_expert_parallel_comm"));  // its own graphs
  }
}

// "Unsupported quantizer for Userbuffers": they take fp8 with delayed, current and mxfp8 scales.
TEST_CASE("tensor overlap goes with neither nvfp4 nor blockwise scales") {
  const auto base = try_base({"model.layers=32", "model.hidden=4096", "model.heads=32",
                              "model.seq=8192", "model.vocab=32000", "cluster.gpus=64",
                              "parallel.global_batch=256", "cluster.preset=\"dgx-b200\""});
  REQUIRE(base);
  for (const char* name : {"megatron", "nemo"}) {
    const auto overlaps = [&](const char* precision, const char* recipe) {
      INFO(name << " " << precision << " " << recipe);
      PlanSettings plan = {{"parallel.tp", "2"},
                           {"train.sequence_parallel", "true"},
                           {"overlap.tensor", "ring"},
                           {"train.precision", precision},
                           {"train.fp8_recipe", recipe}};
      const auto text = emit_plan(name, plan);
      REQUIRE(text.ok());
      const bool is_told = fields_of(name, *text).on("tp_comm_overlap");
      CHECK(is_told == (text->find("overlap.tensor = ring: neither in") == std::string::npos));
      Scenario scenario = base->scenario;
      scenario.job.plan.precision = precision;
      if (std::string(recipe) == "blockwise") scenario.job.plan.fp8_recipe = Fp8Recipe::Blockwise;
      Candidate tried = {{.tp = 2, .dp = 32, .sequence_parallel = true}, {"none", false}, {}};
      tried.layout.tensor = TensorMethod::Ring;
      CHECK(is_told == broken_rule(**framework_named(name), scenario, tried).empty());
      return is_told;
    };
    CHECK_FALSE(overlaps("fp8", "blockwise"));
    CHECK_FALSE(overlaps("nvfp4", "delayed"));
    CHECK(overlaps("fp8", "delayed"));
    CHECK(overlaps("bf16", "blockwise"));
  }
}

TEST_CASE("an optimizer of which no share is offloaded is emitted as one on the GPU") {
  for (const char* name : {"megatron", "nemo"}) {
    const auto emits_offload = [&](const char* share) {
      const auto text = emit_plan(name, {{"train.zero", "1"}, {"train.optimizer_offload", share}});
      REQUIRE(text.ok());
      return fields_of(name, *text).on("optimizer_cpu_offload");
    };
    CHECK_FALSE(emits_offload("0"));
    CHECK(emits_offload("0.5"));
  }
}

TEST_CASE("plans with latent attention overlap no tensor communication, as TELinear allows none") {
  for (const bool latent : {false, true}) {
    Names keys = {"model.layers=32",
                  "model.hidden=4096",
                  "model.heads=32",
                  "model.seq=8192",
                  "model.vocab=32000",
                  "cluster.gpus=64",
                  "cluster.preset=\"dgx-h100\"",
                  "parallel.global_batch=256"};
    if (latent)
      keys.insert(keys.end(),
                  {"model.mixer=\"latent\"", "model.kv_lora_rank=512", "model.qk_nope_head_dim=128",
                   "model.qk_rope_head_dim=64", "model.v_head_dim=128"});
    const auto base = try_base(keys);
    REQUIRE(base);
    Candidate tried = {{.tp = 2, .dp = 32, .sequence_parallel = true}, {"none", false}, {}};
    const auto broken = [&] {
      return broken_rule(**framework_named("megatron"), base->scenario, tried);
    };
    CHECK(broken().empty());
    tried.layout.tensor = TensorMethod::Ring;
    CHECK(broken() == (latent ? "overlap.tensor without latent attention" : ""));
  }
}

// Megatron-LM refuses it of other models (core/transformer/transformer_config.py).
TEST_CASE("the up-projection of latent attention is recomputed where there is one") {
  for (const char* format : {"megatron", "nemo", "chatlearn"}) {
    const auto is_told = [format](PlanSettings plan, std::string_view words) {
      plan["train.recompute"] = "selective";
      const auto text = emit_plan(format, plan);
      REQUIRE(text.ok());
      const bool has_note =
          text->find("mla_up_proj is of latent attention alone") != std::string::npos;
      return std::pair(text->find(words) != std::string::npos, has_note);
    };
    const std::string key = "train.recompute_modules";
    const PlanSettings both = {{key, "mla_up_proj, mlp"}}, one = {{key, "mla_up_proj"}};
    CHECK(is_told(both, "mlp").second);
    const char* list =
        format == std::string_view("megatron") ? "mla_up_proj mlp" : "[mla_up_proj, mlp]";
    CHECK_FALSE(is_told(both, list).first);
    CHECK(is_told(both, "granularity selective").first !=
          is_told(both, "granularity: selective").first);
    CHECK_FALSE(is_told(one, "granularity selective").first);
    CHECK_FALSE(is_told(one, "granularity: selective").first);
    for (const char* mixer : {"model.mixer", "model.kinds.dense.mixer"}) {
      PlanSettings latent = both;
      latent[mixer] = "latent";
      CHECK(is_told(latent, list) == std::pair(true, false));
    }
  }
}

TEST_CASE("modules of selective recompute are told as lost where there is selective recompute") {
  for (const char* format : {"deepspeed", "fsdp", "torchtitan"}) {
    const auto is_lost = [format](const char* recompute) {
      const auto text =
          emit_plan(format, {{"train.recompute", recompute}, {"train.recompute_modules", "mlp"}});
      REQUIRE(text.ok());
      return text->find("train.recompute_modules") != std::string::npos;
    };
    CHECK(is_lost("selective"));
    CHECK_FALSE(is_lost("none"));
    CHECK_FALSE(is_lost("full"));
  }
}

TEST_CASE("emitted texts name the versions that their rules were read from") {
  for (const RuleVersion& version : kVersions) {
    if (version.framework.empty()) continue;
    const auto text = emit_plan(std::string(version.framework), {{"parallel.tp", "2"}});
    REQUIRE(text.ok());
    INFO(*text);
    CHECK(text->find(fmt::format("{} {} of {}", version.repository, version.commit.substr(0, 8),
                                 version.date)) != std::string::npos);
  }
}

// AutoTP and Transformers' plans all-reduce between tensor ranks (DeepSpeed edaa7221,
// module_inject/layers.py: LinearAllreduce), so that each of them holds whole sequences.
TEST_CASE("tensor ranks of DeepSpeed and Accelerate do not cut sequences") {
  const auto base = try_base(kModels[0]);
  REQUIRE(base);
  const auto breaks = [&](const char* name, const Candidate& plan) {
    return broken_rule(**framework_named(name), base->scenario, plan);
  };
  Candidate plan = {{.dp = 32}, {"none", false}, {3, true, true}};
  plan.layout.tp = 2;
  for (const char* name : {"deepspeed", "fsdp", "torchtitan"}) CHECK(breaks(name, plan).empty());
  plan.layout.sequence_parallel = true;
  for (const char* name : {"deepspeed", "fsdp"})
    CHECK(breaks(name, plan) == "train.sequence_parallel = false");
  CHECK(breaks("torchtitan", plan).empty());
  CHECK(framework_named("fsdp").value()->loss == "unfused");  // Transformers'
}

TEST_CASE("DeepSpeed's stage 3 gathers ahead, and torchtitan's context ranks shard") {
  const auto base = try_base(kModels[0]);
  const auto gathered = try_base({"model.layers=32", "model.hidden=4096", "model.heads=32",
                                  "model.seq=8192", "model.vocab=32000", "cluster.gpus=64",
                                  "parallel.global_batch=256", "parallel.cp_comm=\"all_gather\""});
  REQUIRE((base && gathered));
  const Candidate late = {{.dp = 64}, {"none", false}, {3, true, false}};
  CHECK(broken_rule(**framework_named("deepspeed"), base->scenario, late) ==
        "overlap.param_gather with ZeRO 3, and always there");
  Candidate context = {{.dp = 32}, {"none", false}, {0, true, false}};
  context.layout.cp = 2;
  CHECK(broken_rule(**framework_named("torchtitan"), gathered->scenario, context) ==
        "cp > 1 with ZeRO only");
  context.sharing = {3, true, true};
  for (const char* name : {"fsdp", "torchtitan"}) {
    CHECK(broken_rule(**framework_named(name), gathered->scenario, context).empty());
    CHECK_FALSE(broken_rule(**framework_named(name), base->scenario, context).empty());
  }
}

TEST_CASE("stages without a layer are in no plan of Megatron-LM's") {
  const auto base = try_base(kModels[1]);
  REQUIRE(base);
  const auto space = Space::among({"parallel.pp=2", "parallel.vpp=17"});
  REQUIRE(space.ok());
  for (const char* name : {"megatron", "nemo", "chatlearn", "torchtitan"}) {
    const Space narrow = space->run_by(**framework_named(name));
    for (const Layout& cut : narrow.cuts(base->scenario))
      CHECK(narrow.layouts(base->scenario, cut).empty());
  }
}

}  // namespace tandem
