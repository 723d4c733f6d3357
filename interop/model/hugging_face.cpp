// Imports a config.json in three steps: sizes by the names and rules of its family
// (hugging_face_sizes), a list of layers from them (hugging_face_layers), and here the settings of
// the whole model: sequence, embeddings, norms. Fields that no step has read are listed or counted.
#include "interop/model/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>

#include "interop/document/fields.h"
#include "interop/model/families.h"
#include "interop/model/hugging_face_layers.h"
#include "interop/model/layers.h"
#include "interop/plan/places.h"

namespace tandem {
namespace {

// Tokens of a sequence if no file states them and the model accepts that many. Models are mostly
// trained on shorter sequences than the longest that they accept.
constexpr std::int64_t kUsualSequence = 4096;

// Returns the language model inside a multimodal one; null: there is none.
const DocumentNode* language_model(const DocumentNode& document) {
  for (const char* name : {"text_config", "language_config", "llm_config", "thinker_config"}) {
    const DocumentNode* inner = document.find(name);
    if (inner == nullptr || inner->map() == nullptr) continue;
    const DocumentNode* innermost = language_model(*inner);
    return innermost == nullptr ? inner : innermost;
  }
  return nullptr;
}

// Returns the text of a field; empty: it is missing or no text.
std::string word_of(const DocumentNode& map, std::string_view key) {
  const DocumentNode* node = map.find(key);
  const auto* word = node == nullptr ? nullptr : std::get_if<std::string>(&node->value);
  return word == nullptr ? "" : *word;
}

void set_sequence(const ModelFamily& family, const ImportedPlan& before, FieldReader* fields,
                  ImportedPlan* plan) {
  const auto longest =
      fields->whole({"max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length",
                     "seq_length", "max_seq_len", "model_max_length", "max_model_len"},
                    1);
  std::optional<std::int64_t> trained;  // the length before rope scaling stretched it
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const DocumentNode* rope = fields->node({name});
    if (rope == nullptr || rope->map() == nullptr) continue;
    if (const DocumentNode* original = rope->find("original_max_position_embeddings")) {
      if (const auto* whole = std::get_if<std::int64_t>(&original->value); whole && *whole > 0)
        trained = *whole;
    }
  }
  if (const auto stated = before.whole_of("model.seq")) {
    plan->set("model.seq", *stated, "an earlier file");
    return;
  }
  std::int64_t seq = std::min(longest.value_or(kUsualSequence), kUsualSequence);
  std::string why = longest ? fmt::format(", of at most {}", *longest) : "";
  // All learned positions have to be trained, so sequences are as long as there are positions.
  if (longest && family.learned_positions) seq = *longest;
  if (trained) {
    seq = *trained;
    why = ", what rope scaling begins from";
  }
  plan->set("model.seq", seq, "");
  plan->assumed.push_back(
      fmt::format("model.seq = {}{}: config.json does not say what length is trained", seq, why));
}

void set_embeddings(const ModelFamily& family, const DocumentNode& outer, bool multimodal,
                    FieldReader* fields, ImportedPlan* plan) {
  auto tied = fields->flag({"tie_word_embeddings", "use_embedding_sharing", "tie_embedding"});
  if (const DocumentNode* node = outer.find("tie_word_embeddings"); !tied && multimodal && node) {
    if (const auto* flag = std::get_if<bool>(&node->value)) tied = *flag;
  }
  if (!tied)
    plan->assumed.push_back(
        fmt::format("model.tied_embeddings = {}: tie_word_embeddings is left out", family.tied));
  if (!tied.value_or(family.tied)) plan->set("model.tied_embeddings", false, "tie_word_embeddings");
}

// Sets norm, positions and biases where they differ from a scenario's defaults. These follow
// gated_mlp: with it RMSNorm, rotary positions and no biases (Llama's style), without it LayerNorm,
// learned positions and biases (GPT's).
void set_style(const HfModel& model, ImportedPlan* plan) {
  const ModelFamily& family = *model.family;
  if (family.rms_norm != model.gated)
    plan->set("model.norm", family.rms_norm ? "rmsnorm" : "layernorm", "by model_type");
  if (family.learned_positions == model.gated)
    plan->set("model.learned_positions", family.learned_positions, "by model_type");
  if (model.biases == model.gated) plan->set("model.biases", model.biases, "by model_type");
}

void list_unread_fields(const FieldReader& fields, const std::string& path, ImportedPlan* plan) {
  for (const DocumentField* field : fields.left()) {
    const std::string where = fmt::format("{}:{}", path, field->value.line);
    const bool is_off =
        matches_any(field->value.text(), {"null", "false", "0", "-0", "[]", "{}", "[false]", ""});
    const std::string_view effect = not_expressed_field(field->key);
    if (!effect.empty() && !is_off) {
      plan->not_expressed.push_back(fmt::format("{}: {}: {}", where, field->key, effect));
    } else if (is_quiet_field(field->key) || is_off || !effect.empty()) {
      ++plan->without_effect;
    } else {
      plan->not_understood.push_back(
          fmt::format("{}: {} = {}", where, field->key, field->value.text()));
    }
  }
}

}  // namespace

