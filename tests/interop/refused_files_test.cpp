// Files that Tandem does not read, or reads only with others: each is refused by name, with what to
// give instead. What a file leaves to a default goes over nothing.
#include <algorithm>
#include <catch2/catch.hpp>

#include "interop/plan/understood.h"
#include "interop/topology/topologies.h"
#include "tests/interop/imported.h"

using namespace tandem;

namespace {

const std::string kConfig = R"({
"model_type": "llama", "hidden_size": 1024,
"num_hidden_layers": 16, "num_attention_heads": 16, "intermediate_size": 4096,
"vocab_size": 32000, "tie_word_embeddings": false})";

// A Megatron-LM script with these flags more.
std::string script(const std::string& flags, const std::string& program = "pretrain_gpt.py") {
  return "torchrun --nproc_per_node 8 --nnodes 2 " + program + " --micro-batch-size 1 " + flags +
         "\n";
}

std::string refusal_of(const std::vector<ImportSource>& sources,
                       const std::map<std::string, KeyValue>& sets = {}) {
  const auto plan = import_sources(sources, {.sets = sets});
  return plan.ok() ? "read" : plan.error().text();
}

}  // namespace

TEST_CASE("a script that starts no Megatron-LM is refused with the name of what it starts") {
  const std::pair<std::string, std::string> kScripts[] = {
      {"curl --retry 3 -O http://x/y\n", "without Megatron-LM's flags"},
      {"python3 -m verl.trainer.main_generation model.path=x\n", "trains nothing"},
      {"ray job submit -- python3 -m openrlhf.cli.train_dpo --bf16\n", "OpenRLHF"},
      {"llamafactory-cli train a.yaml\n", "LLaMA-Factory"},
      {"axolotl train a.yml\n", "Axolotl"},
      {"swift sft --model x --bf16 true\n", "ms-swift"},
      {"torchrun finetune_lora.py --model_name_or_path x\n", "finetune_lora.py"},
      {"NPROC_PER_NODE=8 megatron sft --micro_batch_size 1\n", "ms-swift's Megatron"},
      {"composer train.py a.yaml\n", "LLM-Foundry"},
      {"python -m levanter.main.train_lm --config_path a.yaml\n", "Levanter"},
      {"python3 -m MaxText.train a.yml\n", "MaxText"},
      {"python ./deepy.py train.py a.yml\n", "gpt-neox"},
      {"torchrun run_train.py --config-file a.yaml\n", "nanotron"},
      {"torchrun -m torchtitan.train --job.config_file a.toml\n", "torchtitan"},
      {"python megatron_gpt_pretraining.py --config-name a\n", "NeMo 1"},
      {"python setup_experiment.py --num_gpus 64 --gpu h100\n", "Megatron-Bridge"},
      {"python run_grpo_math.py --config a.yaml\n", "NeMo-RL"},
      {"bash primus-cli train pretrain --config a.yaml\n", "Primus"},
      {"accelerate launch --num_processes 8 train.py --bf16\n", "Accelerate"},
      {"deepspeed --num_gpus 8 train.py --bf16 --deepspeed ds.json\n", "DeepSpeed"},
      {"torchrun my_train.py --num-layers 4 --hidden-size 64\n", "my_train.py"}};
  for (const auto& [text, name] : kScripts) {
    INFO(text);
    const std::string why = refusal("run.sh", text);
    INFO(why);
    CHECK(why.starts_with("run.sh"));
    CHECK(has(why, name));
  }
}

TEST_CASE("a script that trains no decoder-only language model is refused with its kind") {
  const std::pair<std::string, std::string> kPrograms[] = {{"pretrain_bert.py", "BERT"},
                                                           {"pretrain_t5.py", "encoder-decoder"},
                                                           {"pretrain_vlm.py", "vision tower"},
                                                           {"pretrain_ict.py", "retriever"},
                                                           {"train_rl.py", "rollouts"}};
  const std::string model = "--num-layers 4 --hidden-size 64 --num-attention-heads 4";
  for (const auto& [program, kind] : kPrograms)
    CHECK(has(refusal("run.sh", script(model, program)), kind));
  CHECK(has(refusal("run.sh", script(model + " --decoder-num-layers 4")), "encoder-decoder"));
  CHECK(keys_of(imported("run.sh", script(model))).at("model.layers") == "4");
  CHECK(keys_of(imported("run.sh", script(model, "pretrain_qwen.py"))).at("model.layers") == "4");
}

