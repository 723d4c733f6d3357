// Reads Primus' YAML of an experiment, whose settings are Megatron-LM's arguments, and the files
// that it names: a model's, and those that a file extends. Later settings replace earlier ones.
// Defaults follow AMD-AGI/Primus fd1eeaba (2026-08-22). Declared in interop/megatron/files.h.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "interop/document/fields.h"
#include "interop/megatron/files.h"
#include "interop/megatron/megatron.h"
#include "interop/megatron/yaml_text.h"

namespace tandem {
namespace {

// Primus' defaults that are not Megatron-LM's: primus/configs/models/megatron/language_model.yaml,
// and primus/configs/modules/megatron/pre_trainer.yaml, which goes over models.
constexpr std::pair<std::string_view, std::string_view> kModelDefaults[] = {
    {"untie_embeddings_and_output_weights", "True"},
    {"swiglu", "True"},
    {"add_bias_linear", "False"},
    {"sequence_parallel", "True"}};
constexpr std::pair<std::string_view, std::string_view> kTrainerDefaults[] = {
    {"bf16", "True"},
    {"use_flash_attn", "True"},
    {"use_distributed_optimizer", "True"},
    {"micro_batch_size", "2"},
    {"global_batch_size", "16"},
    {"seq_length", "1024"},
    {"overlap_p2p_comm", "True"}};
// Files with those defaults, which need not be given.
constexpr std::string_view kOwnFiles =
    "language_model.yaml primus_megatron_model.yaml pre_trainer.yaml trainer_base.yaml "
    "module_base.yaml primus_megatron_module.yaml primus_turbo.yaml torch_compile.yaml "
    "zero_bubble.yaml primus_pipeline.yaml";

// Primus' own settings that change neither time nor memory.
constexpr std::string_view kPrimusQuiet =
    "*sink_level trainable disable_color* disable_last_saving disable_mlflow disable_primus* "
    "disable_profiler* disable_tensorboard disable_wandb disable_compile* mlflow_* "
    "use_rocm_mem_info* torch_profiler_* turbo_* odc_* "
    "enable_primus_turbo log_avg_* generate_tracelens* zero_bubble_* pp_warmup pp_max_mem "
    "pp_cost_* communication_method debug_* dump_pp_data moe_router_force* "
    "dataloader_mp_context weight_deosc* mock_dataset.* torch_compile.* "
    "enable_zb_runtime enable_zero_bubble enable_exactly_numeric_match allow_padding* "
    "auto_offload_time auto_continue_train offload_overlap_sr interleave_group_size "
    "num_seq_splits profile_memory_iter use_deprecated* use_pytorch_profiler pytorch_profiler* "
    "record_shapes use_nsys* final_logit* attn_logit* router_logit* lfm_layer_types conv_* "
    "hf_path empty_cache* stage original_max_position_embeddings activation_offload_time "
    "offload_time framework trainer_class moe_use_fused_router* no_fp8_weight_transpose_cache "
    "sink_window* sink_sliding_window enable_packed_sequences use_packed_attention offload_ops "
    "lora.* async_tensor_model*";

// Settings that a scenario has no key for, where they are on.
constexpr std::pair<std::string_view, std::string_view> kPrimusNotes[] = {
    {"use_turbo_attention", "kernels are as fast as others"},
    {"use_turbo_gemm", "kernels are as fast as others"},
    {"use_turbo_grouped_gemm", "kernels are as fast as others"},
    {"use_turbo_rms_norm", "kernels are as fast as others"},
    {"use_turbo_mega_moe", "kernels are as fast as others"},
    {"patch_zero_bubble", "the order is Megatron-LM's: give --set schedule.order=..."},
    {"patch_moe_overlap", "experts' communication is not overlapped"},
    {"recompute_layer_ids", "layers are recomputed as the other settings say"},
    {"enable_odc", "gradients are reduced by collectives"},
    {"use_sink_attention", "attention is as the model has it"},
    {"offload", "activations stay on the GPU"},
    {"cpu_offload", "activations stay on the GPU"}};

// Pipeline orders of patch_primus_pipeline, and their names in a scenario; empty: the default.
constexpr std::pair<std::string_view, std::string_view> kPrimusOrders[] = {
    {"1f1b", "1f1b"},         {"1f1b-interleaved", ""}, {"zero-bubble", "zb1p"},
    {"zbv-formatted", "zbv"}, {"v-half", "v-half"},     {"v-min", "v-min"}};

class Primus {
 public:
  explicit Primus(const ImportContext& context) : context_(context), arguments_(context.path) {}

