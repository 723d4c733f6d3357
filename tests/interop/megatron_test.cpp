// Plans from Megatron-LM's arguments, in all the files where they stand.
#include <algorithm>
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "base/split.h"
#include "interop/megatron/layout.h"
#include "interop/megatron/megatron.h"
#include "tests/interop/imported.h"
#include "tests/interop/small_log.h"

using namespace tandem;

namespace {

Keys test_of(const std::string& name) {
  const ImportedPlan plan = imported("model_config.yaml", sample("plans/" + name + ".yaml"));
  CHECK(plan.not_understood.empty());
  return keys_of(plan);
}

// A model of 8 layers, and flags behind it.
ImportedPlan flags(const std::string& more, std::int64_t gpus = 0) {
  return imported("train.sh",
                  "python pretrain_gpt.py --num-layers 8 --hidden-size 1024 --bf16 "
                  "--num-attention-heads 16 --seq-length 2048 --vocab-size 32000 " +
                      more + "\n",
                  gpus);
}

}  // namespace

TEST_CASE("a log gives the plan, the padded vocabulary and what was measured") {
  const ImportedPlan plan = imported("train.log", kSmallLog);
  const Keys keys = keys_of(plan);
  CHECK(keys.at("model.layers") == "32");
  CHECK(keys.at("model.kv_heads") == "8");
  CHECK(keys.at("model.vocab") == "128512");
  CHECK(keys.at("parallel.tp") == "4");
  CHECK(keys.at("parallel.vpp") == "2");
  CHECK(keys.at("cluster.gpus") == "16");
  CHECK(keys.at("train.zero") == "1");
  CHECK(keys.count("overlap.align_param_gather") == 0);  // with virtual stages on, as ours
  CHECK(keys.count("overlap.bucket_MB") == 0);           // with stages one bucket each, as ours
  CHECK(keys.count("model.norm") == 0);                  // as models with gated MLPs have it
  CHECK(plan.not_expressed.empty());                     // a dense model sends no tokens
  CHECK(plan.not_understood == std::vector<std::string>{"train.log:25: some_new_argument 3"});
  // Without the first three: the median of 1250, 1200 and 1300 ms.
  CHECK(plan.measured.iteration_s.value() == Approx(1.25));
  CHECK(plan.measured.iterations == 3);
  CHECK(plan.measured.tflops_per_gpu.value() == Approx(401));
  CHECK(plan.measured.max_allocated_bytes.value() == 30720.0 * 1024 * 1024);
}

TEST_CASE("of a log the last run counts, and of a ramp-up the iterations of the plan's batch") {
  std::string first_run = kSmallLogArguments;
  first_run.replace(first_run.find(" 128\n"), 5, " 256\n");  // its global batch
  std::string log = first_run + iteration_line(1, "3000.0", "300.0") + kSmallLogArguments;
  for (int i = 1; i <= 5; ++i) {
    log += iteration_line(i, "500.0", "300.0");
    log.replace(log.rfind("size: 128"), 9, "size:  32");
  }
  for (int i = 6; i <= 10; ++i) log += iteration_line(i, "1500.0", "395.0");
  const ImportedPlan plan = imported("train.log", log);
  CHECK(keys_of(plan).at("parallel.global_batch") == "128");
  CHECK(plan.measured.iteration_s.value() == 1.5);
  CHECK(plan.measured.iterations == 2);
  CHECK(
      plan.left_out ==
      std::vector<std::string>{
          "train.log:1 to 35: an earlier run in this log",
          "train.log: the times of 5 iterations whose global batch size, such as 32, is not 128"});
  // A run that was started again and measured nothing does not count, nor do its arguments.
  const ImportedPlan crashed = imported("train.log", kSmallLog + first_run + kSmallLog + first_run);
  CHECK(crashed.measured.iterations == 3);
  CHECK(keys_of(crashed).at("parallel.global_batch") == "128");
  CHECK(crashed.left_out ==
        std::vector<std::string>{
            "train.log:1 to 76: an earlier run in this log",
            "train.log:119 to 152: a later run in this log, which measured nothing"});
}

TEST_CASE("what a log measured as nothing, or as no number, is not counted") {
  const ImportedPlan plan = imported(
      "train.log", kSmallLogArguments + iteration_line(1, "nan", "400.0") +
                       iteration_line(2, "0.0", "400.0") + iteration_line(3, "-5.0", "400.0") +
                       iteration_line(4, "1000.0", "inf") + memory_line(0, "nan"));
  CHECK(plan.measured.iteration_s.value() == 1);
  CHECK(plan.measured.iterations == 1);
  CHECK(!plan.measured.tflops_per_gpu);
  CHECK(!plan.measured.max_allocated_bytes);
}

