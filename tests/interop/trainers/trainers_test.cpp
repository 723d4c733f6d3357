// Plans of PyTorch's trainers (torchtitan, DeepSpeed, TrainingArguments) by the rules that the
// trainers themselves keep, and the runs of their logs.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "tests/interop/imported.h"

using namespace tandem;

namespace {

const std::string kLlama = R"({"model_type": "llama", "hidden_size": 1024,
"num_hidden_layers": 32, "num_attention_heads": 16, "intermediate_size": 4096,
"vocab_size": 32000, "tie_word_embeddings": false})";

Result<ImportedPlan> read_after_llama(const std::vector<ImportSource>& files, std::int64_t gpus) {
  std::vector<ImportSource> sources = {{"config.json", kLlama}};
  sources.insert(sources.end(), files.begin(), files.end());
  return import_sources(sources, {.gpus = gpus});
}

ImportedPlan after_llama(const std::vector<ImportSource>& files, std::int64_t gpus = 64) {
  const auto plan = read_after_llama(files, gpus);
  if (!plan.ok()) FAIL(plan.error().text());
  return *plan;
}

std::string refused_after_llama(const ImportSource& file, std::int64_t gpus = 64) {
  const auto plan = read_after_llama({file}, gpus);
  return plan.ok() ? "read" : plan.error().text();
}

// 64 GPUs as 8 replicas of 2 x 4, with these lines of [parallelism] more.
std::string titan(const std::string& batch, const std::string& lines = "",
                  const std::string& schedule = "Interleaved1F1B") {
  return fmt::format(
      "[training]\nseq_len = 4096\n{}\n[parallelism]\ntensor_parallel_degree = 2\n"
      "pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"{}\"\n{}",
      batch, schedule, lines);
}

}  // namespace

// 256 sequences on 8 replicas: 16 runs of 2 microbatches each, or 2 runs of 16.
TEST_CASE("torchtitan's steps of accumulation are runs of the pipeline, an iteration is one") {
  const ImportedPlan few =
      after_llama({{"a.toml", titan("local_batch_size = 2\nglobal_batch_size = 256")}});
  CHECK(keys_of(few).at("parallel.global_batch") == "16");
  CHECK(keys_of(few).at("parallel.micro_batch") == "1");
  CHECK(mentions(few.not_expressed,
                 "a.toml:4: a step's 256 sequences are 16 runs of the pipeline, one after the "
                 "other, and an iteration here is one run, of 16: a step takes 16 times as long"));
  const ImportedPlan many =
      after_llama({{"a.toml", titan("local_batch_size = 16\nglobal_batch_size = 256")}});
  CHECK(keys_of(many).at("parallel.global_batch") == "128");
  CHECK(mentions(many.not_expressed, "are 2 runs of the pipeline"));
  const ImportedPlan one = after_llama({{"a.toml", titan("local_batch_size = 32\n")}});
  CHECK(keys_of(one).at("parallel.global_batch") == "256");
  CHECK_FALSE(mentions(one.not_expressed, "runs of the pipeline"));
  CHECK(keys_of(after_llama({{"a.toml", titan("")}})).at("parallel.global_batch") == "64");
  // Without a pipeline microbatches follow each other.
  const ImportedPlan flat =
      after_llama({{"a.toml",
                    "[training]\nlocal_batch_size = 2\nglobal_batch_size = 256\n[parallelism]\n"
                    "tensor_parallel_degree = 2\n"}});
  CHECK(keys_of(flat).at("parallel.global_batch") == "256");
  CHECK(keys_of(flat).at("parallel.micro_batch") == "2");
}

// 16 sequences of 4096 tokens at 512 tokens a second on each of 64 GPUs: 2 s, of 32 s a step.
TEST_CASE("a rate that torchtitan's log states becomes the time of the plan's own batch") {
  std::string log;
  for (int step = 1; step <= 8; ++step)
    log +=
        fmt::format("[titan] step: {}  loss: 8.0  memory: 9.0GiB(9%)  tps: 512  mfu: 9%\n", step);
  const ImportedPlan plan = after_llama(
      {{"a.toml", titan("local_batch_size = 2\nglobal_batch_size = 256")}, {"train.log", log}});
  REQUIRE(plan.measured.iteration_s);
  CHECK(*plan.measured.iteration_s == Approx(2));
}

