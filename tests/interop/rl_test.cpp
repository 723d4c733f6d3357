// Files of trainers by reinforcement learning, of which the actor's training is read, and files
// that name others: Primus' YAML.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/interop/imported.h"

using namespace tandem;

namespace {

const std::string kConfig = R"({
"model_type": "llama", "hidden_size": 1024,
"num_hidden_layers": 16, "num_attention_heads": 16, "intermediate_size": 4096,
"vocab_size": 32000, "tie_word_embeddings": false})";

ImportedPlan with_model(const std::vector<ImportSource>& files, std::int64_t gpus = 0) {
  std::vector<ImportSource> sources = {{"config.json", kConfig}};
  sources.insert(sources.end(), files.begin(), files.end());
  const auto plan = import_sources(sources, {.gpus = gpus});
  if (!plan.ok()) FAIL(plan.error().text());
  return *plan;
}

std::string where_of(const ImportedPlan& plan, const std::string& key) {
  const auto found = std::ranges::find(plan.keys, key, &ImportedKey::key);
  return found == plan.keys.end() ? "nowhere" : found->where;
}

const std::string kVerl = R"(set -x
TP=${TP:-2}
DATA=(data.max_prompt_length=1024 data.max_response_length=3072 data.train_batch_size=64)
python3 -m verl.trainer.main_ppo "${DATA[@]}" \
  actor_rollout_ref.model.path=some/model actor_rollout_ref.rollout.n=4 \
  actor_rollout_ref.actor.ppo_mini_batch_size=32 trainer.nnodes=2 trainer.n_gpus_per_node=8 \
)";

}  // namespace

TEST_CASE("verl's actor on Megatron-LM has its sizes, and its batch in answers") {
  const ImportedPlan plan = with_model(
      {{"run.sh", kVerl +
                      "  model_engine=megatron actor_rollout_ref.actor.use_dynamic_bsz=True \\\n"
                      "  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=13000 \\\n"
                      "  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=$TP \\\n"
                      "  actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=4 \\\n"
                      "  +actor_rollout_ref.actor.megatron.override_transformer_config."
                      "recompute_granularity=full \\\n"
                      "  actor_rollout_ref.actor.megatron.param_offload=True\n"}});
  const Keys keys = keys_of(plan);
  CHECK(keys.at("parallel.tp") == "2");
  CHECK(keys.at("parallel.pp") == "4");
  CHECK(where_of(plan, "parallel.pp") == "run.sh:10");
  CHECK(keys.at("cluster.gpus") == "16");
  CHECK(keys.at("model.seq") == "4096");
  CHECK(keys.at("parallel.global_batch") == "128");  // 32 prompts of 4 answers
  // 13000 tokens hold three sequences; a replica has 64, which 2 divides.
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.at("train.recompute") == "\"full\"");
  CHECK(keys.at("train.zero") == "1");
  CHECK(keys.at("train.sequence_parallel") == "true");
  CHECK(keys.at("train.precision") == "\"bf16\"");
  CHECK(where_of(plan, "train.precision") == "run.sh");  // verl's default
  CHECK(keys.count("overlap.batch_p2p") == 0);
  CHECK(mentions(plan.not_expressed, "rollouts and models beside the actor"));
  CHECK(mentions(plan.not_expressed, "of which a step of verl has 2"));
  CHECK(mentions(plan.not_expressed, "param_offload = true"));
  CHECK(mentions(plan.assumed, "run.sh:5: the model is some/model"));
  CHECK(plan.not_understood.empty());
}

TEST_CASE("verl's actor on FSDP cuts all, unless its settings say less") {
  const std::string micro = "  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2";
  const Keys keys = keys_of(with_model({{"run.sh", kVerl + micro + "\n"}}));
  CHECK(keys.at("train.zero") == "3");
  CHECK(keys.at("train.recompute") == "\"full\"");
  CHECK(keys.at("train.gradient_dtype") == "\"fp32\"");
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.count("parallel.tp") == 0);
  CHECK(keys.at("train.framework") == "\"fsdp\"");
  const std::string fsdp = " actor_rollout_ref.actor.fsdp_config.";
  const Keys less = keys_of(with_model(
      {{"run.sh", kVerl + micro + fsdp + "fsdp_size=8" + fsdp + "reshard_after_forward=False" +
                      fsdp + "ulysses_sequence_parallel_size=2" + fsdp + "model_dtype=bf16 " +
                      "actor_rollout_ref.model.enable_gradient_checkpointing=False\n"}}));
  CHECK(less.at("train.zero") == "2");
  CHECK(less.at("parallel.hsdp_shard") == "8");
  CHECK(less.at("parallel.cp") == "2");
  CHECK(less.at("parallel.cp_comm") == "\"all_to_all\"");
  CHECK(less.at("train.optimizer_dtype") == "\"bf16\"");
  CHECK(less.count("train.recompute") == 0);
}