TEST_CASE("a model_type that is not known, or whose halves have no key, is refused by name") {
  const auto of_type = [](const std::string& type) {
    return refusal_of({{"config.json", "{\n\"model_type\": \"" + type +
                                           "\", \"num_hidden_layers\": 4, \"hidden_size\": 64, "
                                           "\"num_attention_heads\": 4}"}});
  };
  CHECK(has(of_type("t5"), "config.json:2: found model_type \"t5\", an encoder-decoder"));
  CHECK(has(of_type("bert"), "an encoder"));
  CHECK(has(of_type("whisper"), "an audio model"));
  CHECK(has(of_type("rwkv7"), "a recurrent model"));
  CHECK(has(of_type("unheard_of"), "which is not known"));
  // Their names begin as a known family's does, their layers are others.
  for (const char* type : {"falcon_mamba", "phi3small", "phi4flash", "olmo_hybrid",
                           "bailing_moe_linear", "bailing_hybrid", "llama_unheard"})
    CHECK(has(of_type(type), "\"" + std::string(type) + "\", which is not known"));
  CHECK(has(of_type("gemma4_vision"), "a vision model"));
  for (const char* type : {"qwen3_vl_moe_text", "glm4v", "granitemoeshared", "phi-msft", "olmo3",
                           "exaone4_5", "kimi_linear", "longcat_flash", "mimo_v2_flash"})
    CHECK_FALSE(has(of_type(type), "found model_type"));
  CHECK(has(of_type("falcon_h1"), "without Mamba beside attention"));
  CHECK(has(of_type("gemma3n_text"), "without embeddings of each layer's own"));
  CHECK(has(refusal("config.json", R"({"num_hidden_layers": 4, "hidden_size": 64})"),
            "found no model_type"));
}

TEST_CASE("configurations of tools that are not read are refused by name, with what to give") {
  const std::tuple<std::string, std::string, std::string> kFiles[] = {
      {"a.yml", "pipe-parallel-size: 1\n", "gpt-neox"},
      {"a.yaml", "parallelism: {dp: 1, pp_engine: 1f1b}\nmodel: {model_config: {}}\n", "nanotron"},
      {"a.yml", "base_emb_dim: 8192\nbase_num_decoder_layers: 80\n", "MaxText"},
      {"a.yaml", "train_type: lora\nper_device_train_batch_size: 1\n", "ms-swift"},
      {"a.yaml", "base_model: x\ndatasets: []\nmicro_batch_size: 1\n", "Axolotl"},
      {"a.yaml", "max_seq_len: 2048\ntrain_loader: {}\nfsdp_config: {}\n", "LLM-Foundry"},
      {"a.yaml", "trainer: {train_batch_size: 8}\nmodel: {type: llama}\n", "Levanter"},
      {"a.json", R"({"tp_size": 1, "pp_size": 2, "micro_batch_num": 4})", "SimuMax"},
      {"a.json", R"({"num_procs": 8, "tensor_par": 1, "pipeline_par": 1})", "Calculon"},
      {"a.json", R"({"dim": 4096, "n_layers": 32, "n_heads": 32})", "params.json"}};
  for (const auto& [name, text, tool] : kFiles) {
    INFO(text);
    const std::string why = refusal(name, text);
    INFO(why);
    CHECK(has(why, tool));
    CHECK(has(why, "give "));
  }
  const auto topology = [](const std::string& text) {
    REQUIRE(is_topology(text));
    const auto read = import_topology({{"topo.xml", text}});
    REQUIRE(!read.ok());
    return read.error().text();
  };
  CHECK(has(topology("<system version=\"2\"></system>\n"), "RCCL"));
  CHECK(has(topology("==== ROCm System Management Interface ====\nGPU0 GPU1\n"), "rocm-smi"));
  for (const char* table : {"ACCESS", "WEIGHT", "HOPS", "LINK TYPE", "NUMA BW"})
    CHECK(has(topology(std::string(table) + " TABLE:\n             0000:0c:00.0 0000:22:00.0\n"
                                            "0000:0c:00.0 SELF         XGMI\n"),
              "amd-smi topology, which is not read"));
}

