// Chooses the emitter of a format by its name, and puts a comment into its text for each key that
// the format cannot say. Megatron-LM's flags and the YAML files of Megatron-Bridge and ChatLearn
// are written here, from one list of Megatron-LM's fields (megatron_fields).
#include "interop/emit/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "interop/emit/plan_keys.h"

namespace tandem {
namespace {

// Fields whose flag has another name than the field. Some have it for one value only.
struct FlagName {
  std::string_view field, value, flag;  // value "": any
};
constexpr FlagName kFlags[] = {
    {"fp8", "", "--fp8-format"},
    {"fp4", "", "--fp4-format"},
    {"microbatch_group_size_per_vp_stage", "",
     "--microbatch-group-size-per-virtual-pipeline-stage"},
    {"virtual_pipeline_model_parallel_size", "", "--num-virtual-stages-per-pipeline-rank"},
    {"overlap_p2p_comm", "False", "--no-overlap-p2p-communication"}};

std::string flag_text(const MegatronField& field) {
  const auto& [name, value] = field;
  std::string flag = (value == "False" ? "--no-" : "--") + name;
  for (const FlagName& row : kFlags) {
    if (row.field == name && (row.value.empty() || row.value == value)) flag = row.flag;
  }
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (value == "True" || value == "False") return flag;
  const bool plain = value.find_first_of("|*()") == std::string::npos;
  return plain ? flag + " " + value : fmt::format("{} '{}'", flag, value);
}

std::string megatron_text(PlanKeys* keys) {
  std::string text = "#!/bin/bash\n";
  if (keys->gpus() > 0) text += fmt::format("WORLD_SIZE={}\n", keys->gpus());
  text += "PLAN=(\n";
  for (const MegatronField& field : megatron_fields(keys, false))
    text += fmt::format("    {}\n", flag_text(field));
  return text + ")\n";
}

// Writes a value as YAML does.
std::string yaml_value(const std::string& value) {
  if (value == "True") return "true";
  if (value == "False") return "false";
  if (value.find_first_of("|*()[]{},# ") != std::string::npos) return "'" + value + "'";
  return value;
}

// Returns the section of Megatron-Bridge's configuration that a field belongs to.
std::string_view bridge_section(std::string_view field) {
  constexpr std::pair<std::string_view, std::string_view> kSections[] = {
      {"micro_batch_size", "train"},
      {"global_batch_size", "train"},
      {"optimizer", "optimizer"},
      {"use_precision_aware_optimizer", "optimizer"},
      {"exp_avg_dtype", "optimizer"},
      {"use_distributed_optimizer", "ddp"},
      {"use_megatron_fsdp", "ddp"},
      {"data_parallel_sharding_strategy", "ddp"},
      {"num_distributed_optimizer_instances", "ddp"},
      {"overlap_grad_reduce", "ddp"},
      {"overlap_param_gather", "ddp"},
      {"align_param_gather", "ddp"},
      {"bucket_size", "ddp"},
      {"grad_reduce_in_fp32", "mixed_precision"},
      {"bf16", "mixed_precision"},
      {"fp16", "mixed_precision"},
      {"fp8", "mixed_precision"},
      {"fp8_recipe", "mixed_precision"},
      {"fp8_param_gather", "mixed_precision"},
      {"fp4", "mixed_precision"},
      {"tp_comm_overlap", "comm_overlap"},
      {"overlap_p2p_comm", "comm_overlap"},
      {"overlap_moe_expert_parallel_comm", "comm_overlap"}};
  for (const auto& [name, section] : kSections) {
    if (name == field) return section;
  }
  return "model";
}

std::string nemo_text(PlanKeys* keys) {
  std::vector<MegatronField> fields = megatron_fields(keys, true);
  // Some fields have other names in Megatron-Bridge, or state the opposite.
  for (auto& [name, value] : fields) {
    if (name == "ddp_bucket_size") name = "bucket_size";
    if (name == "bias_gelu_fusion" || name == "bias_swiglu_fusion") name = "bias_activation_fusion";
    if (name == "no_persist_layer_norm") {
      name = "persist_layer_norm";
      value = "False";
    }
    if (name == "grad_reduce_in_bf16") {
      name = "grad_reduce_in_fp32";
      value = "False";
    }
    if (name == "recompute_modules") {
      std::replace(value.begin(), value.end(), ' ', ',');
      value = "[" + value + "]";
    }
  }
  std::string text;
  if (keys->gpus() > 0) text += fmt::format("# for {} GPUs\n", keys->gpus());
  for (const char* section :
       {"model", "train", "optimizer", "ddp", "mixed_precision", "comm_overlap"}) {
    std::string lines;
    for (const auto& [name, value] : fields) {
      if (bridge_section(name) != section) continue;
      lines += fmt::format("  {}: {}\n", name, value.starts_with('[') ? value : yaml_value(value));
    }
    if (!lines.empty()) text += fmt::format("{}:\n{}", section, lines);
  }
  return text;
}

std::string chatlearn_text(PlanKeys* keys) {
  std::string runtime = "runtime_args:\n", trainer = "models:\n  policy_trainer:\n";
  if (keys->gpus() > 0) trainer += fmt::format("    num_gpu: {}\n", keys->gpus());
  const std::vector<MegatronField> fields = megatron_fields(keys, false);
  if (keys->text("train.precision", "bf16") == "fp32") trainer += "    bf16: false\n";
  for (const auto& [name, value] : fields) {
    if (name == "micro_batch_size" || name == "global_batch_size") {
      runtime += fmt::format("  train_{}: {}\n", name, value);
    } else {
      trainer += fmt::format("    {}: {}\n", name, yaml_value(value));
    }
  }
  return runtime + trainer;
}

struct EmitFormat {
  std::string_view name;
  std::string (*text)(PlanKeys*);
  std::string_view comment;  // how a comment begins; empty: it has none
};
constexpr EmitFormat kFormats[] = {
    {"megatron", megatron_text, "# "},   {"nemo", nemo_text, "# "},
    {"chatlearn", chatlearn_text, "# "}, {"deepspeed", deepspeed_text, ""},
    {"fsdp", fsdp_text, "# "},           {"torchtitan", torchtitan_text, "# "}};

// Puts the lines into a field that nobody reads, as JSON has no comments.
std::string with_json_note(const std::string& text, const std::vector<std::string>& left) {
  std::string note;
  for (std::string line : left) {
    std::replace(line.begin(), line.end(), '"', '\'');
    note += fmt::format("{}\"{}\"", note.empty() ? "" : ", ", line);
  }
  return fmt::format("{{\n  \"_not_expressed\": [{}],\n{}", note, text.substr(2));
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
    const std::string text = format.text(&keys);
    const std::vector<std::string> left = keys.left();
    if (left.empty()) return text;
    if (format.comment.empty()) return with_json_note(text, left);
    std::string notes;
    for (const std::string& line : left)
      notes += fmt::format("{}not expressed: {}\n", format.comment, line);
    // Keeps "#!/bin/bash" as the first line.
    const std::size_t begin = text.starts_with("#!") ? text.find('\n') + 1 : 0;
    return text.substr(0, begin) + notes + text.substr(begin);
  }
  return Error{fmt::format("--emit: found '{}', expected one of {}; the nearest is '{}'", name,
                           fmt::join(emit_names(), ", "), nearest(name, emit_names()))};
}

}  // namespace tandem