TEST_CASE("sizes that a trainer writes over config.json are those of the given one, or refused") {
  const auto why = [](const std::string& name, const std::string& text) {
    const auto plan = import_sources({{"config.json", kConfig}, {name, text}});
    return plan.ok() ? "read" : plan.error().text();
  };
  const std::string model = " +actor_rollout_ref.model.override_config.";
  CHECK(why("run.sh", kVerl + model + "num_hidden_layers=8\n") ==
        "run.sh:7: found actor_rollout_ref.model.override_config.num_hidden_layers 8, expected "
        "the same num_hidden_layers in the model's config.json, which is read as it is: write it "
        "there");
  CHECK(why("run.sh", kVerl + model + "num_hidden_layers=16" + model +
                          "attn_implementation=eager\n") == "read");
  CHECK(why("run.sh", kVerl + model + "model_config.tie_word_embeddings=False\n") == "read");
  CHECK(has(why("run.sh", kVerl + model + "model_config.vocab_size=64000\n"),
            "override_config.model_config.vocab_size 64000, expected the same vocab_size"));
  CHECK(mentions(
      with_model({{"run.sh", kVerl + model + "num_hidden_layers=$UNSET\n"}}).not_understood,
      "num_hidden_layers"));
  const std::string policy = "policy:\n  dtensor_cfg: {enabled: true}\n  hf_config_overrides:\n";
  CHECK(why("rl.yaml", policy + "    rope_scaling: {factor: 4}\n") == "read");
  CHECK(has(why("rl.yaml", policy + "    num_hidden_layers: 8\n"),
            "rl.yaml:4: found policy.hf_config_overrides.num_hidden_layers 8"));
}