TEST_CASE("a file that a script reads and nobody gave is asked for where the model is in it") {
  const std::string reads =
      "source \"${DIR}/models/m.sh\"\n" + script("--tensor-model-parallel-size 2 ${MODEL_ARGS[@]}");
  CHECK(has(refusal_of({{"run.sh", "source /opt/venv/bin/activate\n" + reads}}), "m.sh"));
  CHECK(has(refusal_of({{"run.sh", reads}}), "run.sh:1: found no model, and m.sh, which is read"));
  const std::string model =
      "MODEL_ARGS=(--num-layers 16 --hidden-size 1024 --num-attention-heads 16 --swiglu "
      "--vocab-size 32000)\n";
  const auto both = import_sources({{"scripts/models/m.sh", model}, {"run.sh", reads}});
  REQUIRE(both.ok());
  CHECK(keys_of(*both).at("model.layers") == "16");
  const auto with_config = import_sources({{"config.json", kConfig}, {"run.sh", reads}});
  REQUIRE(with_config.ok());
  CHECK(mentions(with_config->not_expressed,
                 "run.sh:1: m.sh is read here and was not given: give it "
                 "too"));
}

TEST_CASE("diffusion models are refused by name, in torchtitan's and Megatron-Bridge's files too") {
  const ImportSource config = {"config.json", kConfig};
  CHECK(refusal_of({config, {"a.toml", "[parallelism]\n[model]\nname = \"flux\"\n"}}) ==
        "a.toml:3: found name = flux, expected a decoder-only language model: flux is a diffusion "
        "model");
  const std::string size = "model:\n  tensor_model_parallel_size: 2\n";
  CHECK(refusal_of({config, {"run.yaml", size + "  crossattn_emb_size: 5120\n"}}) ==
        "run.yaml:3: found crossattn_emb_size = 5120, a diffusion model: expected a decoder-only "
        "language model");
  CHECK(
      has(refusal_of({config,
                      {"run.yaml", size + "  _target_: megatron.bridge.diffusion.models.wan.A\n"}}),
          "run.yaml:3: found _target_ = megatron.bridge.diffusion.models.wan.A, a diffusion"));
}

TEST_CASE("a script that starts another one is told that the other one's training is wanted") {
  CHECK(refusal_of({{"run.sh", "PP=4 srun -l bash bench/train.sh \\\n  --mtp-num-layers 1\n"}}) ==
        "run.sh:1: found no training, but train.sh, which is started here: give the script of the "
        "training with the values that are set here, or a log of its run");
}

TEST_CASE("what slime sets by itself counts, and its rollouts are said not to be covered") {
  const ImportedPlan plan =
      imported("run.sh",
               "MODEL=(--num-layers 4 --hidden-size 64 --num-attention-heads 4)\n"
               "ray job submit -- python3 train.py --actor-num-nodes 2 --actor-num-gpus-per-node 8 "
               "${MODEL[@]} --tensor-model-parallel-size 2 --rollout-batch-size 32 "
               "--global-batch-size 64\n");
  const Keys keys = keys_of(plan);
  CHECK(keys.at("train.precision") == "\"bf16\"");
  CHECK(keys.at("train.zero") == "1");
  CHECK(keys.at("cluster.gpus") == "16");
  CHECK(mentions(plan.not_expressed, "rollouts and models beside the actor"));
  CHECK(plan.not_understood.empty());
  CHECK(refusal_of({{"m.sh", "LAYERS=5 source \"$DIR/big.sh\"\n"}}) ==
        "m.sh:1: found no flags, but big.sh, which is read here: give big.sh with the values that "
        "are set here");
  const ImportedPlan packs = imported(
      "run.sh",
      "ray job submit -- python3 train.py --actor-num-nodes 2 --num-layers 4 --hidden-size 64 "
      "--num-attention-heads 4 --tensor-model-parallel-size 2 --rollout-batch-size 32 "
      "--n-samples-per-prompt 8 --num-steps-per-rollout 2 --rollout-max-response-len 4096 "
      "--use-dynamic-batch-size --max-tokens-per-gpu 9000 --context-parallel-size 2\n");
  const Keys dynamic = keys_of(packs);
  CHECK(dynamic.at("parallel.global_batch") == "128");
  CHECK(dynamic.at("model.seq") == "4096");
  CHECK(dynamic.at("parallel.micro_batch") == "4");  // 18000 tokens on two GPUs
  CHECK(mentions(packs.assumed, "every answer is as long as it may be"));
}

