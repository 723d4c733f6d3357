// Plans as tune states them, written for a framework and imported again: what comes back otherwise
// is what the file says it does not express.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "interop/emit/emit.h"
#include "tests/interop/imported.h"
#include "tests/scenarios/small_scenario.h"
#include "workload/memory/trainer.h"

namespace tandem {
namespace {

const std::string kDenseConfig = R"({"model_type": "llama", "hidden_size": 4096,
"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
"intermediate_size": 14336, "max_position_embeddings": 8192,
"vocab_size": 32000, "tie_word_embeddings": false})";
const std::string kExpertsConfig = R"({"model_type": "mixtral", "hidden_size": 4096,
"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
"intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
"max_position_embeddings": 8192, "vocab_size": 32000, "tie_word_embeddings": false})";

// 64 GPUs, 128 sequences. As tune does, a plan states what its search chooses.
const PlanSettings kChosen = {{"model.layers", "32"},
                              {"model.hidden", "4096"},
                              {"model.heads", "32"},
                              {"model.kv_heads", "8"},
                              {"model.ffn_hidden", "14336"},
                              {"model.gated_mlp", "true"},
                              {"model.seq", "8192"},
                              {"model.vocab", "32000"},
                              {"cluster.preset", "dgx-h100"},
                              {"cluster.gpus", "64"},
                              {"parallel.tp", "1"},
                              {"parallel.pp", "1"},
                              {"parallel.cp", "1"},
                              {"parallel.dp", "64"},
                              {"parallel.micro_batch", "1"},
                              {"parallel.global_batch", "128"},
                              {"schedule.order", "none"},
                              {"overlap.p2p", "false"},
                              {"train.flash_attention", "true"},
                              {"train.recompute", "none"},
                              {"train.sequence_parallel", "false"},
                              {"train.zero", "3"},
                              {"overlap.grad_reduce", "true"},
                              {"overlap.param_gather", "true"},
                              {"overlap.tensor", "off"}};
const PlanSettings kExperts = {
    {"model.experts", "8"}, {"model.top_k", "2"}, {"parallel.expert_tp", "1"}};

// A setting of a plan, in effect: defaults are those of scenarios.
struct Effect {
  const char* key;
  std::string (*of)(const Scenario& scenario);
};

template <class T>
std::string shown(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return fmt::format("{}", static_cast<int>(value));
  else
    return fmt::format("{}", value);
}

#define EFFECT(value) [](const Scenario& s) { return shown(value); }
const Effect kEffects[] = {
    {"parallel.tp", EFFECT(s.job.plan.tp)},
    {"parallel.pp", EFFECT(s.job.plan.pp)},
    {"parallel.vpp", EFFECT(s.job.plan.vpp)},
    {"parallel.cp", EFFECT(s.job.plan.cp)},
    {"parallel.ep", EFFECT(s.job.plan.ep)},
    {"parallel.expert_tp", EFFECT(s.job.plan.expert_tensor())},
    {"parallel.micro_batch", EFFECT(s.job.plan.micro_batch)},
    {"parallel.global_batch", EFFECT(s.job.plan.global_batch)},
    {"parallel.cp_comm", EFFECT(s.job.plan.cp > 1 ? s.job.plan.context_comm : ContextComm::Ring)},
    {"parallel.hsdp_shard", EFFECT(s.job.plan.hsdp_shard)},
    {"schedule.order", EFFECT(s.job.plan.pp > 1 ? s.job.order.name : "none")},
    {"train.framework", EFFECT(trainer_of(s.job.plan))},
    {"train.precision", EFFECT(s.job.plan.precision)},
    {"train.gradient_dtype", EFFECT(s.job.plan.gradient_dtype)},
    {"train.optimizer_offload", EFFECT(s.job.plan.optimizer_offload)},
    {"train.flash_attention", EFFECT(s.job.plan.flash_attention)},
    {"train.cross_entropy", EFFECT(logit_bytes(s.job.plan))},
    {"train.recompute", EFFECT(s.job.plan.recompute)},
    {"train.sequence_parallel", EFFECT(s.job.plan.tp > 1 && s.job.plan.sequence_parallel)},
    // In a pipeline ZeRO 2 and 3 communicate alike.
    {"train.zero", EFFECT(s.job.plan.pp > 1 && s.job.plan.zero == 3 ? 2 : s.job.plan.zero)},
    {"train.reshard_after_forward", EFFECT(s.job.plan.gathers_each_pass())},
    {"overlap.grad_reduce", EFFECT(s.job.data.grad_reduce)},
    {"overlap.param_gather", EFFECT(s.job.plan.zero > 0 && s.job.data.param_gather)},
    {"overlap.bucket_MB", EFFECT(s.job.bucket_bytes)},
    {"overlap.tensor", EFFECT(s.job.tensor.method)},
    {"overlap.context", EFFECT(s.job.plan.cp > 1 && s.job.plan.overlap_context)},
    {"overlap.p2p", EFFECT(s.job.plan.pp > 1 && s.job.overlap_p2p.value_or(s.job.plan.vpp > 1))}};