TEST_CASE("verl's YAML is read as its overrides are, references too") {
  const ImportedPlan plan = with_model({{"verl.yaml", R"(
data: {train_batch_size: 16, max_prompt_length: 512, max_response_length: 1536}
actor_rollout_ref:
  rollout: {n: 2}
  actor:
    strategy: megatron
    ppo_mini_batch_size: ${data.train_batch_size}
    ppo_micro_batch_size_per_gpu: 1
    megatron: {tensor_model_parallel_size: 4, unheard_of: 3}
trainer: {n_gpus_per_node: 4, nnodes: 1}
)"}});
  const Keys keys = keys_of(plan);
  CHECK(keys.at("parallel.tp") == "4");
  CHECK(keys.at("parallel.global_batch") == "32");
  CHECK(keys.at("model.seq") == "2048");
  CHECK(where_of(plan, "parallel.tp") == "verl.yaml:9");
  REQUIRE(plan.not_understood.size() == 1);
  CHECK(plan.not_understood[0] == "verl.yaml:9: actor_rollout_ref.actor.megatron.unheard_of = 3");
}

TEST_CASE("verl's SFT takes its GPUs from torchrun, and has packs") {
  const Keys keys = keys_of(
      with_model({{"sft.sh",
                   "torchrun --nnodes=2 --nproc_per_node 4 -m verl.trainer.sft_trainer "
                   "data.train_batch_size=64 data.max_length=2048 data.max_token_len_per_gpu=8192 "
                   "engine=megatron engine.context_parallel_size=2 model.path=x\n"}}));
  CHECK(keys.at("cluster.gpus") == "8");
  CHECK(keys.at("parallel.cp") == "2");
  CHECK(keys.at("parallel.global_batch") == "64");
  CHECK(keys.at("parallel.micro_batch") == "8");  // 8192 tokens on each of two GPUs
}

TEST_CASE(
    "verl's fsdp_sft_trainer has the defaults of its own YAML, which cuts no batch by tokens") {
  const auto sft = [](const std::string& trainer, const std::string& overrides) {
    return with_model({{"sft.sh", "torchrun --nproc_per_node=8 -m verl.trainer." + trainer +
                                      " data.train_batch_size=256 " + overrides + "\n"}});
  };
  const std::string old = "fsdp_sft_trainer", micro = "data.micro_batch_size_per_gpu=2 ";
  const ImportedPlan plan =
      sft(old, micro +
                   "model.partial_pretrain=some/model ulysses_sequence_parallel_size=2 "
                   "use_remove_padding=true model.fsdp_config.model_dtype=bf16 "
                   "model.fsdp_config.cpu_offload=True model.fsdp_config.offload_params=True");
  const Keys keys = keys_of(plan);
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.at("parallel.cp") == "2");
  CHECK(keys.at("train.zero") == "3");
  CHECK(keys.at("train.optimizer_dtype") == "\"bf16\"");
  CHECK(keys.at("train.cross_entropy") == "\"unfused\"");
  CHECK(mentions(plan.assumed, "sft.sh:1: the model is some/model"));
  CHECK(mentions(plan.assumed, "train.recompute = full: verl's default since 0.4.1"));
  CHECK(mentions(plan.not_expressed, "cpu_offload = true"));
  CHECK(plan.not_understood.empty());
  const ImportedPlan none =
      sft(old, "data.micro_batch_size=64 model.enable_gradient_checkpointing=False");
  CHECK(keys_of(none).at("parallel.micro_batch") == "4");
  CHECK(keys_of(none).count("train.recompute") == 0);
  CHECK_FALSE(mentions(none.assumed, "train.recompute"));
  CHECK(mentions(none.assumed, "sft.sh:1: data.micro_batch_size = 64 is not used"));
  // The newer trainer fills microbatches up to a number of tokens, unless told not to.
  const ImportedPlan newer = sft("sft_trainer", micro);
  CHECK(keys_of(newer).at("parallel.micro_batch") == "8");
  CHECK(mentions(newer.assumed,
                 "sft.sh:1: data.micro_batch_size_per_gpu = 2 is not used: data.use_dynamic_bsz is "
                 "true by default"));
  const ImportedPlan fixed = sft("sft_trainer", micro + "data.use_dynamic_bsz=False");
  CHECK(keys_of(fixed).at("parallel.micro_batch") == "2");
  CHECK_FALSE(mentions(fixed.assumed, "is not used"));
}

TEST_CASE(
    "a YAML of one's own that verl's script names is read below its overrides, or asked for") {
  const std::string script =
      "python3 -m verl.trainer.main_ppo --config-path=conf --config-name='mine' \\\n"
      "  trainer.nnodes=2\n";
  const std::string mine = R"(defaults:
  - ppo_megatron_trainer
  - base
  - _self_
trainer: {nnodes: 1, n_gpus_per_node: 4}
actor_rollout_ref: {actor: {ppo_mini_batch_size: 32}}
)";
  const ImportSource base = {
      "conf/base.yaml",
      "actor_rollout_ref: {actor: {ppo_mini_batch_size: 8, ppo_micro_batch_size_per_gpu: 2}}\n"};
  const ImportedPlan plan = with_model({{"run.sh", script}, {"conf/mine.yaml", mine}, base});
  const Keys keys = keys_of(plan);
  CHECK(keys.at("cluster.gpus") == "8");
  CHECK(keys.at("parallel.global_batch") == "32");
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.at("train.framework") == "\"megatron\"");
  CHECK(where_of(plan, "parallel.global_batch") == "conf/mine.yaml:6");
  CHECK(refusal("run.sh", script) == "run.sh:1: found mine.yaml, which is not given: give it too");
  CHECK(refusal("mine.yaml", mine) ==
        "mine.yaml:3: found base.yaml, which is not given: give it too");
  const std::string own =
      "python3 -m verl.trainer.main_ppo --config-name ppo_megatron_trainer.yaml\n";
  CHECK(keys_of(with_model({{"run.sh", own + own}})).at("train.framework") == "\"megatron\"");
  CHECK(refusal("run.sh", own + "python3 -m verl.trainer.main_ppo trainer.nnodes=2\n") ==
        "run.sh:2: found a training that differs from that of run.sh:1, expected one: remove the "
        "other");
}