TEST_CASE("adapters are refused by line, whoever trains them") {
  const auto refuses = [](const std::string& name, const std::string& text) {
    const std::string why = refusal_of({{"config.json", kConfig}, {name, text}});
    INFO(name << ": " << why);
    CHECK(why.starts_with(name + ":"));
    CHECK((has(why, "adapters are not covered") || has(why, "adapters and frozen layers are not")));
  };
  const std::string bridge =
      "model: {tensor_model_parallel_size: 2}\ntrain: {global_batch_size: 8}\n";
  refuses("run_config.yaml", bridge + "peft: {_target_: LoRA, dim: 8}\n");
  CHECK(refusal_of({{"config.json", kConfig}, {"run_config.yaml", bridge + "peft: null\n"}}) ==
        "read");
  CHECK(has(refusal_of({{"config.json", kConfig},
                        {"run_config.yaml",
                         "model: {tensor_model_parallel_size: 2, teacher: "
                         "{seq_length: 8}}\n"}}),
            "run_config.yaml:1: found model.teacher"));
  const auto sharded = import_sources(
      {{"config.json", kConfig},
       {"run_config.yaml", bridge + "dist: {use_megatron_fsdp: true}\n"
                                    "ddp: {use_megatron_fsdp: false, "
                                    "data_parallel_sharding_strategy: optim_grads_params}\n"}});
  REQUIRE(sharded.ok());
  CHECK(keys_of(*sharded).at("train.zero") == "3");
  for (const char* flag : {"--lora-r 16", "--lora-rank 8", "--tuner_type lora", "--use-lora",
                           "--lora-target-modules linear_qkv linear_proj"})
    refuses("run.sh", script(std::string("--tensor-model-parallel-size 2 ") + flag));
  CHECK(refusal_of({{"config.json", kConfig},
                    {"run.sh", script("--tensor-model-parallel-size 2 --lora-rank 8 "
                                      "--train-type full")}}) == "read");
  const std::string arguments = "per_device_train_batch_size: 1\nbf16: true\n";
  refuses("sft.yaml", arguments + "cutoff_len: 512\nfinetuning_type: lora\n");
  refuses("sft.yaml", arguments + "cutoff_len: 512\n");  // LLaMA-Factory's default
  refuses("trl.yaml", arguments + "use_peft: true\n");
  refuses("trl.yaml", arguments + "peft_config: {r: 8}\n");
  refuses("adapter_config.json", "{\"peft_type\": \"LORA\", \"r\": 8}\n");
  refuses("nemo.yaml",
          "trainer: {devices: 8}\nmodel: {micro_batch_size: 1, optim: {lr: 1}, peft: {peft_scheme: "
          "lora}}\n");
  refuses("verl.yaml", "actor_rollout_ref: {model: {lora_rank: 8}, actor: {strategy: fsdp}}\n");
  refuses("rlhf.sh", "python3 -m openrlhf.cli.train_sft --lora_rank 8\n");
}

TEST_CASE("a default goes over nothing, two stated values are an error with both lines") {
  const std::string grouped = R"({
"model_type": "llama", "hidden_size": 1024, "num_key_value_heads": 4,
"num_hidden_layers": 16, "num_attention_heads": 16, "intermediate_size": 4096,
"vocab_size": 32000, "tie_word_embeddings": false})";
  // The script states neither key/value heads nor the vocabulary.
  const std::string same = script(
      "--num-layers 16 --hidden-size 1024 --num-attention-heads 16 --ffn-hidden-size 4096 "
      "--swiglu --tensor-model-parallel-size 2");
  const auto plan = import_sources({{"run.sh", same}, {"config.json", grouped}});
  REQUIRE(plan.ok());
  const Keys keys = keys_of(*plan);
  CHECK(keys.at("model.kv_heads") == "4");
  CHECK(keys.at("model.vocab") == "32000");  // a multiple of 128 x 2
  const std::string other = script(
      "--num-layers 12 --hidden-size 1024 --num-attention-heads 16 --ffn-hidden-size 4096 "
      "--swiglu");
  CHECK(refusal_of({{"config.json", grouped}, {"run.sh", other}}) ==
        "run.sh:1: found model.layers = 12, but config.json:3 has 16: leave one out, or give --set "
        "model.layers=...");
  CHECK(refusal_of({{"config.json", grouped}, {"run.sh", other}},
                   {{"model.layers", KeyValue(std::int64_t{12})}}) == "read");
  // A size of 1 is Megatron-LM's default, but the second file states it.
  const auto sizes = [](const char* cp) {
    return script(std::string("--tensor-model-parallel-size 2 --context-parallel-size ") + cp);
  };
  CHECK(refusal_of({{"config.json", grouped}, {"run.sh", sizes("2")}, {"b.sh", sizes("1")}}) ==
        "b.sh:1: found parallel.cp = 1, but run.sh:1 has 2: leave one out, or give --set "
        "parallel.cp=...");
}

