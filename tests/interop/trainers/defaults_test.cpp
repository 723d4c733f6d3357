// Plans of trainers' files that leave values to the trainer's own defaults or to other files.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/interop/imported.h"

using namespace tandem;

namespace {

// Its config.json gives a length of its own, from which rope scaling begins.
const std::string kScaled = R"({"model_type": "llama", "hidden_size": 1024,
"num_hidden_layers": 32, "num_attention_heads": 16, "intermediate_size": 4096,
"vocab_size": 32000, "tie_word_embeddings": false, "max_position_embeddings": 131072,
"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}})";

ImportedPlan after_scaled(const std::vector<ImportSource>& files) {
  std::vector<ImportSource> sources = {{"config.json", kScaled}};
  sources.insert(sources.end(), files.begin(), files.end());
  const auto plan = import_sources(sources, {.gpus = 8});
  if (!plan.ok()) FAIL(plan.error().text());
  return *plan;
}

ImportedPlan arguments(const std::string& lines) {
  return after_scaled({{"args.yaml", "per_device_train_batch_size: 4\n" + lines}});
}

}  // namespace

TEST_CASE("TRL's YAML has TRL's defaults: bf16, recomputation and 1024 tokens, which are said") {
  const std::string trl = "assistant_only_loss: true\n";
  const ImportedPlan plan = arguments(trl + "attn_implementation: flash_attention_2\n");
  const Keys keys = keys_of(plan);
  CHECK(keys.at("train.precision") == "\"bf16\"");
  CHECK(keys.at("train.recompute") == "\"full\"");
  CHECK(keys.at("train.flash_attention") == "true");
  CHECK(keys.at("model.seq") == "1024");
  CHECK(mentions(plan.assumed, "train.precision = bf16: TRL's default since 0.19"));
  CHECK(mentions(plan.assumed, "train.recompute = full: TRL's default since 0.22"));
  CHECK(mentions(plan.assumed, "model.seq = 1024: TRL's default of max_length"));
  CHECK_FALSE(mentions(plan.assumed, "rope scaling"));  // one assumption of the length
  CHECK(plan.not_understood.empty());
  for (const char* mark : {"packing: false\n", "dataset_text_field: a\n"})
    CHECK(keys_of(arguments(mark)).at("train.precision") == "\"bf16\"");
  // Examples of transformers have it, too.
  CHECK(keys_of(arguments("dataset_name: x/y\n")).at("train.precision") == "\"fp32\"");
  const ImportedPlan stated =
      arguments(trl + "fp16: true\ngradient_checkpointing: false\nmax_length: 512\n");
  CHECK(keys_of(stated).at("train.precision") == "\"fp16\"");
  CHECK(keys_of(stated).count("train.recompute") == 0);
  CHECK(keys_of(stated).at("model.seq") == "512");
  CHECK_FALSE(mentions(stated.assumed, "TRL's default"));
  CHECK(keys_of(arguments(trl + "bf16: false\n")).at("train.precision") == "\"fp32\"");
  // Neither a file without limit nor rollouts have that length.
  CHECK(keys_of(arguments(trl + "max_length:\n")).at("model.seq") == "8192");
  CHECK(keys_of(arguments("num_generations: 8\n")).at("model.seq") == "8192");
  CHECK(mentions(arguments(trl + "torch_dtype: bfloat16\n").not_expressed,
                 "args.yaml:3: torch_dtype = bfloat16: parameters have a master copy in fp32"));
  const ImportedPlan plain = arguments("");  // transformers' own
  CHECK(keys_of(plain).at("train.precision") == "\"fp32\"");
  CHECK(keys_of(plain).count("train.recompute") == 0);
}

TEST_CASE("flash attention that a file states is off in fp32, which is said") {
  const ImportedPlan plan = arguments("attn_implementation: flash_attention_2\n");
  CHECK(keys_of(plan).at("train.flash_attention") == "false");
  CHECK(mentions(plan.not_expressed,
                 "args.yaml:2: attn_implementation: flash attention is off: its kernels take 16 "
                 "bits, and precision is fp32"));
  CHECK_FALSE(mentions(arguments("").not_expressed, "flash attention is off"));
}

TEST_CASE("LLaMA-Factory cuts sequences off at its own length where its YAML states none") {
  const std::string factory = "finetuning_type: full\ntemplate: llama3\nbf16: true\n";
  const ImportedPlan plan = arguments(factory);
  CHECK(keys_of(plan).at("model.seq") == "2048");
  CHECK(mentions(plan.assumed, "model.seq = 2048: LLaMA-Factory's default of cutoff_len"));
  CHECK_FALSE(mentions(plan.assumed, "rope scaling"));
  CHECK(keys_of(arguments(factory + "cutoff_len: 4096\n")).at("model.seq") == "4096");
  CHECK(keys_of(arguments(factory + "packing: true\n")).count("train.recompute") == 1);
  const auto set = import_sources(
      {{"config.json", kScaled}, {"args.yaml", "per_device_train_batch_size: 1\n" + factory}},
      {.sets = {{"model.seq", std::int64_t{512}}}});
  REQUIRE(set.ok());
  CHECK(keys_of(*set).at("model.seq") == "512");
}

