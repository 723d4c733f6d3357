// A plan as DeepSpeed's and Accelerate's files. Declared in interop/emit/plan_keys.h.
#include <fmt/format.h>

#include <algorithm>

#include <vector>

#include "interop/emit/plan_keys.h"

namespace tandem {
namespace {

// Notes selective recompute. Full recompute is a switch of the script or the file; there is no word
// for what lies between.
void leave_selective(PlanKeys* keys) {
  if (keys->text("train.recompute", "none") == "selective")
    keys->leave("train.recompute", "whole layers are recomputed, or none");
}

}  // namespace

std::string deepspeed_text(PlanKeys* keys) {
  const long long dp = keys->dp(), micro = keys->whole("parallel.micro_batch", 1);
  keys->gpus();
  const long long global = keys->whole("parallel.global_batch", micro * (dp > 0 ? dp : 1));
  std::vector<std::string> fields;
  fields.push_back(fmt::format("\"train_micro_batch_size_per_gpu\": {}", micro));
  const long long tp = keys->whole("parallel.tp", 1), ep = keys->whole("parallel.ep", 1);
  const long long cp = keys->whole("parallel.cp", 1), zero = keys->whole("train.zero", 0);
  if (dp > 0)
    fields.push_back(fmt::format("\"gradient_accumulation_steps\": {}", global / (micro * dp)));
  // DeepSpeed counts every tensor rank's batch, so that a batch that is stated would not add up.
  if (dp > 0 && tp == 1) fields.push_back(fmt::format("\"train_batch_size\": {}", global));
  const std::string precision = keys->text("train.precision", "bf16");
  if (precision == "bf16" || precision == "fp16")
    fields.push_back(fmt::format("\"{}\": {{\"enabled\": true}}", precision));
  if (precision != "bf16" && precision != "fp16" && precision != "fp32")
    keys->leave("train.precision", "bf16, fp16 or fp32");
  const std::string gradients =
      keys->text("train.gradient_dtype", precision == "fp16" ? "fp16" : "fp32");
  if (gradients == "fp32" && precision != "fp32") {
    fields.emplace_back("\"communication_data_type\": \"fp32\"");
    // Without ZeRO DeepSpeed refuses gradients of another type than the parameters'
    // (runtime/engine.py:2021 at edaa7221).
    if (zero > 0) fields.emplace_back("\"data_types\": {\"grad_accum_dtype\": \"fp32\"}");
    if (zero == 0)
      keys->leave("train.gradient_dtype", "gradients are sent in fp32, and kept so with ZeRO only");
  }
  if (tp > 1) fields.push_back(fmt::format("\"tensor_parallel\": {{\"autotp_size\": {}}}", tp));
  if (ep > 1 && (zero == 3 || (tp > 1 && cp > 1))) {
    keys->leave("parallel.ep", "neither with stage 3, nor with both tp and cp");
  } else if (ep > 1) {
    fields.push_back(
        fmt::format("\"expert_parallel\": {{\"enabled\": true, \"autoep_size\": {}}}", ep));
    if (keys->whole("parallel.expert_tp", tp) > 1)
      keys->leave("parallel.expert_tp", "experts that ep spreads are whole");
  }
  if (cp > 1) {
    if (keys->text("parallel.cp_comm", "ring") == "all_to_all") {
      fields.push_back(fmt::format("\"sequence_parallel_size\": {}", cp));
    } else {
      keys->leave("parallel.cp", "sequences are cut by all-to-all only");
    }
  }
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
  keys->text("schedule.order");
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
  // Nodes have 8 GPUs where nobody says.
  const long long node = std::max(1LL, keys->whole("cluster.gpus_per_node", 8));
  if (gpus > 0) {
    text += fmt::format("num_processes: {}\nnum_machines: {}\n", gpus,
                        gpus % node == 0 ? gpus / node : 1);
    if (gpus % node == 0 && gpus > node)
      keys->require(
          "machine_rank, main_process_ip and main_process_port differ by machine: give "
          "them to accelerate launch");
  }
  text += "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  const bool reshard = keys->flag("train.reshard_after_forward", true);
  text += fmt::format("  fsdp_reshard_after_forward: {}\n", zero == 3 && reshard);
  const std::string recompute = keys->text("train.recompute", "none");
  text += fmt::format("  fsdp_activation_checkpointing: {}\n", recompute == "full");
  leave_selective(keys);
  const long long tp = keys->whole("parallel.tp", 1), cp = keys->whole("parallel.cp", 1);
  if (zero < 2 && dp * cp != 1)
    keys->leave("train.zero", "FSDP cuts gradients, and parameters or not");
  if (tp > 1 || cp > 1 || shard > 0) {
    text += "parallelism_config:\n";
    // Replicas alone, without shards, stand neither with tp nor with cp.
    const bool cut = shard > 0 && shard % cp == 0 && dp * cp % shard == 0 &&
                     (shard > cp || shard == dp * cp || (tp == 1 && cp == 1));
    if (shard > 0 && !cut)
      keys->leave("parallel.hsdp_shard", "whole groups of context ranks shard, or more");
    // The sizes multiply to all processes.
    if (dp > 0) {
      text +=
          fmt::format("  parallelism_config_dp_replicate_size: {}\n", cut ? dp * cp / shard : 1);
      text += fmt::format("  parallelism_config_dp_shard_size: {}\n", cut ? shard / cp : dp);
    }
    if (tp > 1) text += fmt::format("  parallelism_config_tp_size: {}\n", tp);
    if (cp > 1) text += fmt::format("  parallelism_config_cp_size: {}\n", cp);
    if (keys->text("parallel.cp_comm", "ring") != "all_gather" && cp > 1)
      keys->leave("parallel.cp_comm", "keys and values are gathered by default");
  }
  if (!keys->flag("overlap.grad_reduce", true) && dp * cp > 1)
    keys->leave("overlap.grad_reduce", "gradients are always reduced layer by layer");
  if (!keys->flag("overlap.param_gather", true) && zero > 0)
    keys->leave("overlap.param_gather", "parameters are always gathered ahead");
  note_above_one(keys, "parallel.pp", "FSDP has no pipeline");
  note_above_one(keys, "parallel.ep", "FSDP cuts no experts");
  keys->whole("parallel.micro_batch", 1);
  keys->whole("parallel.global_batch", 1);
  keys->leave("parallel.micro_batch", "the script's per_device_train_batch_size");
  keys->leave("parallel.global_batch", "the script's gradient_accumulation_steps make it");
  return text;
}

}  // namespace tandem