TEST_CASE("a log's labels, times and colours are taken away, and others' lines passed over") {
  const std::string log = kSmallLogArguments + iteration_line(1, "1000.0", "400.0");
  const ImportedPlan plain = imported("train.log", log);
  const auto every_line = [&](const std::string& before, const std::string& after) {
    std::string text;
    for (const std::string& line : split(log, "\n")) text += before + line + after + "\n";
    return keys_of(imported("train.log", text));
  };
  const Keys keys = keys_of(plain);
  CHECK(every_line("0: ", "") == keys);
  CHECK(every_line("12: [default3]:", "") == keys);
  CHECK(every_line("[rank0]:", "\r") == keys);
  CHECK(every_line("[node0:7]:", "") == keys);  // torchrun --role node0:
  CHECK(every_line("[gpu-1.cluster:0]:", "") == keys);
  CHECK(every_line("[1,31]<stdout>:", "") == keys);
  CHECK(every_line("2026-11-25T10:11:12.345678Z ", "") == keys);
  CHECK(every_line("2026-11-25T10:11:12Z stdout F ", "") == keys);
  CHECK(every_line("\x1b[32m", "\x1b[0m") == keys);
  // Two ranks whose lines alternate: the second one's are no arguments.
  std::string mixed;
  for (const std::string& line : split(log, "\n"))
    mixed += "0: " + line + "\n1: something else entirely\n";
  const ImportedPlan both = imported("train.log", mixed);
  CHECK(keys_of(both) == keys);
  CHECK(both.not_understood.size() == plain.not_understood.size());
}

TEST_CASE("logs of torchtitan, NeMo, DeepSpeed and MLPerf say how long an iteration took") {
  const std::string script =
      "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 4 "
      "--hidden-size 256 --num-attention-heads 4 --seq-length 2048 "
      "--micro-batch-size 1 --global-batch-size 64 --bf16\n";
  const auto seconds = [&](const std::string& line) {
    std::string log;
    for (int i = 0; i < 5; ++i) log += line + "\n";
    const auto plan = import_sources({{"run.sh", script}, {"train.log", log}});
    if (!plan.ok()) FAIL(plan.error().text());
    return plan->measured.iteration_s.value();
  };
  CHECK(
      seconds("[titan] step: 10  loss:  7.1  memory: 40.01GiB(50.1%)  tps: 4,096  tflops: 300.1") ==
      Approx(64.0 * 2048 / (4096 * 16)));
  CHECK(seconds("step: 10  loss:  7.1  memory: 33.10GiB(41.91%)  wps: 8,192  mfu: 40.30%") ==
        Approx(64.0 * 2048 / (8192 * 16)));
  CHECK(seconds("iteration 7/ 9 | elapsed time per iteration (s): 6.02 | learning") ==
        Approx(6.02));
  CHECK(seconds("Training epoch 0, iteration 5/99 | train_step_timing in s: 5.5 | loss") ==
        Approx(5.5));
  CHECK(seconds("epoch=0/micro_step=8/global_step=8, RunningAvgSamplesPerSec=30.0, "
                "CurrSamplesPerSec=32.0, MemAllocated=10.0GB, MaxMemAllocated=20.5GB") ==
        Approx(2.0));
  // A progress bar of one line, whose first step compiles.
  CHECK(seconds("x train_step_timing in s=30.0\r train_step_timing in s=2.0\r"
                " train_step_timing in s=2.0\r train_step_timing in s=2.0\r") == Approx(2.0));
  CHECK(seconds(":::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"train_step_time\": 1.25}}") ==
        Approx(1.25));
  // MLPerf asks for no such times. A log without them is a log all the same.
  CHECK(!imported("train.log", ":::MLLOG {\"key\": \"run_start\", \"value\": null}\n")
             .measured.any());
}

TEST_CASE("bars of a hybrid's pattern say how its layers are cut, of an earlier file's model too") {
  const std::string cut =
      "--hybrid-layer-pattern 'M-|M*M|-M|M-' --pipeline-model-parallel-size 2 "
      "--micro-batch-size 1 --bf16\n";
  const std::string sizes = "--hidden-size 64 --num-attention-heads 4 ";
  const Keys keys = keys_of(imported("a.sh", "python pretrain_mamba.py " + sizes + cut));
  CHECK(keys.at("parallel.layers_per_stage") == "[2, 3, 2, 2]");
  CHECK(keys.at("parallel.vpp") == "2");
  CHECK(keys.at("model.pattern").find("mamba + dense") != std::string::npos);
  const auto uneven = import_sources({{"a.sh", "python pretrain_mamba.py " + sizes +
                                                   "--hybrid-layer-pattern 'M-|M*|M-' "
                                                   "--pipeline-model-parallel-size 2\n"}});
  REQUIRE(!uneven.ok());
  CHECK(uneven.error().text().find("bars for a multiple of 2 stages") != std::string::npos);
}

