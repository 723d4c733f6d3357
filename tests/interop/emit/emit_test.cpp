// Plans as other tools' files, and back.
#include <catch2/catch.hpp>
#include <random>
#include <sstream>

#include "tests/interop/emit/emitted.h"
#include "tests/interop/imported.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

// The name under which import recognises what is emitted.
const std::map<std::string, std::string> kFiles = {{"megatron", "plan.sh"},
                                                   {"nemo", "run_config.yaml"},
                                                   {"chatlearn", "grpo.yaml"},
                                                   {"deepspeed", "ds_config.json"},
                                                   {"fsdp", "accelerate.yaml"}};

// What a plan has of a key, by the defaults of scenarios where it says nothing; without quotes.
std::string effective(const PlanSettings& plan, const std::string& key) {
  const auto value = [&](const std::string& of, const std::string& otherwise) {
    const auto found = plan.find(of);
    return found == plan.end() ? otherwise : found->second;
  };
  const bool stages = value("parallel.vpp", "1") != "1";
  const PlanSettings defaults = {{"parallel.expert_tp", value("parallel.tp", "1")},
                                 {"schedule.order", stages ? "interleaved" : "1f1b"},
                                 {"overlap.p2p", stages ? "true" : "false"},
                                 {"parallel.cp_comm", "ring"},
                                 {"train.precision", "bf16"},
                                 {"train.fp8_recipe", "delayed"},
                                 {"train.gradient_dtype", "fp32"},
                                 {"train.recompute", "none"},
                                 {"overlap.tensor", "off"},
                                 {"train.zero", "0"},
                                 {"train.cross_entropy", "native"},
                                 {"train.activation_offload_layers", "0"},
                                 {"train.activation_offload_modules", ""},
                                 {"train.reshard_after_forward", "true"}};
  const auto usual = defaults.find(key);
  const bool size = key.starts_with("parallel.");
  std::string text = value(key, usual != defaults.end() ? usual->second : size ? "1" : "false");
  std::erase(text, '"');
  return text;
}

PlanSettings back(const std::string& format, const std::string& text, std::int64_t gpus) {
  INFO(text);
  const ImportedPlan read = imported(kFiles.at(format), text, gpus);
  CHECK(read.not_understood.empty());
  return keys_of(read);
}

// Keys whose fields ChatLearn's trainer has itself. Those of its megatron_model_cfg are not read.
bool is_read(const std::string& format, const std::string& key) {
  return format != "chatlearn" || (key.starts_with("parallel.") && key != "parallel.cp_comm") ||
         key == "train.recompute" || key == "train.zero" || key == "train.sequence_parallel";
}

void check_round_trip(const std::string& format, const PlanSettings& settings, std::int64_t gpus) {
  const std::string text = emitted(format, settings);
  const PlanSettings again = back(format, text, gpus);
  for (const auto& [key, value] : settings) {
    // What the format cannot say stands in its comment.
    if (text.find(key + " = " + value) != std::string::npos || !is_read(format, key)) continue;
    INFO(format << ": " << key << "\n" << text);
    CHECK(effective(again, key) == value);
  }
}

}  // namespace

