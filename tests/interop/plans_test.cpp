// Plans from launch scripts and from the other trainers' files; what several files make together.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "interop/document/document.h"
#include "interop/shell/shell.h"
#include "tests/interop/imported.h"
#include "tests/interop/small_log.h"

using namespace tandem;

namespace {

const std::string kLlama = R"({"model_type": "llama", "hidden_size": 1024,
"num_hidden_layers": 16, "num_attention_heads": 16, "intermediate_size": 4096,
"vocab_size": 32000, "tie_word_embeddings": false})";

ImportedPlan after_llama(const std::string& name, const std::string& text, std::int64_t gpus = 0) {
  const auto plan = import_sources({{"config.json", kLlama}, {name, text}}, {.gpus = gpus});
  if (!plan.ok()) FAIL(plan.error().text());
  return *plan;
}

std::vector<std::string> words_of(const std::string& script) {
  const auto parsed = parse_shell(script, "a.sh");
  if (!parsed.ok()) FAIL(parsed.error().text());
  std::vector<std::string> words;
  for (const ShellWord& word : parsed->commands.back()) words.push_back(word.text);
  return words;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a script's variables, defaults, arrays and arithmetic are expanded") {
  CHECK(words_of("A=2\nrun --a $A --b ${A} --c ${B:-7} --d $((A * ${C:-3}))\n") ==
        Words{"run", "--a", "2", "--b", "2", "--c", "7", "--d", "6"});
  CHECK(words_of("X=(--a 1 # one\n  --b 'two words'\n)\nX+=(--c)\nrun \"${X[@]}\"\n") ==
        Words{"run", "--a", "1", "--b", "two words", "--c"});
  CHECK(words_of("O=\"--a 1\"\nO+=\" --b\"\nrun $O \\\n  --c\n") ==
        Words{"run", "--a", "1", "--b", "--c"});
  CHECK(words_of("export N=4; run --n ${N} >log 2>&1\n") == Words{"run", "--n", "4"});
  CHECK(words_of("cat <<EOF\n--no 1\nEOF\nrun --yes $UNSET\n") ==
        Words{"run", "--yes", "${UNSET}"});
}

TEST_CASE("scripts that cannot be are refused with their line, and never read for ever") {
  const auto why = [](const std::string& text) {
    const auto parsed = parse_shell(text, "a.sh");
    return parsed.ok() ? std::string() : parsed.error().text();
  };
  CHECK(why("run\nX=(--a 1\n") == "a.sh:2: found an array without its end, expected )");
  CHECK(why("run 'a\n") == "a.sh:1: found a quote without its end, expected '");
  CHECK(why("run ${A\n") == "a.sh:1: found { without its end, expected }");
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) doubling += "A=$A$A\n";
  CHECK(why(doubling).find("expected fewer") != std::string::npos);
  for (const char* odd :
       {"", "(", ")", "a=(", "$", "${", "$((", "`", "\\", "<<", "a=<(b)", "((", "x)"})
    why(std::string(odd) + "\n");
}

TEST_CASE("a condition that a script decides chooses its branch, another leaves all") {
  const std::string arms = "then\nX=a\nelif [ $B -gt 2 ]; then X=b\nelse X=c\nfi\nrun $X\n";
  CHECK(words_of("A=1 B=3\nif [ $A = 1 ]; " + arms) == Words{"run", "a"});
  CHECK(words_of("A=2 B=3\nif [[ \"$A\" == \"1\" ]]; " + arms) == Words{"run", "b"});
  CHECK(words_of("A=2 B=2\nif [ $A = 1 ]\n" + arms) == Words{"run", "c"});
  CHECK(words_of("B=2\nif [ -z $UNSET ]; " + arms) == Words{"run", "a"});
  CHECK(words_of("B=2\nif [ -f file ]; " + arms) == Words{"run", "c"});
  CHECK(words_of("A=1\nif [ $A = 2 ]; then if [ $A = 1 ]; then X=a; fi; X=b; fi\nrun $A $X\n") ==
        Words{"run", "1", "${X}"});
  const auto script = parse_shell("if [ $A = 1 ]; then X=1; fi\nif ok; then X=2; fi\n", "a.sh");
  CHECK(script->unset == std::vector<int>{1});
  CHECK(script->branches == std::vector<int>{2});
}

