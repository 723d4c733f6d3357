// Reads Megatron-Bridge's run_config.yaml, whose sections state some fields twice. When a run
// begins, mixed_precision replaces its fields in model, optimizer and ddp, then comm_overlap those
// in model and ddp (runtime_config_update in megatron/bridge/training/config.py at 067f987d).
// Declared in interop/megatron/files.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/megatron/files.h"
#include "interop/megatron/megatron.h"
#include "interop/megatron/yaml_text.h"

namespace tandem {
namespace {

// Hydra writes an enum as {_target_, _name_} and a call as {_target_, _args_}: returns the name,
// else the first argument, else the target.
std::string target_text(const DocumentNode& map) {
  if (const DocumentNode* name = map.find("_name_")) return written_value(*name);
  if (const DocumentNode* args = map.find("_args_"); args && args->list() && !args->list()->empty())
    return written_value(args->list()->front());
  const DocumentNode* target = map.find("_target_");
  return target == nullptr ? "" : written_value(*target);
}

constexpr std::string_view kMixedPrecision = "mixed_precision", kCommOverlap = "comm_overlap";

// Sections of Megatron-Bridge's file whose fields are Megatron-LM's, beside mixed_precision. The
// others change neither time nor memory.
constexpr std::string_view kBridgeSections = "model train dataset ddp comm_overlap optimizer dist";

// Returns whether to ignore a field of these sections: Megatron-Bridge uses it for itself, or its
// name means something else in Megatron-LM.
bool is_bridge_quiet(std::string_view section, std::string_view name) {
  if (section == "dataset") return name != "seq_length" && name != "sequence_length";
  if (section == "dist") return name != "use_megatron_fsdp" && name != "use_torch_fsdp2";
  if (section == "optimizer")
    return !matches_any(
        name, {"optimizer", "use_distributed_optimizer", "use_precision_aware_optimizer",
               "exp_avg*_dtype", "main_*", "muon_*", "use_layer_wise*", "store_param_remainders",
               "optimizer_cpu_offload", "optimizer_offload_fraction"});
  return matches_any(name, {"_target_", "_call_", "_args_", "_partial_", "*_func", "*init_method",
                            "generation_config", "hf_model_id", "data_parallel_size"});
}

// Recipes of mixed precision, and what they set beside the 16-bit format
// (megatron/bridge/training/mixed_precision.py). Until September 2025 "bf16_with_fp8_mixed" was the
// name of delayed scaling.
struct PrecisionRecipe {
  std::string_view names, fields;
};
constexpr PrecisionRecipe kPrecisionRecipes[] = {
    {"bf16_mixed fp16_mixed", ""},
    {"bf16_with_fp8_delayed_scaling_mixed fp16_with_fp8_delayed_scaling_mixed "
     "bf16_with_fp8_mixed fp16_with_fp8_mixed",
     "fp8=hybrid fp8_recipe=delayed fp8_param_gather=True"},
    {"bf16_with_fp8_current_scaling_mixed fp16_with_fp8_current_scaling_mixed "
     "nemotron_h_bf16_with_fp8_current_scaling_mixed",
     "fp8=hybrid fp8_recipe=tensorwise fp8_param_gather=True first_last_layers_bf16=True"},
    {"nanov2_bf16_with_fp8_current_scaling_mixed",
     "fp8=hybrid fp8_recipe=blockwise fp8_param_gather=True first_last_layers_bf16=True"},
    {"bf16_with_fp8_subchannel_scaling_mixed fp16_with_fp8_subchannel_scaling_mixed",
     "fp8=hybrid fp8_recipe=blockwise"},
    {"bf16_with_mxfp8_mixed fp16_with_mxfp8_mixed",
     "fp8=e4m3 fp8_recipe=mxfp8 fp8_param_gather=True reuse_grad_buf_for_mxfp8_param_ag=True"},
    {"bf16_with_nvfp4_mixed", "fp4=e2m1 fp4_param_gather=True"},
    {"nemotron_3_super_bf16_with_nvfp4_mixed",
     "fp4=e2m1 fp4_param_gather=True first_last_layers_bf16=True"}};

// A field that counts in the section `by` alone; its values in the sections `in` have no effect. If
// `by` does not state it, the default `otherwise` counts; empty: that default depends on the plan.
// Example: mixed_precision's bf16, or False, replaces the bf16 of model, optimizer and ddp.
struct ReplacedField {
  std::string_view name, by, in, otherwise;
};
constexpr std::string_view kAllSections = "model optimizer ddp";
constexpr ReplacedField kReplaced[] = {
    {"bf16", kMixedPrecision, kAllSections, "False"},
    {"fp16", kMixedPrecision, kAllSections, "False"},
    {"grad_reduce_in_fp32", kMixedPrecision, kAllSections, "True"},
    {"fp8", kMixedPrecision, kAllSections, "None"},
    {"fp8_recipe", kMixedPrecision, kAllSections, "tensorwise"},
    {"fp8_param_gather", kMixedPrecision, kAllSections, "False"},
    {"fp8_wgrad", kMixedPrecision, kAllSections, "True"},
    {"fp8_dot_product_attention", kMixedPrecision, kAllSections, "False"},
    {"fp4", kMixedPrecision, kAllSections, "None"},
    {"fp4_param_gather", kMixedPrecision, kAllSections, "False"},
    {"first_last_layers_bf16", kMixedPrecision, kAllSections, "False"},
    {"reuse_grad_buf_for_mxfp8_param_ag", kMixedPrecision, kAllSections, "False"},
    {"tp_comm_overlap", kCommOverlap, "model", "False"},
    {"overlap_p2p_comm", kCommOverlap, "model", ""},
    {"batch_p2p_comm", kCommOverlap, "model", ""},
    {"overlap_moe_expert_parallel_comm", kCommOverlap, "model", "False"},
    {"delay_wgrad_compute", kCommOverlap, "model ddp", "False"},
    {"overlap_grad_reduce", kCommOverlap, "ddp", "True"},
    {"overlap_param_gather", kCommOverlap, "ddp", "True"},
    {"align_param_gather", kCommOverlap, "ddp", ""},
    {"bucket_size", kCommOverlap, "ddp", ""}};

// Refuses diffusion models, by their class or by fields that they alone have: those of Wan and Flux
// (megatron/bridge/diffusion/models).
Status check_kind(const DocumentNode& document, const std::string& path) {
  const DocumentNode* model = document.find("model");
  if (model == nullptr || model->map() == nullptr) return Done{};
  for (const DocumentField& field : *model->map()) {
    const bool is_class = field.key == "_target_" &&
                          written_value(field.value).find(".diffusion.") != std::string::npos;
    if (is_class || matches_word(field.key, "crossattn_emb_size num_joint_layers"))
      return Error::at(fmt::format("{}:{}", path, field.value.line),
                       fmt::format("found {} = {}, a diffusion model: expected a decoder-only "
                                   "language model",
                                   field.key, written_value(field.value)));
  }
  return Done{};
}

class BridgeFile {
 public:
  BridgeFile(const DocumentNode& document, const ImportContext& context)
      : document_(document), context_(context), arguments_(context.path) {}