#undef EFFECT

Scenario scenario_of(const PlanSettings& settings) {
  Names names;
  for (const auto& [key, value] : settings) names.push_back(key + "=" + value);
  return load("[parallel]\n", names).front();
}

// The plan with the keys of the file in place of its own. Sizes that only a script has stay.
PlanSettings imported_plan(const std::string& file, const std::string& text,
                           const PlanSettings& plan) {
  const std::string& config = plan.contains("model.experts") ? kExpertsConfig : kDenseConfig;
  const auto read = import_sources({{"config.json", config}, {file, text}}, {.gpus = 64});
  if (!read.ok()) FAIL(read.error().text());
  PlanSettings again;
  for (const char* prefix : {"parallel.", "schedule.", "train.", "overlap."}) {
    for (const auto& [key, value] : keys_of(*read, prefix)) again[key] = value;
  }
  for (const auto& [key, value] : plan) {
    if (key.starts_with("model.") || key.starts_with("cluster.") || key.ends_with("_batch"))
      again.emplace(key, value);
  }
  return again;
}

// Whether the file says that it does not express the key.
bool is_listed(const std::string& text, const std::string& key) {
  if (key == "overlap.bucket_MB" && has(text, "a layer a bucket: ")) return true;
  if (key == "train.zero" && has(text, "not expressed: ZeRO 2: FSDP2")) return true;
  return has(text, key + " = ");
}

// Returns the keys that come back otherwise than in the plan with `changes`, parted by blanks;
// all of them are listed.
std::string lost(const std::string& format, const std::string& file, const PlanSettings& changes) {
  PlanSettings plan = kChosen;
  for (const auto& [key, value] : changes) plan[key] = value;
  const auto text = emit_plan(format, plan);
  if (!text.ok()) FAIL(text.error().text());
  const Scenario before = scenario_of(plan);
  const Scenario after = scenario_of(imported_plan(file, *text, plan));
  std::string keys;
  for (const Effect& effect : kEffects) {
    if (effect.of(before) == effect.of(after)) continue;
    INFO(format << ": " << effect.key << " was " << effect.of(before) << ", is " << effect.of(after)
                << "\n"
                << *text);
    CHECK(is_listed(*text, effect.key));
    keys += (keys.empty() ? "" : " ") + std::string(effect.key);
  }
  return keys;
}

PlanSettings with(PlanSettings settings, const PlanSettings& more) {
  for (const auto& [key, value] : more) settings[key] = value;
  return settings;
}

}  // namespace

TEST_CASE("DeepSpeed's file imports as the plan, but for what it lists") {
  const auto deepspeed = [](const PlanSettings& changes) {
    return lost("deepspeed", "ds_config.json", with({{"train.framework", "deepspeed"}}, changes));
  };
  CHECK(deepspeed({}).empty());
  CHECK(deepspeed({{"parallel.tp", "2"}, {"parallel.dp", "32"}, {"parallel.micro_batch", "2"}})
            .empty());
  CHECK(deepspeed({{"parallel.cp", "2"}, {"parallel.dp", "32"}, {"parallel.cp_comm", "all_to_all"}})
            .empty());
  // Its buckets have 5e8 elements, unless the plan says how many.
  const PlanSettings second = {{"train.zero", "2"}, {"overlap.param_gather", "false"}};
  CHECK(deepspeed(second) == "overlap.bucket_MB");
  CHECK(deepspeed(with(second, {{"overlap.bucket_MB", "200"}})).empty());
  CHECK(deepspeed({{"overlap.param_gather", "false"}}) == "overlap.param_gather");
  CHECK(deepspeed({{"train.cross_entropy", "te"}}) == "train.cross_entropy");
  CHECK(deepspeed({{"train.fused_cross_entropy", "true"}}).empty());  // Transformers holds as much
  CHECK(deepspeed({{"train.flash_attention", "false"}}) == "train.flash_attention");
  CHECK(deepspeed({{"train.recompute", "full"}}) == "train.recompute");
  CHECK(deepspeed({{"train.framework", "megatron"}, {"train.cross_entropy", "te"}}) ==
        "train.framework train.cross_entropy");
}