TEST_CASE("a condition before && or || guards what stands behind it") {
  CHECK(words_of("A=0\nX=a\n[ $A = 1 ] && X=b\nrun $X\n") == Words{"run", "a"});
  CHECK(words_of("A=1\nX=a\n[[ $A == 1 ]] && X=b\nrun $X\n") == Words{"run", "b"});
  CHECK(words_of("A=1\nX=a\n[ $A = 1 ] || X=b\nrun $X\n") == Words{"run", "a"});
  CHECK(words_of("A=0\nX=a\n[ $A = 1 ] &&\n  X=b\nX=${X}c\nrun $X\n") == Words{"run", "ac"});
  CHECK(words_of("A=0\nX=a\n[ $A = 1 ] && [ $A = 0 ] && X=b\nrun $X\n") == Words{"run", "a"});
  CHECK(words_of("A=1\n[ $A = 1 ] && X=a && Y=b || X=c\nrun $X $Y\n") == Words{"run", "a", "b"});
  CHECK(words_of("A=0\nY=0\n[ $A = 1 ] && X=a && Y=b || X=c\nrun $X $Y\n") ==
        Words{"run", "c", "0"});
  CHECK(words_of("A=1\nif [ \"$A\" ]; then X=b; else X=c; fi\nrun $X\n") == Words{"run", "b"});
  CHECK(parse_shell("[ -f file ] && X=1\n", "a.sh")->branches == std::vector<int>{1});
}

TEST_CASE("loops over numbers and words that are known go round, and others are read once") {
  const std::string list =
      "N=5\narr=()\nfor ((i=0; i<N; i++)); do\n  if (( i < 2 )); then\n    arr+=(0)\n  else\n"
      "    arr+=(1)\n  fi\ndone\n";
  CHECK(
      words_of(list + "printf -v X '[%s]' \"$(IFS=', '; echo \"${arr[*]}\")\"\nrun \"$X\" $i\n") ==
      Words{"run", "[0,0,1,1,1]", "5"});
  CHECK(words_of("for a in x \"y\"\ndo X+=\"$a-\"; done; run $X\n") == Words{"run", "x-y-"});
  CHECK(words_of("for a in x y z; do\n [ $a = y ] && continue\n X+=$a\ndone\nrun $X\n") ==
        Words{"run", "xz"});
  CHECK(words_of("for a in x y z; do if [ $a = y ]; then break; fi; X+=$a; done; run $X\n") ==
        Words{"run", "x"});
  CHECK(words_of("for ((i=3; i>=0; i-=1)); do for b in x y; do X+=$i$b; done; done; run $X\n") ==
        Words{"run", "3x3y2x2y1x1y0x0y"});
  CHECK(words_of("for ((i=9; i<3; i++)); do X=1; done; A=0; ((A++)); run $X $A\n") ==
        Words{"run", "${X}", "1"});
  CHECK(words_of("for a in \"$@\"; do X=1; done; run $X\n") == Words{"run", "${X}"});
  CHECK(words_of("N=2\n(( N > 1 )) && X=a || X=b\nrun $X $(printf '%s-%d ' a 1 b 2)\n") ==
        Words{"run", "a", "a-1", "b-2"});
  const auto script = parse_shell(
      "for w in $(hosts); do ssh $w; done\nwhile sleep 1; do X+=1; done\n"
      "for t in 1 2; do run --t $t; done\nfor t in 1 2; do sleep 1; done\n"
      "for ((;;)); do X=1; done\n",
      "a.sh");
  CHECK(script->read_once == std::vector<int>{2, 5});
  CHECK(script->repeated == std::vector<int>{3});
  CHECK(parse_shell("for ((i=0; i<9; )); do run; done\n", "a.sh")->read_once ==
        std::vector<int>{1});
}

TEST_CASE("elements of arrays, words for what is set, and parts of a value as they are written") {
  CHECK(words_of("A=(x y)\nrun ${A[1]} ${A[7]}\n") == Words{"run", "y", "${A[7]}"});
  CHECK(words_of("A=1\nrun ${A:+--a} ${B:+--b} ${A:?gone} ${B:-$A}\n") ==
        Words{"run", "--a", "1", "1"});
  CHECK(words_of("A=a.b\nrun ${A%.*} ${A:0:1}\n") == Words{"run", "${A%.*}", "${A:0:1}"});
}