TEST_CASE("batches that torchtitan refuses are refused") {
  CHECK(refused_after_llama({"a.toml", titan("local_batch_size = 2\nglobal_batch_size = 100")}) ==
        "a.toml:4: found global_batch_size = 100, expected a multiple of 16: local_batch_size 2 x "
        "dp 8");
  CHECK(has(refused_after_llama({"a.toml", titan("local_batch_size = 2",
                                                 "pipeline_parallel_microbatch_size = 3\n")}),
            "found pipeline_parallel_microbatch_size = 3, expected a divisor of local_batch_size"));
}

TEST_CASE("torchtitan's overrides count a run of the pipeline by num_pp_microbatches") {
  const auto overrides = [](const std::string& lines) {
    return after_llama({{"titan.sh",
                         "A=(--training.max_context_length 4096 "
                         "--parallelism.tensor_parallel_degree 2 " +
                             lines + ")\n"}});
  };
  const std::string step = "--training.num_tokens_per_train_step 2097152 ";  // 512 sequences
  const std::string micro = "--training.num_tokens_per_microbatch_per_dp_rank 8192 ";
  const std::string pipeline = "--parallelism.pipeline_parallel_degree 4 ";
  const ImportedPlan few =
      overrides(step + micro + pipeline + "--parallelism.num_pp_microbatches 4");
  CHECK(keys_of(few).at("parallel.global_batch") == "64");
  CHECK(mentions(few.not_expressed, "a step's 512 sequences are 8 runs of the pipeline"));
  const ImportedPlan many =
      overrides(step + micro + pipeline + "--parallelism.num_pp_microbatches 32");
  CHECK(keys_of(many).at("parallel.global_batch") == "512");
  // torchtitan ignores num_pp_microbatches without a pipeline.
  const Keys flat = keys_of(overrides(step + micro + "--parallelism.num_pp_microbatches 4"));
  CHECK(flat.at("parallel.micro_batch") == "2");
  CHECK(flat.at("parallel.global_batch") == "512");
  CHECK(
      mentions(overrides(step).assumed, "parallel.micro_batch = 1: no --training.num_tokens_per_"));
}

TEST_CASE("torchtitan's stages are those that its fields state, or refused") {
  const auto cut = [](const std::string& field, const char* schedule = "Interleaved1F1B") {
    return titan("local_batch_size = 8", field + "\n", schedule);
  };
  const std::string points = "pipeline_parallel_split_points = [\"layers.3\", \"layers.9\", ";
  const Keys split =
      keys_of(after_llama({{"a.toml", cut(points + "\"layers.20\"]", "1F1B")}}), "parallel.");
  CHECK(split.at("parallel.layers_per_stage") == "[3, 6, 11, 12]");
  CHECK(split.count("parallel.vpp") == 0);
  const std::string more = "\"layers.12\", \"layers.16\", \"layers.20\", \"layers.24\", ";
  const Keys looped = keys_of(after_llama({{"a.toml", cut(points + more + "\"layers.28\"]")}}));
  CHECK(looped.at("parallel.vpp") == "2");
  CHECK(looped.at("parallel.layers_per_stage") == "[3, 6, 3, 4, 4, 4, 4, 4]");
  CHECK(has(refused_after_llama({"a.toml", cut(points + "\"layers.5\"]", "1F1B")}),
            "expected layers of the model in order, as layers.8"));
  CHECK(has(
      refused_after_llama({"a.toml", cut(points + "\"layers.20\"]")}),
      "expected the same number of stages, at least 2, on each of 4 ranks: these are 4 stages"));
  // 32 layers, embedding and head: 17 stages of 2.
  CHECK(refused_after_llama({"a.toml", cut("pipeline_parallel_layers_per_stage = 2")}) ==
        "a.toml:8: found pipeline_parallel_layers_per_stage = 2, expected the same number of "
        "stages, at least 2, on each of 4 ranks: these are 17 stages");
  CHECK(has(refused_after_llama({"a.toml", cut("pipeline_parallel_layers_per_stage = 5", "1F1B")}),
            "expected one stage on each of 4 ranks: these are 7 stages"));
  CHECK(keys_of(after_llama({{"a.toml", cut("pipeline_parallel_layers_per_stage = 3")}}))
            .at("parallel.vpp") == "3");
}