// runtime/zero/offload_config.py at edaa7221: a ratio with stage 3 only.
TEST_CASE("DeepSpeed offloads the optimizer with ZeRO, and a part of it with stage 3") {
  const auto lost_of = [](const char* zero, const char* share) {
    return lost("deepspeed", "ds_config.json",
                {{"train.framework", "deepspeed"},
                 {"train.zero", zero},
                 {"train.optimizer_offload", share},
                 {"overlap.grad_reduce", "false"},
                 {"overlap.param_gather", zero[0] == '3' ? "true" : "false"}});
  };
  for (const char* zero : {"1", "2", "3"}) CHECK(lost_of(zero, "1").empty());
  CHECK(lost_of("3", "0.5").empty());
  CHECK(lost_of("2", "0.5") == "train.optimizer_offload");
  CHECK(lost_of("0", "1") == "train.optimizer_offload");
}

TEST_CASE("values that look like defaults are listed where the key has another one") {
  const auto lists = [](const char* format, const char* key, const char* value) {
    const auto text = emit_plan(format, with(kChosen, {{key, value}}));
    REQUIRE(text.ok());
    return has(*text, fmt::format("{} = {}", key, value));
  };
  for (const char* format : {"fsdp", "torchtitan"}) {
    INFO(format);
    CHECK(lists(format, "train.optimizer_offload", "1"));
    CHECK(lists(format, "overlap.bucket_MB", "1"));
    CHECK(lists(format, "overlap.shared_experts", "false"));
    CHECK(lists(format, "overlap.align_param_gather", "false"));
    // Defaults are listed by no word.
    CHECK_FALSE(lists(format, "train.optimizer", "adam"));
    CHECK_FALSE(lists(format, "train.optimizer_offload", "0"));
    CHECK_FALSE(lists(format, "overlap.shared_experts", "true"));
    CHECK_FALSE(lists(format, "parallel.vpp", "1"));
  }
}

TEST_CASE("Accelerate's file imports as the plan, but for what it lists") {
  const auto fsdp = [](const PlanSettings& changes) {
    return lost("fsdp", "accelerate.yaml",
                with({{"train.framework", "fsdp"}, {"train.gradient_dtype", "bf16"}}, changes));
  };
  // Transformers' loss is unfused, that of scenarios with train.framework = fsdp is te.
  CHECK(fsdp({}) == "train.cross_entropy");
  CHECK(fsdp({{"train.cross_entropy", "te"}}) == "train.cross_entropy");
  const PlanSettings unfused = {{"train.cross_entropy", "unfused"}};
  CHECK(fsdp(unfused).empty());
  CHECK(fsdp(with(unfused, {{"train.gradient_dtype", "fp32"}})) == "train.gradient_dtype");
  CHECK(fsdp(with(unfused, {{"train.zero", "2"}, {"train.recompute", "full"}})).empty());
  CHECK(fsdp(with(unfused, {{"train.reshard_after_forward", "false"}})) == "train.zero");
  CHECK(fsdp(with(unfused,
                  {{"parallel.tp", "2"}, {"parallel.dp", "32"}, {"parallel.hsdp_shard", "8"}}))
            .empty());
  const PlanSettings context = with(unfused, {{"parallel.cp", "2"}, {"parallel.dp", "32"}});
  CHECK(fsdp(with(context, {{"parallel.cp_comm", "all_gather"}})).empty());
  CHECK(fsdp(context) == "parallel.cp_comm");
}