TEST_CASE("a whole command in one word, for eval or bash -c, is read too") {
  const std::string model = "--num-layers 4 --hidden-size 64 --num-attention-heads 4";
  for (const std::string& script :
       {"eval \"torchrun pretrain_gpt.py " + model + "\"\n",
        "CMD=\"python pretrain_gpt.py \\\n " + model + "\"\nsrun bash -c \"$CMD\"\n",
        "deepspeed --num_nodes 2 --num_gpus 4 pretrain_gpt.py " + model + "\n"}) {
    INFO(script);
    CHECK(keys_of(imported("a.sh", script)).at("model.layers") == "4");
  }
}

TEST_CASE("a launch script gives its nodes, and the last value of a flag wins") {
  const ImportedPlan plan = imported("train.sh", R"(#!/bin/bash
GPUS=8
NODES=${NODES:-4}
ARGS=(
  --num-layers 16 --hidden-size 1024   # the model
  --num-attention-heads 16 --seq-length 2048 --vocab-size 32000
)
FP8=1
if [ "$FP8" = 1 ] && true; then
  ARGS+=("--fp8-format hybrid --bf16")
fi
torchrun --nproc_per_node $GPUS --nnodes $NODES pretrain_gpt.py "${ARGS[@]}" \
  --micro-batch-size 1 --global-batch-size $((GPUS * NODES)) --micro-batch-size 2 \
  --recompute-num-layers $LAYERS --save $HERE
)");
  const Keys keys = keys_of(plan);
  CHECK(keys.at("cluster.gpus") == "32");
  CHECK(keys.at("parallel.global_batch") == "32");
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.at("train.precision") == "\"fp8\"");
  CHECK(plan.not_understood ==
        Words{"train.sh:14: --recompute-num-layers ${LAYERS}: that has no value there"});
  CHECK(plan.assumed ==
        Words{"train.sh:9: all branches are read in order, the last assignment counts"});
}

TEST_CASE("an MLPerf configuration's name and exports give the plan") {
  const std::string text = R"(source $(dirname ${BASH_SOURCE[0]})/config_common.sh
export MINIBS=36
export INTERLEAVED_PIPELINE=2
export TP_COMM_OVERLAP=True
export ASYM_PP_EMBED=True
export ASYM_PP_LOSS=True
export NOVELTY=1
)";
  // 16 layers, embedding and loss on 3 x 3 x 2 stages of one.
  const ImportedPlan plan = after_llama("conf/config_DGXB200_18x8x36xtp4pp9cp2_cg.sh", text);
  const Keys keys = keys_of(plan);
  CHECK(keys.at("parallel.tp") == "4");
  CHECK(keys.at("model.vocab") == "32256");  // 32000 up to a multiple of 128 x 4
  CHECK(keys.at("parallel.pp") == "9");
  CHECK(keys.at("parallel.cp") == "2");
  CHECK(keys.at("parallel.vpp") == "2");
  CHECK(keys.at("cluster.gpus") == "144");
  CHECK(keys.at("cluster.preset") == "\"dgx-b200\"");
  CHECK(keys.at("parallel.global_batch") == "72");  // 36 microbatches of 144 / (4 x 9 x 2) replicas
  CHECK(keys.at("parallel.layers_per_stage") ==
        "[0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]");
  CHECK(keys.at("overlap.tensor") == "\"ring\"");
  CHECK(plan.not_understood.size() == 1);
  CHECK(plan.not_expressed.size() == 1);  // the file that it sources
}

