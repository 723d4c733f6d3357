// Reads YAML of NeMo 1, whose words for Megatron-LM's arguments are its own. Declared in
// interop/megatron/files.h.
#include <fmt/format.h>

#include <algorithm>

#include "interop/document/fields.h"
#include "interop/megatron/files.h"
#include "interop/megatron/megatron.h"
#include "interop/megatron/yaml_text.h"

namespace tandem {
namespace {

// NeMo's names for Megatron-LM's.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"bias", "add_bias_linear"},
    {"ub_tp_comm_overlap", "tp_comm_overlap"},
    {"activations_checkpoint_granularity", "recompute_granularity"},
    {"activations_checkpoint_method", "recompute_method"},
    {"activations_checkpoint_num_layers", "recompute_num_layers"},
    {"use_flash_attention", "use_flash_attn"},
    {"bias_dropout_add_fusion", "bias_dropout_fusion"},
    {"fp8_params", "fp8_param_gather"},
    {"optim.overlap_grad_sync", "overlap_grad_reduce"},
    {"optim.overlap_param_sync", "overlap_param_gather"},
    {"data.seq_length", "seq_length"},
    {"data.train_ds.max_seq_length", "seq_length"},
    {"tokenizer.type", "tokenizer_type"},
    {"tokenizer.model", "tokenizer_model"}};

// Values that NeMo writes as one word and Megatron-LM as an argument of its own.
struct WordRow {
  std::string_view name, globs;   // of the values
  std::string_view field, value;  // no field: it is Megatron-LM's default
};
constexpr WordRow kWords[] = {
    {"activation", "swiglu fast-swiglu", "swiglu", "True"},
    {"activation", "geglu fast-geglu reglu fast-reglu", "quick_geglu", "True"},
    {"activation", "squared-relu", "squared_relu", "True"},
    {"activation", "gelu relu", "", ""},
    {"normalization", "rmsnorm", "normalization", "RMSNorm"},
    {"normalization", "layernorm layernorm1p low_precision_layernorm", "normalization",
     "LayerNorm"},
    {"position_embedding_type", "rope", "position_embedding_type", "rope"},
    {"position_embedding_type", "learned_absolute", "position_embedding_type", "learned_absolute"},
    {"position_embedding_type", "none alibi kerple sandwich", "position_embedding_type", "none"},
    {"transformer_engine", "True", "", ""},
    {"transformer_engine", "False", "transformer_impl", "local"},
    {"fp8", "True", "fp8", "hybrid"},
    {"fp8", "False", "", ""},
    {"precision", "bf16 bf16-mixed", "bf16", "True"},
    {"precision", "16 16-mixed", "fp16", "True"},
    {"precision", "32 32-true", "", ""},
    {"optim.name", "distributed_fused_adam mcore_distributed_optim", "use_distributed_optimizer",
     "True"},
    {"optim.name", "fused_adam adam adamw megatron_fused_adam", "", ""},
    {"optim.grad_sync_dtype", "bf16", "grad_reduce_in_bf16", "True"},
    {"optim.grad_sync_dtype", "fp32", "", ""}};

// Fields that change neither time nor memory, or repeat another one.
constexpr std::string_view kQuietFields =
    "mcore_gpt pre_process post_process headscale transformer_block_type "
    "normalize_attention_scores rotary_* attention_type scale_positional_embedding native_amp_* "
    "grad_allreduce_chunk_size_mb grad_div_ar_fusion resume_* apex_* gradient_as_bucket_view "
    "sync_batch_comm fp8_* gc_interval reduce_amax use_emha nsys_profile.* "
    "mcore_customization_config.* get_attention_mask* megatron_amp_O2 tokenizer.* data.* optim.* "
    "ffn_dropout max_position_embeddings num_micro_batches_with* activations_checkpoint_layers* "
    "seq_len_interpolation_factor ub_tp_comm_overlap_cfg do_layer_norm* moe_aux_loss* ";

class Nemo1 {
 public:
  explicit Nemo1(const ImportContext& context) : context_(context), arguments_(context.path) {}

  Result<ImportedPlan> read(const DocumentNode& document) {
    const DocumentNode& model = *document.find("model");
    document_ = &document;
    RETURN_IF_ERROR(check_kind(model));
    if (const DocumentNode* trainer = document.find("trainer")) read_trainer(*trainer, model);
    read_model(model, "");
    RETURN_IF_ERROR(arguments_.status());
    ASSIGN_OR_RETURN(ImportedPlan plan,
                     import_megatron(&arguments_, context_.path + " (NeMo 1's YAML)",
                                     MegatronStyle::Megatron, context_.before, context_.gpus));
    RETURN_IF_ERROR(plan.add(lists_));
    return plan;
  }

 private:
  std::string place(const DocumentNode& node) const {
    return fmt::format("{}:{}", context_.path, node.line);
  }