  Result<ImportedPlan> read(const DocumentNode& document) {
    const DocumentNode& modules = *document.find("modules");
    const DocumentNode* trainer = modules.find("pre_trainer");
    if (trainer == nullptr) trainer = modules.find("post_trainer");
    if (trainer == nullptr || trainer->map() == nullptr)
      return Error::at(place(context_.path, modules),
                       "found modules without pre_trainer or post_trainer, expected one of them");
    const DocumentNode* framework = trainer->find("framework");
    if (const std::string name = framework == nullptr ? "megatron" : framework->text();
        name != "megatron")
      return Error::at(place(context_.path, *framework),
                       fmt::format("found framework = {}, expected megatron", name));
    for (const auto& [name, value] : kModelDefaults) add(name, value);
    if (const DocumentNode* model = trainer->find("model"))
      RETURN_IF_ERROR(add_file(plain(written_value(*model)), place(context_.path, *model), 0));
    for (const auto& [name, value] : kTrainerDefaults) add(name, value);
    if (const DocumentNode* config = trainer->find("config"))
      RETURN_IF_ERROR(add_file(plain(written_value(*config)), place(context_.path, *config), 0));
    // A file that Primus has written itself has no overrides any more.
    const DocumentNode* overrides = trainer->find("overrides");
    add_fields(overrides == nullptr ? *trainer : *overrides, context_.path, "");
    return finish();
  }

 private:
  static std::string place(const std::string& path, const DocumentNode& node) {
    return fmt::format("{}:{}", path, node.line);
  }
  void add(std::string_view name, std::string_view value) {
    arguments_.add_field(std::string(name), std::string(value), "");
  }

  // Replaces each "${VARIABLE:default}" by its default.
  std::string plain(std::string text) {
    for (std::size_t from; (from = text.find("${")) != std::string::npos;) {
      const std::size_t colon = text.find(':', from), to = text.find('}', from);
      if (colon == std::string::npos || to == std::string::npos || colon > to) break;
      text = text.substr(0, from) + text.substr(colon + 1, to - colon - 1) + text.substr(to + 1);
      has_variables_ = true;
    }
    return text;
  }

  // Adds a file's settings over those of the files that it extends.
  Status add_file(const std::string& name, const std::string& where, int depth) {
    const std::string base = name.substr(name.rfind('/') + 1);
    if (const ImportSource* source = context_.beside_by_name(base); source != nullptr) {
      if (depth > kMostExtended)
        return Error::at(where, fmt::format("found {} levels of files that extend one another, "
                                            "expected {} at most",
                                            depth, kMostExtended));
      ASSIGN_OR_RETURN(const DocumentNode document, parse_yaml(source->text, source->path));
      for (const char* field : {"extends", "bases", "includes"}) {
        const DocumentNode* bases = document.find(field);
        if (bases == nullptr) continue;
        const DocumentNode::List one = {*bases};
        for (const DocumentNode& node : bases->list() == nullptr ? one : *bases->list())
          RETURN_IF_ERROR(
              add_file(plain(written_value(node)), place(source->path, node), depth + 1));
      }
      if (document.map() != nullptr) add_fields(document, source->path, "");
      lists_.sources.push_back(source->path + " (Primus, " + base + ")");
    } else if (!matches_word(base, kOwnFiles)) {
      lists_.wanted.push_back({base, where});
    }
    return Done{};
  }