TEST_CASE("Bridge's run_config.yaml has Bridge's defaults") {
  const std::string text = R"(model:
  _target_: megatron.bridge.LlamaModelProvider
  num_layers: 16
  hidden_size: 1024
  num_attention_heads: 16
  num_query_groups: 4
  gated_linear_unit: true
  ffn_hidden_size: 4096
  add_bias_linear: false
  normalization: RMSNorm
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  vocab_size: 32000
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: 4
  sequence_parallel: true
  attention_backend:
    _target_: megatron.core.transformer.enums.AttnBackend
    _args_: [5]
    _name_: auto
train:
  micro_batch_size: 1
  global_batch_size: 64
dataset:
  seq_length: 4096
  num_workers: 8
mixed_precision: bf16_with_fp8_current_scaling_mixed
logger:
  log_interval: 10
)";
  const Keys keys = keys_of(imported("run_config.yaml", text, 16));
  CHECK(keys.at("model.kv_heads") == "4");  // without --group-query-attention
  CHECK(keys.at("model.gated_mlp") == "true");
  CHECK(keys.at("model.tied_embeddings") == "false");
  CHECK(keys.at("train.flash_attention") == "true");  // AttnBackend.auto
  CHECK(keys.at("model.seq") == "4096");
  CHECK(keys.at("parallel.vpp") == "4");
  CHECK(keys.at("train.precision") == "\"fp8\"");
  CHECK(keys.at("train.fp8_recipe") == "\"current\"");
  CHECK(keys.at("overlap.grad_reduce") == "true");
  CHECK(keys.at("overlap.param_gather") == "true");
  CHECK(keys.count("overlap.align_param_gather") == 0);  // on with pp and vpp, as ours
  // The sample: buckets of 128 Mi parameters of 4 bytes.
  const ImportedPlan sampled =
      imported("run.yaml", sample("plans/megatron_bridge_llama32_1b_pretrain.yaml"));
  CHECK(keys_of(sampled).at("overlap.bucket_MB") == "536.870912");
  CHECK(sampled.not_understood.empty());
}

TEST_CASE("torchtitan's float8 has the scales of its recipe_name, wherever its table stands") {
  for (const char* table : {"[quantize.linear.float8]", "[float8]"}) {
    INFO(table);
    const auto titan = [&](const char* lines) {
      return imported("job.toml",
                      fmt::format("[model]\nconverters = [\"float8\"]\n{}\n{}\n"
                                  "[training]\nlocal_batch_size = 1\n[parallelism]\n"
                                  "tensor_parallel_degree = 1\n",
                                  table, lines),
                      8);
    };
    const Keys tensorwise = keys_of(titan("enable_fsdp_float8_all_gather = true"));
    CHECK(tensorwise.at("train.fp8_recipe") == "\"current\"");
    CHECK(tensorwise.at("train.fp8_param_gather") == "true");
    const Keys rowwise = keys_of(titan("recipe_name = \"rowwise\""));
    CHECK(rowwise.at("train.fp8_recipe") == "\"rowwise\"");
    CHECK(rowwise.count("train.fp8_param_gather") == 0);
    const ImportedPlan wide = titan("recipe_name = \"rowwise_with_gw_hp\"");
    CHECK(keys_of(wide).at("train.fp8_recipe") == "\"rowwise\"");
    CHECK(wide.not_expressed.size() > titan("recipe_name = \"rowwise\"").not_expressed.size());
    CHECK(titan("recipe_name = \"blocks\"").not_understood.size() == 1);
  }
}

TEST_CASE("Bridge's own names: stages of other sizes, fused kernels, enumerations by number") {
  const Keys keys = keys_of(imported("run_config.yaml", R"(model:
  num_layers: 16
  hidden_size: 1024
  num_attention_heads: 16
  pipeline_model_parallel_size: 4
  num_layers_in_first_pipeline_stage: 3
  num_layers_in_last_pipeline_stage: 3
  bias_activation_fusion: false
  persist_layer_norm: false
  should_pad_vocab: false
  vocab_size: 32001
  attention_backend:
    _target_: megatron.core.transformer.enums.AttnBackend
    _args_: [1]
train:
  global_batch_size: 64
)"));
  CHECK(keys.at("parallel.layers_per_stage") == "[3, 5, 5, 3]");
  CHECK(keys.at("train.fused_bias_gelu") == "false");
  CHECK(keys.at("train.fused_norm") == "false");
  CHECK(keys.at("train.flash_attention") == "true");
  CHECK(keys.at("model.vocab") == "32001");
}

TEST_CASE("ChatLearn's packs are the sequences of its trainer") {
  const std::string text = R"(runtime_args:
  train_micro_batch_size: 8
  train_global_batch_size: 512
models:
  policy_trainer:
    seq_length: 2048
    num_gpu: 32
    tensor_model_parallel_size: 4
    recompute_granularity: full
    packing: PACKS
    max_token_in_packing: 32768
)";
  const auto with = [&](const std::string& packs) {
    std::string filled = text;
    filled.replace(filled.find("PACKS"), 5, packs);
    return keys_of(imported("grpo.yaml", filled));
  };
  CHECK(with("true").at("model.seq") == "32768");
  CHECK(with("true").at("parallel.micro_batch") == "1");
  CHECK(with("false").at("model.seq") == "2048");
  CHECK(with("false").at("parallel.micro_batch") == "8");
  CHECK(with("false").at("parallel.global_batch") == "512");
  CHECK(with("false").at("train.recompute") == "\"full\"");
  CHECK(with("false").at("cluster.gpus") == "32");
}