TEST_CASE("a plan emitted for Megatron-LM and its kin imports as the same plan") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto one_of = [&](const std::vector<std::string>& values) {
    return values[random() % values.size()];
  };
  for (int i = 0; i < 200; ++i) {
    PlanSettings plan = {{"parallel.tp", one_of({"1", "2", "8"})},
                         {"parallel.pp", one_of({"1", "2", "4"})},
                         {"parallel.vpp", one_of({"1", "2"})},
                         {"parallel.cp", one_of({"1", "2"})},
                         {"parallel.ep", one_of({"1", "4"})},
                         {"parallel.micro_batch", one_of({"1", "4"})},
                         {"parallel.global_batch", "256"},
                         {"train.precision", one_of({"bf16", "fp16", "fp8"})},
                         {"train.recompute", one_of({"none", "selective", "full"})},
                         {"train.zero", one_of({"0", "1"})},
                         {"train.flash_attention", one_of({"true", "false"})},
                         {"train.cross_entropy", one_of({"native", "unfused", "te", "chunked"})},
                         {"train.activation_offload_layers", one_of({"0", "0", "2"})},
                         {"overlap.grad_reduce", one_of({"true", "false"})},
                         {"cluster.gpus", "128"}};
    if (plan["parallel.pp"] == "1") plan["parallel.vpp"] = "1";
    plan["schedule.order"] = plan["parallel.vpp"] == "1" ? "1f1b" : "interleaved";
    plan["overlap.p2p"] = plan["parallel.vpp"] == "1" ? "false" : one_of({"true", "false"});
    plan["overlap.param_gather"] = plan["train.zero"] == "0" ? "false" : one_of({"true", "false"});
    plan["train.sequence_parallel"] = plan["parallel.tp"] == "1" ? "false" : "true";
    plan["overlap.tensor"] = plan["parallel.tp"] == "1" ? "off" : one_of({"off", "ring"});
    if (plan["train.precision"] == "fp8")
      plan["train.fp8_recipe"] = one_of({"delayed", "current", "mxfp8", "blockwise"});
    if (plan["train.precision"] != "fp16") plan["train.gradient_dtype"] = one_of({"fp32", "bf16"});
    if (plan["parallel.cp"] != "1")
      plan["parallel.cp_comm"] = one_of({"ring", "all_gather", "all_to_all"});
    if (plan["train.activation_offload_layers"] == "0" && plan["train.recompute"] != "full")
      plan["train.activation_offload_modules"] = one_of({"core_attn, attn_proj", "expert_fc1"});
    for (const char* format : {"megatron", "nemo", "chatlearn"})
      check_round_trip(format, plan, 128);
  }
}

TEST_CASE("cuts inside nodes are DeepSpeed's MiCS and hpZ, of stage 3 alone") {
  Keys plan = {{"parallel.tp", "1"},
               {"parallel.micro_batch", "4"},
               {"parallel.global_batch", "128"},
               {"train.precision", "bf16"},
               {"train.gradient_dtype", "bf16"},
               {"train.zero", "3"},
               {"overlap.grad_reduce", "true"},
               {"overlap.param_gather", "true"},
               {"cluster.gpus", "32"}};
  for (const char* key : {"parallel.hsdp_shard", "parallel.zero_hpz"}) {
    Keys cut = plan;
    cut[key] = "8";
    check_round_trip("deepspeed", cut, 32);
  }
  plan["train.zero"] = "2";
  plan["overlap.param_gather"] = "false";
  plan["parallel.hsdp_shard"] = "8";
  const std::string text = emitted("deepspeed", plan);
  CHECK(text.find("mics_shard_size") == std::string::npos);
  CHECK(text.find("parallel.hsdp_shard") != std::string::npos);  // said to be left out
}

TEST_CASE("a plan emitted for DeepSpeed imports as the same plan") {
  for (const char* zero : {"0", "1", "2", "3"}) {
    check_round_trip("deepspeed",
                     {{"parallel.tp", "2"},
                      {"parallel.micro_batch", "4"},
                      {"parallel.global_batch", "256"},
                      {"train.precision", "bf16"},
                      {"train.gradient_dtype", "bf16"},
                      {"train.zero", zero},
                      {"overlap.grad_reduce", zero[0] == '0' ? "false" : "true"},
                      {"overlap.param_gather", zero[0] == '3' ? "true" : "false"},
                      {"overlap.bucket_MB", "100"},
                      {"cluster.gpus", "32"}},
                     32);
  }
}

TEST_CASE("a plan emitted for FSDP imports as the same plan") {
  for (const char* zero : {"2", "3"}) {
    for (const char* recompute : {"none", "full"}) {
      check_round_trip("fsdp",
                       {{"parallel.tp", "2"},
                        {"train.precision", "bf16"},
                        {"train.recompute", recompute},
                        {"train.zero", zero},
                        {"overlap.grad_reduce", "true"},
                        {"overlap.param_gather", "true"},
                        {"parallel.micro_batch", "2"},
                        {"parallel.global_batch", "64"},
                        {"cluster.gpus", "32"}},
                       32);
    }
  }
}

