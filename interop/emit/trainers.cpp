// Writes a plan as DeepSpeed's ds_config.json and as Accelerate's YAML. Declared in
// interop/emit/plan_keys.h.
#include <fmt/format.h>

#include <algorithm>

#include "interop/emit/plan_keys.h"

namespace tandem {
namespace {

// Lists selective recompute as not expressible: the script or the file can only recompute whole
// layers or none.
void leave_selective(PlanKeys* keys) {
  if (keys->text("train.recompute", "none") == "selective")
    keys->leave("train.recompute", "whole layers are recomputed, or none");
}

// The fields of a JSON object, one a line.
struct JsonFields {
  std::string lines;

  // `value`: as JSON, with the quotes of a text.
  template <class T>
  void add(std::string_view name, const T& value) {
    lines += fmt::format("{}  \"{}\": {}", lines.empty() ? "" : ",\n", name, value);
  }
};

void add_batch(PlanKeys* keys, JsonFields* fields) {
  const long long dp = keys->dp(), micro = keys->whole("parallel.micro_batch", 1);
  const long long global = keys->whole("parallel.global_batch", micro * (dp > 0 ? dp : 1));
  fields->add("train_micro_batch_size_per_gpu", micro);
  if (dp <= 0) return;
  fields->add("gradient_accumulation_steps", global / (micro * dp));
  // DeepSpeed's train_batch_size counts the batch once for each tensor rank. With tp above 1 it is
  // left out, and DeepSpeed computes it.
  if (keys->whole("parallel.tp", 1) == 1) fields->add("train_batch_size", global);
}

std::string gradient_type(PlanKeys* keys) {
  const bool is_fp16 = keys->text("train.precision", "bf16") == "fp16";
  return keys->text("train.gradient_dtype", is_fp16 ? "fp16" : "fp32");
}

void add_precision(PlanKeys* keys, JsonFields* fields) {
  const std::string precision = keys->text("train.precision", "bf16");
  const bool is_narrower = precision != "bf16" && precision != "fp16" && precision != "fp32";
  if (is_narrower) keys->leave("train.precision", "bf16, fp16 or fp32");
  if (precision != "fp32") fields->add(is_narrower ? "bf16" : precision, "{\"enabled\": true}");
  if (gradient_type(keys) != "fp32" || precision == "fp32") return;
  fields->add("communication_data_type", "\"fp32\"");
  // Without ZeRO DeepSpeed refuses gradients of another type than the parameters'
  // (runtime/engine.py:2021 at edaa7221).
  if (keys->whole("train.zero", 0) > 0)
    fields->add("data_types", "{\"grad_accum_dtype\": \"fp32\"}");
  else
    keys->note(
        "train.gradient_dtype = fp32: gradients are sent in fp32, and kept so with ZeRO only");
}

void add_parallel(PlanKeys* keys, JsonFields* fields) {
  const long long tp = keys->whole("parallel.tp", 1), ep = keys->whole("parallel.ep", 1);
  const long long cp = keys->whole("parallel.cp", 1), zero = keys->whole("train.zero", 0);
  if (tp > 1) fields->add("tensor_parallel", fmt::format("{{\"autotp_size\": {}}}", tp));
  if (ep > 1 && (zero == 3 || (tp > 1 && cp > 1))) {
    keys->leave("parallel.ep", "neither with stage 3, nor with both tp and cp");
  } else if (ep > 1) {
    fields->add("expert_parallel", fmt::format("{{\"enabled\": true, \"autoep_size\": {}}}", ep));
    if (keys->whole("parallel.expert_tp", tp) > 1)
      keys->leave("parallel.expert_tp", "experts that ep spreads are whole");
  }
  if (cp > 1) {
    if (keys->text("parallel.cp_comm", "ring") == "all_to_all") {
      fields->add("sequence_parallel_size", cp);
    } else {
      keys->leave("parallel.cp", "sequences are cut by all-to-all only");
    }
  }
}

// Adds where the optimizer's states are. Stage 3 alone reads `ratio`; the others offload them all
// (runtime/zero/offload_config.py at edaa7221).
void add_offload(PlanKeys* keys, long long stage, std::string* section) {
  const std::string share = keys->text("train.optimizer_offload", "0");
  if (share == "0") return;
  if (stage == 0 || (stage < 3 && share != "1"))
    return keys->leave("train.optimizer_offload", "all of it with ZeRO, a part with stage 3 only");
  *section += ", \"offload_optimizer\": {\"device\": \"cpu\"";
  if (share != "1") *section += fmt::format(", \"ratio\": {}", share);
  *section += "}";
  keys->require("DeepSpeedCPUAdam, if the script makes the optimizer: others are refused");
}

void add_zero(PlanKeys* keys, JsonFields* fields) {
  const long long zero = keys->whole("train.zero", 0);
  const bool reduces = keys->flag("overlap.grad_reduce", false);
  const bool gathers = keys->flag("overlap.param_gather", zero == 3);
  if (gathers && zero != 3) keys->leave("overlap.param_gather", "stage 3 only");
  if (!gathers && zero == 3) keys->leave("overlap.param_gather", "stage 3 always gathers ahead");
  if (reduces && zero == 0) keys->leave("overlap.grad_reduce", "with ZeRO only");
  std::string stage = fmt::format("{{\"stage\": {}", zero);
  if (zero > 0) stage += fmt::format(", \"overlap_comm\": {}", reduces);
  const std::string bucket = keys->text("overlap.bucket_MB");
  const bool has_buckets = reduces && (zero == 1 || zero == 2);
  if (!bucket.empty() && !has_buckets)
    keys->leave("overlap.bucket_MB", "of stages 1 and 2, with overlap_comm");
  if (bucket.empty() && has_buckets)
    keys->note("a layer a bucket: here buckets have 500 M elements");
  if (!bucket.empty() && has_buckets) {
    const bool is_fp32 =
        keys->text("train.precision", "bf16") == "fp32" || gradient_type(keys) == "fp32";
    stage += fmt::format(", \"reduce_bucket_size\": {:.0f}",
                         std::stod(bucket) * 1e6 / (is_fp32 ? 4 : 2));
  }
  if (const long long shard = keys->whole("parallel.hsdp_shard", 0); shard > 0) {
    if (zero != 3) keys->leave("parallel.hsdp_shard", "MiCS cuts in stage 3 only");
    if (zero == 3) stage += fmt::format(", \"mics_shard_size\": {}", shard);
  }
  if (const long long second = keys->whole("parallel.zero_hpz", 0); second > 0) {
    if (zero != 3) keys->leave("parallel.zero_hpz", "stage 3 only");
    if (zero == 3) stage += fmt::format(", \"zero_hpz_partition_size\": {}", second);
  }
  add_offload(keys, zero, &stage);
  fields->add("zero_optimization", stage + "}");
}

// Returns the lines for the numbers of processes and machines. A node has 8 GPUs unless a key says
// otherwise. Accelerate starts equally many processes on each machine.
std::string machines_text(PlanKeys* keys, long long gpus) {
  const long long node_gpus = std::max(1LL, keys->whole("cluster.gpus_per_node", 8));
  long long machines = (gpus + node_gpus - 1) / node_gpus;
  while (gpus % machines != 0) ++machines;
  if (machines > 1) {
    if (gpus % node_gpus != 0)
      keys->note(fmt::format("{} GPUs on nodes of {}: {} machines have {} each", gpus, node_gpus,
                             machines, gpus / machines));
    keys->require(
        "machine_rank, main_process_ip and main_process_port differ by machine: give "
        "them to accelerate launch");
  }
  return fmt::format("num_processes: {}\nnum_machines: {}\n", gpus, machines);
}

// Returns whether Accelerate's sizes can express that `shard` ranks, context ranks included, share
// one copy of the parameters.
bool can_shard(long long shard, long long dp, long long tp, long long cp) {
  const bool divides = shard > 0 && shard % cp == 0 && dp * cp % shard == 0;
  const bool has_shards = shard > cp, has_replicas = shard != dp * cp;
  // Accelerate accepts dp_replicate without dp_shard only if tp and cp are 1.
  return divides && (has_shards || !has_replicas || (tp == 1 && cp == 1));
}

// Returns the sizes of the device mesh. Their product is the number of processes.
std::string parallelism_text(PlanKeys* keys) {
  const long long tp = keys->whole("parallel.tp", 1), cp = keys->whole("parallel.cp", 1);
  const long long dp = keys->dp(), shard = keys->whole("parallel.hsdp_shard", 0);
  const bool is_expressed = can_shard(shard, dp, tp, cp);
  if (shard > 0 && !is_expressed)
    keys->leave("parallel.hsdp_shard", "whole groups of context ranks shard, or more");
  note_context(keys);
  std::string text = "parallelism_config:\n";
  const auto add = [&](std::string_view name, long long size) {
    text += fmt::format("  parallelism_config_{}_size: {}\n", name, size);
  };
  if (dp > 0) {
    add("dp_replicate", is_expressed ? dp * cp / shard : 1);
    add("dp_shard", is_expressed ? shard / cp : dp);
  }
  if (tp > 1) add("tp", tp);
  if (cp > 1) add("cp", cp);
  return text;
}

}  // namespace

std::string deepspeed_text(PlanKeys* keys) {
  JsonFields fields;
  add_batch(keys, &fields);
  add_precision(keys, &fields);
  add_parallel(keys, &fields);
  add_zero(keys, &fields);
  note_above_one(keys, "parallel.pp", "pipelines are cut in the model's code");
  keys->ignore("schedule.order");  // the pipeline's
  note_kernels(keys, "unfused", "unfused");
  leave_selective(keys);
  if (keys->text("train.recompute", "none") == "full")
    keys->leave("train.recompute", "layers are recomputed in the model's code");
  return "{\n" + fields.lines + "\n}\n";
}

std::string fsdp_text(PlanKeys* keys) {
  const long long zero = keys->whole("train.zero", 0), dp = keys->dp(), gpus = keys->gpus();
  const long long shard = keys->whole("parallel.hsdp_shard", 0);
  std::string text = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n";
  const std::string precision = keys->text("train.precision", "bf16");
  const bool known = precision == "bf16" || precision == "fp16" || precision == "fp8";
  text += fmt::format("mixed_precision: '{}'\n", known ? precision : "no");
  if (!known && precision != "fp32") keys->leave("train.precision", "bf16, fp16, fp8 or fp32");
  if (known && gradient_type(keys) == "fp32")
    keys->note("train.gradient_dtype = fp32: gradients are reduced as wide as parameters");
  if (gpus > 0) text += machines_text(keys, gpus);
  text += "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  const bool reshard = keys->flag("train.reshard_after_forward", true);
  text += fmt::format("  fsdp_reshard_after_forward: {}\n", zero == 3 && reshard);
  if (zero == 3 && !reshard)
    keys->leave("train.reshard_after_forward", "the same field says train.zero = 2");
  const std::string recompute = keys->text("train.recompute", "none");
  text += fmt::format("  fsdp_activation_checkpointing: {}\n", recompute == "full");
  leave_selective(keys);
  const long long tp = keys->whole("parallel.tp", 1), cp = keys->whole("parallel.cp", 1);
  if (zero < 2 && dp * cp != 1)
    keys->leave("train.zero", "FSDP cuts gradients, and parameters or not");
  if (tp > 1 || cp > 1 || shard > 0) text += parallelism_text(keys);
  if (!keys->flag("overlap.grad_reduce", true) && dp * cp > 1)
    keys->leave("overlap.grad_reduce", "gradients are always reduced layer by layer");
  if (!keys->flag("overlap.param_gather", true) && zero > 0)
    keys->leave("overlap.param_gather", "parameters are always gathered ahead");
  note_kernels(keys, "unfused", "te");
  note_above_one(keys, "parallel.pp", "FSDP has no pipeline");
  keys->ignore("schedule.order");  // the pipeline's
  note_above_one(keys, "parallel.ep", "FSDP cuts no experts");
  keys->leave("parallel.micro_batch", "the script's per_device_train_batch_size");
  const long long micro = keys->whole("parallel.micro_batch", 1);
  const bool accumulates = keys->whole("parallel.global_batch", 0) > micro * std::max(dp, 1LL);
  keys->leave(
      "parallel.global_batch",
      accumulates
          ? "the script's gradient_accumulation_steps make it, with sync_each_batch = true: "
            "without it Accelerate keeps whole gradients until the last step"
          : "the script's gradient_accumulation_steps make it");
  return text;
}

}  // namespace tandem