  Result<ImportedPlan> read() {
    RETURN_IF_ERROR(check_lengths());
    RETURN_IF_ERROR(read_precision());
    for (const DocumentField& section : *document_.map()) {
      if (section.value.map() == nullptr || section.key == kMixedPrecision) continue;
      if (!matches_word(section.key, kBridgeSections)) {
        lists_.without_effect += static_cast<int>(section.value.map()->size());
        continue;
      }
      for (const DocumentField& field : *section.value.map())
        RETURN_IF_ERROR(add(section.key, field));
    }
    set_vocabulary();
    ASSIGN_OR_RETURN(
        ImportedPlan plan,
        import_megatron(&arguments_, context_.path + " (Megatron-Bridge run_config.yaml)",
                        MegatronStyle::Bridge, context_.before, context_.gpus));
    RETURN_IF_ERROR(plan.add(lists_));
    return plan;
  }

 private:
  std::string place(const DocumentNode& node) const {
    return fmt::format("{}:{}", context_.path, node.line);
  }

  // Returns the field of a section; null: it is not there or null.
  const DocumentNode* stated(std::string_view section, std::string_view name) const {
    const DocumentNode* map = document_.find(section);
    const DocumentNode* field = map == nullptr ? nullptr : map->find(name);
    return field == nullptr || field->is_null() ? nullptr : field;
  }