TEST_CASE("stages that are uneven by embedding and head alone are said to count them") {
  PlanSettings plan = {{"parallel.pp", "8"},
                       {"parallel.vpp", "6"},
                       {"schedule.order", "interleaved"},
                       {"model.layers", "94"},
                       {"cluster.gpus", "64"}};
  const std::string text = emitted("megatron", plan);
  CHECK(text.find("--account-for-embedding-in-pipeline-split\n") != std::string::npos);
  CHECK(text.find("--account-for-loss-in-pipeline-split\n") != std::string::npos);
  CHECK(emitted("chatlearn", plan).find("pipeline_model_parallel_layout: 'Et|(t*2|)*46tL'") !=
        std::string::npos);
  plan["model.layers"] = "96";
  CHECK(emitted("megatron", plan).find("account") == std::string::npos);
  // 61 layers on 4 ranks: three of 16, one of 13.
  plan = {{"parallel.pp", "4"}, {"model.layers", "61"}, {"cluster.gpus", "64"}};
  CHECK(emitted("megatron", plan).find("layout 'Et*16|(t*16|)*2t*13L'") != std::string::npos);
}

TEST_CASE("a hybrid's stages are bars in its pattern, or not said") {
  PlanSettings plan = {{"parallel.pp", "2"},
                       {"parallel.vpp", "2"},
                       {"schedule.order", "interleaved"},
                       {"model.layers", "8"},
                       {std::string(kHybridLayers), "M - M * M - M *"},
                       {"cluster.gpus", "8"}};
  const std::string text = emitted("megatron", plan);
  CHECK(text.find("--hybrid-layer-pattern 'M-|M*|M-|M*'\n") != std::string::npos);
  CHECK(text.find("--num-virtual") == std::string::npos);
  plan.erase(std::string(kHybridLayers));
  plan["model.kinds.scan.mixer"] = "mamba";
  const std::string unknown = emitted("megatron", plan);
  CHECK(unknown.find("# not expressed: parallel.vpp = 2: ") != std::string::npos);
  CHECK(unknown.find("--num-virtual") == std::string::npos);
  // One stage a rank is Megatron-LM's own cut.
  plan["parallel.vpp"] = "1";
  plan["schedule.order"] = "1f1b";
  CHECK(emitted("megatron", plan).find("not expressed") == std::string::npos);
}

TEST_CASE("where largest numbers are reduced is the same again, or said to be lost") {
  const auto plan = [](const char* amax) {
    return PlanSettings{
        {"parallel.tp", "2"},       {"parallel.micro_batch", "1"},  {"parallel.global_batch", "32"},
        {"train.precision", "fp8"}, {"train.amax_reduction", amax}, {"cluster.gpus", "16"}};
  };
  const PlanSettings again = back("nemo", emitted("nemo", plan("tensor")), 16);
  REQUIRE(again.count("train.amax_reduction") == 1);
  CHECK(again.at("train.amax_reduction") == "\"tensor\"");
  const auto loses = [&](const char* format, const char* amax) {
    const std::string text = emitted(format, plan(amax));
    return text.find("not expressed: train.amax_reduction") != std::string::npos;
  };
  CHECK(loses("megatron", "tensor"));
  CHECK(loses("megatron", "none"));
  CHECK(loses("nemo", "none"));
  CHECK(!loses("megatron", "all"));
  // In bf16 there is none, whatever a plan says.
  for (const char* format : {"megatron", "nemo", "deepspeed", "fsdp", "torchtitan"}) {
    for (const char* amax : {"all", "none", "tensor"})
      CHECK_FALSE(has(emitted(format, {{"train.precision", "bf16"},
                                       {"train.fp8_recipe", "delayed"},
                                       {"train.amax_reduction", amax}}),
                      "train.amax_reduction"));
  }
}

TEST_CASE("shards of data-parallel and context ranks are the same plan again") {
  const PlanSettings plan = {{"parallel.tp", "2"},
                             {"parallel.cp", "2"},
                             {"parallel.dp", "8"},
                             {"parallel.micro_batch", "1"},
                             {"parallel.global_batch", "64"},
                             {"parallel.hsdp_shard", "4"},
                             {"train.precision", "bf16"},
                             {"overlap.grad_reduce", "true"},
                             {"cluster.gpus", "32"}};
  for (const auto& [format, zero] : {std::pair{"megatron", "1"}, {"nemo", "1"}, {"fsdp", "3"}}) {
    PlanSettings one = plan;
    one["train.zero"] = zero;
    if (zero[0] == '3') {
      one["parallel.cp_comm"] = "all_gather";
      one["train.sequence_parallel"] = "true";
    }
    const std::string text = emitted(format, one);
    INFO(text);
    CHECK(text.find("not expressed: parallel.hsdp_shard") == std::string::npos);
    const PlanSettings again = back(format, text, 32);
    REQUIRE(again.count("parallel.hsdp_shard") == 1);
    CHECK(again.at("parallel.hsdp_shard") == "4");
  }
}