// parallel_dims.py: without ep tensor ranks cut experts as they cut other layers; FSDP2's group is
// shard degree x cp.
TEST_CASE("torchtitan's experts that ep spreads are whole, and context ranks cut parameters") {
  const auto keys = [](const std::string& lines) {
    return keys_of(imported("a.toml", "[parallelism]\ntensor_parallel_degree = 4\n" + lines, 64));
  };
  const std::string spread = "expert_parallel_degree = 8\n";
  CHECK(keys(spread).at("parallel.expert_tp") == "1");
  CHECK(keys(spread + "expert_tensor_parallel_degree = 4\n").count("parallel.expert_tp") == 0);
  CHECK(keys("expert_tensor_parallel_degree = 1\n").count("parallel.expert_tp") == 0);
  const std::string one = "data_parallel_shard_degree = 1\n";
  CHECK(keys(one).count("train.zero") == 0);
  CHECK(keys(one + "context_parallel_degree = 16\n").at("train.zero") == "3");
  const Keys replicas =
      keys(one + "context_parallel_degree = 4\ndata_parallel_replicate_degree = 4\n");
  CHECK(replicas.at("train.zero") == "3");
  CHECK(replicas.at("parallel.hsdp_shard") == "4");
  CHECK(replicas.count("overlap.bucket_MB") == 0);
}

TEST_CASE("Accelerate's context ranks gather keys and values unless they pass them on") {
  const auto file = [](const std::string& strategy) {
    return "fsdp_config: {}\nparallelism_config:\n  parallelism_config_cp_size: 2\n" + strategy;
  };
  const std::string field = "  parallelism_config_cp_comm_strategy: ";
  CHECK(keys_of(imported("a.yaml", file(""))).at("parallel.cp_comm") == "\"all_gather\"");
  CHECK(keys_of(imported("a.yaml", file(field + "alltoall\n"))).count("parallel.cp_comm") == 0);
  CHECK(has(refusal("a.yaml", file(field + "ring\n")), "expected allgather or alltoall"));
}

// Float8Linear takes the place of linear layers, the grouped converter converts what fqns names.
TEST_CASE("torchtitan's converters have a part of the model in fp8, which is said") {
  const std::string moe = R"({"model_type": "mixtral", "hidden_size": 1024,
"num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 16,
"intermediate_size": 4096, "num_local_experts": 8, "num_experts_per_tok": 2,
"vocab_size": 32000, "tie_word_embeddings": false})";
  const auto titan = [](const std::string& config, const std::string& converters,
                        const std::string& tables = "") {
    const auto plan =
        import_sources({{"config.json", config},
                        {"a.toml", "[model]\nconverters = [" + converters + "]\n[parallelism]\n" +
                                       "tensor_parallel_degree = 1\n" + tables}},
                       {.gpus = 8});
    if (!plan.ok()) FAIL(plan.error().text());
    return *plan;
  };
  const std::string linear = "\"quantize.linear.float8\"", grouped = "\"quantize.grouped_mm.mx\"";
  const std::string fqns = "[quantize.grouped_mm.mx]\nfqns = [\"experts\"]\n";
  const std::string stay = "stay in 16 bits; here all is in fp8", nothing = "converts nothing";
  const ImportedPlan alone = titan(moe, linear);
  CHECK(keys_of(alone).at("train.precision") == "\"fp8\"");
  CHECK(mentions(alone.not_expressed, "experts " + stay));
  CHECK_FALSE(mentions(titan(kLlama, linear).not_expressed, stay));
  const ImportedPlan experts = titan(moe, grouped, fqns);
  CHECK(keys_of(experts).at("train.fp8_recipe") == "\"mxfp8\"");
  CHECK(mentions(experts.not_expressed, "layers other than experts " + stay));
  const ImportedPlan both = titan(moe, linear + ", " + grouped, fqns);
  CHECK_FALSE(mentions(both.not_expressed, stay));
  CHECK_FALSE(mentions(both.not_expressed, nothing));
  // In any order all layers have the recipe of linear layers.
  for (const ImportedPlan& mixed : {both, titan(moe, grouped + ", " + linear, fqns)}) {
    CHECK(keys_of(mixed).at("train.fp8_recipe") == "\"current\"");
    CHECK(mentions(mixed.not_expressed,
                   "experts have the recipe mxfp8; here all layers have current"));
  }
  CHECK_FALSE(mentions(titan(moe, "\"quantize.linear.mx\", " + grouped, fqns).not_expressed,
                       "have the recipe"));
  for (const ImportedPlan& none : {titan(kLlama, grouped, fqns), titan(moe, grouped)}) {
    CHECK(keys_of(none).count("train.precision") == 0);
    CHECK(mentions(none.not_expressed, nothing));
  }
  // The head and routers are in 16 bits in any case.
  const ImportedPlan filtered =
      titan(kLlama, linear,
            "[quantize.linear.float8]\nfilter_fqns = [\"output\", \"router.gate\", \"wk\"]\n");
  CHECK(mentions(filtered.not_expressed, "filter_fqns: wk: these layers are in fp8, too"));
  CHECK_FALSE(mentions(filtered.not_expressed, "filter_fqns: output"));
  CHECK_FALSE(mentions(filtered.not_expressed, "filter_fqns: router.gate"));
}