TEST_CASE("one layer a virtual stage: 32 layers on 4 ranks are 8 stages each") {
  const Keys keys = test_of("megatron_gpt3_7b_tp1_pp4_memory_speed");
  CHECK(keys.at("parallel.vpp") == "8");
  CHECK(keys.at("model.ffn_hidden") == "16384");      // 4 hidden
  CHECK(keys.at("model.vocab") == "131200");          // 131073 up to a multiple of 128
  CHECK(keys.count("overlap.batch_p2p") == 0);        // transfers overlap
  CHECK(keys.count("model.learned_positions") == 0);  // GPT's, as ours without gated_mlp
  CHECK(test_of("megatron_gpt3_7b_tp4_pp1_memory_speed").at("overlap.bucket_MB") == "160");
}

TEST_CASE("the batch of a schedule is its last, and squared ReLU is no gated MLP") {
  const Keys keys = test_of("megatron_gpt3_15b_8t_release");
  CHECK(keys.at("parallel.global_batch") == "1152");
  CHECK(keys.count("model.gated_mlp") == 0);
  CHECK(keys.at("model.biases") == "false");
  CHECK(keys.at("model.learned_positions") == "false");
  CHECK(keys.at("train.cross_entropy") == "\"unfused\"");
  CHECK(keys.at("train.framework") == "\"megatron\"");
}

TEST_CASE("a layout's stages are the pipeline's times the virtual ones") {
  const Keys keys = test_of("megatron_deepseekv3_proxy_flex_tp1pp4emp16etp1cp1_release");
  CHECK(keys.at("parallel.layers_per_stage") == "[2, 2, 2, 2, 2, 2, 1, 1]");
  CHECK(keys.at("parallel.vpp") == "2");  // 7 bars part 8 stages of 4 ranks
  CHECK(keys.at("parallel.ep") == "16");
  CHECK(keys.at("parallel.expert_tp") == "1");
  CHECK(keys.at("model.pattern") == "\"dense*3 + moe*11\"");
  CHECK(keys.at("model.kinds.moe.experts") == "64");
  CHECK(keys.at("model.vocab") == "258560");  // 256000 up to a multiple of 3232 x 2
  CHECK(keys.at("model.mtp_layers") == "1");
  CHECK(keys.at("train.cross_entropy") == "\"native\"");
}

TEST_CASE("the other tests of Megatron-LM arrive with all that matters") {
  const Keys mixtral = test_of("megatron_mixtral_8x22b_tp2pp8ep8vpp1_release");
  CHECK(keys_of(imported("a.yaml", "MODEL_ARGS:\n  --bf16: true\n")).count("model.layers") == 0);
  CHECK(mixtral.at("parallel.pp") == "8");
  CHECK(mixtral.at("parallel.ep") == "8");
  CHECK(mixtral.at("overlap.batch_p2p") == "true");
  CHECK(mixtral.at("overlap.align_param_gather") == "false");
  CHECK(mixtral.at("model.expert_ffn_hidden") == "16384");
  CHECK(mixtral.at("model.top_k") == "2");
  const Keys latent = test_of("megatron_gpt3_mcore_te_tp2_pp2_ep4_etp1_memory_speed");
  CHECK(latent.at("parallel.vpp") == "4");
  CHECK(latent.at("train.flash_attention") == "false");  // --attention-backend unfused
  CHECK(latent.at("model.kinds.moe.shared_expert_ffn") == "1024");
}

TEST_CASE("SwiGLU's MLP is two thirds of four hidden, down to a multiple of 64") {
  // 4 x 1024 x 2 / 3 = 2730.7: 42 x 64.
  CHECK(keys_of(flags("--swiglu")).at("model.ffn_hidden") == "2688");
  CHECK(keys_of(flags("--quick-geglu")).at("model.ffn_hidden") == "4096");
  CHECK(keys_of(flags("--quick-geglu --num-experts 8")).at("model.expert_ffn_hidden") == "4096");
}

TEST_CASE("query groups count with --group-query-attention only") {
  CHECK(keys_of(flags("--num-query-groups 4")).count("model.kv_heads") == 0);
  CHECK(keys_of(flags("--num-query-groups 4 --group-query-attention")).at("model.kv_heads") == "4");
  CHECK(keys_of(flags("--group-query-attention")).at("model.kv_heads") == "1");
}