  // Sets which vocabulary counts, as _validate_and_set_vocab_size does in
  // megatron/bridge/training/setup.py at 067f987d. The model's own size, here or in a config.json,
  // goes before the tokenizer's. The tokenizer's is padded; the model's own is not, unless
  // should_pad_vocab (an alias of pad_vocab_size in arguments.cpp) says so, as in a saved run.
  void set_vocabulary() {
    const DocumentNode* prefers = stated("tokenizer", "use_tokenizer_vocab_size");
    const bool is_of_model =
        (prefers == nullptr || written_value(*prefers) != "True") &&
        (stated("model", "vocab_size") != nullptr || context_.before.has("model.vocab"));
    const DocumentNode* vocab = stated("tokenizer", "vocab_size");
    if (!is_of_model && vocab != nullptr)
      arguments_.add_field("vocab_size", written_value(*vocab), place(*vocab),
                           "tokenizer.vocab_size");
    const bool pads = arguments_.flag("pad_vocab_size");
    arguments_.add_field("pad_vocab_size", pads || !is_of_model ? "True" : "False", "");
  }

  // Refuses sequences of two lengths, as Megatron-Bridge does.
  Status check_lengths() const {
    const DocumentNode* model = stated("model", "seq_length");
    const DocumentNode* data = stated("dataset", "seq_length");
    if (data == nullptr) data = stated("dataset", "sequence_length");
    if (model == nullptr || data == nullptr || written_value(*model) == written_value(*data))
      return Done{};
    return Error::at(place(*data),
                     fmt::format("found sequences of {} in dataset, expected model.seq_length = {}",
                                 written_value(*data), written_value(*model)));
  }

  // Reads mixed_precision: a recipe's name, a call of a recipe, or fields of its own.
  Status read_precision() {
    const DocumentNode* section = document_.find(kMixedPrecision);
    if (section == nullptr || section->is_null()) return Done{};
    const bool is_map = section->map() != nullptr;
    std::string name = is_map ? target_text(*section) : written_value(*section);
    name.erase(0, name.rfind('.') + 1);
    if (!is_map || (!name.empty() && name != "MixedPrecisionConfig"))
      return read_recipe(name, *section);
    precision_ = *section;
    if (section->find("grad_reduce_in_fp32") == nullptr)  // the default
      std::get<DocumentNode::Map>(precision_.value)
          .push_back({"grad_reduce_in_fp32", {true, section->line}});
    for (const DocumentField& field : *precision_.map())
      RETURN_IF_ERROR(add(kMixedPrecision, field));
    return Done{};
  }

  Status read_recipe(std::string name, const DocumentNode& section) {
    std::replace(name.begin(), name.end(), '-', '_');
    const auto* recipe = std::ranges::find_if(kPrecisionRecipes, [&](const PrecisionRecipe& row) {
      return matches_word(name, row.names);
    });
    if (recipe == std::end(kPrecisionRecipes))
      return Error::at(place(section), fmt::format("found mixed_precision = {}, expected a recipe "
                                                   "of Megatron-Bridge, such as bf16_mixed",
                                                   name));
    const bool is_fp16 = name.find("fp16") != std::string::npos;
    DocumentNode::Map fields = {{is_fp16 ? "fp16" : "bf16", {true, section.line}},
                                {"grad_reduce_in_fp32", {!is_fp16, section.line}}};
    for (const std::string& word : split(recipe->fields, " ")) {
      const std::size_t equals = word.find('=');
      fields.push_back(
          {word.substr(0, equals), plain_scalar(word.substr(equals + 1), section.line)});
    }
    precision_ = {std::move(fields), section.line};
    arguments_.add_field(std::string(kMixedPrecision), name, place(section));
    arguments_.text(kMixedPrecision);  // marks it as understood
    for (const DocumentField& field : *precision_.map()) {
      RETURN_IF_ERROR(add(kMixedPrecision, field, "mixed_precision: " + field.key));
      if (matches_any(field.key, {"fp8_param_gather", "fp4_param_gather"}))
        lists_.assumed.push_back("train.fp8_param_gather = true: by Megatron-Bridge's " + name);
    }
    return Done{};
  }

  // The section whose value counts in place of another's, and that value; empty: it depends on the
  // plan.
  struct CountingValue {
    std::string_view section;
    std::string text;
  };