TEST_CASE("what is emitted for Megatron-LM are flags that it has") {
  const CsvTable options = megatron_options();
  std::string flags = " ";
  for (int row = 0; row < options.size(); ++row)
    flags += std::string(options.text(row, "flags")) + " ";
  const std::string text = emitted("megatron", {{"parallel.tp", "2"},
                                                {"parallel.pp", "2"},
                                                {"parallel.vpp", "2"},
                                                {"parallel.cp", "2"},
                                                {"parallel.ep", "2"},
                                                {"parallel.expert_tp", "1"},
                                                {"parallel.hsdp_shard", "4"},
                                                {"parallel.micro_batch", "1"},
                                                {"schedule.group", "4"},
                                                {"train.precision", "fp8"},
                                                {"train.fp8_recipe", "mxfp8"},
                                                {"train.zero", "3"},
                                                {"train.gradient_dtype", "bf16"},
                                                {"train.optimizer_dtype", "bf16"},
                                                {"train.recompute", "full"},
                                                {"train.recompute_layers", "2"},
                                                {"train.fused_softmax", "false"},
                                                {"train.fused_norm", "false"},
                                                {"train.fused_bias_gelu", "false"},
                                                {"train.cuda_graphs", "true"},
                                                {"train.fp8_param_gather", "true"},
                                                {"overlap.grad_reduce", "true"},
                                                {"overlap.param_gather", "true"},
                                                {"overlap.align_param_gather", "false"},
                                                {"overlap.p2p", "false"},
                                                {"overlap.tensor", "ring"},
                                                {"overlap.expert", "true"},
                                                {"train.sequence_parallel", "true"},
                                                {"cluster.gpus", "64"}});
  std::istringstream in(text);
  int seen = 0;
  for (std::string word; in >> word;) {
    if (!word.starts_with("--")) continue;
    INFO(word);
    CHECK(flags.find(" " + word + " ") != std::string::npos);
    ++seen;
  }
  CHECK(seen >= 30);
  CHECK(text.find("--ckpt-format fsdp_dtensor\n") != std::string::npos);
  CHECK(text.find("# environment: CUDA_DEVICE_MAX_CONNECTIONS unset ") != std::string::npos);
  // No layer is a graph that is recomputed whole.
  CHECK(text.find("# not expressed: train.cuda_graphs = true: ") != std::string::npos);
  CHECK(text.find("--use-distributed-optimizer\n") != std::string::npos);
}

TEST_CASE("DeepSpeed sums 16-bit gradients unless it is told fp32, which is a scenario's default") {
  const PlanSettings plan = {{"train.precision", "bf16"}, {"train.zero", "1"}};
  const std::string text = emitted("deepspeed", plan);
  CHECK(has(text, "\"communication_data_type\": \"fp32\""));
  CHECK(has(text, "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}"));
  CHECK_FALSE(has(emitted("deepspeed", {{"train.precision", "bf16"}}), "data_types"));
}

// fp32 gradients are a scenario's default, but with fp16.
TEST_CASE("gradients that a format reduces narrower than the plan are said, where it states none") {
  const std::string lost = "train.gradient_dtype = fp32: gradients are ";
  CHECK(has(emitted("fsdp", {{"train.zero", "3"}}), lost + "reduced as wide as parameters"));
  CHECK_FALSE(has(emitted("fsdp", {{"train.precision", "fp16"}}), lost));
  CHECK_FALSE(has(emitted("fsdp", {{"train.precision", "fp32"}}), lost));
  CHECK(has(emitted("deepspeed", {{"train.zero", "0"}}), lost + "sent in fp32"));
  CHECK_FALSE(has(emitted("deepspeed", {{"train.zero", "1"}}), lost));
}

TEST_CASE("a graph's scope is words, with and without blanks between them") {
  for (const char* scope : {"attn,mlp", "attn, mlp", "attn mlp"}) {
    const PlanSettings plan = {{"train.cuda_graphs", "true"}, {"train.cuda_graph_scope", scope}};
    CHECK(has(emitted("megatron", plan), "    --cuda-graph-scope attn mlp\n"));
    CHECK(has(emitted("nemo", plan), "  cuda_graph_modules: [attn, mlp]\n"));
  }
}