TEST_CASE("DeepSpeed: a batch is micro x accumulation x dp, buckets are elements") {
  const std::string text = sample("plans/deepspeed_gpt2_zero2_gas3.json");
  const Keys keys = keys_of(imported("ds_config.json", text, 16));
  CHECK(keys.at("parallel.micro_batch") == "8");
  CHECK(keys.at("parallel.global_batch") == "384");  // 8 x 3 x 16
  CHECK(keys.at("train.zero") == "2");
  CHECK(keys.at("train.precision") == "\"fp16\"");
  const Keys overlapped = keys_of(imported("ds_config.json", R"({"bf16": {"enabled": true},
"zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 2e8}})"));
  CHECK(overlapped.at("overlap.bucket_MB") == "400");  // 2e8 x 2 bytes
  CHECK(overlapped.at("overlap.grad_reduce") == "true");
  CHECK(keys_of(imported("ds.json", sample("plans/deepspeed_template_zero3.json")))
            .at("overlap.param_gather") == "true");
  const Keys second = keys_of(imported("ds.json", R"({"bf16": {"enabled": true},
"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8, "mics_shard_size": -1}})"));
  CHECK(second.at("parallel.zero_hpz") == "8");
  CHECK_FALSE(second.contains("parallel.hsdp_shard"));
  CHECK(keys_of(imported("ds.json", sample("plans/deepspeed_autoep_zero1_qwen3_5_moe.json")))
            .at("parallel.ep") == "8");
}

// 16 GPUs in groups of 4 tensor ranks: 4 replicas x 2 sequences x 3 passes = 24 sequences, of which
// DeepSpeed asks train_batch_size = 2 x 3 x 16 GPUs.
TEST_CASE("DeepSpeed's train_batch_size counts each rank of AutoTP, a scenario's batch does not") {
  const auto batch = [](const std::string& sizes, const char* key) {
    return keys_of(
               imported("ds.json", R"({"tensor_parallel": {"autotp_size": 4}, )" + sizes + "}", 16))
        .at(key);
  };
  const std::string micro = R"("train_micro_batch_size_per_gpu": 2)",
                    steps = R"("gradient_accumulation_steps": 3)",
                    whole = R"("train_batch_size": 96)";
  CHECK(batch(micro + ", " + steps, "parallel.global_batch") == "24");
  CHECK(batch(micro + ", " + whole, "parallel.global_batch") == "24");
  CHECK(batch(steps + ", " + whole, "parallel.micro_batch") == "2");
  CHECK(refusal("ds.json", R"({"tensor_parallel": {"autotp_size": 4}, "train_batch_size": 6})") ==
        "ds.json:1: found train_batch_size = 6, expected a multiple of autotp_size = 4");
  CHECK(keys_of(imported("ds.json",
                         R"({"tensor_parallel": {"autotp_size": 0}, "train_batch_size": 6})"))
            .at("parallel.global_batch") == "6");
}

TEST_CASE("TrainingArguments: pure_bf16 counts beside bf16, and what is off is not listed") {
  const auto with = [](const std::string& lines) {
    return imported("args.yaml", "per_device_train_batch_size: 1\n" + lines, 8);
  };
  CHECK(keys_of(with("bf16: false\npure_bf16: true\n")).at("train.precision") == "\"bf16\"");
  CHECK(keys_of(with("bf16: false\npure_bf16: false\n")).at("train.precision") == "\"fp32\"");
  for (const char* off : {"neftune_noise_alpha: 0.0\n", "neftune_noise_alpha: null\n",
                          "use_liger_kernel: null\n", "torch_compile: false\n"}) {
    INFO(off);
    CHECK(with(off).not_expressed.empty());
  }
  CHECK(with("neftune_noise_alpha: 5\n").not_expressed ==
        std::vector<std::string>{
            "args.yaml:2: neftune_noise_alpha = 5: no noise is added to the embeddings"});
}