TEST_CASE("NeMo 1's words are read as what they mean, and go over no config.json") {
  const std::string yaml = R"(trainer: {devices: 8, num_nodes: 2, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 4
  encoder_seq_length: 8192
  num_layers: 16
  hidden_size: 1024
  ffn_hidden_size: 4096
  num_attention_heads: 16
  num_query_groups: 4
  normalization: rmsnorm
  bias: false
  activation: fast-swiglu
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  activations_checkpoint_granularity: selective
  sequence_parallel: true
  fp8: true
  fp8_hybrid: true
  ub_tp_comm_overlap: true
  use_flash_attention: true
  optim: {name: distributed_fused_adam, overlap_grad_sync: true, overlap_param_sync: true}
)";
  const Keys keys = keys_of(imported("nemo.yaml", yaml));
  CHECK(keys.at("model.gated_mlp") == "true");
  CHECK(!keys.contains("model.norm"));  // RMSNorm and no biases come with a gated MLP
  CHECK(!keys.contains("model.biases"));
  CHECK(keys.at("model.kv_heads") == "4");
  CHECK(keys.at("train.precision") == "\"fp8\"");
  CHECK(keys.at("train.recompute") == "\"selective\"");
  CHECK(keys.at("train.zero") == "1");
  CHECK(keys.at("overlap.tensor") == "\"ring\"");
  CHECK(keys.at("cluster.gpus") == "16");
  std::string config = kConfig;
  config.replace(config.find("\"vocab_size\": 32000"), 19,
                 "\"num_key_value_heads\": 4, "
                 "\"vocab_size\": 128256");
  const auto both = import_sources({{"config.json", config}, {"nemo.yaml", yaml}});
  INFO((both.ok() ? "" : both.error().text()));
  REQUIRE(both.ok());
  CHECK(keys_of(*both).at("model.vocab") == "128512");  // a multiple of 128 x 4
}

TEST_CASE("NeMo 1's encoders and adapters are refused, and its references are followed") {
  const std::string model =
      "trainer: {devices: 8, num_nodes: 1, precision: bf16}\nmodel:\n  micro_batch_size: 1\n"
      "  global_batch_size: 8\n  optim: {name: adam}\n  num_layers: 4\n  hidden_size: 64\n"
      "  num_attention_heads: 4\n  encoder_seq_length: 512\n";
  const Keys keys = keys_of(
      imported("a.yaml", model + "  precision: ${trainer.precision}\n"
                                 "  data: {seq_length: \"${model.encoder_seq_length}\"}\n"));
  CHECK(keys.at("train.precision") == "\"bf16\"");
  CHECK(keys.at("model.seq") == "512");
  CHECK(has(refusal("a.yaml", model + "  bert_binary_head: true\n"), "BERT"));
  CHECK(has(refusal("a.yaml", model + "  peft: {peft_scheme: lora}\n"), "adapters"));
}

TEST_CASE("NeMo 1's resolvers: a variable's default counts, products are computed") {
  const auto batch_of = [](const std::string& batch) {
    return imported("a.yaml",
                    "trainer:\n  devices: 8\n  num_nodes: ${oc.env:NODES,4}\nmodel:\n"
                    "  micro_batch_size: 1\n  optim: {name: adam}\n  num_layers: 4\n"
                    "  hidden_size: 64\n  num_attention_heads: 4\n  global_batch_size: " +
                        batch + "\n");
  };
  const ImportedPlan plan = batch_of("${multiply:32,8}");
  CHECK(keys_of(plan).at("cluster.gpus") == "32");
  CHECK(mentions(plan.assumed, "NODES = 4: the default in a.yaml"));
  CHECK(keys_of(plan).at("parallel.global_batch") == "256");
  CHECK(keys_of(batch_of("${multiply:${trainer.devices}, 16}")).at("parallel.global_batch") ==
        "128");
  const ImportedPlan open = batch_of("${divide_ceil:${model.global_batch_size},2}");  // a circle
  REQUIRE(open.open.size() == 1);
  CHECK(open.open[0].key == "parallel.global_batch");
}