TEST_CASE("buckets of a layer, which Megatron does not have, are said to be larger there") {
  PlanSettings plan = {{"overlap.grad_reduce", "true"}, {"train.zero", "1"}};
  const std::string line =
      "# not expressed: a layer a bucket: here buckets have max(40 M, 1 M x dp) parameters\n";
  CHECK(has(emitted("nemo", plan), line));
  CHECK(has(emitted("megatron", plan), line));
  for (const auto& [key, value] : {std::pair{"overlap.bucket_MB", "160"},
                                   {"parallel.pp", "2"},
                                   {"train.zero", "3"},
                                   {"overlap.grad_reduce", "false"}}) {
    PlanSettings other = plan;
    other[key] = value;
    CHECK_FALSE(has(emitted("nemo", other), line));
  }
}

TEST_CASE("DeepSpeed is told bf16 for a narrower precision, and that it is another one") {
  const std::string text = emitted("deepspeed", {{"train.precision", "nvfp4"}});
  CHECK(has(text, "\"bf16\": {\"enabled\": true}"));
  CHECK(has(text, "train.precision = nvfp4: bf16, fp16 or fp32"));
}

// 12 GPUs on nodes of 8 are two machines; 9 are three, as they do not divide by two.
TEST_CASE(
    "Accelerate's machines have as many processes each, which is said if nodes are not full") {
  const std::string twelve = emitted("fsdp", {{"train.zero", "3"}, {"cluster.gpus", "12"}});
  CHECK(has(twelve, "num_processes: 12\nnum_machines: 2\n"));
  CHECK(has(twelve, "# not expressed: 12 GPUs on nodes of 8: 2 machines have 6 each\n"));
  CHECK(has(twelve, "# environment: machine_rank, "));
  CHECK(has(emitted("fsdp", {{"train.zero", "3"}, {"cluster.gpus", "9"}}), "num_machines: 3\n"));
  const std::string full = emitted("fsdp", {{"train.zero", "3"},
                                            {"train.gradient_dtype", "bf16"},
                                            {"train.flash_attention", "true"},
                                            {"train.cross_entropy", "unfused"},
                                            {"cluster.gpus", "16"}});
  CHECK(has(full, "num_machines: 2\n"));
  CHECK_FALSE(has(full, "not expressed"));
}

TEST_CASE("Megatron-Bridge has names of its own, and shards need the data-parallel size") {
  const std::string text = emitted("nemo", {{"train.fused_norm", "false"},
                                            {"train.fused_bias_gelu", "false"},
                                            {"parallel.hsdp_shard", "8"}});
  CHECK(text.find("  persist_layer_norm: false\n") != std::string::npos);
  CHECK(text.find("  bias_activation_fusion: false\n") != std::string::npos);
  CHECK(text.find("instances: 0") == std::string::npos);
  CHECK(text.find("# not expressed: parallel.hsdp_shard = 8: ") != std::string::npos);
}

// 61 layers on 8 stages: seven of 8, one of 5. Bridge's recipes have a name as mixed precision, and
// no communication overlap; cp, vpp and recompute of their own.
TEST_CASE("Megatron-Bridge is told objects, a layout's stages, and what a recipe may have set") {
  const std::string text = emitted("nemo", {{"parallel.tp", "1"},
                                            {"parallel.pp", "4"},
                                            {"parallel.vpp", "2"},
                                            {"parallel.micro_batch", "1"},
                                            {"parallel.global_batch", "64"},
                                            {"schedule.order", "interleaved"},
                                            {"overlap.p2p", "true"},
                                            {"model.layers", "61"},
                                            {"cluster.gpus", "64"}});
  INFO(text);
  const char* const precision =
      "mixed_precision:\n  _target_: "
      "megatron.bridge.training.mixed_precision.MixedPrecisionConfig";
  for (const char* line :
       {precision,
        "comm_overlap:\n  _target_: megatron.bridge.training.comm_overlap.CommOverlapConfig",
        "  params_dtype: {_target_: torch.bfloat16, _call_: false}", "  context_parallel_size: 1",
        "  pipeline_model_parallel_layout: 'Et*8|(t*8|)*6t*5L'",
        "  virtual_pipeline_model_parallel_size: 2", "  overlap_p2p_comm: true",
        "  batch_p2p_comm: false", "  recompute_granularity: null", "  cuda_graph_impl: none"})
    CHECK(has(text, std::string(line) + "\n"));
  CHECK_FALSE(has(text, "rng:"));  // a section without fields would replace the recipe's by null
  CHECK(effective(back("nemo", text, 64), "parallel.vpp") == "2");
  std::string other = text;
  other.replace(other.find("parallel_size: 2"), 16, "parallel_size: 3");
  CHECK(has(refusal("run_config.yaml", other), "2, as the stages have it"));
  const std::string alone = emitted("nemo", {{"parallel.pp", "4"}, {"train.cuda_graphs", "true"}});
  CHECK(has(alone, "  virtual_pipeline_model_parallel_size: null\n"));
  CHECK(has(alone, "  batch_p2p_comm: true\n"));
  CHECK(has(alone, "  cuda_graph_impl: transformer_engine\n  cuda_graph_modules: []\n"));
}

