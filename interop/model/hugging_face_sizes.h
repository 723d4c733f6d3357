// HfModel: the sizes of the model that a Hugging Face config.json describes, and for each layer
// what it attends to and whether its MLP is experts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interop/document/fields.h"
#include "interop/model/families.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

// How a layer mixes positions.
enum class Attends {
  All,     // softmax attention to all positions before
  Window,  // to the last `window` positions
  Chunk,   // to the positions in the same chunk of `chunk`
  Linear,  // linear attention, such as a gated delta net
  Mamba
};

// 0: the model has no such part.
struct HfModel {
  using Whole = std::int64_t;

  std::string type;
  const ModelFamily* family = nullptr;
  Whole layers = 0, hidden = 0, heads = 0, vocab = 0;
  std::string layers_field, hidden_field;  // their names in the file
  bool gated = true, biases = false;
  // Attention. global_...: of layers that attend to all positions, in a model with windows.
  Whole kv_heads = 0, head_dim = 0, global_head_dim = 0, global_kv_heads = 0;
  Whole q_rank = 0, kv_rank = 0, nope = 0, rope = 0, v_dim = 0;  // latent attention (MLA)
  Whole index_heads = 0, index_head_dim = 0, index_topk = 0;     // DeepSeek's sparse attention
  Whole window = 0, chunk = 0;                                   // positions
  bool shared_kv = false, qkv_bias = false, output_bias = false, qk_norm = false;
  // Linear attention, then Mamba.
  Whole key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, conv = 0;
  Whole mamba_heads = 0, mamba_head_dim = 0, mamba_state = 0, mamba_groups = 0, mamba_conv = 0,
        mamba_chunk = 0;
  // MLPs. has_dense_mlp_too: a layer has one beside its experts.
  Whole ffn = 0, experts = 0, top_k = 0, expert_ffn = 0, shared = 0, latent = 0;
  Whole router_groups = 0, router_topk_groups = 0;  // 0: a token's experts may lie in any group
  bool has_dense_mlp_too = false, mlp_bias = false, router_bias = false;
  std::vector<Attends> attends;  // by layer
  std::vector<char> sparse;      // by layer: its MLP is experts

  bool is(std::string_view prefix) const { return type.starts_with(prefix); }
};

// Reads the sizes. Assumptions go into the plan. REQUIRES: the model has type and family.
Status read_hugging_face(FieldReader* fields, HfModel* model, ImportedPlan* plan);

}  // namespace tandem