TEST_CASE("sizes that --set gives are checked before files are read by them") {
  const std::string plan = script("--tensor-model-parallel-size 2");
  for (const std::int64_t size : {0, -1})
    CHECK(has(
        refusal_of({{"config.json", kConfig}, {"run.sh", plan}}, {{"parallel.pp", KeyValue(size)}}),
        "--set: found parallel.pp = "));
  CHECK(has(refusal_of({{"config.json", kConfig}}, {{"parallel.tp", KeyValue(std::string("a"))}}),
            "expected an integer from 1"));
}

TEST_CASE("layers that the stages do not divide are refused, unless the plan says how") {
  const std::string uneven = script(
      "--pipeline-model-parallel-size 3 --num-layers 16 --hidden-size 1024 "
      "--num-attention-heads 16");
  CHECK(has(refusal("run.sh", uneven), "found 3 stages for 16 layers"));
  CHECK(refusal_of({{"run.sh", script("--pipeline-model-parallel-size 3 --num-layers 16 "
                                      "--hidden-size 1024 --num-attention-heads 16 "
                                      "--decoder-first-pipeline-num-layers 4")}}) == "read");
}

TEST_CASE("an import says in seven rows what it understood, and what nobody states") {
  const auto plan = import_sources(
      {{"config.json", kConfig},
       {"run.sh", script("--tensor-model-parallel-size 4 \\\n  --bf16 --seq-length 2048")}});
  REQUIRE(plan.ok());
  const std::vector<UnderstoodRow> rows = understood(*plan);
  REQUIRE(rows.size() == 7);
  CHECK(rows[1].value == "tp 4 x pp 1 x vpp 1 x cp 1 x ep 1 x dp 4");
  CHECK(rows[1].from == "run.sh:1; the rest assumed");
  CHECK(rows[2].value == "4 sequences, 1 a microbatch");
  CHECK(rows[3].from == "run.sh:2");
  CHECK(rows[4].from == "run.sh:2");
  CHECK(unknown_parts(*plan).empty());
  const auto model = import_sources({{"config.json", kConfig}});
  REQUIRE(model.ok());
  CHECK(unknown_parts(*model).size() == 2);
  CHECK(understood_text(*model, "").find("batch      ? sequences") != std::string::npos);
}

TEST_CASE("what is auto in ds_config.json is left open, and filled by others") {
  const std::string ds = R"({
"train_micro_batch_size_per_gpu": "auto", "train_batch_size": "auto",
"gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"},
"zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": "auto"}})";
  const auto open = import_sources({{"config.json", kConfig}, {"ds.json", ds}}, {.gpus = 8});
  REQUIRE(open.ok());
  CHECK(unknown_parts(*open).size() == 4);  // the batch, and three keys
  const std::string arguments =
      "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\n"
      "gradient_checkpointing: true\ndeepspeed: conf/ds.json\nmax_seq_length: 2048\n";
  const auto both = import_sources(
      {{"config.json", kConfig}, {"args.yaml", arguments}, {"ds.json", ds}}, {.gpus = 8});
  INFO((both.ok() ? "" : both.error().text()));
  REQUIRE(both.ok());
  CHECK(unknown_parts(*both).empty());
  const Keys keys = keys_of(*both);
  CHECK(keys.at("parallel.global_batch") == "64");
  CHECK(keys.at("train.recompute") == "\"full\"");
  CHECK(keys.at("train.zero") == "2");
  // 1024 squared, as Hugging Face's trainer has it, in 16 bits.
  CHECK(keys.at("overlap.bucket_MB") == "2.097152");
  CHECK(refusal_of({{"args.yaml", arguments}}) ==
        "args.yaml:5: found ds.json, which is not given: give it too");
  CHECK(has(refusal("recipe.py", "print(1)\n"), "a program in Python"));
  CHECK(has(refusal("args.yaml", arguments + "finetuning_type: lora\n"), "adapters"));
  CHECK(has(refusal("args.yaml", arguments + "template: qwen\n"), "finetuning_type"));
  CHECK(has(refusal("args.yaml", arguments + "use_peft: true\n"), "adapters"));
}