// The search plays them as the other GEMMs; a plan that states them so loses nothing.
TEST_CASE("the two GEMMs that Transformer Engine pipelines are said to be another way") {
  PlanSettings plan = {{"parallel.tp", "2"},
                       {"train.sequence_parallel", "true"},
                       {"overlap.tensor", "ring"},
                       {"cluster.gpus", "8"}};
  const std::string text = emitted("megatron", plan);
  const std::string note = "_fprop = ring: Transformer Engine's is pipelined\n";
  CHECK(has(text, "# not expressed: overlap.gemm.proj" + note));
  CHECK(has(text, "# not expressed: overlap.gemm.fc2" + note));
  plan["model.experts"] = "8";
  CHECK_FALSE(has(emitted("megatron", plan), "overlap.gemm.fc2"));
  plan["overlap.gemm.proj_fprop"] = "pipelined";
  CHECK_FALSE(has(emitted("megatron", plan), "overlap.gemm."));
}

TEST_CASE("gradients that Megatron-LM reduces beside others, flag or not, are said to be") {
  PlanSettings plan = {{"parallel.tp", "2"},
                       {"train.sequence_parallel", "true"},
                       {"overlap.tensor", "off"},
                       {"cluster.gpus", "8"}};
  const std::string note = "not expressed: overlap.tensor = off: input gradients are always";
  for (const char* format : {"megatron", "nemo", "chatlearn"})
    CHECK(has(emitted(format, plan), note));
  plan["train.sequence_parallel"] = "false";  // then nothing is simulated beside them
  CHECK_FALSE(has(emitted("megatron", plan), note));
  plan["train.sequence_parallel"] = "true";
  plan.erase("overlap.tensor");  // left open, as in the file
  CHECK_FALSE(has(emitted("megatron", plan), note));
}

TEST_CASE("Megatron-Bridge is told the buckets of Megatron-LM, as its own are larger") {
  PlanSettings plan = {{"overlap.grad_reduce", "true"}, {"train.zero", "1"},
                       {"cluster.gpus", "8"},           {"parallel.tp", "1"},
                       {"parallel.micro_batch", "1"},   {"parallel.global_batch", "64"}};
  CHECK(has(emitted("nemo", plan), "  bucket_size: 40000000\n"));
  CHECK_FALSE(has(emitted("megatron", plan), "bucket-size"));
  plan["cluster.gpus"] = "64";
  CHECK(back("nemo", emitted("nemo", plan), 64).at("overlap.bucket_MB") == "256");
  plan["parallel.pp"] = "2";
  CHECK_FALSE(has(emitted("nemo", plan), "bucket_size"));
}

TEST_CASE("selective recompute that is simulated as none is not told to Megatron-LM") {
  PlanSettings plan = {{"train.recompute", "selective"}, {"train.flash_attention", "true"}};
  for (const char* format : {"megatron", "nemo", "chatlearn"}) {
    const std::string text = emitted(format, plan);
    CHECK(has(text, "not expressed: train.recompute = selective: "));
    CHECK_FALSE(has(text, "granularity selective"));
    CHECK_FALSE(has(text, "granularity: selective"));
  }
  plan["train.recompute_modules"] = "core_attn, mlp";
  CHECK(has(emitted("megatron", plan), "    --recompute-modules core_attn mlp\n"));
  plan = {{"train.recompute", "selective"}};  // the scores of unfused attention
  CHECK(has(emitted("megatron", plan), "    --recompute-granularity selective\n"));
}