TEST_CASE("torchtitan's steps of another kind, and a model that is not compiled, are said") {
  const auto titan = [](const std::string& tables) {
    return after_llama({{"a.toml", "[parallelism]\ntensor_parallel_degree = 2\n" + tables}})
        .not_expressed;
  };
  CHECK(mentions(titan("[compile]\nenable = true\ncomponents = [\"loss\"]\n"),
                 "compile.components without model: a compiled model is simulated"));
  CHECK_FALSE(mentions(titan("[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n"),
                       "a compiled model is simulated"));
  const std::string sync = "semi_sync_method = \"diloco\"\n";
  const std::string reduces =
      "fault_tolerance.semi_sync_method = diloco: replicas reduce gradients";
  CHECK(mentions(titan("[fault_tolerance]\nenable = true\n" + sync), "a.toml:5: " + reduces));
  CHECK_FALSE(mentions(titan("[fault_tolerance]\nenable = false\n" + sync), reduces));
  CHECK_FALSE(mentions(titan("[fault_tolerance]\n" + sync), reduces));
  CHECK_FALSE(mentions(titan("[fault_tolerance]\nenable = true\nsync_steps = 8\n"), "sync_steps"));
  CHECK(mentions(titan("[optimizer]\nearly_step_in_backward = true\n"),
                 "a.toml:4: optimizer.early_step_in_backward = true: the optimizer runs behind"));
  CHECK_FALSE(
      mentions(titan("[optimizer]\nearly_step_in_backward = false\n"), "early_step_in_backward"));
}

TEST_CASE("torchtitan's memory budget is said not to be expressed, and modes are known ones") {
  const auto with_mode = [](const char* mode) {
    return fmt::format("[activation_checkpoint]\nmode = \"{}\"\n[parallelism]\n", mode);
  };
  const ImportedPlan budget = after_llama({{"a.toml", with_mode("memory_budget")}});
  CHECK(
      mentions(budget.not_expressed, "a.toml:2: activation_checkpoint.mode = memory_budget (0.5)"));
  CHECK(keys_of(budget).count("train.recompute") == 0);
  CHECK(mentions(after_llama({{"a.sh",
                               "A=(--parallelism.tensor_parallel_degree 2 "
                               "activation-checkpoint:memory-budget "
                               "--activation-checkpoint.memory-budget 0.3)\n"}})
                     .not_expressed,
                 "memory_budget (0.3)"));
  CHECK(refused_after_llama({"a.toml", with_mode("some")}) ==
        "a.toml:2: found mode = some, expected none, selective, full or memory_budget");
}

TEST_CASE(
    "fields where torchtitan had them before [parallelism] are refused, unless they are off") {
  const auto old = [](const std::string& training, const std::string& rest) {
    return "[job]\n[training]\nbatch_size = 8\n" + training + rest;
  };
  CHECK(refused_after_llama({"a.toml", old("data_parallel_shard_degree = -1\n",
                                           "[experimental]\ncontext_parallel_degree = 2\n")}) ==
        "a.toml:6: found experimental.context_parallel_degree = 2, as torchtitan had it until "
        "March 2025, expected parallelism.context_parallel_degree");
  CHECK(has(
      refused_after_llama({"a.toml", old("", "[experimental]\npipeline_parallel_degree = 4\n")}),
      "expected parallelism.pipeline_parallel_degree"));
  CHECK(has(refused_after_llama({"a.toml", old("tensor_parallel_degree = 8\n", "")}),
            "a.toml:4: found training.tensor_parallel_degree = 8"));
  CHECK(has(refused_after_llama({"a.toml", old("", "[float8]\nenable_float8_linear = true\n")}),
            "expected model.converters = [\"float8\"]"));
  CHECK(refused_after_llama(
            {"a.toml", old("data_parallel_shard_degree = -1\ntensor_parallel_degree = 1\n",
                           "[experimental]\npipeline_parallel_degree = 1\n")}) == "read");
  const ImportedPlan compiled = after_llama({{"a.toml", old("compile = true\n", "")}});
  CHECK_FALSE(mentions(compiled.not_expressed, "compile.enable = false"));
  CHECK(compiled.not_understood.empty());
}

