// Writes a plan as the file of DeepSpeed (JSON), Accelerate (YAML) or torchtitan (TOML). Keys that
// the trainer cannot follow are noted with the reason (PlanKeys::leave). A call whose result is
// not used, such as keys->gpus(), counts its keys as taken: they need no note. Declared in
// interop/emit/plan_keys.h.
#include <fmt/format.h>

#include <vector>

#include "interop/emit/plan_keys.h"

namespace tandem {
namespace {

// Notes `key` as not expressed if it is above 1.
void note_above_one(PlanKeys* keys, IntegerKey key, std::string_view why) {
  if (keys->whole(key, 1) > 1) keys->leave(key, why);
}

// Notes selective recompute as not expressed: these trainers recompute whole layers or nothing.
void leave_selective(PlanKeys* keys) {
  if (keys->text("train.recompute", "none") == "selective")
    keys->leave("train.recompute", "whole layers are recomputed, or none");
}

std::string titan_schedule(PlanKeys* keys) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"1f1b", "1F1B"},
      {"gpipe", "GPipe"},
      {"interleaved", "Interleaved1F1B"},
      {"looped-bfs", "LoopedBFS"},
      {"interleaved-zb", "InterleavedZeroBubble"},
      {"zbv", "ZBVZeroBubble"},
      {"dualpipev", "DualPipeV"}};
  const long long vpp = keys->whole("parallel.vpp", 1);
  const std::string order = keys->text("schedule.order", vpp > 1 ? "interleaved" : "1f1b");
  if (keys->whole("parallel.pp", 1) == 1) return "";
  std::string text;
  for (const auto& [ours, theirs] : kNames) {
    if (ours == order) text = fmt::format("pipeline_parallel_schedule = \"{}\"\n", theirs);
  }
  if (text.empty()) keys->leave("schedule.order", "torchtitan has no schedule of that name");
  if (vpp > 2) keys->leave("parallel.vpp", "pipeline_parallel_layers_per_stage says it");
  return text + fmt::format("pipeline_parallel_microbatch_size = {}\n",
                            keys->whole("parallel.micro_batch", 1));
}

}  // namespace

std::string deepspeed_text(PlanKeys* keys) {
  const long long dp = keys->dp(), micro = keys->whole("parallel.micro_batch", 1);
  keys->gpus();
  const long long global = keys->whole("parallel.global_batch", micro * (dp > 0 ? dp : 1));
  std::vector<std::string> fields;
  fields.push_back(fmt::format("\"train_micro_batch_size_per_gpu\": {}", micro));
  if (dp > 0) {
    fields.push_back(fmt::format("\"gradient_accumulation_steps\": {}", global / (micro * dp)));
    fields.push_back(fmt::format("\"train_batch_size\": {}", global));
  }
  const std::string precision = keys->text("train.precision", "bf16");
  if (precision == "bf16" || precision == "fp16")
    fields.push_back(fmt::format("\"{}\": {{\"enabled\": true}}", precision));
  if (precision != "bf16" && precision != "fp16" && precision != "fp32")
    keys->leave("train.precision", "bf16, fp16 or fp32");
  const std::string gradients =
      keys->text("train.gradient_dtype", precision == "fp16" ? "fp16" : "fp32");
  if (gradients == "fp32" && precision != "fp32")
    fields.emplace_back("\"communication_data_type\": \"fp32\"");
  if (keys->whole("parallel.tp", 1) > 1)
    fields.push_back(
        fmt::format("\"tensor_parallel\": {{\"autotp_size\": {}}}", keys->whole("parallel.tp", 1)));
  if (keys->whole("parallel.ep", 1) > 1)
    fields.push_back(fmt::format("\"expert_parallel\": {{\"enabled\": true, \"autoep_size\": {}}}",
                                 keys->whole("parallel.ep", 1)));
  if (keys->whole("parallel.cp", 1) > 1) {
    if (keys->text("parallel.cp_comm", "ring") == "all_to_all") {
      fields.push_back(
          fmt::format("\"sequence_parallel_size\": {}", keys->whole("parallel.cp", 1)));
    } else {
      keys->leave("parallel.cp", "sequences are cut by all-to-all only");
    }
  }
  const long long zero = keys->whole("train.zero", 0);
  const bool reduces = keys->flag("overlap.grad_reduce", false);
  const bool gathers = keys->flag("overlap.param_gather", zero == 3);
  if (gathers && zero != 3) keys->leave("overlap.param_gather", "stage 3 only");
  if (reduces && zero == 0) keys->leave("overlap.grad_reduce", "with ZeRO only");
  std::string stage = fmt::format("\"zero_optimization\": {{\"stage\": {}", zero);
  if (zero > 0) stage += fmt::format(", \"overlap_comm\": {}", reduces);
  const std::string bucket = keys->text("overlap.bucket_MB");
  if (!bucket.empty() && (!reduces || zero == 0 || zero == 3)) {
    keys->leave("overlap.bucket_MB", "of stages 1 and 2, with overlap_comm");
  } else if (!bucket.empty()) {
    const double bytes = precision == "fp32" || gradients == "fp32" ? 4 : 2;
    stage += fmt::format(", \"reduce_bucket_size\": {:.0f}", std::stod(bucket) * 1e6 / bytes);
  }
  if (const long long shard = keys->whole("parallel.hsdp_shard", 0); shard > 0) {
    if (zero != 3) keys->leave("parallel.hsdp_shard", "MiCS cuts in stage 3 only");
    if (zero == 3) stage += fmt::format(", \"mics_shard_size\": {}", shard);
  }
  if (const long long second = keys->whole("parallel.zero_hpz", 0); second > 0)
    stage += fmt::format(", \"zero_hpz_partition_size\": {}", second);
  fields.push_back(stage + "}");
  note_above_one(keys, "parallel.pp", "pipelines are cut in the model's code");
  leave_selective(keys);
  if (keys->text("train.recompute", "none") == "full")
    keys->leave("train.recompute", "layers are recomputed in the model's code");
  std::string text = "{\n";
  for (std::size_t i = 0; i < fields.size(); ++i)
    text += fmt::format("  {}{}\n", fields[i], i + 1 < fields.size() ? "," : "");
  return text + "}\n";
}