TEST_CASE("torchtitan's TOML has 2048 tokens where it states none, overrides alone the model's") {
  const std::string table = "[parallelism]\ndata_parallel_shard_degree = 8\n";
  const ImportedPlan plan = after_scaled({{"a.toml", table}});
  CHECK(keys_of(plan).at("model.seq") == "2048");
  CHECK(mentions(plan.assumed, "model.seq = 2048: torchtitan's default of training.seq_len"));
  CHECK_FALSE(mentions(plan.assumed, "rope scaling"));
  CHECK(
      keys_of(after_scaled({{"a.toml", table + "[training]\nseq_len = 512\n"}})).at("model.seq") ==
      "512");
  const ImportedPlan alone =
      after_scaled({{"a.sh", "A=(--parallelism.tensor_parallel_degree 2)\n"}});
  CHECK(keys_of(alone).at("model.seq") == "8192");
}

namespace {

const std::string kTitan = R"([model]
converters = ["float8"]
[training]
seq_len = 4096
local_batch_size = 8
[parallelism]
tensor_parallel_degree = 2
pipeline_parallel_degree = 4
pipeline_parallel_microbatch_size = 2
[activation_checkpoint]
mode = "full"
[quantize.linear.float8]
recipe_name = "rowwise"
unheard_of = 3
)";
const std::string kTitanRun =
    "F=${F:-./configs/llama3_8b.toml}\n"
    "torchrun -m torchtitan.train --job.config_file ${F} --training.local_batch_size 4 \\\n"
    "  --training.global_batch_size=-1 --parallelism.pipeline_parallel_degree 2";

}  // namespace

TEST_CASE("torchtitan's command line goes over the TOML file that is given with it") {
  const ImportSource file = {"configs/llama3_8b.toml", kTitan};
  const auto where = [](const ImportedPlan& plan, const std::string& key) {
    return std::ranges::find(plan.keys, key, &ImportedKey::key)->where;
  };
  for (const bool file_first : {true, false}) {
    const ImportSource run = {"run.sh", kTitanRun + "\n"};
    const ImportedPlan plan =
        after_scaled(file_first ? std::vector{file, run} : std::vector{run, file});
    const Keys keys = keys_of(plan);
    CHECK(plan.conflicts.empty());
    CHECK(keys.at("parallel.pp") == "2");
    CHECK(where(plan, "parallel.pp") == "run.sh:2");
    CHECK(keys.at("parallel.tp") == "2");
    CHECK(where(plan, "parallel.tp") == "configs/llama3_8b.toml:7");
    CHECK(keys.at("parallel.micro_batch") == "2");
    CHECK(keys.at("parallel.global_batch") == "8");  // 4 x dp 2
    CHECK(keys.at("model.seq") == "4096");
    CHECK(keys.at("train.recompute") == "\"full\"");
    CHECK(keys.count("train.cuda_graphs") == 0);  // of torchtitan without TOML
    CHECK_FALSE(mentions(plan.not_expressed, "was not given"));
    CHECK_FALSE(mentions(plan.assumed, "in place of"));
  }
  const auto both = [&](const std::string& options, const std::string& name) {
    return after_scaled({{"run.sh", kTitanRun + options + "\n"}, {name, kTitan}});
  };
  CHECK(mentions(both("", "mine.toml").assumed,
                 "run.sh:2: mine.toml is read in place of llama3_8b.toml"));
  const ImportedPlan nested = both(" --quantize.linear.float8.recipe_name tensorwise", "a.toml");
  CHECK(keys_of(nested).at("train.fp8_recipe") == "\"current\"");
  CHECK(mentions(both(" --training.unheard_of 5", "a.toml").not_understood,
                 "run.sh:2: unheard_of = 5"));
  // A script that changes nothing.
  const ImportedPlan plain = after_scaled(
      {{"run.sh", "torchrun -m torchtitan.train --job.config_file llama3_8b.toml\n"}, file});
  CHECK(keys_of(plain).at("parallel.pp") == "4");
}