  void add_fields(const DocumentNode& map, const std::string& path, const std::string& prefix) {
    if (map.map() == nullptr) return;
    for (const DocumentField& field : *map.map()) {
      const std::string name = prefix + field.key;
      if (matches_word(name, "extends bases includes model config")) continue;
      if (field.value.map() != nullptr) {
        add_fields(field.value, path, name + '.');
      } else if (matches_word(name, kPrimusQuiet) && !name.starts_with("turbo_deepep") &&
                 name != "lora.enabled") {
        ++lists_.without_effect;
      } else {
        arguments_.add_field(name, plain(written_value(field.value)), place(path, field.value));
      }
    }
  }

  Result<ImportedPlan> finish() {
    if (arguments_.flag("lora.enabled"))
      arguments_.fail("lora.enabled", "False: adapters are not covered");
    if (arguments_.text("model_type").value_or("gpt") == "mamba" &&
        !arguments_.has("hybrid_layer_pattern"))
      arguments_.fail("model_type", "gpt, or mamba with hybrid_layer_pattern");
    for (const auto& [name, what] : kPrimusNotes) {
      const std::string value = arguments_.text(name).value_or("False");
      if (value != "False")
        lists_.not_expressed.push_back(
            fmt::format("{}: {} {}: {}", arguments_.place_of(name), name, value, what));
    }
    // Primus has its own DeepEP, with a number of compute units (AMD's SMs).
    const auto units = arguments_.text("turbo_deepep_num_cu");
    arguments_.flag("turbo_deepep_use_comm_stream");
    if (arguments_.flag("use_turbo_deepep")) {
      const std::string where = arguments_.place_of("use_turbo_deepep");
      arguments_.add_field("moe_token_dispatcher_type", "flex", where, "use_turbo_deepep");
      arguments_.add_field("moe_flex_dispatcher_backend", "deepep", where, "use_turbo_deepep");
      if (units)
        arguments_.add_field("moe_deepep_num_sms", *units,
                             arguments_.place_of("turbo_deepep_num_cu"), "turbo_deepep_num_cu");
    }
    const auto layers = arguments_.wholes("decoder_pipeline_manual_split_list");
    const std::string order = arguments_.text("pp_algorithm").value_or("1f1b-interleaved");
    const bool patched = arguments_.flag("patch_primus_pipeline");
    RETURN_IF_ERROR(arguments_.status());
    ASSIGN_OR_RETURN(ImportedPlan plan,
                     import_megatron(&arguments_, context_.path + " (Primus)",
                                     MegatronStyle::Megatron, context_.before, context_.gpus));
    if (layers)
      plan.set("parallel.layers_per_stage", *layers, "decoder_pipeline_manual_split_list");
    if (patched) {
      const auto* const known =
          std::ranges::find(kPrimusOrders, order, [](const auto& row) { return row.first; });
      if (known == std::end(kPrimusOrders))
        arguments_.fail("pp_algorithm", "an order that a scenario has");
      else if (!known->second.empty())
        plan.set("schedule.order", known->second, "pp_algorithm");
      RETURN_IF_ERROR(arguments_.status());
    }
    for (ImportedKey& key : plan.keys) {
      if (key.where.empty()) key.where = arguments_.place_of(key.comment);
    }
    RETURN_IF_ERROR(plan.add(lists_));
    if (has_variables_)
      plan.assumed.push_back(context_.path + ": variables have the defaults that it states");
    return plan;
  }

  static constexpr int kMostExtended = 20;

  const ImportContext& context_;
  MegatronArguments arguments_;
  ImportedPlan lists_;
  bool has_variables_ = false;
};

}  // namespace

bool is_primus(const DocumentNode& document) {
  return document.at("modules.pre_trainer") != nullptr ||
         document.at("modules.post_trainer") != nullptr;
}

Result<ImportedPlan> import_primus(const DocumentNode& document, const ImportContext& context) {
  return Primus(context).read(document);
}

}  // namespace tandem