std::string fsdp_text(PlanKeys* keys) {
  const long long zero = keys->whole("train.zero", 0), dp = keys->dp(), gpus = keys->gpus();
  const long long shard = keys->whole("parallel.hsdp_shard", 0);
  std::string text = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n";
  const std::string precision = keys->text("train.precision", "bf16");
  const bool known = precision == "bf16" || precision == "fp16" || precision == "fp8";
  text += fmt::format("mixed_precision: '{}'\n", known ? precision : "no");
  if (!known && precision != "fp32") keys->leave("train.precision", "bf16, fp16, fp8 or fp32");
  if (known && keys->text("train.gradient_dtype") == "fp32")
    keys->leave("train.gradient_dtype", "gradients are reduced as wide as parameters");
  if (gpus > 0) text += fmt::format("num_processes: {}\n", gpus);
  text += "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  const bool reshard = keys->flag("train.reshard_after_forward", true);
  text += fmt::format("  fsdp_reshard_after_forward: {}\n", zero == 3 && reshard);
  const std::string recompute = keys->text("train.recompute", "none");
  text += fmt::format("  fsdp_activation_checkpointing: {}\n", recompute == "full");
  leave_selective(keys);
  if (zero < 2) keys->leave("train.zero", "FSDP cuts gradients, and parameters or not");
  const long long tp = keys->whole("parallel.tp", 1), cp = keys->whole("parallel.cp", 1);
  if (tp > 1 || cp > 1 || shard > 0) {
    text += "parallelism_config:\n";
    if (shard > 0 && shard % cp != 0) {
      keys->leave("parallel.hsdp_shard", "whole groups of context ranks shard");
    } else if (shard > 0 && dp > 0) {
      text += fmt::format("  parallelism_config_dp_replicate_size: {}\n", dp * cp / shard);
      text += fmt::format("  parallelism_config_dp_shard_size: {}\n", shard / cp);
    }
    if (tp > 1) text += fmt::format("  parallelism_config_tp_size: {}\n", tp);
    if (cp > 1) text += fmt::format("  parallelism_config_cp_size: {}\n", cp);
  }
  if (!keys->flag("overlap.grad_reduce", true))
    keys->leave("overlap.grad_reduce", "gradients are always reduced layer by layer");
  if (!keys->flag("overlap.param_gather", true))
    keys->leave("overlap.param_gather", "parameters are always gathered ahead");
  note_above_one(keys, "parallel.pp", "FSDP has no pipeline");
  note_above_one(keys, "parallel.ep", "FSDP cuts no experts");
  keys->whole("parallel.micro_batch", 1);
  keys->whole("parallel.global_batch", 1);
  keys->leave("parallel.micro_batch", "the script's per_device_train_batch_size");
  keys->leave("parallel.global_batch", "the script's gradient_accumulation_steps make it");
  return text;
}

