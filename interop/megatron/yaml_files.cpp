// Reads YAML files of Megatron-LM's tests and of ChatLearn. Declared in interop/megatron/files.h.
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
    if (packing == nullptr || !packing->is_true()) return;
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
                           : std::vector<std::string>{unquoted(written_value(field.value))},
                       where);
  }
  ASSIGN_OR_RETURN(ImportedPlan plan,
                   import_megatron(&arguments, context.path + " (Megatron-LM test)",
                                   MegatronStyle::Megatron, context.before, context.gpus));
  plan.assumed.push_back(context.path + ": a GPT: MODEL_ARGS do not say which program is run");
  list_environment(document, context, &plan);
  return plan;
}

bool is_chatlearn(const DocumentNode& document) {
  return document.at("models.policy_trainer") != nullptr;
}

Result<ImportedPlan> import_chatlearn(const DocumentNode& document, const ImportContext& context) {
  MegatronArguments arguments(context.path);
  ImportedPlan lists;  // assumptions and counts, which are added to the plan at the end
  const DocumentNode& trainer = *document.at("models.policy_trainer");
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
