// Chooses the emitter of a format by its name, and adds a comment for each key that the format
// cannot express. Megatron-LM's flags and the YAML files of Megatron-Bridge and ChatLearn
// are written here, from one list of Megatron-LM's fields (megatron_fields).
#include "interop/emit/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "interop/document/fields.h"
#include "interop/emit/plan_keys.h"

namespace tandem {
namespace {

// Flags that are not named like their field, and their names.
struct FlagName {
  std::string_view like_field, name;
};
constexpr FlagName kFlags[] = {
    {"--fp8", "--fp8-format"},
    {"--fp4", "--fp4-format"},
    {"--microbatch-group-size-per-vp-stage", "--microbatch-group-size-per-virtual-pipeline-stage"},
    {"--virtual-pipeline-model-parallel-size", "--num-virtual-stages-per-pipeline-rank"},
    {"--no-overlap-p2p-comm", "--no-overlap-p2p-communication"}};

std::string flag_text(const MegatronField& field) {
  const auto& [name, value] = field;
  std::string flag = (value == "False" ? "--no-" : "--") + name;
  std::ranges::replace(flag, '_', '-');
  const auto* const other = std::ranges::find(kFlags, flag, &FlagName::like_field);
  if (other != std::end(kFlags)) flag = other->name;
  if (value == "True" || value == "False") return flag;
  const bool plain = value.find_first_of("|*()") == std::string::npos;
  return plain ? flag + " " + value : fmt::format("{} '{}'", flag, value);
}

std::string megatron_text(PlanKeys* keys) {
  std::string text = "#!/bin/bash\n";
  if (keys->gpus() > 0) text += fmt::format("WORLD_SIZE={}\n", keys->gpus());
  text += "PLAN=(\n";
  for (const MegatronField& field : megatron_fields(keys, MegatronReader::Arguments))
    text += fmt::format("    {}\n", flag_text(field));
  return text + ")\n";
}

// Writes a value as YAML does.
std::string yaml_value(const std::string& value) {
  if (value == "True") return "true";
  if (value == "False") return "false";
  if (value == "None") return "null";
  if (value.starts_with("[") || value.starts_with("{")) return value;  // is YAML already
  if (value.find_first_of("|*()[]{},# ") != std::string::npos) return "'" + value + "'";
  return value;
}

// The sections of Megatron-Bridge's configuration and their fields; "model" has all others. Some
// fields are in both ddp and comm_overlap: comm_overlap replaces ddp's value, but is read with a
// distributed optimizer only. A recipe may have None or a string in place of a section's object.
// The sections with a `target` are then made as objects of that class.
struct BridgeSection {
  std::string_view name, fields, target = {};
};
constexpr BridgeSection kBridgeFields[] = {
    {"model", ""},
    {"train", "micro_batch_size global_batch_size"},
    {"optimizer",
     "optimizer use_precision_aware_optimizer exp_avg_dtype exp_avg_sq_dtype main_grads_dtype "
     "main_params_dtype muon_tp_mode optimizer_cpu_offload optimizer_offload_fraction "
     "use_distributed_optimizer"},
    {"ddp",
     "use_distributed_optimizer use_megatron_fsdp data_parallel_sharding_strategy "
     "num_distributed_optimizer_instances overlap_grad_reduce overlap_param_gather "
     "align_param_gather bucket_size megatron_fsdp_main_grads_dtype megatron_fsdp_grad_comm_dtype"},
    {"checkpoint", "ckpt_format"},
    {"rng", "te_rng_tracker"},
    {"mixed_precision",
     "grad_reduce_in_fp32 bf16 fp16 params_dtype pipeline_dtype fp8 fp8_recipe fp8_param_gather "
     "fp8_dot_product_attention fp4 fp4_param_gather reuse_grad_buf_for_mxfp8_param_ag "
     "first_last_layers_bf16",
     "megatron.bridge.training.mixed_precision.MixedPrecisionConfig"},
    {"comm_overlap",
     "overlap_grad_reduce overlap_param_gather align_param_gather bucket_size tp_comm_overlap "
     "tp_comm_overlap_cfg overlap_p2p_comm batch_p2p_comm overlap_moe_expert_parallel_comm "
     "delay_wgrad_compute",
     "megatron.bridge.training.comm_overlap.CommOverlapConfig"}};

// Values of a plan that states no other. They are written, as a recipe may have others.
constexpr std::pair<std::string_view, std::string_view> kBridgeUsual[] = {
    {"context_parallel_size", "1"},
    {"expert_model_parallel_size", "1"},
    {"expert_tensor_parallel_size", "None"},
    {"sequence_parallel", "False"},
    {"virtual_pipeline_model_parallel_size", "None"},
    {"microbatch_group_size_per_vp_stage", "None"},
    {"pipeline_model_parallel_layout", "None"},
    {"num_layers_in_first_pipeline_stage", "None"},
    {"num_layers_in_last_pipeline_stage", "None"},
    {"account_for_embedding_in_pipeline_split", "False"},
    {"account_for_loss_in_pipeline_split", "False"},
    {"recompute_granularity", "None"},
    {"recompute_method", "None"},
    {"recompute_num_layers", "None"},
    {"recompute_modules", "None"},
    {"fine_grained_activation_offloading", "False"},
    {"cpu_offloading", "False"},
    {"cross_entropy_loss_fusion", "False"},
    {"moe_shared_expert_overlap", "False"},
    {"cuda_graph_impl", "none"},
    {"cuda_graph_scope", "None"},
    {"optimizer_cpu_offload", "False"},
    {"use_precision_aware_optimizer", "False"},
    {"exp_avg_dtype", "fp32"},
    {"exp_avg_sq_dtype", "fp32"},
    {"main_grads_dtype", "fp32"},
    {"main_params_dtype", "fp32"},
    {"use_megatron_fsdp", "False"},
    {"num_distributed_optimizer_instances", "1"},
    {"ckpt_format", "torch_dist"},
    {"bf16", "False"},
    {"fp16", "False"},
    {"fp8", "None"},
    {"fp8_param_gather", "False"},
    {"fp8_dot_product_attention", "False"},
    {"fp4", "None"},
    {"fp4_param_gather", "False"},
    {"reuse_grad_buf_for_mxfp8_param_ag", "False"},
    {"first_last_layers_bf16", "False"},
    {"tp_comm_overlap_cfg", "None"},
    {"overlap_moe_expert_parallel_comm", "False"},
    {"delay_wgrad_compute", "False"}};

bool has_field(const BridgeSection& section, std::string_view field) {
  if (section.name != "model") return matches_word(field, section.fields);
  return std::ranges::none_of(
      kBridgeFields, [&](const BridgeSection& each) { return matches_word(field, each.fields); });
}

// Fields that Megatron-Bridge names otherwise, and their value there; "": the same.
struct BridgeName {
  std::string_view field, name, value;
};
constexpr BridgeName kBridgeNames[] = {{"ddp_bucket_size", "bucket_size", ""},
                                       {"bias_gelu_fusion", "bias_activation_fusion", ""},
                                       {"bias_swiglu_fusion", "bias_activation_fusion", ""},
                                       {"no_persist_layer_norm", "persist_layer_norm", "False"}};

bool is_list(std::string_view field) {
  return matches_word(field, "recompute_modules offload_modules cuda_graph_modules");
}

// Writes words as a list of YAML: "[core_attn, mlp]".
std::string yaml_list(std::string words) {
  for (std::size_t at = 0; (at = words.find(' ', at)) != std::string::npos; at += 2)
    words.insert(at, ",");
  return "[" + words + "]";
}

std::string nemo_text(PlanKeys* keys) {
  std::vector<MegatronField> fields = megatron_fields(keys, MegatronReader::Bridge);
  for (auto& [name, value] : fields) {
    const auto* const row = std::ranges::find(kBridgeNames, name, &BridgeName::field);
    if (row != std::end(kBridgeNames)) {
      name = row->name;
      if (!row->value.empty()) value = row->value;
    }
    if (is_list(name)) value = yaml_list(value);
  }
  const auto has = [&](std::string_view name) {
    return std::ranges::find(fields, name, &MegatronField::first) != fields.end();
  };
  const char* const type = has("bf16") ? "bfloat16" : has("fp16") ? "float16" : "float32";
  for (const char* const name : {"params_dtype", "pipeline_dtype"})
    fields.emplace_back(name, fmt::format("{{_target_: torch.{}, _call_: false}}", type));
  for (const auto& [name, value] : kBridgeUsual) {
    if (!has(name)) fields.emplace_back(name, value);
  }
  std::string text;
  if (keys->gpus() > 0) text += fmt::format("# for {} GPUs\n", keys->gpus());
  for (const BridgeSection& section : kBridgeFields) {
    std::string lines;
    for (const auto& [name, value] : fields) {
      if (!has_field(section, name)) continue;
      lines += fmt::format("  {}: {}\n", name, yaml_value(value));
    }
    if (lines.empty()) continue;
    text += fmt::format("{}:\n", section.name);
    if (!section.target.empty()) text += fmt::format("  _target_: {}\n", section.target);
    text += lines;
  }
  return text;
}

// The fields of ChatLearn's policy_trainer, and of the megatron_model_cfg in it.
constexpr std::string_view kChatLearnTrainer =
    "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size "
    "expert_model_parallel_size expert_tensor_parallel_size virtual_pipeline_model_parallel_size "
    "pipeline_model_parallel_layout sequence_parallel bf16 recompute_granularity recompute_method "
    "recompute_num_layers recompute_modules use_distributed_optimizer";
constexpr std::string_view kChatLearnModel =
    "moe_grouped_gemm moe_token_dispatcher_type attention_backend cross_entropy_loss_fusion "
    "bias_swiglu_fusion "
    "overlap_p2p_comm overlap_moe_expert_parallel_comm";

std::string chatlearn_text(PlanKeys* keys) {
  std::string runtime = "runtime_args:\n", trainer = "models:\n  policy_trainer:\n", model;
  if (keys->gpus() > 0) trainer += fmt::format("    num_gpu: {}\n", keys->gpus());
  const std::vector<MegatronField> fields = megatron_fields(keys, MegatronReader::ChatLearn);
  if (keys->text("train.precision", "bf16") == "fp32") trainer += "    bf16: false\n";
  for (const auto& [name, value] : fields) {
    const std::string text = is_list(name) ? yaml_list(value) : yaml_value(value);
    if (name == "micro_batch_size" || name == "global_batch_size") {
      runtime += fmt::format("  train_{}: {}\n", name, text);
    } else if (matches_word(name, kChatLearnTrainer)) {
      trainer += fmt::format("    {}: {}\n", name, text);
    } else if (matches_word(name, kChatLearnModel)) {
      model += fmt::format("      {}: {}\n", name, text);
    } else if (name != "cp_comm_type" || value != "p2p") {  // the only one, and the default
      keys->note(fmt::format("{} = {}: ChatLearn's configuration has no such field", name, value));
    }
  }
  return runtime + trainer + (model.empty() ? "" : "    megatron_model_cfg:\n" + model);
}

struct EmitFormat {
  std::string_view name;
  std::string (*text)(PlanKeys*);
  std::string_view trainer;  // the train.framework that reads it
  std::string_view comment;  // how a comment begins; empty: it has none
  std::string_view rules;    // the version whose rules the text keeps
};
constexpr EmitFormat kFormats[] = {
    {"megatron", megatron_text, "megatron", "# ", "NVIDIA/Megatron-LM d98e8a64 of 2026-08-22"},
    {"nemo", nemo_text, "megatron", "# ", "NVIDIA-NeMo/Megatron-Bridge 067f987d of 2026-08-22"},
    {"chatlearn", chatlearn_text, "megatron", "# ", "alibaba/ChatLearn b7af31a9 of 2025-10-23"},
    {"deepspeed", deepspeed_text, "deepspeed", "", "deepspeedai/DeepSpeed edaa7221 of 2026-08-22"},
    {"fsdp", fsdp_text, "fsdp", "# ", "huggingface/accelerate 16cb6eb8 of 2026-07-24"},
    {"torchtitan", torchtitan_text, "torchtitan", "# ",
     "pytorch/torchtitan b5bcd76c of 2026-08-21"}};

// Adds the notes as fields that DeepSpeed ignores, as JSON has no comments.
std::string with_json_notes(const std::string& text, std::string_view rules, const PlanKeys& keys) {
  std::string note = fmt::format("  \"_keeps_the_rules_of\": \"{}\",\n", rules);
  for (const auto& [name, notes] :
       {std::pair{"_environment", keys.required()}, std::pair{"_not_expressed", keys.left()}}) {
    std::string lines;
    for (std::string line : notes) {
      std::replace(line.begin(), line.end(), '"', '\'');
      lines += fmt::format("{}\"{}\"", lines.empty() ? "" : ", ", line);
    }
    if (!lines.empty()) note += fmt::format("  \"{}\": [{}],\n", name, lines);
  }
  return "{\n" + note + text.substr(2);  // behind the text's own "{\n"
}

}  // namespace

std::vector<std::string> emit_names() {
  std::vector<std::string> names;
  for (const EmitFormat& format : kFormats) names.emplace_back(format.name);
  return names;
}

Result<std::string> emit_plan(const std::string& name, const PlanSettings& settings) {
  for (const EmitFormat& format : kFormats) {
    if (format.name != name) continue;
    PlanKeys keys(settings);
    if (keys.text("train.framework", format.trainer) != format.trainer)
      keys.leave("train.framework", fmt::format("the file is {}'s", format.trainer));
    if (keys.flag("train.expandable_segments", false))
      keys.require("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    const std::string text = format.text(&keys);
    if (format.comment.empty()) return with_json_notes(text, format.rules, keys);
    std::string notes = fmt::format("{}keeps the rules of {}\n", format.comment, format.rules);
    for (const std::string& variable : keys.required())
      notes += fmt::format("{}environment: {}\n", format.comment, variable);
    for (const std::string& line : keys.left())
      notes += fmt::format("{}not expressed: {}\n", format.comment, line);
    // Keeps "#!/bin/bash" as the first line.
    const std::size_t begin = text.starts_with("#!") ? text.find('\n') + 1 : 0;
    return text.substr(0, begin) + notes + text.substr(begin);
  }
  return Error{fmt::format("--emit: found '{}', expected one of {}; the nearest is '{}'", name,
                           fmt::join(emit_names(), ", "), nearest(name, emit_names()))};
}

}  // namespace tandem