TEST_CASE("embedding and loss in the split take a layer from the first and the last stage") {
  // 8 layers and 2 more over 5 stages: 2 each.
  const Keys keys =
      keys_of(flags("--pipeline-model-parallel-size 5 --account-for-embedding-in-pipeline-split "
                    "--account-for-loss-in-pipeline-split"));
  CHECK(keys.at("parallel.layers_per_stage") == "[1, 2, 2, 2, 1]");
  CHECK(keys_of(flags("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
                      "--decoder-last-pipeline-num-layers 1"))
            .at("parallel.layers_per_stage") == "[1, 3, 3, 1]");
}

TEST_CASE("precision: fp8 with its recipe, NVFP4, fp16's gradients, and fp32 without a flag") {
  CHECK(keys_of(flags("--fp8-format hybrid")).at("train.precision") == "\"fp8\"");
  CHECK(keys_of(flags("--fp8-format hybrid")).count("train.fp8_recipe") == 0);
  CHECK(keys_of(flags("--fp8-format e4m3 --fp8-recipe tensorwise")).at("train.fp8_recipe") ==
        "\"current\"");
  CHECK(keys_of(flags("--fp8-format hybrid --tp-only-amax-red")).at("train.amax_reduction") ==
        "\"tensor\"");
  CHECK(keys_of(flags("--bf16 --tp-only-amax-red")).count("train.amax_reduction") == 0);
  CHECK(keys_of(flags("--fp8-format e4m3 --fp8-recipe mxfp8")).at("train.fp8_recipe") ==
        "\"mxfp8\"");
  CHECK(keys_of(flags("--fp4-format e2m1")).at("train.precision") == "\"nvfp4\"");
  CHECK(keys_of(flags("--grad-reduce-in-bf16")).at("train.gradient_dtype") == "\"bf16\"");
  CHECK(
      keys_of(imported("a.yaml", "MODEL_ARGS:\n  --micro-batch-size: 1\n")).at("train.precision") ==
      "\"fp32\"");
}

TEST_CASE("a window counts the positions before its own, and -1 is none") {
  CHECK(keys_of(flags("--window-size 127,0")).at("model.window") == "128");
  CHECK(keys_of(flags("--window-size '(-1,0)'")).count("model.window") == 0);
  CHECK(keys_of(flags("--window-size 127,0 --window-attn-skip-freq 4")).at("model.pattern") ==
        "\"(local*3 + global)*2\"");
}

TEST_CASE("buckets count parameters in the bytes of their gradients: fp16's are of 2") {
  // 40 million parameters.
  CHECK(keys_of(flags("--overlap-grad-reduce")).at("overlap.bucket_MB") == "160");
  CHECK(keys_of(flags("--overlap-grad-reduce --grad-reduce-in-bf16")).at("overlap.bucket_MB") ==
        "80");
  const std::string fp16 = "python pretrain_gpt.py --fp16 --overlap-grad-reduce";
  CHECK(keys_of(imported("a.sh", fp16)).at("overlap.bucket_MB") == "80");
  CHECK(keys_of(imported("a.sh", fp16 + " --accumulate-allreduce-grads-in-fp32"))
            .at("overlap.bucket_MB") == "160");
  const std::string sized = "--overlap-grad-reduce --ddp-bucket-size ";
  CHECK(keys_of(flags(sized + "10000000000")).at("overlap.bucket_MB") == "40000");
  CHECK(keys_of(flags(sized + "1000000000000")).at("overlap.bucket_MB") == "1000000");
  CHECK(has(refusal("a.sh", "python pretrain_gpt.py " + sized + "0"), "expected a number above 0"));
}

// Megatron-Bridge's file with these fields of the model.
Keys bridge(const std::string& fields) {
  return keys_of(imported("run_config.yaml", "model:\n  tensor_model_parallel_size: 1\n" + fields +
                                                 "train:\n  global_batch_size: 8\n"));
}

TEST_CASE("the loss is unfused in Megatron-LM, native in Megatron-Bridge, or as both say") {
  const auto loss = [](const Keys& keys) {
    const auto found = keys.find("train.cross_entropy");
    return found == keys.end() ? "\"native\"" : found->second;
  };
  CHECK(loss(keys_of(flags(""))) == "\"unfused\"");
  CHECK(loss(keys_of(flags("--cross-entropy-loss-fusion"))) == "\"native\"");
  CHECK(loss(keys_of(flags("--cross-entropy-loss-fusion --cross-entropy-fusion-impl te"))) ==
        "\"te\"");
  CHECK(loss(keys_of(flags("--cross-entropy-fusion-impl te"))) == "\"unfused\"");
  CHECK(loss(bridge("")) == "\"native\"");
  CHECK(loss(bridge("  cross_entropy_fusion_impl: te\n")) == "\"te\"");
  CHECK(loss(bridge("  cross_entropy_loss_fusion: false\n")) == "\"unfused\"");
}