TEST_CASE("DeepSpeed's precision may be PyTorch's autocast, and Apex's is told") {
  const auto precision = [](const std::string& fields) {
    return keys_of(imported("ds.json", R"({"train_batch_size": 8, )" + fields + "}"))
        .at("train.precision");
  };
  CHECK(precision(R"("torch_autocast": {"enabled": true, "dtype": "bfloat16"})") == "\"bf16\"");
  CHECK(precision(R"("torch_autocast": {"enabled": true, "dtype": "float16"})") == "\"fp16\"");
  CHECK(precision(R"("torch_autocast": {"enabled": false})") == "\"fp32\"");
  CHECK(imported("ds.json", R"({"train_batch_size": 8, "amp": {"enabled": true}})")
            .not_expressed.size() == 1);
}

TEST_CASE("DeepSpeed's sections and sizes of a wrong kind are refused") {
  CHECK(refusal("ds.json", R"({"zero_optimization": true})") ==
        "ds.json:1: found zero_optimization = true, expected a map of settings");
  CHECK(refusal("ds.json", R"({"train_batch_size": 8, "tensor_parallel": {"autotp_size": "x"}})") ==
        "ds.json:1: found autotp_size = x, expected an integer from 0 to 1000000000");
  CHECK(refusal("ds.json", R"({"zero_optimization": {"stage": 2, "reduce_bucket_size": -5}})")
            .find("expected a number above 0") != std::string::npos);
}

TEST_CASE("Accelerate's strategies are names, or numbers from 1 on") {
  const auto zero = [](const std::string& strategy) {
    return keys_of(imported("fsdp.yaml", "fsdp_config:\n  fsdp_sharding_strategy: " + strategy +
                                             "\nmixed_precision: bf16\n"))
        .at("train.zero");
  };
  CHECK(zero("FULL_SHARD") == "3");
  CHECK(zero("1") == "3");
  CHECK(zero("2") == "2");
  CHECK(zero("HYBRID_SHARD_ZERO2") == "2");
  CHECK(refusal("fsdp.yaml", "fsdp_config:\n  fsdp_sharding_strategy: HALF\n")
            .starts_with("fsdp.yaml:2: found fsdp_sharding_strategy = HALF, expected one of"));
  CHECK(refusal("fsdp.yaml", "fsdp_config: 3\n")
            .starts_with("fsdp.yaml:1: found fsdp_config = 3, expected a map"));
  CHECK(refusal("fsdp.yaml", "mixed_precision: [1]\nfsdp_config: {}\n")
            .starts_with("fsdp.yaml:1: found mixed_precision = [1], expected no, bf16"));
}