TEST_CASE("verl's recipe DAPO is read as verl's own trainer is") {
  std::string script = kVerl;
  script.replace(script.find("verl.trainer.main_ppo"), 21,
                 "recipe.dapo.main_dapo --config-name=dapo_trainer");
  const ImportedPlan plan = with_model(
      {{"run.sh", script + " data.gen_batch_size=96 algorithm.filter_groups.enable=True\n"}});
  CHECK(keys_of(plan).at("parallel.global_batch") == "128");
  CHECK(plan.not_understood.empty());
}

TEST_CASE("verl's adapters and engines of others' are refused by line") {
  const auto why = [](const std::string& override) {
    return refusal("run.sh", kVerl + "  " + override + "\n");
  };
  CHECK(
      has(why("actor_rollout_ref.model.lora_rank=8"), "run.sh:7: found actor_rollout_ref.model."));
  CHECK(has(why("model_engine=veomni"), "expected the engine fsdp, fsdp2 or megatron"));
  CHECK(has(why("actor_rollout_ref.actor.engine.tp=2"), "expected the engine"));
  CHECK(has(why("actor_rollout_ref.actor.ppo_mini_batch_size=x"), "an integer"));
}

TEST_CASE(
    "a case whose word is known takes the branch that fits, and a command with || counts as "
    "failed") {
  const std::string script =
      "DEVICE=${DEVICE:-$(python3 -c 'import torch_npu' && echo npu || echo gpu)}\n"
      "case \"${DEVICE}\" in\n  gpu | tpu)\n    N=8 ;;\n  npu)\n    N=16\n    ;;\n"
      "  *) N=1 ;;\nesac\n" +
      kVerl + "  trainer.n_gpus_per_node=$N\n";
  const ImportedPlan plan = with_model({{"run.sh", script}});
  CHECK(keys_of(plan).at("cluster.gpus") == "16");  // two nodes of 8
  CHECK(mentions(plan.assumed, "run.sh:1: the command in $(... || echo ...) counts as failed"));
  CHECK(!mentions(plan.assumed, "all branches"));
  CHECK(mentions(with_model({{"run.sh", "case $1 in a) N=2 ;; esac\n" + kVerl + "\n"}}).assumed,
                 "run.sh:1: all branches"));
}

namespace {

const std::string kPrimus = R"(exp_name: ${EXP:x}
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: ${PRIMUS_MODEL:small_8B}.yaml
    overrides:
      micro_batch_size: 1
      global_batch_size: 64
      seq_length: ${PRIMUS_SEQ:2048}
      tensor_model_parallel_size: 2
      use_turbo_attention: true
      stderr_sink_level: DEBUG
)";
const std::string kModel = R"(extends:
  - small_base.yaml
num_layers: 24
hidden_size: 1024
num_attention_heads: 16
)";
const std::string kBase = R"(includes: [language_model.yaml]
vocab_size: 32000
ffn_hidden_size: 4096
num_layers: 8
normalization: RMSNorm
tensor_model_parallel_size: 4
)";

}  // namespace

TEST_CASE("Primus' YAML has its model and what that extends, whichever file is given first") {
  const auto read = import_sources(
      {{"models/small_base.yaml", kBase}, {"models/small_8B.yaml", kModel}, {"exp.yaml", kPrimus}});
  if (!read.ok()) FAIL(read.error().text());
  const Keys keys = keys_of(*read);
  CHECK(keys.at("model.layers") == "24");
  CHECK(where_of(*read, "model.layers") == "models/small_8B.yaml:3");
  CHECK(keys.at("model.ffn_hidden") == "4096");
  CHECK(keys.at("model.gated_mlp") == "true");  // Primus' default
  CHECK(keys.at("parallel.tp") == "2");         // goes over the model's
  CHECK(keys.at("model.seq") == "2048");
  CHECK(keys.at("train.sequence_parallel") == "true");
  CHECK(keys.at("train.zero") == "1");
  CHECK(keys.at("train.precision") == "\"bf16\"");
  CHECK(read->conflicts.empty());
  CHECK(mentions(read->not_expressed, "exp.yaml:12: use_turbo_attention True"));
  CHECK(mentions(read->assumed, "variables have the defaults"));
  CHECK(read->not_understood.empty());
  const std::string more =
      "      cross_entropy_loss_fusion: true\n      cross_entropy_fusion_impl: \"te\"\n"
      "      disable_jit_fuser: true\n";
  const auto fused = import_sources({{"exp.yaml", kPrimus + more}, {"small_8B.yaml", kModel}});
  REQUIRE(fused.ok());
  CHECK(keys_of(*fused).at("train.cross_entropy") == "\"te\"");
  CHECK(mentions(fused->not_understood, "exp.yaml:16: disable_jit_fuser"));
}