TEST_CASE("the optimizer: Muon with its mode, moments and originals of the precision-aware one") {
  const Keys muon = keys_of(flags("--optimizer muon --muon-tp-mode blockwise"));
  CHECK(muon.at("train.optimizer") == "\"muon\"");
  CHECK(muon.at("train.muon_tp") == "\"blockwise\"");
  CHECK(muon.count("train.zero") == 0);
  CHECK(keys_of(flags("")).count("train.optimizer") == 0);
  CHECK(flags("--optimizer sgd").not_expressed.size() == 1);
  CHECK(flags("--optimizer muon --muon-num-ns-steps 6").not_expressed.size() == 1);
  const std::string narrow =
      "--bf16 --use-distributed-optimizer --use-precision-aware-optimizer --exp-avg-dtype bf16";
  const ImportedPlan differ = flags(narrow);
  CHECK(keys_of(differ).at("train.optimizer_dtype") == "\"bf16\"");
  CHECK(keys_of(differ).at("train.param_remainders") == "true");
  CHECK(differ.not_expressed.size() == 1);  // the other moment is fp32
  CHECK(flags(narrow + " --exp-avg-sq-dtype bf16").not_expressed.empty());
  CHECK(keys_of(flags(narrow + " --fp8-format hybrid --fp8-recipe mxfp8"))
            .count("train.param_remainders") == 0);
  const ImportedPlan offloads = flags(narrow + " --optimizer-cpu-offload");
  CHECK(keys_of(offloads).count("train.optimizer_dtype") == 0);  // moments stay fp32
}

TEST_CASE(
    "the usual value is not listed, however it is written; another one is, with what is "
    "simulated") {
  CHECK(flags("--activation-offload-fraction 1 --main-params-dtype torch.float32 "
              "--moe-dispatch-fwd-dtype torch.bfloat16 --num-experts 8")
            .not_expressed.empty());
  CHECK(mentions(flags("--activation-offload-fraction 0.5").not_expressed,
                 "all of the modules' arrays are offloaded"));
  CHECK(mentions(flags("--nccl-ub").not_expressed, "NCCL's buffers are not registered"));
}

TEST_CASE("parameters are gathered quantized by a switch, or by the recipe that Bridge names") {
  const auto gathers = [](const Keys& keys) { return keys.count("train.fp8_param_gather") == 1; };
  CHECK(gathers(keys_of(flags("--fp4-format e2m1 --fp4-param-gather"))));
  CHECK(flags("--fp8-format hybrid --fp8-recipe mxfp8 --fp8-param-gather "
              "--reuse-grad-buf-for-mxfp8-param-ag")
            .not_expressed.empty());
  const auto named = [](const std::string& recipe) {
    return imported("run_config.yaml",
                    "model:\n  tensor_model_parallel_size: 1\nmixed_precision: " + recipe +
                        "\ntrain:\n  global_batch_size: 8\n");
  };
  const ImportedPlan mxfp8 = named("bf16_with_mxfp8_mixed");
  CHECK(gathers(keys_of(mxfp8)));
  CHECK(std::ranges::count(mxfp8.assumed,
                           "train.fp8_param_gather = true: by Megatron-Bridge's "
                           "bf16_with_mxfp8_mixed") == 1);
  CHECK(gathers(keys_of(named("bf16_with_nvfp4_mixed"))));
  CHECK(!gathers(keys_of(named("bf16_with_fp8_subchannel_scaling_mixed"))));
  CHECK(!gathers(keys_of(named("bf16_mixed"))));
}

TEST_CASE("what is offloaded: by modules if the switch is on, or the first layers") {
  const std::string modules = " --offload-modules core_attn attn_proj";
  CHECK(keys_of(flags(modules)).count("train.activation_offload_modules") == 0);
  CHECK(keys_of(flags("--fine-grained-activation-offloading" + modules))
            .at("train.activation_offload_modules") == "\"core_attn, attn_proj\"");
  CHECK(keys_of(flags("--cpu-offloading-num-layers 3")).at("train.activation_offload_layers") ==
        "3");
  // Megatron-Bridge's files have every field; the switch says whether they count.
  const std::string layers = "  cpu_offloading_num_layers: 3\n  cpu_offloading: ";
  CHECK(bridge(layers + "false\n").count("train.activation_offload_layers") == 0);
  CHECK(bridge(layers + "true\n").at("train.activation_offload_layers") == "3");
  CHECK(bridge("  fine_grained_activation_offloading: true\n"
               "  offload_modules: [moe_act, expert_fc1]\n")
            .at("train.activation_offload_modules") == "\"moe_act, expert_fc1\"");
}

