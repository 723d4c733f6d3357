// The keys of layers: in [model] for all layers, in [model.kinds.NAME] for those of one kind.
#pragma once

#include "keys/key_row.h"

namespace tandem {

inline constexpr KeyRow kLayerRows[] = {
    {"model.mixer",
     "text: a layer's first half: heads (attention), latent (multi-head latent attention), mamba "
     "(Mamba-2), linear (gated delta net) or none; default heads"},
    {"model.heads", "integer: attention heads a"},
    {"model.kv_heads", "integer: key/value heads (grouped-query attention); default heads"},
    {"model.head_dim", "integer: size of a head; default hidden / heads"},
    {"model.window",
     "integer: positions that one attends to, its own and those before it; default 0: all"},
    {"model.attention_chunk",
     "integer: attention inside chunks of so many positions; default 0: over all"},
    {"model.document",
     "integer: positions of a document in a packed sequence, each attended apart; default 0: one "
     "is the sequence"},
    {"model.shared_kv", "true or false: keys are the values too, of one product; default false"},
    {"model.qk_norm", "true or false: a norm of each head's queries and keys; default false"},
    {"model.attention_sinks",
     "true or false: a learned logit a head that takes part in the softmax; default false"},
    {"model.biases",
     "true or false: biases of a layer's products, but for the router's; default as without "
     "gated_mlp"},
    {"model.attention_bias",
     "true or false: biases of queries, keys and values; default as without gated_mlp"},
    {"model.output_bias", "true or false: a bias of the projection; default as without gated_mlp"},
    {"model.q_lora_rank",
     "integer: latent: rank of the compressed queries; default 0: they are not"},
    {"model.kv_lora_rank", "integer: latent: rank of the compressed keys and values"},
    {"model.qk_nope_head_dim", "integer: latent: a head's part without rotary positions"},
    {"model.qk_rope_head_dim", "integer: latent: a head's part with them, one for all heads' keys"},
    {"model.v_head_dim", "integer: latent: size of a head's value"},
    {"model.mamba_heads", "integer: mamba: heads of the inner array"},
    {"model.mamba_head_dim", "integer: mamba: size of a head"},
    {"model.mamba_state", "integer: mamba: size of the state"},
    {"model.mamba_groups", "integer: mamba: groups of heads that share B and C; default 1"},
    {"model.mamba_conv", "integer: mamba: width of the convolution; default 4"},
    {"model.mamba_chunk", "integer: mamba: positions of a chunk of the scan; default 128"},
    {"model.linear_key_heads", "integer: linear: heads of queries and keys"},
    {"model.linear_value_heads", "integer: linear: heads of values"},
    {"model.linear_key_head_dim", "integer: linear: size of a key"},
    {"model.linear_value_head_dim", "integer: linear: size of a value"},
    {"model.linear_conv", "integer: linear: width of the convolution; default 4"},
    {"model.mlp", "true or false: a layer's second half, an MLP or experts; default true"},
    {"model.ffn_hidden", "integer: width of the MLP; default 4 hidden"},
    {"model.gated_mlp", "true or false: three matrices in the MLP (SwiGLU); default false"},
    {"model.mlp_bias",
     "true or false: biases of the MLP, or of the experts; default as without gated_mlp"},
    {"model.experts",
     "integer: experts of every layer's MLP (mixture of experts); default 0: dense"},
    {"model.top_k", "integer: experts that a token takes"},
    {"model.router_groups",
     "integer: equal groups of experts, of which a token's experts lie in router_topk_groups; "
     "default 0: in any"},
    {"model.router_topk_groups",
     "integer: groups that a token's experts lie in at most, with router_groups"},
    {"model.expert_ffn_hidden", "integer: width of an expert; default ffn_hidden"},
    {"model.shared_expert_ffn",
     "integer: width of an expert beside them that all tokens take; default 0: none"},
    {"model.moe_latent",
     "integer: width that experts work in, between two products all of them share; default 0: "
     "hidden"},
    {"model.router_bias", "true or false: a bias of the router; default false"},
    {"model.expert_imbalance",
     "number: tokens of the busiest expert rank over the mean; default 1"},
    {"model.capacity_factor",
     "number: tokens that an expert takes at most, over the mean, others are dropped; default 0: "
     "none are"},
    {"model.pad_to_capacity",
     "true or false: an expert takes as many always, with padding; default false"}};

}  // namespace tandem