std::string torchtitan_text(PlanKeys* keys) {
  const long long pp = keys->whole("parallel.pp", 1), dp = keys->dp();
  const long long zero = keys->whole("train.zero", 0);
  const long long micro = keys->whole("parallel.micro_batch", 1);
  const long long global = keys->whole("parallel.global_batch", micro * (dp > 0 ? dp : 1));
  keys->gpus();
  // With a pipeline, torchtitan's local batch is all that a replica trains in an iteration.
  std::string text =
      fmt::format("[training]\nlocal_batch_size = {}\n", pp > 1 && dp > 0 ? global / dp : micro);
  text += fmt::format("global_batch_size = {}\n", global);
  if (const std::string seq = keys->text("model.seq"); !seq.empty())
    text += fmt::format("seq_len = {}\n", seq);
  const std::string precision = keys->text("train.precision", "bf16");
  if (precision == "fp32") text += "mixed_precision_param = \"float32\"\n";
  if (keys->text("train.gradient_dtype") == "bf16")
    text += "mixed_precision_reduce = \"bfloat16\"\n";
  text += "\n[parallelism]\n";
  // The shard degree leaves context ranks out; hsdp_shard counts them, so it is divided by cp.
  const long long cp = keys->whole("parallel.cp", 1);
  const long long cut = keys->whole("parallel.hsdp_shard", cp * (zero >= 2 ? dp : 1));
  if (cut % cp != 0) keys->leave("parallel.hsdp_shard", "whole groups of context ranks shard");
  const long long shard = cut % cp != 0 ? dp : cut / cp;
  if (dp > 0) {
    text += fmt::format("data_parallel_replicate_degree = {}\n", shard > 0 ? dp / shard : 1);
    text += fmt::format("data_parallel_shard_degree = {}\n", shard);
  }
  if (zero == 1) keys->leave("train.zero", "FSDP2 cuts parameters too, or replicas are whole");
  if (zero == 2 || (zero == 3 && keys->has("train.reshard_after_forward")))
    text += fmt::format(
        "fsdp_reshard_after_forward = \"{}\"\n",
        zero == 3 && keys->flag("train.reshard_after_forward", true) ? "always" : "never");
  const auto degree = [&](std::string_view name, IntegerKey key) {
    text += fmt::format("{} = {}\n", name, keys->whole(key, 1));
  };
  degree("tensor_parallel_degree", "parallel.tp");
  degree("pipeline_parallel_degree", "parallel.pp");
  degree("context_parallel_degree", "parallel.cp");
  degree("expert_parallel_degree", "parallel.ep");
  const long long expert_tp = keys->whole("parallel.expert_tp", 0);
  if (expert_tp > 0) text += fmt::format("expert_tensor_parallel_degree = {}\n", expert_tp);
  text += titan_schedule(keys);
  if (keys->text("overlap.tensor", "off") != "off") text += "enable_async_tensor_parallel = true\n";
  if (!keys->flag("train.sequence_parallel", true) && keys->whole("parallel.tp", 1) > 1)
    keys->leave("train.sequence_parallel", "always on with tensor parallelism");
  if (!keys->flag("overlap.grad_reduce", true))
    keys->leave("overlap.grad_reduce", "FSDP2 always reduces layer by layer");
  if (!keys->flag("overlap.param_gather", true))
    keys->leave("overlap.param_gather", "FSDP2 always gathers ahead");
  if (!keys->flag("train.flash_attention", true))
    keys->leave("train.flash_attention", "PyTorch's own attention");
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                      keys->text("train.recompute", "none"));
  if (precision == "fp8") {
    const bool mx = keys->text("train.fp8_recipe") == "mxfp8";
    text += fmt::format("\n[model]\nconverters = [\"{}\"]\n", mx ? "mx" : "float8");
    if (keys->flag("train.fp8_param_gather", false))
      text += "\n[quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\n";
  } else if (precision != "bf16" && precision != "fp32") {
    keys->leave("train.precision", "bf16, fp32 or fp8");
  }
  return text;
}

}  // namespace tandem
