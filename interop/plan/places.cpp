// Finds the line of the file that an imported key comes from, "config.json:12", for messages about
// that key. As a key does not remember its field, fields are tried by name.
#include "interop/plan/places.h"

#include <fmt/format.h>

#include <vector>

#include "base/split.h"

namespace tandem {
namespace {

// The fields, in config.json and in Megatron-LM, that a key of [model] or of its kinds is read
// from, where their names differ from the key's.
struct FieldsOfKey {
  AnyKey key;
  std::string_view fields;
};
constexpr FieldsOfKey kFields[] = {
    {"model.layers", "num_hidden_layers n_layer num_layers"},
    {"model.hidden", "hidden_size n_embd d_model"},
    {"model.seq", "max_position_embeddings n_positions n_ctx max_sequence_length seq_length"},
    {"model.vocab", "vocab_size padded_vocab_size"},
    {"model.heads", "num_attention_heads n_head n_heads"},
    {"model.kv_heads",
     "num_key_value_heads n_head_kv num_kv_heads multi_query_group_num num_query_groups"},
    {"model.head_dim", "head_dim kv_channels"},
    {"model.ffn_hidden", "intermediate_size n_inner ffn_hidden_size ffn_dim"},
    {"model.gated_mlp", "swiglu"},
    {"model.experts", "num_experts num_local_experts n_routed_experts moe_num_experts"},
    {"model.top_k",
     "num_experts_per_tok experts_per_token top_k_experts num_experts_per_token moe_k "
     "moe_router_topk"},
    {"model.expert_ffn_hidden", "moe_intermediate_size moe_ffn_hidden_size intermediate_size"},
    {"model.shared_expert_ffn",
     "moe_shared_expert_intermediate_size shared_expert_intermediate_size "
     "shared_intermediate_size n_shared_experts num_shared_experts"},
    {"model.moe_latent", "moe_latent_size"},
    {"model.window", "sliding_window window_size"},
    {"model.attention_chunk", "attention_chunk_size"},
    {"model.mixer", "kv_lora_rank multi_latent_attention"},
    {"model.mamba_heads", "mamba_num_heads mamba_n_heads"},
    {"model.mamba_head_dim", "mamba_head_dim mamba_d_head"},
    {"model.mamba_state", "ssm_state_size mamba_d_state mamba_state_dim"},
    {"model.mamba_groups", "n_groups mamba_n_groups mamba_num_groups"},
    {"model.linear_key_heads", "linear_num_key_heads"},
    {"model.linear_value_heads", "linear_num_value_heads"},
    {"model.qk_nope_head_dim", "qk_nope_head_dim qk_head_dim"},
    {"model.qk_rope_head_dim", "qk_rope_head_dim qk_pos_emb_head_dim"}};

// Tries the field that the comment begins with, then the key's row of kFields, then the field of
// the key's own name.
std::string place_of_key(const ImportedKey& key, const PlaceOfField& place_of) {
  const std::size_t end = key.comment.find_first_of(" ,:");
  if (const std::string place = place_of(key.comment.substr(0, end)); !place.empty()) return place;
  const std::string_view name = std::string_view(key.key).substr(key.key.rfind('.') + 1);
  for (const FieldsOfKey& row : kFields) {
    if (row.key.last_word() != name || !key.key.starts_with("model.")) continue;
    for (const std::string& field : split(row.fields, " ")) {
      if (const std::string place = place_of(field); !place.empty()) return place;
    }
  }
  return place_of(name);
}

// Returns the field of that name at the top, by its path ("train.zero"), or in any map at the top.
const DocumentNode* field_in(const DocumentNode& document, std::string_view name) {
  if (name.empty()) return nullptr;
  if (const DocumentNode* own = document.find(name)) return own;
  if (const std::size_t dot = name.find('.'); dot != std::string_view::npos) {
    const DocumentNode* part = document.find(name.substr(0, dot));
    return part == nullptr ? nullptr : field_in(*part, name.substr(dot + 1));
  }
  if (document.map() == nullptr) return nullptr;
  for (const DocumentField& part : *document.map()) {
    if (const DocumentNode* inner = part.value.find(name)) return inner;
  }
  return nullptr;
}

}  // namespace

void place_keys(const PlaceOfField& place_of, ImportedPlan* plan) {
  for (ImportedKey& key : plan->keys) {
    if (key.where.empty()) key.where = place_of_key(key, place_of);
  }
}

void place_keys(const DocumentNode& document, const std::string& path, ImportedPlan* plan) {
  place_keys(
      [&](std::string_view name) {
        const DocumentNode* field = field_in(document, name);
        return field == nullptr ? std::string() : field->place(path);
      },
      plan);
}

}  // namespace tandem