TEST_CASE("recompute: by modules, of whole layers, of the first layers of a stage") {
  CHECK(keys_of(flags("--recompute-activations")).at("train.recompute") == "\"selective\"");
  const Keys modules = keys_of(
      flags("--recompute-granularity selective --recompute-modules core_attn moe_act layernorm"));
  CHECK(modules.at("train.recompute_modules") == "\"core_attn, moe_act, layernorm\"");
  const Keys block = keys_of(
      flags("--recompute-granularity full --recompute-method block --recompute-num-layers 3"));
  CHECK(block.at("train.recompute") == "\"full\"");
  CHECK(block.at("train.recompute_layers") == "3");
}

TEST_CASE("sharding: Megatron-FSDP shards all, and instances make an HSDP of two levels") {
  CHECK(keys_of(flags("--use-megatron-fsdp")).at("train.zero") == "3");
  CHECK(keys_of(flags("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"))
            .at("train.zero") == "2");
  CHECK(keys_of(flags("--use-distributed-optimizer --num-distributed-optimizer-instances 4", 32))
            .at("parallel.hsdp_shard") == "8");
  // Instances are of the data-parallel and context ranks together.
  CHECK(keys_of(flags("--use-distributed-optimizer --num-distributed-optimizer-instances 4 "
                      "--context-parallel-size 2",
                      32))
            .at("parallel.hsdp_shard") == "8");
}

TEST_CASE("TP overlap has Transformer Engine's methods, without what is switched off") {
  const Keys keys =
      keys_of(flags("--tensor-model-parallel-size 4 --sequence-parallel --tp-comm-overlap "
                    "--disable-tp-comm-bulk-wgrad"));
  CHECK(keys.at("overlap.tensor") == "\"ring\"");
  CHECK(keys.at("overlap.gemm.proj_fprop") == "\"pipelined\"");
  CHECK(keys.at("overlap.gemm.fc1_wgrad") == "\"off\"");
  CHECK(keys.count("overlap.gemm.fc1_dgrad") == 0);
}

TEST_CASE("context parallelism is a ring beside attention unless it is asked otherwise") {
  CHECK(keys_of(flags("--context-parallel-size 2")).at("overlap.context") == "true");
  const Keys keys = keys_of(flags("--context-parallel-size 2 --cp-comm-type a2a"));
  CHECK(keys.at("parallel.cp_comm") == "\"all_to_all\"");
  CHECK(keys.count("overlap.context") == 0);
}

TEST_CASE("experts are cut as they are asked to, whatever the rest is") {
  const ImportedPlan cut = flags(
      "--tensor-model-parallel-size 4 --num-experts 8 --moe-grouped-gemm "
      "--expert-tensor-parallel-size 2");
  CHECK(keys_of(cut).at("parallel.expert_tp") == "2");
  CHECK(cut.not_expressed.empty());
}

TEST_CASE("what a scenario refuses beside it is not set: the nearest is, and it is said") {
  // Scans go through the whole sequence.
  const ImportedPlan scans = imported("a.sh",
                                      "python pretrain_gpt.py --hybrid-layer-pattern M*M- --bf16 "
                                      "--hidden-size 64 --num-attention-heads 4 "
                                      "--context-parallel-size 2\n");
  CHECK(keys_of(scans).at("parallel.cp_comm") == "\"all_to_all\"");
  CHECK(scans.not_expressed.size() == 1);
  // Fused attention takes 16 bits.
  CHECK(keys_of(imported("a.yaml", "MODEL_ARGS:\n  --micro-batch-size: 1\n"))
            .at("train.flash_attention") == "false");
}

TEST_CASE("unknown flags are listed, quiet ones counted, others said to be inexpressible") {
  const ImportedPlan plan = flags(
      "--frobnicate 7 --lr 1e-4 --moe-paged-stash --moe-router-top-k 4 "
      "--num-experts 8 --seed 5");
  CHECK(plan.not_understood ==
        std::vector<std::string>{"train.sh:1: --frobnicate 7", "train.sh:1: --moe-router-top-k 4"});
  CHECK(mentions(plan.assumed, "model.top_k = 2: Megatron-LM's, there is no --moe-router-topk"));
  CHECK(std::count_if(plan.not_expressed.begin(), plan.not_expressed.end(), [](const auto& line) {
          return line.find("--moe-paged-stash") != std::string::npos;
        }) == 1);
  CHECK(plan.without_effect >= 2);
}