  // Refuses other models than decoders, and training of adapters.
  Status check_kind(const DocumentNode& model) const {
    for (const auto& [field, is] : {std::pair("bert_binary_head", "BERT, an encoder"),
                                    std::pair("encoder", "an encoder-decoder"),
                                    std::pair("vision", "a model with a vision tower"),
                                    std::pair("mm_cfg", "a model with a vision tower")}) {
      if (const DocumentNode* node = model.find(field))
        return Error::at(place(*node), fmt::format("found model.{}, expected a decoder-only model, "
                                                   "not {}",
                                                   field, is));
    }
    const DocumentNode* scheme = model.at("peft.peft_scheme");
    if (scheme != nullptr && !scheme->is_null() && !matches_word(written_value(*scheme), "none"))
      return Error::at(place(*scheme),
                       fmt::format("found peft_scheme = {}, expected null: adapters "
                                   "are not covered",
                                   scheme->text()));
    return Done{};
  }

  // Returns a field's value as NeMo resolves it. A reference that has no value stays.
  std::string text_of(const DocumentNode& node) {
    constexpr int kMostReferences = 30;  // fields may refer to each other in a circle
    std::string text = written_value(node);
    for (int i = 0; i < kMostReferences; ++i) {
      // The last reference first, as it may be inside another: "${multiply:${trainer.devices},8}".
      const std::size_t from = text.rfind("${");
      const std::size_t to = from == std::string::npos ? from : text.find('}', from);
      if (to == std::string::npos) break;
      const auto value = resolved(text.substr(from + 2, to - from - 2));
      if (!value) break;
      text.replace(from, to + 1 - from, *value);
    }
    return text;
  }

  // Returns the value of what stands in "${...}": "trainer.precision", "multiply:32,8" (NeMo's own,
  // nemo/core/classes/modelPT.py) or "oc.env:NODES,8", whose default counts.
  std::optional<std::string> resolved(const std::string& reference) {
    const std::size_t colon = reference.find(':');
    if (colon == std::string::npos) {
      const DocumentNode* found = document_->at(reference);
      if (found == nullptr || found->map() != nullptr) return std::nullopt;
      return written_value(*found);
    }
    const std::string function = reference.substr(0, colon), rest = reference.substr(colon + 1);
    if (function == "oc.decode") return rest;
    if (function == "multiply") {
      const auto factors = python_list("[" + rest + "]");
      if (!factors || factors->size() != 2) return std::nullopt;
      return fmt::format("{}", product_of({factors->front(), factors->back()}));
    }
    const std::size_t comma = rest.find(',');
    if (function != "oc.env" || comma == std::string::npos) return std::nullopt;
    const std::size_t first = std::min(rest.find_first_not_of(' ', comma + 1), rest.size());
    lists_.assumed.push_back(fmt::format("{} = {}: the default in {}", rest.substr(0, comma),
                                         rest.substr(first), context_.path));
    return rest.substr(first);
  }

  // Takes nodes and devices, which mean a number of GPUs only together, and the precision where the
  // model has none.
  void read_trainer(const DocumentNode& trainer, const DocumentNode& model) {
    const DocumentNode *nodes = trainer.find("num_nodes"), *devices = trainer.find("devices");
    if (nodes != nullptr && devices != nullptr) {
      arguments_.add_field("nnodes", text_of(*nodes), place(*nodes));
      arguments_.add_field("gpus_per_node", text_of(*devices), place(*devices));
    }
    const DocumentNode* precision = trainer.find("precision");
    if (precision != nullptr && model.find("precision") == nullptr) take("precision", *precision);
  }

  void read_model(const DocumentNode& map, const std::string& prefix) {
    for (const DocumentField& field : *map.map()) {
      const std::string name = prefix + field.key;
      if (field.value.map() != nullptr) {
        read_model(field.value, name + '.');
      } else {
        take(name, field.value);
      }
    }
  }

  void take(const std::string& name, const DocumentNode& node) {
    const std::string text = text_of(node);
    const auto* named =
        std::ranges::find_if(kNames, [&](const auto& row) { return row.first == name; });
    if (named != std::end(kNames)) {
      arguments_.add_field(std::string(named->second), text, place(node));
    } else if (!take_word(name, text, node)) {
      if (matches_word(name, kQuietFields)) {
        ++lists_.without_effect;
      } else {
        arguments_.add_field(name, text, place(node));
        // NeMo has no switch for it.
        if (name == "num_query_groups" && text != "None")
          arguments_.add_field("group_query_attention", "True", place(node));
      }
    }
  }

  // Returns whether the field is one of kWords'. A value that is not in the table is listed.
  bool take_word(const std::string& name, const std::string& text, const DocumentNode& node) {
    bool is_word = false;
    for (const WordRow& row : kWords) {
      if (row.name != name) continue;
      is_word = true;
      if (!matches_word(text, row.globs)) continue;
      if (!row.field.empty())
        arguments_.add_field(std::string(row.field), std::string(row.value), place(node));
      return true;
    }
    if (is_word && text != "None")
      lists_.not_understood.push_back(fmt::format("{}: {} = {}", place(node), name, text));
    return is_word;
  }

  const ImportContext& context_;
  const DocumentNode* document_ = nullptr;
  MegatronArguments arguments_;
  ImportedPlan lists_;
};

}  // namespace

bool is_nemo1(const DocumentNode& document) {
  const DocumentNode* trainer = document.find("trainer");
  return trainer != nullptr && trainer->map() != nullptr &&
         document.at("model.micro_batch_size") != nullptr && document.at("model.optim") != nullptr;
}

Result<ImportedPlan> import_nemo1(const DocumentNode& document, const ImportContext& context) {
  return Nemo1(context).read(document);
}

}  // namespace tandem
