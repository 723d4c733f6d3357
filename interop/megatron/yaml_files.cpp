// Reads YAML files of Megatron-LM's tests, of Megatron-Bridge and of ChatLearn. Declared in
// interop/megatron/files.h.
#include <fmt/format.h>

#include <algorithm>

#include "interop/document/fields.h"
#include "interop/megatron/files.h"
#include "interop/megatron/megatron.h"
#include "interop/megatron/yaml_text.h"

namespace tandem {
namespace {

std::string place_in(const ImportContext& context, const DocumentNode& node) {
  return fmt::format("{}:{}", context.path, node.line);
}

// Lists NCCL's variables that a scenario has keys for. The keys are not set, as a test's
// environment is not that of the job that is asked about.
void list_environment(const DocumentNode& document, const ImportContext& context,
                      ImportedPlan* plan) {
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {"NCCL_NVLS_ENABLE", "cluster.nvls"},
      {"NCCL_ALGO", "cluster.trees and cluster.nvls"},
      {"NCCL_MAX_CTAS", "overlap.data_sms and the like"},
      {"NCCL_MAX_NCHANNELS", "overlap.data_sms and the like"}};
  const DocumentNode* variables = document.find("ENV_VARS");
  if (variables == nullptr || variables->map() == nullptr) return;
  for (const DocumentField& field : *variables->map()) {
    const auto* row = std::find_if(std::begin(kKeys), std::end(kKeys),
                                   [&](const auto& known) { return known.first == field.key; });
    if (row == std::end(kKeys)) {
      ++plan->without_effect;
    } else {
      plan->not_expressed.push_back(fmt::format("{}: {} = {}: {} may say it",
                                                place_in(context, field.value), field.key,
                                                field.value.text(), row->second));
    }
  }
}

// Hydra writes an enum as {_target_, _name_} and a call as {_target_, _args_}: returns the name,
// else the first argument, else the target.
std::string target_text(const DocumentNode& map) {
  if (const DocumentNode* name = map.find("_name_")) return written_value(*name);
  if (const DocumentNode* args = map.find("_args_"); args && args->list() && !args->list()->empty())
    return written_value(args->list()->front());
  const DocumentNode* target = map.find("_target_");
  return target == nullptr ? "" : written_value(*target);
}

// Sections of Megatron-Bridge's file whose fields are Megatron-LM's. The others change neither time
// nor memory.
constexpr std::string_view kBridgeSections =
    "model train dataset ddp comm_overlap mixed_precision optimizer dist";

// Returns whether to ignore a field of these sections: Megatron-Bridge uses it for itself, or its
// name means something else in Megatron-LM.
bool is_bridge_quiet(std::string_view section, std::string_view name) {
  if (section == "dataset") return name != "seq_length" && name != "sequence_length";
  if (section == "dist") return name != "use_megatron_fsdp" && name != "use_torch_fsdp2";
  if (section == "optimizer")
    return !matches_any(
        name, {"optimizer", "use_distributed_optimizer", "use_precision_aware_optimizer",
               "exp_avg*_dtype", "main_*", "muon_*", "use_layer_wise*", "store_param_remainders",
               "optimizer_cpu_offload"});
  return matches_any(name, {"_target_", "_call_", "_args_", "_partial_", "*_func", "*init_method",
                            "generation_config", "hf_model_id", "data_parallel_size"});
}

// Returns the name of a Bridge field in Megatron-LM.
std::string field_name(std::string_view section, std::string_view name) {
  if (name == "sequence_length") return "seq_length";
  if (section == "dataset" && name == "seq_length") return "seq_length";
  return std::string(name);
}

// Adds a field of one of kBridgeSections to the arguments, or counts it as without effect.
Status add_bridge_field(std::string_view section, const DocumentField& field,
                        const ImportContext& context, MegatronArguments* arguments,
                        ImportedPlan* lists) {
  if (is_bridge_quiet(section, field.key)) {
    ++lists->without_effect;
    return Done{};
  }
  const std::string where = place_in(context, field.value);
  const std::string text =
      field.value.map() != nullptr ? target_text(field.value) : written_value(field.value);
  const std::string name = field_name(section, field.key);
  if (name == "teacher" && !field.value.is_null())
    return Error::at(where, "found model.teacher, expected null: distillation is not covered");
  if (matches_any(name, {"vision_config", "freeze_vision_model"}) && !field.value.is_null())
    lists->not_expressed.push_back(fmt::format(
        "{}: model.{}: a vision tower is not covered: the language model counts", where, name));
  // One field may stand in two sections: FSDP is on if dist or ddp says so, and the None of one
  // section does not replace the other's value. The sequence length is in model and dataset, the
  // distributed flag in optimizer and ddp.
  if (matches_any(name, {"use_megatron_fsdp", "use_torch_fsdp2"}) && text != "True") return Done{};
  if (text != "None" || !arguments->has(name)) arguments->add_field(name, text, where);
  return Done{};
}

// ChatLearn's settings without effect. Maps and most of its runtime's fields have none either.
constexpr std::string_view kChatLearnQuiet =
    "packing *clip_ratio generation_batch_size trainable gpu_per_process cpu_per_process num_cpu "
    "sync_frequency free_* offload_* model_config_file *coef* *kl*";

// Adds a field of ChatLearn's runtime or trainer to the arguments, or counts it as without effect.
void add_chatlearn_field(const DocumentField& field, bool is_of_trainer,
                         const DocumentNode& trainer, const ImportContext& context,
                         MegatronArguments* arguments, ImportedPlan* lists) {
  const std::string where = place_in(context, field.value);
  const std::string text = written_value(field.value);
  if (field.key == "train_global_batch_size") {
    arguments->add_field("global_batch_size", text, where);
  } else if (field.key == "train_micro_batch_size") {
    arguments->add_field("micro_batch_size", text, where);
  } else if (field.key == "num_gpu") {
    arguments->add_field("world_size", text, where);
  } else if (field.key == "max_token_in_packing") {
    const DocumentNode* packing = trainer.find("packing");
    const auto* packs = packing == nullptr ? nullptr : std::get_if<bool>(&packing->value);
    if (packs == nullptr || !*packs) return;
    arguments->add_field("seq_length", text, where);
    lists->assumed.push_back(fmt::format(
        "model.seq = {}: packing fills max_token_in_packing; a microbatch is one pack", text));
    arguments->add_field("micro_batch_size", "1", where);
  } else if (is_of_trainer && field.key == "seq_length" && arguments->has("seq_length")) {
    return;  // a length that is there already counts more
  } else if (field.key == "megatron_model_cfg" && field.value.map() != nullptr) {
    for (const DocumentField& inner : *field.value.map())
      arguments->add_field(inner.key, written_value(inner.value), place_in(context, inner.value));
  } else if (!is_of_trainer || field.value.map() != nullptr ||
             matches_word(field.key, kChatLearnQuiet)) {
    ++lists->without_effect;
  } else {
    arguments->add_field(field.key, text, where);
  }
}

}  // namespace