TEST_CASE("faults of torchtitan's command line are told by its own line, and two TOML refused") {
  const auto why = [](const std::vector<ImportSource>& files) {
    std::vector<ImportSource> sources = {{"config.json", kScaled}};
    sources.insert(sources.end(), files.begin(), files.end());
    const auto plan = import_sources(sources, {.gpus = 8});
    return plan.ok() ? "read" : plan.error().text();
  };
  const std::string order = " --parallelism.pipeline_parallel_schedule Unheard\n";
  CHECK(has(why({{"run.sh", kTitanRun + order}, {"a.toml", kTitan}}),
            "run.sh:2: found pipeline_parallel_schedule = Unheard"));
  CHECK(why({{"run.sh", kTitanRun + "\n"}, {"a.toml", kTitan}, {"b.toml", kTitan}}) ==
        "run.sh: found overrides beside a.toml and b.toml, expected one TOML file");
  CHECK(why({{"run.sh", kTitanRun + "\n"}, {"a.toml", "training = 3\n"}}) ==
        "a.toml:1: found training, expected a table of that name");
}

TEST_CASE("Accelerate's deepspeed_config is read as the ds_config.json that Accelerate makes") {
  const auto accelerate = [](const std::string& plugin) {
    return "num_processes: 8\nmixed_precision: bf16\ndistributed_type: DEEPSPEED\n"
           "deepspeed_config:\n  deepspeed_multinode_launcher: standard\n" +
           plugin;
  };
  const std::string training = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\n";
  const auto plan = import_sources(
      {{"config.json", kScaled},
       {"a.yaml", accelerate("  zero3_init_flag: true\n  zero_stage: 3\n"
                             "  offload_optimizer_device: cpu\n  offload_param_device: none\n")},
       {"args.yaml", training + "bf16: true\n"}});
  REQUIRE(plan.ok());
  const Keys keys = keys_of(*plan);
  CHECK(keys.at("cluster.gpus") == "8");
  CHECK(keys.at("train.zero") == "3");
  CHECK(keys.at("train.precision") == "\"bf16\"");
  CHECK(keys.at("train.framework") == "\"deepspeed\"");
  CHECK(keys.at("train.optimizer_offload") == "1");
  CHECK(keys.at("parallel.global_batch") == "64");
  CHECK(std::ranges::find(plan->keys, "train.zero", &ImportedKey::key)->where == "a.yaml:7");
  CHECK(plan->not_understood.empty());
  CHECK(keys_of(after_scaled({{"a.yaml", accelerate("")}})).at("train.zero") == "2");
  CHECK(refusal("a.yaml", accelerate("  deepspeed_config_file: conf/ds.json\n")) ==
        "a.yaml:6: found ds.json, which is not given: give it too");
  // `accelerate config` writes empty settings of the other one.
  const auto both =
      keys_of(after_scaled({{"a.yaml", accelerate("  zero_stage: 1\n") + "fsdp_config: {}\n"}}));
  CHECK(both.at("train.zero") == "1");
  CHECK(both.at("train.framework") == "\"deepspeed\"");
  CHECK(refusal("a.yaml", "distributed_type: MULTI_GPU\ndeepspeed_config: {}\nfsdp_config: {}\n") ==
        "a.yaml:1: found distributed_type MULTI_GPU, expected FSDP or DEEPSPEED");
  CHECK(has(refusal("a.yaml", "mixed_precision: fp8\ndeepspeed_config: {}\n"),
            "a.yaml:1: found mixed_precision = fp8, expected no, bf16 or fp16"));
}

TEST_CASE(
    "a config.json's layers of multi-token prediction are trained where the trainer does it") {
  const std::string config = R"({"model_type": "deepseek_v3", "hidden_size": 2048,
"num_hidden_layers": 4, "num_attention_heads": 16, "q_lora_rank": 512, "kv_lora_rank": 512,
"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 8192,
"moe_intermediate_size": 1408, "n_routed_experts": 64, "num_experts_per_tok": 6, "n_group": 1,
"topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1, "vocab_size": 102400,
"num_nextn_predict_layers": 1})";
  const auto layers = [&](const std::string& name, const std::string& text) {
    const auto plan = import_sources({{"config.json", config}, {name, text}}, {.gpus = 8});
    if (!plan.ok()) FAIL(plan.error().text());
    CHECK_FALSE(mentions(plan->not_understood, "mtp"));
    const std::string found = keys_of(*plan).at("model.mtp_layers");
    // The config.json's number alone is an assumption.
    CHECK(mentions(plan->assumed, "model.mtp_layers = 1: config.json") ==
          (found == "1" && !has(text, "mtp_num_layers")));
    return found;
  };
  const std::string run = "torchrun pretrain_gpt.py --bf16 --micro-batch-size 1 ";
  CHECK(layers("run.sh", run) == "0");
  CHECK(layers("run.sh", run + "--mtp-num-layers 2") == "2");
  CHECK(layers("ray.sh", "ray job submit -- python3 train.py --rollout-batch-size 8") == "0");
  const auto bridge = [&](const std::string& field) {
    return layers(
        "run.yaml",
        "train: {global_batch_size: 8}\nmodel: {tensor_model_parallel_size: 1, " + field + "}\n");
  };
  CHECK(bridge("") == "1");  // Megatron-Bridge takes the config.json's
  CHECK(bridge("mtp_num_layers: 1") == "1");
  CHECK(bridge("mtp_num_layers: null") == "0");
  CHECK(bridge("mtp_num_layers: 0") == "0");
  // The models of transformers and of torchtitan's TOML files have none.
  CHECK(layers("ds.json", R"({"train_batch_size": 8, "zero_optimization": {"stage": 3}})") == "0");
  CHECK(layers("fsdp.yaml", "fsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n") == "0");
  CHECK(layers("args.yaml", "per_device_train_batch_size: 1\nbf16: true\n") == "0");
  CHECK(layers("a.toml", "[parallelism]\ntensor_parallel_degree = 2\n") == "0");
  // A script with the model alone states them for one that has the plan.
  const auto stated = import_sources(
      {{"m.sh", "A=\"--num-layers 4 --hidden-size 64 --num-attention-heads 4 --mtp-num-layers 1\""},
       {"run.sh", run}});
  REQUIRE(stated.ok());
  CHECK(keys_of(*stated).at("model.mtp_layers") == "1");
}