TEST_CASE("shared experts run ahead of the others unless the script overlaps them") {
  const std::string experts =
      "--num-experts 8 --moe-router-topk 2 --moe-shared-expert-intermediate-size 512 "
      "--expert-model-parallel-size 2 ";
  CHECK(keys_of(flags(experts)).at("overlap.shared_experts") == "false");
  CHECK(keys_of(flags(experts + "--moe-shared-expert-overlap")).at("overlap.shared_experts") ==
        "true");
  CHECK(keys_of(flags(experts + "--overlap-moe-expert-parallel-comm"))
            .count("overlap.shared_experts") == 0);
}

TEST_CASE("what of a layer is in CUDA graphs is imported by Megatron's names") {
  const ImportedPlan plan = flags(
      "--cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router "
      "moe_preprocess");
  CHECK(keys_of(plan).at("train.cuda_graphs") == "true");
  CHECK(keys_of(plan).at("train.cuda_graph_scope") == "\"attn, moe_router, moe_preprocess\"");
  CHECK(plan.not_expressed.empty());
}

TEST_CASE("values of a wrong kind are refused with file and line") {
  CHECK(refusal("a.yaml", "MODEL_ARGS:\n  --num-layers: many\n") ==
        "a.yaml:2: found --num-layers many, expected an integer from 1 to 1000000000");
  CHECK(refusal("a.yaml", "MODEL_ARGS:\n  --num-layers: 8\n") ==
        "a.yaml: found no --hidden-size, expected it beside the layers");
  CHECK(refusal("a.yaml", "MODEL_ARGS:\n  --recompute-granularity: most\n") ==
        "a.yaml:2: found --recompute-granularity most, expected full or selective");
  CHECK(refusal("a.yaml", "MODEL_ARGS: [1\n").starts_with("a.yaml:2: found text that is not YAML"));
}

TEST_CASE("every flag that changes time or memory gives a key or is told, and none is lost") {
  for (const char* flag :
       {"--use-tp-pp-dp-mapping", "--ddp-reduce-scatter-with-fp32-accumulation",
        "--mlp-chunks-for-training 4", "--no-fp8-wgrad",
        "--num-experts 8 --moe-dispatch-fwd-dtype mxfp8", "--te-precision-config-file a.yaml",
        "--no-rope-fusion", "--no-bias-dropout-fusion",
        "--pipeline-model-parallel-comm-backend ucc", "--optimizer lion", "--sft"}) {
    INFO(flag);
    const ImportedPlan plan = flags(flag);
    CHECK(plan.not_expressed.size() == 1);
    CHECK(plan.not_understood.empty());
  }
  CHECK(keys_of(flags("--checkpoint-activations")).at("train.recompute") == "\"full\"");
  CHECK(keys_of(flags("--experimental-attention-variant gdn")).at("model.mixer") == "\"linear\"");
  CHECK(
      keys_of(flags("--no-pad-vocab-size --make-vocab-size-divisible-by 999")).at("model.vocab") ==
      "32000");
  // Its ranks have whole layers of the optimizer each.
  const Keys muon = keys_of(flags("--optimizer dist_muon"));
  CHECK(muon.at("train.optimizer") == "\"muon\"");
  CHECK(muon.at("train.zero") == "1");
}

TEST_CASE("a log, which has all arguments, has nothing to tell where they are the defaults") {
  const CsvTable options = megatron_options();
  std::string log = "------------------------ arguments ------------------------\n";
  for (int row = 0; row < options.size(); ++row) {
    std::string value(options.text(row, "default"));
    std::erase(value, '\'');
    if (value.starts_with("factory:")) value = "[]";
    log += fmt::format("  {} .... {}\n", options.text(row, "dest"), value);
  }
  for (const char* line : {"num_layers 4", "hidden_size 64", "num_attention_heads 4", "bf16 True",
                           "seq_length 128", "vocab_size 1000", "params_dtype torch.bfloat16"})
    log += fmt::format("  {}\n", line);
  log += "-------------------- end of arguments ---------------------\n";
  const ImportedPlan plan = imported("train.log", log);
  CHECK(plan.not_understood.empty());
  CHECK(plan.not_expressed.empty());
  CHECK(plan.without_effect > 600);
}