std::string written_value(const DocumentNode& node) {
  if (node.is_null()) return "None";
  if (const auto* flag = std::get_if<bool>(&node.value)) return *flag ? "True" : "False";
  if (const auto* text = std::get_if<std::string>(&node.value)) return *text;
  if (const DocumentNode::List* list = node.list()) {
    std::string text;
    for (const DocumentNode& item : *list) text += (text.empty() ? "" : ", ") + written_value(item);
    return "[" + text + "]";
  }
  return node.text();
}

bool is_megatron_test(const DocumentNode& document) {
  const DocumentNode* arguments = document.find("MODEL_ARGS");
  return arguments != nullptr && arguments->map() != nullptr;
}

Result<ImportedPlan> import_megatron_test(const DocumentNode& document,
                                          const ImportContext& context) {
  MegatronArguments arguments(context.path);
  for (const DocumentField& field : *document.find("MODEL_ARGS")->map()) {
    const std::string where = place_in(context, field.value);
    const auto* flag = std::get_if<bool>(&field.value.value);
    if (flag != nullptr && !*flag) continue;  // a switch that is not given
    arguments.add_flag(field.key,
                       flag != nullptr || field.value.is_null()
                           ? std::vector<std::string>()
                           : std::vector<std::string>{written_value(field.value)},
                       where);
  }
  ASSIGN_OR_RETURN(ImportedPlan plan,
                   import_megatron(&arguments, context.path + " (Megatron-LM test)",
                                   MegatronStyle::Megatron, context.before, context.gpus));
  plan.assumed.push_back(context.path + ": a GPT: MODEL_ARGS do not say which program is run");
  list_environment(document, context, &plan);
  return plan;
}