TEST_CASE(
    "files that Primus' YAML names are asked for, and other frameworks than Megatron refused") {
  const auto why = [](const std::vector<ImportSource>& sources) {
    const auto plan = import_sources(sources);
    return plan.ok() ? "read" : plan.error().text();
  };
  CHECK(has(why({{"exp.yaml", kPrimus}}), "exp.yaml:6: found no model, and small_8B.yaml"));
  const std::string model = "extends: [base.yaml]\nhidden_size: 64\n";
  CHECK(has(why({{"exp.yaml", kPrimus}, {"small_8B.yaml", model}}), "small_8B.yaml:1"));
  CHECK(has(why({{"exp.yaml", kPrimus}, {"small_8B.yaml", "extends: small_8B.yaml\n"}}), "levels"));
  CHECK(has(refusal("exp.yaml", "modules: {pre_trainer: {framework: maxtext}}\n"),
            "exp.yaml:1: found framework = maxtext, expected megatron"));
  CHECK(has(refusal("exp.yaml", "modules: {pre_trainer: {overrides: {lora: {enabled: true}}}}\n"),
            "adapters are not covered"));
}

namespace {

const std::string kNemoBase = R"(grpo: {num_prompts_per_step: 32, num_generations_per_prompt: 8}
policy:
  model_name: some/model
  train_global_batch_size: 64
  train_micro_batch_size: 2
  max_total_sequence_length: 1024
  precision: bfloat16
  dtensor_cfg: {enabled: true, tensor_parallel_size: 2, activation_checkpointing: true}
  megatron_cfg:
    enabled: false
    activation_checkpointing: false
    recompute_granularity: full
    pipeline_dtype: ${policy.precision}
    tensor_model_parallel_size: 1
    pipeline_model_parallel_size: 1
    optimizer: {optimizer: adam, use_distributed_optimizer: true, lr: 1.0e-6}
    distributed_data_parallel_config: {grad_reduce_in_fp32: false, overlap_grad_reduce: true}
  sequence_packing:
    enabled: true
    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}
cluster: {gpus_per_node: 8, num_nodes: 1}
)";
const std::string kNemoChild = R"(defaults: ../base.yaml
policy:
  max_total_sequence_length: 4096
  dtensor_cfg: {enabled: false}
  megatron_cfg: {enabled: true, tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}
cluster: {num_nodes: 2}
)";

}  // namespace

TEST_CASE("NeMo-RL's YAML has its policy on FSDP2, or on Megatron over its defaults") {
  const Keys fsdp = keys_of(with_model({{"base.yaml", kNemoBase}}));
  CHECK(fsdp.at("parallel.tp") == "2");
  CHECK(fsdp.at("train.zero") == "3");
  CHECK(fsdp.at("train.recompute") == "\"full\"");
  CHECK(fsdp.at("parallel.global_batch") == "64");
  CHECK(fsdp.at("parallel.micro_batch") == "2");
  CHECK(fsdp.at("train.framework") == "\"fsdp\"");
  CHECK(fsdp.at("train.cross_entropy") == "\"unfused\"");
  const ImportedPlan parts =
      with_model({{"base.yaml", kNemoBase},
                  {"c.yaml", "defaults: base.yaml\npolicy: {logprob_chunk_size: 2048}\n"}});
  CHECK(keys_of(parts).at("train.cross_entropy") == "\"chunked\"");
  CHECK(where_of(parts, "train.cross_entropy") == "c.yaml:2");
  const std::string name = std::string(80, 'b') + ".yaml";
  for (const std::string& defaults : {name, "[" + name + "]"}) {
    const auto long_name =
        with_model({{name, kNemoBase},
                    {"d.yaml", "defaults: " + defaults + "\npolicy: {precision: float16}\n"}});
    CHECK(keys_of(long_name).at("train.precision") == "\"fp16\"");
  }
  const ImportedPlan plan =
      with_model({{"configs/base.yaml", kNemoBase}, {"configs/llm/child.yaml", kNemoChild}});
  const Keys keys = keys_of(plan);
  CHECK(keys.at("parallel.pp") == "2");
  CHECK(keys.at("cluster.gpus") == "16");
  CHECK(keys.at("model.seq") == "4096");
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.at("train.gradient_dtype") == "\"bf16\"");
  CHECK(keys.count("train.recompute") == 0);
  CHECK(where_of(plan, "parallel.global_batch") == "configs/base.yaml:4");
  CHECK(where_of(plan, "parallel.tp") == "configs/llm/child.yaml:5");
  CHECK(plan.not_understood.empty());
  CHECK(mentions(plan.not_expressed, "of which a step of NeMo-RL has 4"));
  CHECK(has(refusal("child.yaml", kNemoChild), "child.yaml:1: found ../base.yaml, which is not"));
}