TEST_CASE("YAML's merge keys add the fields that a map does not have itself") {
  const std::string bridge =
      "base: &base {micro_batch_size: 4, global_batch_size: 32}\n"
      "other: &other\n  micro_batch_size: 2\n  decay: 1\n"
      "model: {tensor_model_parallel_size: 2}\ntrain:\n  <<: MERGED\n  global_batch_size: 128\n";
  const auto batches = [&](const std::string& merged) {
    std::string text = bridge;
    text.replace(text.find("MERGED"), 6, merged);
    const Keys keys = keys_of(imported("run_config.yaml", text));
    return keys.at("parallel.micro_batch") + " of " + keys.at("parallel.global_batch");
  };
  CHECK(batches("*base") == "4 of 128");
  CHECK(batches("[*other, *base]") == "2 of 128");
  CHECK(refusal("run_config.yaml", "model: {}\ntrain:\n  <<: 7\n") ==
        "run_config.yaml:3: found text that is not YAML (<< of 7), expected YAML");
}

TEST_CASE("a field with two values in a map of YAML is refused with its line") {
  CHECK(refusal("run_config.yaml",
                "model: {}\ntrain:\n  micro_batch_size: 1\n  micro_batch_size: 2\n") ==
        "run_config.yaml:4: found micro_batch_size a second time, expected it once");
  const std::string quoted = "model: {}\ntrain:\n  data: \"1\"\n  data: 1\n";
  CHECK(has(refusal("run_config.yaml", quoted), "found data a second time"));
  // The same value again says nothing else.
  CHECK(keys_of(imported("a.yaml",
                         "MODEL_ARGS:\n  --num-layers: 4\n  --hidden-size: 64\n"
                         "  --num-attention-heads: 4\n  --num-layers: 4\n"))
            .at("model.layers") == "4");
}

TEST_CASE("a second document in a YAML file is refused with its line") {
  const std::string text =
      "model: {tensor_model_parallel_size: 2}\ntrain: {global_batch_size: 8}\n";
  CHECK(keys_of(imported("a.yaml", "---\n" + text + "...\n")).at("parallel.tp") == "2");
  CHECK(refusal("a.yaml", text + "---\nmodel: {tensor_model_parallel_size: 4}\n") ==
        "a.yaml:4: found 2 documents of YAML, expected one");
}

TEST_CASE("Megatron-Bridge's mixed_precision and comm_overlap go over model, optimizer and ddp") {
  const auto bridge = [](const std::string& more) {
    const auto plan = import_sources(
        {{"config.json", kConfig},
         {"run.yaml",
          "model: {tensor_model_parallel_size: 2, fp8: hybrid, tp_comm_overlap: true}\n"
          "train: {micro_batch_size: 1, global_batch_size: 64}\n" +
              more}},
        {.gpus = 16});
    if (!plan.ok()) FAIL(plan.error().text());
    return *plan;
  };
  CHECK(keys_of(bridge("")).at("train.precision") == "\"fp8\"");
  const ImportedPlan named =
      bridge("mixed_precision: bf16_mixed\nddp: {grad_reduce_in_fp32: false}\n");
  CHECK(keys_of(named).at("train.precision") == "\"bf16\"");
  CHECK(keys_of(named).count("train.gradient_dtype") == 0);
  CHECK(named.left_out == std::vector<std::string>{
                              "run.yaml:1: model.fp8 = hybrid: mixed_precision's None counts",
                              "run.yaml:4: ddp.grad_reduce_in_fp32 = False: mixed_precision's True "
                              "counts"});
  CHECK(keys_of(bridge("mixed_precision: {bf16: true, grad_reduce_in_fp32: false}\n"))
            .at("train.gradient_dtype") == "\"bf16\"");
  const ImportedPlan overlapped = bridge(
      "ddp: {overlap_grad_reduce: false, overlap_param_gather: false}\n"
      "comm_overlap: {tp_comm_overlap: false}\n");
  CHECK(keys_of(overlapped).at("overlap.grad_reduce") == "true");
  CHECK(keys_of(overlapped).at("overlap.param_gather") == "true");
  CHECK(keys_of(overlapped).count("overlap.tensor") == 0);
  CHECK(overlapped.left_out.size() == 3);
  const Keys own =
      keys_of(bridge("ddp: {use_distributed_optimizer: false, overlap_grad_reduce: false}\n"
                     "comm_overlap: {tp_comm_overlap: true, overlap_grad_reduce: true}\n"));
  CHECK(own.count("overlap.grad_reduce") == 0);
  CHECK(own.at("overlap.tensor") == "\"ring\"");
  // Tensor parallelism overlaps with cut sequences only.
  const ImportedPlan whole =
      imported("run.yaml",
               "model: {tensor_model_parallel_size: 2, sequence_parallel: false}\n"
               "comm_overlap: {tp_comm_overlap: true}\n");
  CHECK(keys_of(whole).count("overlap.tensor") == 0);
  CHECK(mentions(whole.left_out, "run.yaml:2: tp_comm_overlap: Megatron-Bridge disables it"));
}