// 64 GPUs, or 16 replicas of 4 tensor ranks.
TEST_CASE("DeepSpeed's batch is micro-batch x accumulation steps x ranks, or refused") {
  const auto why = [](const std::string& fields) {
    return refused_after_llama(
        {"ds.json", "{\"zero_optimization\": {\"stage\": 1},\n" + fields + "}"});
  };
  const std::string micro = "\"train_micro_batch_size_per_gpu\": 2";
  const std::string steps = ", \"gradient_accumulation_steps\": 8";
  CHECK(why("\"train_batch_size\": 512, " + micro + steps) ==
        "ds.json:2: found train_batch_size = 512, expected 1024: micro-batch 2 x accumulation "
        "steps 8 x 64 ranks");
  CHECK(why("\"train_batch_size\": 1024, " + micro + steps) == "read");
  CHECK(why("\"train_batch_size\": 1024, " + micro) == "read");
  CHECK(has(why("\"train_batch_size\": 192, " + micro),
            "found train_batch_size = 192, expected a multiple of 128"));
  CHECK(has(why("\"train_batch_size\": 32" + steps), "expected a multiple of 512"));
  const std::string tensor = ", \"tensor_parallel\": {\"autotp_size\": 4}";
  CHECK(why("\"train_batch_size\": 1024, " + micro + steps + tensor) == "read");
  CHECK(has(why("\"train_batch_size\": 256, " + micro + steps + tensor), "expected 1024"));
}