TEST_CASE("NeMo-RL's activation_checkpointing recomputes whole layers, unless a granularity says") {
  const auto plan = [](const std::string& lines) {
    return with_model(
        {{"rl.yaml",
          "policy:\n  train_global_batch_size: 64\n  megatron_cfg:\n    enabled: true\n"
          "    tensor_model_parallel_size: 2\n    activation_checkpointing: true\n" +
              lines + "cluster: {gpus_per_node: 8, num_nodes: 1}\n"}});
  };
  const Keys full = {{"train.recompute", "\"full\""}};
  CHECK(keys_of(plan(""), "train.recompute") == full);
  CHECK(where_of(plan(""), "train.recompute") == "rl.yaml:6");
  // NeMo-RL sets the method and the number of layers by itself.
  CHECK(keys_of(plan("    recompute_method: block\n    recompute_num_layers: 4\n"),
                "train.recompute") == full);
  CHECK(keys_of(plan("    recompute_granularity: selective\n    recompute_modules: [mlp]\n"),
                "train.recompute") ==
        Keys{{"train.recompute", "\"selective\""}, {"train.recompute_modules", "\"mlp\""}});
}

TEST_CASE(
    "NeMo-RL's megatron_cfg has the model's MTP layers and its own fused loss, and no virtual "
    "stages") {
  const auto plan = [](const std::string& lines, const std::string& policy = "") {
    return with_model(
        {{"rl.yaml", "policy:\n  train_global_batch_size: 64\n" + policy +
                         "  megatron_cfg:\n    enabled: true\n    tensor_model_parallel_size: 2\n" +
                         lines + "cluster: {gpus_per_node: 8, num_nodes: 1}\n"}});
  };
  const ImportedPlan two = plan("    mtp_num_layers: 2\n    mtp_use_repeated_layer: true\n");
  CHECK(keys_of(two).at("model.mtp_layers") == "2");
  CHECK(where_of(two, "model.mtp_layers") == "rl.yaml:6");
  CHECK(mentions(two.not_expressed, "mtp_use_repeated_layer = true: each prediction has a layer"));
  const ImportedPlan none = plan("    mtp_num_layers: 0\n    mtp_use_repeated_layer: true\n");
  CHECK(keys_of(none).count("model.mtp_layers") == 0);
  CHECK_FALSE(mentions(none.not_expressed, "mtp_use_repeated_layer"));
  const ImportedPlan stages =
      plan("    pipeline_model_parallel_size: 4\n    virtual_pipeline_model_parallel_size: 2\n");
  CHECK(keys_of(stages).at("parallel.pp") == "4");
  CHECK(keys_of(stages).count("parallel.vpp") == 0);
  CHECK(mentions(stages.not_expressed,
                 "rl.yaml:7: policy.megatron_cfg.virtual_pipeline_model_parallel_size = 2: NeMo-RL "
                 "does not apply it"));
  CHECK(keys_of(plan("")).at("train.cross_entropy") == "\"unfused\"");
  CHECK(keys_of(plan("", "  logprob_chunk_size: 1024\n")).at("train.cross_entropy") ==
        "\"chunked\"");
  const ImportedPlan fused =
      plan("    use_fused_linear_logprobs: true\n    fused_linear_logprobs_chunk_size: 128\n");
  CHECK(keys_of(fused).at("train.cross_entropy") == "\"chunked\"");
  CHECK(where_of(fused, "train.cross_entropy") == "rl.yaml:6");
  CHECK(fused.not_understood.empty());
  CHECK(keys_of(plan("    use_fused_linear_logprobs: false\n")).at("train.cross_entropy") ==
        "\"unfused\"");
}