TEST_CASE("Megatron-Bridge's recipes of mixed precision are known by name, others are refused") {
  const std::string text = "model: {tensor_model_parallel_size: 2}\nmixed_precision: ";
  const auto train = [&](const std::string& recipe) {
    return keys_of(imported("run.yaml", text + recipe + "\n"), "train.");
  };
  CHECK(train("fp16_mixed").at("train.precision") == "\"fp16\"");
  CHECK(train("bf16-mixed").at("train.precision") == "\"bf16\"");
  CHECK(train("bf16_with_fp8_delayed_scaling_mixed").count("train.fp8_recipe") == 0);
  CHECK(train("nanov2_bf16_with_fp8_current_scaling_mixed").at("train.fp8_recipe") ==
        "\"blockwise\"");
  CHECK(train("{_target_: megatron.bridge.training.mixed_precision.bf16_with_mxfp8_mixed}")
            .at("train.fp8_recipe") == "\"mxfp8\"");
  CHECK(train("bf16_with_nvfp4_mixed").at("train.fp8_param_gather") == "true");
  CHECK(refusal("run.yaml", text + "my_mixed\n") ==
        "run.yaml:2: found mixed_precision = my_mixed, expected a recipe of Megatron-Bridge, such "
        "as bf16_mixed");
}

TEST_CASE("Megatron-Bridge pads the tokenizer's vocabulary, and takes the model's as it is") {
  const auto vocab = [](const std::string& of_model, const std::string& tokenizer) {
    const Keys keys = keys_of(imported("run.yaml",
                                       "model: {num_layers: 4, hidden_size: 1024, "
                                       "num_attention_heads: 8, gated_linear_unit: true, "
                                       "tensor_model_parallel_size: 2, " +
                                           of_model + "}\ntokenizer: {" + tokenizer + "}\n"));
    CHECK(keys.at("model.ffn_hidden") == "4096");  // no --swiglu, which is narrower by default
    return keys.at("model.vocab");
  };
  CHECK(vocab("vocab_size: 50257", "") == "50257");
  CHECK(vocab("vocab_size: 50257, should_pad_vocab: true", "") == "50432");  // 197 x 128 x 2
  CHECK(vocab("vocab_size: null", "vocab_size: 50257") == "50432");
  CHECK(vocab("vocab_size: null, should_pad_vocab: false", "vocab_size: 50257") == "50432");
  CHECK(vocab("vocab_size: 64000", "vocab_size: 50257") == "64000");
  CHECK(vocab("vocab_size: 64000", "vocab_size: 50257, use_tokenizer_vocab_size: true") == "50432");
  std::string odd = kConfig;
  odd.replace(odd.find("32000"), 5, "50257");
  const auto both = import_sources(
      {{"config.json", odd}, {"run.yaml", "model: {tensor_model_parallel_size: 2}\n"}});
  REQUIRE(both.ok());
  CHECK(keys_of(*both).at("model.vocab") == "50257");
}

TEST_CASE("Megatron-Bridge offloads the optimizer's stated share, and nothing by default") {
  const auto offload = [](const std::string& more) {
    const ImportedPlan plan =
        imported("run.yaml",
                 "model: {tensor_model_parallel_size: 2}\noptimizer: {optimizer_cpu_offload: "
                 "true" +
                     more + "}\n");
    CHECK(mentions(plan.assumed, "optimizer_cpu_offload moves nothing") == more.empty());
    return keys_of(plan, "train.optimizer_offload");
  };
  CHECK(offload(", optimizer_offload_fraction: 0.25").at("train.optimizer_offload") == "0.25");
  CHECK(offload("").empty());
}

TEST_CASE("Megatron-Bridge's data of another length than the model's are refused") {
  const std::string model =
      "model: {tensor_model_parallel_size: 2, seq_length: 8192}\ndataset: {seq_length: ";
  CHECK(refusal("run.yaml", model + "4096}\n") ==
        "run.yaml:2: found sequences of 4096 in dataset, expected model.seq_length = 8192");
  CHECK(keys_of(imported("run.yaml", model + "8192}\n")).at("model.seq") == "8192");
}