bool is_hugging_face(const DocumentNode& document) {
  const DocumentNode* inner = language_model(document);
  const DocumentNode& model = inner == nullptr ? document : *inner;
  return !word_of(document, "model_type").empty() || model.find("num_hidden_layers") != nullptr ||
         model.find("n_layer") != nullptr;
}

Result<ImportedPlan> import_hugging_face(const DocumentNode& document, const std::string& path,
                                         const ImportedPlan& before) {
  const DocumentNode* inner = language_model(document);
  const DocumentNode& settings = inner == nullptr ? document : *inner;
  FieldReader fields(settings, path);
  HfModel model;
  model.type = word_of(document, "model_type");
  if (inner != nullptr && !word_of(*inner, "model_type").empty())
    model.type = word_of(*inner, "model_type");
  model.family = family_of(model.type);
  ImportedPlan plan;
  plan.sources.push_back(fmt::format("{} (Hugging Face config.json, model_type {})", path,
                                     model.type.empty() ? "not said" : model.type));
  const DocumentNode* type = settings.find("model_type");
  const std::string where = type == nullptr ? path : fmt::format("{}:{}", path, type->line);
  if (model.family == nullptr) {
    const std::string_view other = other_model(model.type);
    return Error::at(where,
                     model.type.empty()
                         ? "found no model_type, expected one such as \"llama\""
                         : fmt::format("found model_type \"{}\", {}: expected a decoder-only "
                                       "language model that docs/interop.md lists",
                                       model.type, other.empty() ? "which is not known" : other));
  }
  if (model.family->is_refused)
    return Error::at(where, fmt::format("found model_type \"{}\", expected a model without {}",
                                        model.type, model.family->omits));
  RETURN_IF_ERROR(read_hugging_face(&fields, &model, &plan));
  ASSIGN_OR_RETURN(const std::vector<ImportedLayer> layers, layers_of(model, &fields, &plan));
  if (!model.family->omits.empty())
    plan.not_expressed.push_back(fmt::format("{}: {}", model.type, model.family->omits));

  if (fields.whole({"hidden_size_per_layer_input"}).value_or(0) > 0)
    fields.fail("hidden_size_per_layer_input", "0: embeddings of each layer's own are not covered");
  // OPT-350m's embeddings are narrower than its layers.
  if (fields.whole({"word_embed_proj_dim"}).value_or(model.hidden) != model.hidden)
    fields.fail("word_embed_proj_dim", "embeddings as wide as the layers");
  plan.set("model.hidden", model.hidden, model.hidden_field);
  write_layers(layers, model.layers_field, &plan);
  plan.set("model.vocab", model.vocab, "vocab_size");
  set_sequence(*model.family, before, &fields, &plan);
  set_embeddings(*model.family, document, inner != nullptr, &fields, &plan);
  set_style(model, &plan);
  if (const auto mtp = fields.whole({"num_nextn_predict_layers", "mtp_num_hidden_layers"});
      mtp.value_or(0) > 0) {
    plan.set("model.mtp_layers", *mtp,
             fields.name_of({"num_nextn_predict_layers", "mtp_num_hidden_layers"}));
    plan.assumed.push_back(fmt::format(
        "model.mtp_layers = {}: config.json does not say whether they are trained", *mtp));
  }
  plan.set("train.flash_attention", true, "");
  plan.assumed.push_back("train.flash_attention = true: what trainers run today");
  RETURN_IF_ERROR(fields.status());
  place_keys(settings, path, &plan);
  // These have no source, as their fields do not say what is trained.
  for (ImportedKey& key : plan.keys) {
    if (key.key == "model.seq" || key.key == "model.mtp_layers") key.where.clear();
  }
  list_unread_fields(fields, path, &plan);
  if (inner != nullptr) {
    for (const DocumentField& field : *document.map()) {
      if (!not_expressed_field(field.key).empty() && !field.value.is_null())
        plan.not_expressed.push_back(fmt::format("{}:{}: {}: {}", path, field.value.line, field.key,
                                                 not_expressed_field(field.key)));
    }
  }
  return plan;
}

}  // namespace tandem