TEST_CASE("generation of its own takes GPUs from NeMo-RL's policy, and a preference is a pair") {
  const std::string colocated =
      "  generation: {colocated: {enabled: false, resources: "
      "{gpus_per_node: 8, num_nodes: 1}}}\n";
  std::string text = kNemoBase + "dpo: {val_period: 1}\n";
  text.replace(text.find("num_nodes: 1}"), 13, "num_nodes: 3}");
  text.insert(text.find("cluster:"), colocated);
  const Keys keys = keys_of(with_model({{"base.yaml", text}}));
  CHECK(keys.at("cluster.gpus") == "16");
  CHECK(keys.at("parallel.global_batch") == "128");
  CHECK(has(refusal("base.yaml", "policy: {dtensor_cfg: {lora_cfg: {enabled: true}}}\n"),
            "adapters are not covered"));
}

TEST_CASE("OpenRLHF's flags are DeepSpeed's settings of the actor, under both of their names") {
  const std::string start = "python3 -m openrlhf.cli.train_ppo_ray --";
  const ImportedPlan plan = with_model(
      {{"run.sh", start +
                      "train.batch_size 64 --train.micro_batch_size 2 --ds.zero_stage 3 \\\n"
                      "  --actor.num_nodes 2 --actor.num_gpus_per_node 4 --data.max_len 4096 \\\n"
                      "  --ds.adam_offload --actor.gradient_checkpointing_enable --ds.zpg 4 \\\n"
                      "  --vllm.num_engines 4 --unheard_of 3\n"}});
  const Keys keys = keys_of(plan);
  CHECK(keys.at("train.zero") == "3");
  CHECK(keys.at("parallel.zero_hpz") == "4");
  CHECK(keys.at("cluster.gpus") == "8");
  CHECK(keys.at("parallel.global_batch") == "64");
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.at("model.seq") == "4096");
  CHECK(keys.at("train.recompute") == "\"full\"");
  CHECK(keys.at("train.precision") == "\"bf16\"");
  CHECK(where_of(plan, "train.zero") == "run.sh:1");
  CHECK(keys.at("train.optimizer_offload") == "1");
  CHECK(mentions(plan.not_expressed, "rollouts and models beside the actor"));
  REQUIRE(plan.not_understood.size() == 1);
  CHECK(has(plan.not_understood[0], "--unheard_of = 3"));
  const Keys older = keys_of(with_model(
      {{"run.sh", start + "train_batch_size 32 --micro_train_batch_size 4 --zero_stage 2 "
                          "--prompt_max_len 512 --generate_max_len 1536 --ring_attn_size 2 "
                          "--actor_num_nodes 1 --actor_num_gpus_per_node 8\n"}}));
  CHECK(older.at("train.zero") == "2");
  CHECK(older.at("model.seq") == "2048");
  CHECK(older.at("parallel.cp") == "2");
  CHECK(older.at("parallel.cp_comm") == "\"ring\"");
  CHECK(older.at("parallel.micro_batch") == "4");
  CHECK(older.at("train.flash_attention") == "true");
  CHECK(keys_of(with_model({{"run.sh", start + "ds.attn_implementation eager --ds.zero_stage 2 "
                                               "--train.batch_size 64\n"}}))
            .at("train.flash_attention") == "false");
  CHECK(has(refusal("run.sh", start + "lora_rank 8\n"), "adapters are not covered"));
}

TEST_CASE("an MLPerf configuration takes what it sources from the files beside it, in order") {
  const std::string own =
      "source $(dirname ${BASH_SOURCE[0]})/config_common.sh\n"
      "source $(dirname ${BASH_SOURCE[0]})/config_common_fp4.sh\n"
      "export MINIBS=4\nexport TENSOR_MODEL_PARALLEL=2\nexport MICRO_BATCH_SIZE=1\n";
  const std::string common =
      "export MICRO_BATCH_SIZE=2\nexport FP8=True\nexport FP8_RECIPE=tensorwise\n"
      "export OVERLAP_GRAD_REDUCE=True\n";
  const ImportedPlan plan =
      with_model({{"config_common.sh", common},
                  {"config_common_fp4.sh", "export FP8=False\nexport FP4=True\n"},
                  {"config_DGXB200_2x8x4xtp2pp1cp1_fp4.sh", own}});
  const Keys keys = keys_of(plan);
  CHECK(keys.at("parallel.micro_batch") == "1");
  CHECK(keys.at("train.precision") == "\"nvfp4\"");
  CHECK(keys.at("overlap.grad_reduce") == "true");
  CHECK(where_of(plan, "overlap.grad_reduce") == "config_common.sh:4");
  CHECK(where_of(plan, "parallel.micro_batch") == "config_DGXB200_2x8x4xtp2pp1cp1_fp4.sh:5");
  CHECK(keys.at("parallel.global_batch") == "32");
  CHECK(plan.conflicts.empty());
  CHECK(plan.not_understood.empty());
}