  // Returns what counts in place of a section's field; nothing: the field itself does. Example: of
  // model and bf16, {mixed_precision, "True"} if mixed_precision has bf16: true.
  std::optional<CountingValue> counting_value(std::string_view section,
                                              std::string_view name) const {
    const auto* row = std::ranges::find(kReplaced, name, &ReplacedField::name);
    if (row == std::end(kReplaced)) return std::nullopt;
    const DocumentNode* sharded = stated("ddp", "use_distributed_optimizer");
    if (row->in == "ddp" && sharded != nullptr && written_value(*sharded) == "False") {
      // Without a distributed optimizer it is the other way round: ddp's own values count, and
      // those of comm_overlap are replaced.
      if (section != kCommOverlap) return std::nullopt;
      const DocumentNode* own = stated("ddp", name);
      return CountingValue{"ddp", own == nullptr ? "None" : written_value(*own)};
    }
    const DocumentNode* by =
        row->by == kMixedPrecision ? &precision_ : document_.find(kCommOverlap);
    if (by == nullptr || by->map() == nullptr || !matches_word(section, row->in))
      return std::nullopt;
    const DocumentNode* value = by->find(name);
    const bool is_stated = value != nullptr && !value->is_null();
    return CountingValue{row->by, is_stated ? written_value(*value) : std::string(row->otherwise)};
  }

  // Lists a field whose value is not the one that counts.
  void list_replaced(std::string_view section, const DocumentField& field,
                     const CountingValue& counts) {
    const std::string written = written_value(field.value);
    if (field.value.is_null() || counts.text.empty() || counts.text == written) return;
    if (is_off(counts.text) && is_off(written)) return;
    lists_.left_out.push_back(fmt::format("{}: {}.{} = {}: {}'s {} counts", place(field.value),
                                          section, field.key, written, counts.section,
                                          counts.text));
  }

  // Adds a field to the arguments, lists it as not covered or replaced, or counts it as without
  // effect. Error: distillation. `spelled`: the field's name in messages; empty: its own.
  Status add(std::string_view section, const DocumentField& field,
             const std::string& spelled = "") {
    if (is_bridge_quiet(section, field.key)) {
      ++lists_.without_effect;
      return Done{};
    }
    if (const auto counts = counting_value(section, field.key)) {
      list_replaced(section, field, *counts);
      return Done{};
    }
    const std::string where = place(field.value);
    const std::string text =
        field.value.map() != nullptr ? target_text(field.value) : written_value(field.value);
    const DocumentNode* sequence_parallel = stated("model", "sequence_parallel");
    if (section == kCommOverlap && field.key == "tp_comm_overlap" && text == "True" &&
        sequence_parallel != nullptr && written_value(*sequence_parallel) == "False") {
      lists_.left_out.push_back(where +
                                ": tp_comm_overlap: Megatron-Bridge disables it without "
                                "sequence_parallel");
      return Done{};
    }
    const std::string name = field.key == "sequence_length" ? "seq_length" : field.key;
    if (name == "teacher" && !field.value.is_null())
      return Error::at(where, "found model.teacher, expected null: distillation is not covered");
    if (matches_any(name, {"vision_config", "freeze_vision_model"}) && !field.value.is_null())
      lists_.not_expressed.push_back(fmt::format(
          "{}: model.{}: a vision tower is not covered: the language model counts", where, name));
    // One field may stand in two sections: FSDP and the distributed optimizer are on if one of them
    // says so, and the None of one section does not replace the other's value.
    if (matches_any(name, {"use_megatron_fsdp", "use_torch_fsdp2"}) && text != "True")
      return Done{};
    if (arguments_.has(name) &&
        (text == "None" || (name == "use_distributed_optimizer" && text != "True")))
      return Done{};
    arguments_.add_field(name, text, where, spelled);
    return Done{};
  }

  const DocumentNode& document_;
  const ImportContext& context_;
  MegatronArguments arguments_;
  DocumentNode precision_;  // a map of what mixed_precision sets; null: the file has none
  ImportedPlan lists_;      // what is not covered, added to the plan at the end
};

}  // namespace

bool is_bridge(const DocumentNode& document) {
  const DocumentNode* model = document.find("model");
  const bool has_model = model != nullptr && model->map() != nullptr;
  return (has_model && document.at("train.global_batch_size") != nullptr) ||
         document.at("model.tensor_model_parallel_size") != nullptr;
}

Result<ImportedPlan> import_bridge(const DocumentNode& document, const ImportContext& context) {
  if (const DocumentNode* peft = document.find("peft"); peft != nullptr && !peft->is_null())
    return Error::at(fmt::format("{}:{}", context.path, peft->line),
                     "found peft, expected null: adapters are not covered");
  RETURN_IF_ERROR(check_kind(document, context.path));
  return BridgeFile(document, context).read();
}

}  // namespace tandem