TEST_CASE("torchtitan's overrides import as the plan, but for what they list") {
  const auto titan = [](const PlanSettings& changes) {
    return lost("torchtitan", "titan.sh", with({{"train.framework", "torchtitan"}}, changes));
  };
  CHECK(titan({}).empty());
  CHECK(titan({{"train.cross_entropy", "te"}}) == "train.cross_entropy");
  CHECK(titan({{"train.zero", "2"}}) == "train.zero");
  PlanSettings tensor = {{"parallel.tp", "8"}, {"parallel.dp", "8"}};
  CHECK(titan(tensor).empty());
  tensor["train.sequence_parallel"] = "true";
  CHECK(titan(with(tensor, {{"overlap.tensor", "ring"}})).empty());
  CHECK(titan(with(tensor, {{"overlap.tensor", "bulk"}})) == "overlap.tensor");
  // Whole replicas reduce layer by layer, as shards do.
  CHECK(titan(with(tensor, {{"train.zero", "0"}, {"overlap.param_gather", "false"}})).empty());
  CHECK(titan({{"parallel.pp", "4"},
               {"parallel.vpp", "2"},
               {"parallel.dp", "16"},
               {"schedule.order", "interleaved"},
               {"overlap.p2p", "true"}})
            .empty());
  // With one replica context ranks alone cut parameters.
  CHECK(
      titan(with(tensor,
                 {{"parallel.cp", "8"}, {"parallel.dp", "1"}, {"parallel.cp_comm", "all_gather"}}))
          .empty());
  CHECK(titan({{"parallel.cp", "2"}, {"parallel.dp", "32"}}) == "parallel.cp_comm");
  // Experts that ep spreads are whole.
  CHECK(titan(with(with(tensor, kExperts), {{"parallel.ep", "8"}})).empty());
}

TEST_CASE("files of Megatron-LM and Megatron-Bridge import as the plan, but for what they list") {
  const PlanSettings zero = {{"train.framework", "megatron"}, {"train.zero", "1"}};
  const PlanSettings piped = with(zero, {{"parallel.tp", "2"},
                                         {"parallel.pp", "4"},
                                         {"parallel.vpp", "2"},
                                         {"parallel.dp", "8"},
                                         {"schedule.order", "interleaved"},
                                         {"overlap.p2p", "true"},
                                         {"train.sequence_parallel", "true"},
                                         {"overlap.tensor", "ring"}});
  const PlanSettings context =
      with(zero, {{"parallel.cp", "2"}, {"parallel.dp", "32"}, {"overlap.context", "true"}});
  for (const auto& [format, file] :
       {std::pair{"megatron", "plan.sh"}, {"nemo", "run_config.yaml"}}) {
    for (const char* loss : {"native", "unfused"}) {
      const PlanSettings stated = {{"train.cross_entropy", loss}};
      CHECK(lost(format, file, with(piped, stated)).empty());
      CHECK(lost(format, file, with(context, stated)) == "overlap.bucket_MB");
    }
    // The short form is Megatron-LM's own kernels, of Megatron-Bridge, too.
    CHECK(lost(format, file, with(piped, {{"train.fused_cross_entropy", "true"}})).empty());
    CHECK(lost(format, file, with(piped, {{"train.fused_cross_entropy", "false"}})).empty());
  }
}

TEST_CASE("torchtitan's stages are listed where the plan has other numbers of layers") {
  PlanSettings plan = with(kChosen, {{"parallel.pp", "2"}, {"schedule.order", "1f1b"}});
  const std::string left = "# not expressed: parallel.layers_per_stage = ";
  for (const char* layers : {"[32]", "[8, 8, 16]"}) {
    plan["parallel.layers_per_stage"] = layers;
    const auto text = emit_plan("torchtitan", plan);
    REQUIRE(text.ok());
    CHECK(has(*text, left + layers));
  }
  plan["parallel.layers_per_stage"] = "[16, 16]";
  const auto even = emit_plan("torchtitan", plan);
  REQUIRE(even.ok());
  CHECK_FALSE(has(*even, left));
  CHECK(has(*even, "    --parallelism.pipeline_parallel_layers_per_stage 16\n"));
}

TEST_CASE("torchtitan's stages of unknown layers are listed where its schedule has others a rank") {
  PlanSettings plan = with(kChosen, {{"parallel.pp", "2"}});
  plan.erase("model.layers");
  const auto lists = [&](const char* order, const char* vpp) {
    plan["schedule.order"] = order;
    plan["parallel.vpp"] = vpp;
    const auto text = emit_plan("torchtitan", plan);
    REQUIRE(text.ok());
    return has(*text, "# not expressed: parallel.vpp = ");
  };
  for (const char* order : {"1f1b", "gpipe"}) {
    CHECK_FALSE(lists(order, "1"));
    CHECK(lists(order, "2"));
  }
  for (const char* order : {"interleaved", "zbv"}) {
    CHECK_FALSE(lists(order, "2"));
    CHECK(lists(order, "3"));
  }
}

}  // namespace tandem