TEST_CASE("DeepSpeed reads the offloaded optimizer's ratio in stage 3 alone") {
  const auto share = [](int stage) {
    const ImportedPlan plan = after_scaled(
        {{"ds_config.json",
          "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": " + std::to_string(stage) +
              ",\n\"offload_optimizer\": {\"device\": \"cpu\",\n\"ratio\": 0.25}}}"}});
    CHECK(mentions(plan.not_expressed,
                   "ds_config.json:3: ratio = 0.25: stage 3 alone reads it, all of the optimizer "
                   "is offloaded") == (stage < 3));
    return keys_of(plan).at("train.optimizer_offload");
  };
  CHECK(share(2) == "1");
  CHECK(share(3) == "0.25");
}

TEST_CASE("MLPerf's sizes go by the names of MLCommons' reference, too, and by Primus'") {
  const ImportedPlan plan =
      after_scaled({{"config_GB300_2x4x4xtp1pp1cp1.sh",
                     "export NNODES=2\nexport GPUS_PER_NODE=4\nexport GBS=64\nexport MBS=1\n"
                     "export TENSOR_PARALLEL_SIZE=2\nexport PIPELINE_PARALLEL_SIZE=4\n"
                     "export VIRTUAL_PIPELINE_PARALLEL_SIZE=2\nexport CONTEXT_PARALLEL_SIZE=1\n"
                     "export EXPERT_PARALLEL_SIZE=4\nexport EXPERT_TENSOR_PARALLEL_SIZE=1\n"
                     "export RECOMPUTE_MODULES=\"mlp,moe_act\"\nexport USER=me\n"}});
  const Keys keys = keys_of(plan);
  CHECK(keys.at("parallel.tp") == "2");
  CHECK(keys.at("parallel.pp") == "4");
  CHECK(keys.at("parallel.vpp") == "2");
  CHECK(keys.at("parallel.ep") == "4");
  CHECK(keys.at("parallel.expert_tp") == "1");
  CHECK(keys.at("parallel.global_batch") == "64");
  CHECK(plan.not_understood.empty());
  // The modules alone ask for recomputation.
  CHECK(keys.at("train.recompute") == "\"selective\"");
  CHECK(keys.at("train.recompute_modules") == "\"mlp, moe_act\"");
  const auto where = std::ranges::find(plan.keys, "train.recompute", &ImportedKey::key)->where;
  CHECK(where == "config_GB300_2x4x4xtp1pp1cp1.sh:11");
  const std::string primus =
      "export PRIMUS_TP=2\nexport PRIMUS_MICRO_BATCH_SIZE=2\nexport PRIMUS_GLOBAL_BATCH_SIZE=16\n"
      "export PRIMUS_LR=4e-4\nexport PRIMUS_TRAIN_ITERS=9\nexport PRIMUS_PATH=/deps/Primus\n";
  const ImportedPlan named = after_scaled({{"config_MI355X_1x8x1.sh", primus}});
  CHECK(keys_of(named).at("parallel.tp") == "2");
  CHECK(keys_of(named).at("parallel.micro_batch") == "2");
  CHECK(keys_of(named).at("parallel.global_batch") == "16");
  CHECK(named.not_understood.size() == 1);  // the machine
  // The rest of the plan is in the experiment's YAML.
  CHECK(refusal("config_MI355X_1x8x1.sh", primus + "export EXP=/code/conf/gpt.yaml\n") ==
        "config_MI355X_1x8x1.sh:7: found gpt.yaml, which is not given: give it too");
}