TEST_CASE("torchtitan: FSDP2 over the rest, its schedules, its precisions") {
  const Keys keys =
      keys_of(after_llama("train.toml", sample("plans/torchtitan_llama3_405b.toml"), 128));
  CHECK(keys.at("parallel.tp") == "8");
  CHECK(keys.at("parallel.micro_batch") == "2");
  CHECK(keys.at("parallel.global_batch") == "32");  // 2 x 128 / 8
  CHECK(keys.at("train.zero") == "3");
  CHECK(keys.at("train.precision") == "\"fp8\"");
  CHECK(keys.at("train.recompute") == "\"full\"");
  CHECK(keys.at("overlap.tensor") == "\"ring\"");
  CHECK(keys.at("model.seq") == "8192");
  const Keys pipeline = keys_of(after_llama("train.toml", R"([job]
[training]
local_batch_size = 8
seq_len = 2048
[parallelism]
data_parallel_replicate_degree = 2
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
)",
                                            64));
  const auto lines_on_compile = [](const std::string& text) {
    const auto plan = after_llama("train.toml", text, 64);
    return std::ranges::count_if(plan.not_expressed, [](const std::string& line) {
      return line.starts_with("compile.enable = false");
    });
  };
  CHECK(lines_on_compile("[job]\n[training]\n") == 1);
  CHECK(lines_on_compile("[job]\n[training]\n[compile]\nenable = false\n") == 1);
  CHECK(lines_on_compile("[job]\n[training]\n[compile]\nenable = true\n") == 0);
  CHECK(pipeline.at("schedule.order") == "\"interleaved\"");
  CHECK(pipeline.at("parallel.vpp") == "2");
  CHECK(pipeline.at("parallel.micro_batch") == "1");
  CHECK(pipeline.at("parallel.hsdp_shard") == "8");  // 64 / 4 over 2 replicas
  CHECK(pipeline.at("parallel.global_batch") == "128");
  CHECK(pipeline.at("train.reshard_after_forward") == "false");
  const Keys context = keys_of(imported("b.toml", R"([parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 4
context_parallel_degree = 2
)"));
  CHECK(context.at("parallel.dp") == "8");
  CHECK(context.at("parallel.hsdp_shard") == "8");  // context ranks cut as well
  // 16 layers, embedding and head over 8 stages: two more for the first two; embedding and head
  // are layers of theirs.
  CHECK(pipeline.at("parallel.layers_per_stage") == "[2, 3, 2, 2, 2, 2, 2, 1]");
  // Replicas are DDP's, whose buckets are of 100 MiB.
  const Keys replicas = keys_of(imported("a.toml", R"([parallelism]
data_parallel_replicate_degree = 8
data_parallel_shard_degree = 1
)"));
  CHECK(replicas.count("train.zero") == 0);
  CHECK(replicas.at("overlap.grad_reduce") == "true");
  CHECK(replicas.at("overlap.bucket_MB") == "104.8576");
  CHECK(refusal("a.toml", "parallelism = 3") ==
        "a.toml:1: found parallelism = 3, expected a table");
}

TEST_CASE("a later file builds on an earlier one, and goes over what that assumed") {
  const Keys keys = keys_of(after_llama("train.sh", R"(torchrun pretrain_gpt.py --bf16 \
--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4 --seq-length 512
)"));
  CHECK(keys.at("model.layers") == "16");  // the script has no model
  CHECK(keys.at("parallel.vpp") == "2");   // 16 / 2 / 4, by the model of the other file
  CHECK(keys.at("model.seq") == "512");
  const Keys eager = keys_of(after_llama("b.sh", R"(python pretrain_gpt.py --num-layers 16 \
--hidden-size 1024 --num-attention-heads 16 --attention-backend unfused
)"));
  CHECK(eager.at("model.gated_mlp") == "true");         // the script does not state it
  CHECK(eager.at("train.flash_attention") == "false");  // the first file assumed it
}

TEST_CASE("the sequence, which config.json does not have, is that of an earlier file") {
  const auto plan = import_sources(
      {{"a.sh", "python pretrain_gpt.py --bf16 --seq-length 512\n"}, {"config.json", kLlama}});
  REQUIRE(plan.ok());
  CHECK(keys_of(*plan).at("model.seq") == "512");
}

TEST_CASE("what is assumed, inexpressible and not understood has a line of its own each") {
  ImportedPlan plan = imported("config.json", kLlama);
  plan.not_understood = {"a.sh:1: --x\n[cluster]", "a.sh:2: --y"};
  const std::string text = scenario_text(plan);
  CHECK(text.find("\n# not understood: a.sh:1: --x [cluster]\n") != std::string::npos);
  CHECK(text.find("\n# not understood: a.sh:2: --y\n") != std::string::npos);
  CHECK(text.find("\n# assumed: model.seq = 4096") != std::string::npos);
  CHECK(text.find("\n# [cluster]\n") != std::string::npos);
  // A byte that is no UTF-8, in a comment and in a value, is none in a scenario.
  plan.not_understood = {"a.sh:1: --x \xff\xc3"};
  plan.set("model.name", "\xed\xa0\x80 \u00e9", "");
  CHECK(parse_toml(scenario_text(plan), "a.toml").ok());
  CHECK(scenario_text(plan).find("name = \"??? \u00e9\"") != std::string::npos);
  CHECK(toml_value(std::string("a\"b\\c\n")) == R"("a\"b\\c\u000a")");
}

// The place of a key; empty: it is not there.
std::string place_of(const ImportedPlan& plan, const std::string& key) {
  for (const ImportedKey& one : plan.keys) {
    if (one.key == key) return one.where;
  }
  return "";
}

TEST_CASE("a key knows the line of its field, or the file") {
  const ImportedPlan model = imported("config.json", R"({"model_type": "llama",
"vision_config": {"hidden_size": 1, "num_attention_heads": 1},
"text_config": {"hidden_size": 64, "num_hidden_layers": 2,
"num_attention_heads": 4,
"intermediate_size": 128, "vocab_size": 100}})");
  CHECK(place_of(model, "model.hidden") == "config.json:3");
  CHECK(place_of(model, "model.heads") == "config.json:4");
  CHECK(place_of(model, "model.ffn_hidden") == "config.json:5");
  CHECK(place_of(model, "train.flash_attention") == "config.json");  // no field says it
  const ImportedPlan log = imported("train.log", kSmallLog);
  CHECK(place_of(log, "parallel.tp") == "train.log:27");
  CHECK(place_of(log, "model.kv_heads") == "train.log:17");
  CHECK(place_of(log, "model.vocab") == "train.log:34");  // the line behind the block
  const ImportedPlan script = imported("train.sh", R"(A="--num-layers 2 --hidden-size 64"
torchrun pretrain_gpt.py $A --num-attention-heads 4 \
  --tensor-model-parallel-size 2
)");
  CHECK(place_of(script, "parallel.tp") == "train.sh:3");
  const ImportedPlan zero = imported("ds_config.json", R"({"train_batch_size": 8,
"zero_optimization": {
"stage": 2}})");
  CHECK(place_of(zero, "train.zero") == "ds_config.json:3");
  CHECK(place_of(zero, "parallel.global_batch") == "ds_config.json:1");
  const ImportedPlan titan =
      imported("t.toml", "[parallelism]\ntensor_parallel_degree = 2\n[training]\nseq_len = 64\n");
  CHECK(place_of(titan, "parallel.tp") == "t.toml:2");
  CHECK(place_of(titan, "model.seq") == "t.toml:4");
}

TEST_CASE("files of no known kind are refused, with the kinds there are") {
  CHECK(refusal("a.json", "{}")
            .starts_with("a.json: found JSON of no known kind, expected a config"));
  CHECK(refusal("a.toml", "a = 1").starts_with("a.toml: found TOML of no known kind"));
  CHECK(refusal("a.yaml", "a: 1").starts_with("a.yaml: found YAML of no known kind"));
  CHECK(refusal("a.txt", "hello").starts_with("a.txt: found a text without Megatron-LM's flags"));
  CHECK(refusal("a.txt", " \n").starts_with("a.txt: is empty, expected"));
}

TEST_CASE("MLPerf's log states the batch ahead of its steps, and each run begins with it") {
  const auto event = [](const char* key, const std::string& value) {
    return fmt::format(":::MLLOG {{\"key\": \"{}\", \"value\": {}, \"metadata\": {{}}}}\n", key,
                       value);
  };
  const auto steps = [&](int count, const char* seconds) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += event("tracked_stats", fmt::format("{{\"train_step_time\": {}}}", seconds));
    return text;
  };
  const std::string first =
      event("global_batch_size", "64") + event("run_start", "null") + steps(9, "0.35");
  const std::string second =
      event("global_batch_size", "128") + event("run_start", "null") + steps(8, "0.75");
  const ImportedPlan last = imported("train.log", first + second);
  CHECK(last.measured.iteration_s.value() == 0.75);
  CHECK(last.measured.iterations == 5);
  CHECK(last.left_out == std::vector<std::string>{"train.log:1 to 11: an earlier run in this log"});
  // Beside a script with another batch nothing of it is this job's; NeMo's lines state their own.
  const std::string script =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --global-batch-size 64 --micro-batch-size 1 "
      "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024\n";
  const auto beside = [&](const std::string& log) {
    const auto plan = import_sources({{"run.sh", script}, {"train.log", log}}, {.gpus = 8});
    REQUIRE(plan.ok());
    return *plan;
  };
  CHECK(!beside(second).measured.any());
  CHECK(beside(first).measured.iteration_s.value() == 0.35);
  const std::string nemo = "| global_batch_size: 128 | train_step_timing in s: 0.75\n";
  CHECK(!beside(nemo).measured.any());
  CHECK(mentions(beside(nemo).left_out,
                 "1 iterations whose global batch size, such as 128, is not 64"));
}