TEST_CASE("fields of DeepSpeed's sections that nothing reads are listed, if they are on") {
  const ImportedPlan plan = after_llama({{"ds.json", R"({"train_micro_batch_size_per_gpu": 1,
"bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": false},
"fp16": {"enabled": false, "fp16_master_weights_and_grads": true, "loss_scale": 0},
"zero_optimization": {"stage": 2,
  "offload_optimizer": {"device": "cpu", "super_offload": true, "pin_memory": true}},
"tensor_parallel": {"autotp_size": 4, "tp_overlap_comm": true, "preset_model": "llama"},
"compile": {"deepcompile": true, "debug_log": true}})"}});
  using Listed = std::vector<std::string>;
  CHECK(plan.not_understood == Listed{"ds.json:5: offload_optimizer.super_offload = true",
                                      "ds.json:2: bf16.bf16_master_weights_and_grads = true",
                                      "ds.json:6: tensor_parallel.tp_overlap_comm = true",
                                      "ds.json:7: compile.deepcompile = true"});
  const auto not_understood = [](const std::string& fields) {
    return after_llama({{"ds.json", "{\"train_batch_size\": 64,\n" + fields + "}"}}).not_understood;
  };
  CHECK(not_understood(R"("compile": false)").empty());
  CHECK(not_understood(R"("compile": true)") == Listed{"ds.json:2: compile = true"});
  CHECK(not_understood(R"("tensor_parallel": {"autotp_size": 4, "tp_grain_size": 1})").empty());
  CHECK(not_understood(R"("tensor_parallel": {"autotp_size": 4, "tp_grain_size": 64})") ==
        Listed{"ds.json:2: tensor_parallel.tp_grain_size = 64"});
  CHECK(after_llama({{"ds.json", R"({"train_batch_size": 64, "compile": {"deepcompile": false},
"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "none", "super_offload": true}}
})"}}).not_understood.empty());
}

// Before 2026 DeepSpeed summed bf16 in fp32 without ZeRO; since then it refuses fp32 there.
TEST_CASE("gradients of bf16 without ZeRO, which releases of DeepSpeed keep otherwise, are noted") {
  const auto plan = [](const std::string& fields) {
    return after_llama(
        {{"ds.json", R"({"train_batch_size": 64, "bf16": {"enabled": true})" + fields + "}"}});
  };
  const std::string note = "train.gradient_dtype = bf16: without ZeRO releases before 2026";
  const ImportedPlan without = plan(R"(, "zero_optimization": {"stage": 0})");
  CHECK(keys_of(without).at("train.gradient_dtype") == "\"bf16\"");
  CHECK(mentions(without.assumed, note));
  CHECK(mentions(plan("").assumed, note));
  CHECK_FALSE(mentions(plan(R"(, "zero_optimization": {"stage": 1})").assumed, note));
  CHECK_FALSE(mentions(plan(R"(, "data_types": {"grad_accum_dtype": "fp32"})").assumed, note));
}

TEST_CASE("DeepSpeed's file with both 16-bit types, or with a field twice, is refused") {
  CHECK(has(refused_after_llama({"ds.json", R"({"zero_optimization": {"stage": 1},
"bf16": {"enabled": true},
"fp16": {"enabled": true}})"}),
            "ds.json:3: found fp16 = {enabled: true}, expected bf16 or fp16 enabled, not both"));
  CHECK(refused_after_llama({"ds.json", R"({"zero_optimization": {"stage": 1},
"bf16": {"enabled": true},
"fp16": {"enabled": false}})"}) == "read");
  CHECK(refused_after_llama({"ds.json", R"({"zero_optimization": {"stage": 1},
"zero_optimization": {"stage": 3}})"}) ==
        "ds.json:2: found zero_optimization a second time, expected it once");
  CHECK(refused_after_llama({"ds.json", R"({"zero_optimization": {"stage": 1,
"stage": 3}})"}) == "ds.json:2: found stage a second time, expected it once");
}

TEST_CASE("activation_checkpointing of an fsdp_config recomputes every layer") {
  const auto arguments = [](const std::string& lines) {
    return after_llama({{"args.yaml", "per_device_train_batch_size: 2\nbf16: true\n" + lines}}, 8);
  };
  const ImportedPlan on =
      arguments("fsdp: full_shard auto_wrap\nfsdp_config:\n  activation_checkpointing: true\n");
  CHECK(keys_of(on).at("train.recompute") == "\"full\"");
  CHECK(keys_of(arguments("fsdp: full_shard\nfsdp_config: {fsdp_activation_checkpointing: true}\n"))
            .at("train.recompute") == "\"full\"");
  CHECK(keys_of(arguments("fsdp: full_shard\nfsdp_config: {activation_checkpointing: false}\n"))
            .count("train.recompute") == 0);
  // Without `fsdp` nothing of fsdp_config is in force.
  CHECK(keys_of(arguments("fsdp_config: {activation_checkpointing: true}\n"))
            .count("train.recompute") == 0);
  CHECK(mentions(arguments("fsdp: full_shard\nfsdp_config: fsdp.json\n").not_expressed,
                 "fsdp_config = fsdp.json"));
}

namespace {

// What the log of a run on 8 GPUs measured, with batch 64 and sequence 4096.
ImportedPlan logged(const std::string& log, std::int64_t gpus = 8) {
  const std::string script =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 256 "
      "--num-attention-heads 4 --seq-length 4096 --micro-batch-size 1 --global-batch-size 64\n";
  const auto plan = import_sources({{"run.sh", script}, {"train.log", log}}, {.gpus = gpus});
  if (!plan.ok()) FAIL(plan.error().text());
  return *plan;
}

// Lines of steps 1 to 9; {0} is a step, {1} its figure.
std::string nine_steps(const std::string& line, const std::string& figure, int first = 1) {
  std::string text;
  for (int step = first; step < first + 9; ++step)
    text += fmt::format(fmt::runtime(line), step, figure) + "\n";
  return text;
}

const std::string kTitanStep = "step: {0:2}  loss: 8.0  memory: 9.0GiB(9%)  tps: {1}  mfu: 9%";
const std::string kMegatronStep =
    " iteration {0}/ 90 | elapsed time per iteration (ms): {1} | global batch size: 64 |";

}  // namespace

TEST_CASE("a number of a step far below the one before begins another run of a log") {
  struct Log {
    std::string line, slow, fast;
    double fast_s;
  };
  for (const Log& each : std::vector<Log>{
           {kTitanStep, "1,024", "4,096", 64.0 * 4096 / (4096 * 8)},
           {"Training epoch 0, iteration {0}/99 | global_batch_size: 64 | global_step: {0} | "
            "train_step_timing in s: {1} |",
            "6.0", "4.0", 4},
           {"epoch=0/micro_step=8/global_step={0}, CurrSamplesPerSec={1}, MaxMemAllocated=9.5GB",
            "16.0", "32.0", 2},
           {kMegatronStep, "2000.0", "1000.0", 1}}) {
    INFO(each.line);
    const ImportedPlan plan = logged(nine_steps(each.line, each.slow, 10) + "Traceback\n" +
                                     nine_steps(each.line, each.fast, 0) + "Traceback\n");
    CHECK(plan.measured.iteration_s.value() == Approx(each.fast_s));
    CHECK(plan.measured.iterations == 6);
    CHECK(plan.left_out ==
          std::vector<std::string>{"train.log:1 to 10: an earlier run in this log"});
  }
  // NeMo's iterations begin anew with each epoch.
  const std::string epochs =
      "Training epoch {0}, iteration 1/1 | global_step: {0} | train_step_timing in s: {1} |";
  CHECK(logged(nine_steps(epochs, "4.0")).measured.iterations == 6);
}

TEST_CASE("a line that comes a step late begins no run of a log, a restart farther back does") {
  for (const int every : {1, 10}) {  // steps from line to line
    std::string log;                 // of two nodes that both write [rank0]
    for (const int i : {1, 1, 2, 2, 3, 4, 3, 4, 5, 6, 5, 5, 6, 7, 7, 8, 8, 9, 7, 9, 10, 10})
      log += "[rank0]:" + fmt::format(fmt::runtime(kTitanStep), every * i, "4,096") + "\n";
    const ImportedPlan plan = logged(log);
    CHECK(plan.measured.iterations == 7);
    CHECK(plan.left_out.empty());
  }
  const std::string run = nine_steps(kTitanStep, "4,096");
  const ImportedPlan one_back = logged(run + nine_steps(kTitanStep, "4,096", 8));
  CHECK(one_back.measured.iterations == 13);  // 1 to 16
  CHECK(one_back.left_out.empty());
  const ImportedPlan two_back = logged(run + nine_steps(kTitanStep, "4,096", 7));
  CHECK(two_back.measured.iterations == 6);
  CHECK(two_back.left_out ==
        std::vector<std::string>{"train.log:1 to 9: an earlier run in this log"});
}

TEST_CASE("a restart that writes under another label is another run of a log") {
  const auto steps = [](const std::string& label, int first, int last) {
    std::string text;
    for (int step = first; step <= last; ++step)
      text += label + fmt::format(fmt::runtime(kTitanStep), step, "4,096") + "\n";
    return text;
  };
  const std::string first = steps("[rank0]:", 1, 19);
  struct Log {
    std::string text;
    int iterations, earlier;  // lines of an earlier run
  };
  for (const auto& [text, iterations, earlier] : std::vector<Log>{
           {first + steps("", 10, 59), 47, 19},
           {first + steps("", 10, 59) + steps("[rank0]:", 50, 99), 47, 69},
           {first + steps("", 1, 15), 12, 19},
           {first + steps("[rank8]:", 10, 15), 3, 19},
           {first + steps("[rank8]:", 1, 19), 16, 0}}) {  // another rank of the same run
    INFO(text);
    const ImportedPlan plan = logged(text);
    CHECK(plan.measured.iterations == iterations);
    std::vector<std::string> left_out;
    if (earlier > 0)
      left_out.push_back(fmt::format("train.log:1 to {}: an earlier run in this log", earlier));
    CHECK(plan.left_out == left_out);
  }
  // Another rank of the same run counts once the first falls silent.
  std::string both;
  for (int step = 1; step <= 19; ++step)
    both += steps("[rank0]:", step, step) + steps("[rank1]:", step, step);
  const ImportedPlan silent = logged(both + steps("[rank1]:", 20, 30));
  CHECK(silent.measured.iterations == 27);
  CHECK(silent.left_out.empty());
}

TEST_CASE("lines of several ranks about one step are one iteration") {
  const auto of_ranks = [](const std::string& label, bool by_rank) {
    std::vector<std::string> ranks(by_rank ? 8 : 9);
    std::string text;
    for (int step = 1; step <= 9; ++step) {
      for (int rank = 0; rank < 8; ++rank) {
        const std::string line =
            fmt::format(fmt::runtime(label), rank) +
            fmt::format(fmt::runtime(kTitanStep), step, rank == 0 ? "4,096" : "1,024") + "\n";
        ranks[static_cast<std::size_t>(by_rank ? rank : step - 1)] += line;
      }
    }
    for (const std::string& lines : ranks) text += lines;
    return text;
  };
  for (const auto& log : {of_ranks("[rank{}]:[titan] ", false), of_ranks("[rank{}]:[titan] ", true),
                          of_ranks("[titan] ", false)}) {
    INFO(log);
    const ImportedPlan plan = logged(log);
    CHECK(plan.measured.iterations == 6);
    CHECK(plan.measured.iteration_s.value() == Approx(64.0 * 4096 / (4096 * 8)));
    CHECK(plan.left_out.empty());
  }
}

TEST_CASE("iterations of a shorter sequence are left out, as those of a smaller batch are") {
  const std::string line = kMegatronStep + " actual seqlen: ";
  const ImportedPlan plan =
      logged(nine_steps(line + "1024 |", "700.0") + nine_steps(line + "4096 |", "2600.0", 10));
  CHECK(plan.measured.iteration_s.value() == Approx(2.6));
  CHECK(plan.measured.iterations == 6);
  CHECK(plan.left_out ==
        std::vector<std::string>{"train.log: the times of 9 iterations whose sequence length, such "
                                 "as 1024, is not 4096"});
}

TEST_CASE("a cut number, a decimal comma and an unknown unit are no figures of a log") {
  const std::string whole = nine_steps(kMegatronStep, "3000.0");
  CHECK(logged(whole + " iteration 10/ 90 | elapsed time per iteration (ms): 30")
            .measured.iterations == 6);
  CHECK(logged(nine_steps(kMegatronStep, "3,000.0")).measured.iteration_s.value() == Approx(3));
  CHECK(logged(nine_steps(kMegatronStep, "1,003,000")).measured.iteration_s.value() ==
        Approx(1003));
  for (const char* number : {"3000,0", "3000,000", "4,5", "1.5,300", "1,0000"}) {
    INFO(number);
    CHECK(logged(whole + nine_steps(kMegatronStep, number, 10)).measured.iterations == 6);
  }
  const auto memory = [&](const std::string& unit) {
    return logged(whole + "[Rank 0] (after 9 iterations) memory (" + unit +
                  ") | allocated: 20.0 | max allocated: 31.0 | reserved: 33.0\n")
        .measured.max_allocated_bytes.value_or(0);
  };
  CHECK(memory("MB") == 31.0 * 1024 * 1024);
  CHECK(memory("GB") == 31.0 * 1024 * 1024 * 1024);
  CHECK(memory("TB") == 0);
}

TEST_CASE("a log of another number of GPUs than the job's is said to be one") {
  const std::string log = "using world size: 8\n" + nine_steps(kMegatronStep, "3000.0");
  CHECK(logged(log).left_out.empty());
  CHECK(logged(log, 64).left_out ==
        std::vector<std::string>{"train.log: its world size of 8, with which it measured, beside "
                                 "the job's 64 GPUs"});
}

TEST_CASE("TrainingArguments: eager attention, bf16 alone, and FSDP's offload") {
  const auto arguments = [](const std::string& lines) {
    return after_llama({{"args.yaml", "per_device_train_batch_size: 2\n" + lines}}, 8);
  };
  for (const char* eager : {"attn_implementation: eager\n", "flash_attn: disabled\n"})
    CHECK(keys_of(arguments(eager)).at("train.flash_attention") == "false");
  // With 16 bits, as flash attention does not take fp32.
  for (const char* flash : {"bf16: true\nattn_implementation: sdpa\n", "bf16: true\n"})
    CHECK(keys_of(arguments(flash)).at("train.flash_attention") == "true");
  const ImportedPlan pure = arguments("pure_bf16: true\n");
  CHECK(keys_of(pure).at("train.optimizer_dtype") == "\"bf16\"");
  CHECK(keys_of(pure).at("train.gradient_dtype") == "\"bf16\"");
  CHECK(mentions(pure.not_expressed, "args.yaml:2: pure_bf16 = true: a master copy in fp32"));
  CHECK(keys_of(arguments("bf16: true\n")).count("train.optimizer_dtype") == 0);
  const std::string line = "args.yaml:2: offload: parameters and optimizer stay on the GPU";
  CHECK(mentions(arguments("fsdp: full_shard auto_wrap offload\n").not_expressed, line));
  CHECK_FALSE(mentions(arguments("fsdp: full_shard auto_wrap\n").not_expressed, line));
  CHECK(keys_of(arguments("fsdp:\n  - full_shard\n  - auto_wrap\n")).at("train.zero") == "3");
  CHECK(mentions(arguments("fsdp: [shard_grad_op, offload]\n").not_expressed, line));
}

TEST_CASE(
    "FSDP's accumulation says that Accelerate keeps whole gradients unless it syncs each batch") {
  const auto noted = [](const std::string& lines) {
    const std::string fields = "per_device_train_batch_size: 2\nbf16: true\n" + lines;
    return mentions(after_llama({{"args.yaml", fields}}, 8).not_expressed,
                    "FSDP's gradients are cut after each step here, as with sync_each_batch");
  };
  const std::string steps = "gradient_accumulation_steps: 4\n";
  CHECK(noted(steps + "fsdp: full_shard\n"));
  CHECK_FALSE(noted(steps + "fsdp: full_shard\naccelerator_config: {sync_each_batch: true}\n"));
  CHECK_FALSE(noted("fsdp: full_shard\ngradient_accumulation_steps: 1\n"));
  CHECK_FALSE(noted(steps));
}