bool is_bridge(const DocumentNode& document) {
  const DocumentNode* train = document.find("train");
  const DocumentNode* model = document.find("model");
  return (model != nullptr && model->map() != nullptr && train != nullptr &&
          train->map() != nullptr && train->find("global_batch_size") != nullptr) ||
         (model != nullptr && model->find("tensor_model_parallel_size") != nullptr);
}

Result<ImportedPlan> import_bridge(const DocumentNode& document, const ImportContext& context) {
  if (const DocumentNode* peft = document.find("peft"); peft != nullptr && !peft->is_null())
    return Error::at(place_in(context, *peft),
                     "found peft, expected null: adapters are not covered");
  MegatronArguments arguments(context.path);
  ImportedPlan lists;  // what is not covered, added to the plan at the end
  for (const DocumentField& section : *document.map()) {
    if (section.key == "mixed_precision" && section.value.map() == nullptr) {
      arguments.add_field("mixed_precision", written_value(section.value),
                          place_in(context, section.value));
      continue;
    }
    if (section.value.map() == nullptr) continue;
    if (!matches_word(section.key, kBridgeSections)) {
      lists.without_effect += static_cast<int>(section.value.map()->size());
      continue;
    }
    for (const DocumentField& field : *section.value.map())
      RETURN_IF_ERROR(add_bridge_field(section.key, field, context, &arguments, &lists));
  }
  ASSIGN_OR_RETURN(ImportedPlan plan,
                   import_megatron(&arguments, context.path + " (Megatron-Bridge run_config.yaml)",
                                   MegatronStyle::Bridge, context.before, context.gpus));
  RETURN_IF_ERROR(plan.add(lists));
  return plan;
}

bool is_chatlearn(const DocumentNode& document) {
  const DocumentNode* models = document.find("models");
  return models != nullptr && models->find("policy_trainer") != nullptr;
}

Result<ImportedPlan> import_chatlearn(const DocumentNode& document, const ImportContext& context) {
  MegatronArguments arguments(context.path);
  ImportedPlan lists;  // assumptions and counts, which are added to the plan at the end
  const DocumentNode& trainer = *document.find("models")->find("policy_trainer");
  if (trainer.map() == nullptr)
    return Error::at(place_in(context, trainer),
                     "found models.policy_trainer without fields, expected a map");
  // ChatLearn's defaults, which the file may replace.
  arguments.add_field("bf16", "True", context.path);
  arguments.add_field("sequence_parallel", "True", context.path);
  const DocumentNode* runtime = document.find("runtime_args");
  if (runtime == nullptr) runtime = document.find("runtime");
  for (const DocumentNode* section : {runtime, &trainer}) {
    if (section == nullptr || section->map() == nullptr) continue;
    for (const DocumentField& field : *section->map())
      add_chatlearn_field(field, section == &trainer, trainer, context, &arguments, &lists);
  }
  if (!lists.assumed.empty())
    lists.assumed.push_back("each sequence of the global batch is a pack of its own");
  ASSIGN_OR_RETURN(ImportedPlan plan,
                   import_megatron(&arguments, context.path + " (ChatLearn)",
                                   MegatronStyle::Megatron, context.before, context.gpus));
  RETURN_IF_ERROR(plan.add(lists));
  return plan;
}

}  // namespace tandem