TEST_CASE("experts are told to be one grouped GEMM, as they are simulated") {
  const PlanSettings plan = {{"parallel.ep", "2"}, {"model.experts", "8"}, {"cluster.gpus", "8"}};
  CHECK(has(emitted("megatron", plan), "    --moe-grouped-gemm\n"));
  CHECK(has(emitted("nemo", plan), "  moe_grouped_gemm: true\n"));
  CHECK(has(emitted("chatlearn", plan), "      moe_grouped_gemm: true\n"));
  CHECK_FALSE(has(emitted("megatron", {{"cluster.gpus", "8"}}), "grouped"));
  // Megatron-LM refuses moe_act without it, of dense models too, where it has no effect.
  PlanSettings dense = {{"train.recompute", "selective"}, {"train.recompute_modules", "moe_act"}};
  CHECK_FALSE(has(emitted("megatron", dense), "recompute"));
  dense["train.recompute_modules"] = "moe_act, layernorm";
  CHECK(has(emitted("megatron", dense), "    --recompute-modules layernorm\n"));
  dense["model.experts"] = "8";
  CHECK(has(emitted("megatron", dense), "    --recompute-modules moe_act layernorm\n"));
}

TEST_CASE("shared experts beside the exchange are told where Megatron takes that") {
  PlanSettings plan = {{"parallel.ep", "2"},
                       {"model.experts", "8"},
                       {"model.shared_expert_ffn", "512"},
                       {"cluster.gpus", "8"}};
  const std::string flag = "    --moe-shared-expert-overlap\n";
  CHECK(has(emitted("megatron", plan), flag));
  CHECK(has(emitted("nemo", plan), "  moe_shared_expert_overlap: true\n"));
  plan["overlap.shared_experts"] = "false";
  CHECK_FALSE(has(emitted("megatron", plan), flag));
  CHECK(has(emitted("nemo", plan), "  moe_shared_expert_overlap: false\n"));
  plan["overlap.shared_experts"] = "true";
  plan["parallel.dispatcher"] = "allgather";
  CHECK_FALSE(has(emitted("megatron", plan), flag));
  CHECK(has(emitted("megatron", plan), "overlap.shared_experts: here shared experts run ahead"));
}

TEST_CASE("what a format cannot say is said in a comment") {
  const PlanSettings plan = {{"parallel.tp", "4"},      {"parallel.pp", "2"},
                             {"schedule.order", "zbv"}, {"parallel.layers_per_stage", "[7, 9]"},
                             {"overlap.data_sms", "8"}, {"overlap.p2p_sms", "0"},
                             {"model.layers", "16"}};
  const std::string text = emitted("megatron", plan);
  CHECK(text.starts_with("#!/bin/bash\n# keeps the rules of NVIDIA/Megatron-LM "));
  CHECK(text.find("# not expressed: schedule.order = zbv: ") != std::string::npos);
  CHECK(text.find("--pipeline-model-parallel-layout 'Et*7|t*9L'") != std::string::npos);
  CHECK(text.find("# not expressed: overlap.data_sms = 8\n") != std::string::npos);
  CHECK(text.find("p2p_sms") == std::string::npos);
  CHECK(text.find("model.layers") == std::string::npos);
  CHECK(text.find("# environment: CUDA_DEVICE_MAX_CONNECTIONS=1 ") != std::string::npos);
  CHECK(emitted("deepspeed", plan).find("\"_not_expressed\": [\"") != std::string::npos);
  // Off where the default is on, and 1 where it is tp.
  const std::string deepspeed = emitted("deepspeed", {{"parallel.tp", "8"},
                                                      {"parallel.expert_tp", "1"},
                                                      {"train.fused_softmax", "false"},
                                                      {"train.fused_norm", "true"}});
  CHECK(deepspeed.find("parallel.expert_tp = 1") != std::string::npos);
  CHECK(deepspeed.find("train.fused_softmax = false") != std::string::npos);
  CHECK(deepspeed.find("fused_norm") == std::string::npos);
}

TEST_CASE("a format that is not known is refused with the nearest one") {
  const auto text = emit_plan("megaton", {});
  REQUIRE(!text.ok());
  CHECK(text.error().text().find("the nearest is 'megatron'") != std::string::npos);
}