TEST_CASE("sizes beyond reason are refused, in products too, and odd names are only listed") {
  const std::string big = "--tensor-model-parallel-size 4294967296";
  CHECK(has(refusal("a.sh", "python pretrain_gpt.py " + big), "an integer from 1 to 1000000000"));
  // 8 x 10^18 GPUs a replica: no data-parallel size, and no division by a product that has wrapped.
  const ImportedPlan plan = flags(
      "--tensor-model-parallel-size 1000000000 --pipeline-model-parallel-size 8 "
      "--context-parallel-size 1000000000",
      64);
  CHECK(keys_of(plan).at("parallel.cp") == "1000000000");
  const std::string model =
      "MODEL_ARGS:\n  --num-layers: 8\n  --hidden-size: 64\n  --num-attention-heads: 4\n";
  const std::string stages = model + "  --pipeline-model-parallel-size: ";
  for (const char* split : {"2\n  --decoder-first-pipeline-num-layers: 100\n",
                            "1000000000\n  --decoder-first-pipeline-num-layers: 1\n",
                            "2\n  --pipeline-model-parallel-layout: 'Et|tL'\n"})
    CHECK(refusal("a.yaml", stages + split).starts_with("a.yaml:6: found --"));
  CHECK(refusal("a.yaml",
                "MODEL_ARGS:\n  --hybrid-layer-pattern: 'M*E'\n  --hidden-size: 64\n"
                "  --num-attention-heads: 4\n") ==
        "a.yaml: found no --num-experts, expected experts for the letter E");
  // Predictions on a stage before the loss stay there.
  const ImportedPlan apart =
      imported("a.yaml", model +
                             "  --mtp-num-layers: 1\n  --pipeline-model-parallel-size: 4\n"
                             "  --pipeline-model-parallel-layout: 'Et*3|t*3|t*2,m|L'\n");
  CHECK(keys_of(apart).at("parallel.layout").find("Et*3|t*3|t*2,m|L") != std::string::npos);
  CHECK_FALSE(keys_of(apart).contains("parallel.layers_per_stage"));
  // A shell takes the inner quotes off.
  const std::string freq = "  --num-experts: 4\n  --moe-layer-freq: \"'([0]*2+[1]*6)'\"\n";
  CHECK(keys_of(imported("a.yaml", model + freq)).at("model.pattern") == "\"dense*2 + moe*6\"");
  const ImportedPlan odd = imported("a.yaml", model + "  '--': 3\n  '': 4\n");
  CHECK(odd.not_understood.size() == 1);  // both have the empty name, the last one counts
}

TEST_CASE("words that Megatron-LM does not know are refused") {
  CHECK(refusal("a.yaml", "MODEL_ARGS:\n  --attention-backend: fast\n")
            .find("expected flash, fused, unfused, local or auto") != std::string::npos);
  CHECK(refusal("a.yaml", "MODEL_ARGS:\n  --context-parallel-size: 2\n  --cp-comm-type: a\n")
            .find("expected p2p, a2a, allgather or a2a+p2p") != std::string::npos);
  CHECK(refusal("a.yaml", "MODEL_ARGS:\n  --bf16: true\n  --fp16: true\n") ==
        "a.yaml:3: found --fp16 True, expected it without --bf16");
  // Launchers take underscores; a log's block of arguments has no dashes at all.
  CHECK(refusal("a.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py --num_layers 8\n") ==
        "a.sh:1: found --num_layers 8, expected --num-layers");
}

TEST_CASE("what was measured is a number above 0") {
  const std::string end = "-------------------- end of arguments ---------------------\n";
  const ImportedPlan plan =
      imported("a.log", end + iteration_line(1, "nan", "-1") + iteration_line(2, "1e999", "0") +
                            iteration_line(3, "-5", "5"));
  CHECK(!plan.measured.iteration_s);
}

TEST_CASE("a layout is counted with its brackets and repeats") {
  const auto layers = [](const char* layout) {
    std::vector<int> list;
    const std::vector<LayoutStage> stages = layout_stages(layout).value();
    for (const LayoutStage& stage : stages) list.push_back(stage.layers);
    return list;
  };
  CHECK(layers("Et*3|(tt|)*2t,m L") == std::vector{3, 2, 2, 1});
  CHECK(layers("E|(t|)*2L") == std::vector{0, 1, 1, 0});
  const auto stages = layout_stages("Et*4|(t*4|)*14tmL").value();
  CHECK(stages.size() == 16);
  CHECK(stages.front().embeddings == 1);
  CHECK(stages.back().mtp_layers == 1);
  CHECK(stages.back().losses == 1);
  CHECK(!layout_stages("Ex|L"));
  CHECK(!layout_stages("(t|"));
  CHECK(!layout_stages("((((((((t*999)*999)*999)*999)*999)*999)*999)*999)"));
  CHECK(!layout_stages("((((((((|*999)*999)*999)*999)*999)*999)*999)*999)"));
}

TEST_CASE("lists are read as Python writes them, sums and multiples too") {
  CHECK(python_list("([0]*3+[1]*2)").value() == std::vector<std::int64_t>{0, 0, 0, 1, 1});
  CHECK(python_list("[0, 1, 0]").value() == std::vector<std::int64_t>{0, 1, 0});
  CHECK(!python_list("[0]*99999999999"));
  CHECK(!python_list("[0"));
  CHECK(!python_list("3"));
}