TEST_CASE("AMD's names in an MLPerf configuration are Megatron-LM's sizes") {
  const ImportedPlan plan =
      with_model({{"config_MI300X_1x8x1.sh",
                   "export TP=2\nexport PP=1\nexport MBS=2\nexport GBS=32\nexport FP8=True\n"
                   "export ACG=full && export ACM=block && export ACL=7\nexport MINIBS=1\n"
                   "export LORA_A2A=1\n"}});
  const Keys keys = keys_of(plan);
  CHECK(keys.at("parallel.tp") == "2");
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.at("parallel.global_batch") == "32");
  CHECK(keys.at("cluster.gpus") == "8");
  CHECK(keys.at("train.precision") == "\"fp8\"");
  CHECK(keys.at("train.recompute_layers") == "7");
  CHECK(mentions(plan.not_expressed, "LORA_A2A=1: all weights are trained"));
  CHECK(mentions(plan.assumed, "delayed scaling"));
}

TEST_CASE("torchtitan's overrides are read back") {
  const std::string text = R"(#!/bin/bash
WORLD_SIZE=32
OVERRIDES=(
    --training.num_tokens_per_microbatch_per_dp_rank 8192
    --training.num_tokens_per_train_step 524288
    --training.max_context_length 4096
    --parallelism.num_pp_microbatches 8
    --parallelism.data_parallel_replicate_degree 1
    --parallelism.data_parallel_shard_degree 8
    --parallelism.tensor_parallel_degree 2
    --parallelism.pipeline_parallel_degree 2
    --parallelism.pipeline_parallel_schedule 1F1B
    --parallelism.pipeline_parallel_layers_per_stage 8
    --parallelism.pipeline_parallel_first_stage_less_layers 0
    --parallelism.pipeline_parallel_last_stage_less_layers 0
    --parallelism.no_enable_sequence_parallel
    --training.disable_cuda_graphs
    activation-checkpoint:full
)
)";
  const ImportedPlan plan = with_model({{"titan.sh", text}});
  const Keys keys = keys_of(plan);
  CHECK(keys.at("parallel.tp") == "2");
  CHECK(keys.at("parallel.pp") == "2");
  CHECK(keys.at("parallel.dp") == "8");
  CHECK(keys.at("cluster.gpus") == "32");
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.at("parallel.global_batch") == "128");
  CHECK(keys.at("model.seq") == "4096");
  CHECK(keys.at("train.recompute") == "\"full\"");
  CHECK(keys.count("train.sequence_parallel") + keys.count("train.cuda_graphs") == 0);
  CHECK(plan.not_understood.empty());
  CHECK(has(refusal("titan.sh",
                    "A=(--parallelism.tensor_parallel_degree 2 "
                    "--training.num_tokens_per_train_step 10)\n"),
            "expected a multiple of"));
  // A command in one text, with the TOML that it begins with.
  const ImportedPlan text_alone =
      with_model({{"titan.sh",
                   "if [ $GPU = h100 ]; then PP=4; fi\nif ok; then PP=2; fi\n"
                   "RUN=\"cd x; python -m torchtitan.train --job.config_file=$DIR/big.toml "
                   "--parallelism.pipeline_parallel_degree=$PP --training.local_batch_size=8\"\n"
                   "srun --output=a.out bash -c \"$RUN\"\n"}});
  CHECK(keys_of(text_alone).at("parallel.pp") == "2");
  CHECK(mentions(text_alone.assumed, "titan.sh:2: all branches are read"));
  CHECK(mentions(text_alone.not_expressed, "big.toml is read here and was not given"));
  CHECK(text_alone.not_understood.empty());
}
