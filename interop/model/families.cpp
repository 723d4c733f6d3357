// Tables of what a config.json leaves out: how each family's layers are built, and the defaults of
// its class in Hugging Face's transformers. A row counts for all model_types that begin with its
// prefix and go on with numbers and words of kVariants, unless a row with a longer prefix fits.
#include "interop/model/families.h"

#include <algorithm>
#include <string>

#include "interop/document/fields.h"

namespace tandem {
namespace {

// Parts of models that are left out, or simulated in another way.
constexpr std::string_view kParallel = "attention and the MLP side by side: one follows the other";
constexpr std::string_view kMoreNorms = "norms behind attention and the MLP, as well as before";

constexpr ModelFamily gpt_like(std::string_view prefix) {
  return {.prefix = prefix,
          .gated = false,
          .tied = true,
          .rms_norm = false,
          .learned_positions = true,
          .biases = true};
}

constexpr ModelFamily kFamilies[] = {
    {.prefix = "llama"},
    {.prefix = "llama4", .window = WindowRule::Chunked},
    {.prefix = "mistral", .window = WindowRule::All},
    {.prefix = "ministral", .window = WindowRule::All},
    {.prefix = "mixtral", .window = WindowRule::All},
    {.prefix = "qwen2", .qkv_bias = true, .window = WindowRule::FromMaxWindow},
    {.prefix = "qwen3", .qk_norm = true, .window = WindowRule::FromMaxWindow},
    {.prefix = "qwen3_next",
     .qk_norm = true,
     .window = WindowRule::Linear,
     .omits = "the gate on attention's output, as wide as the queries"},
    {.prefix = "qwen3_5", .qk_norm = true, .window = WindowRule::Linear},
    {.prefix = "deepseek"},
    {.prefix = "kimi"},
    {.prefix = "kimi_linear"},
    {.prefix = "glm", .no_output_bias = true},
    {.prefix = "glm4", .no_output_bias = true, .omits = kMoreNorms},
    {.prefix = "glm4_moe", .no_output_bias = true},
    {.prefix = "glm4v_moe", .no_output_bias = true},
    {.prefix = "minimax"},
    {.prefix = "gpt_oss", .mlp_bias = true, .window = WindowRule::Alternate},
    {.prefix = "gemma", .tied = true},
    {.prefix = "gemma2", .tied = true, .window = WindowRule::Alternate, .omits = kMoreNorms},
    {.prefix = "gemma3",
     .tied = true,
     .qk_norm = true,
     .window = WindowRule::Every,
     .omits = kMoreNorms},
    {.prefix = "gemma4",
     .tied = true,
     .qk_norm = true,
     .window = WindowRule::Every,
     .omits = kMoreNorms},
    {.prefix = "phi3", .window = WindowRule::All},
    {.prefix = "phi4", .window = WindowRule::All},
    {.prefix = "olmo", .rms_norm = false},
    {.prefix = "olmo2", .qk_norm = true},
    {.prefix = "olmo3", .qk_norm = true, .window = WindowRule::Every},
    {.prefix = "olmoe", .qk_norm = true},
    {.prefix = "granite"},
    {.prefix = "chatglm"},
    {.prefix = "ernie4_5", .tied = true},
    {.prefix = "smollm3", .tied = true},
    {.prefix = "hunyuan", .qk_norm = true},
    {.prefix = "dots1", .qk_norm = true},
    {.prefix = "exaone4", .qk_norm = true},
    {.prefix = "apertus", .gated = false, .qk_norm = true},
    {.prefix = "arcee", .gated = false},
    {.prefix = "stablelm", .rms_norm = false},
    {.prefix = "internlm"},
    {.prefix = "lfm2", .omits = "convolutions in place of attention", .is_refused = true},
    {.prefix = "orion", .rms_norm = false},
    {.prefix = "yi"},
    {.prefix = "aquila"},
    {.prefix = "baichuan"},
    {.prefix = "bailing"},
    {.prefix = "mimo", .qkv_bias = true, .no_output_bias = true},
    {.prefix = "mimo_v2_flash", .qkv_bias = true, .no_output_bias = true},
    {.prefix = "minicpm", .tied = true},
    {.prefix = "longcat_flash"},
    {.prefix = "step3"},
    {.prefix = "jamba"},
    {.prefix = "bamba"},
    {.prefix = "dbrx", .rms_norm = false},
    {.prefix = "phimoe", .rms_norm = false},
    {.prefix = "seed_oss", .no_output_bias = true},
    {.prefix = "cohere", .tied = true, .rms_norm = false, .omits = kParallel},
    {.prefix = "cohere2",
     .tied = true,
     .rms_norm = false,
     .window = WindowRule::Every,
     .omits = kParallel},
    {.prefix = "nemotron-nas"},
    {.prefix = "deci"},
    {.prefix = "nemotron", .gated = false, .rms_norm = false},
    {.prefix = "nemotron_h", .gated = false},
    gpt_like("gpt2"),
    gpt_like("gpt_bigcode"),
    gpt_like("opt"),
    {.prefix = "gpt_neox", .gated = false, .rms_norm = false, .biases = true},
    {.prefix = "bloom", .gated = false, .tied = true, .rms_norm = false, .biases = true},
    {.prefix = "starcoder2",
     .gated = false,
     .tied = true,
     .rms_norm = false,
     .biases = true,
     .window = WindowRule::All},
    {.prefix = "phi", .gated = false, .rms_norm = false, .biases = true, .omits = kParallel},
    {.prefix = "gptj", .gated = false, .rms_norm = false, .mlp_bias = true, .omits = kParallel},
    {.prefix = "codegen", .gated = false, .rms_norm = false, .mlp_bias = true, .omits = kParallel},
    {.prefix = "mpt", .gated = false, .tied = true, .rms_norm = false},
    {.prefix = "falcon", .gated = false, .tied = true, .rms_norm = false},
    {.prefix = "falcon_h1",
     .omits = "Mamba beside attention in the same layer",
     .is_refused = true},
    {.prefix = "gemma3n", .omits = "embeddings of each layer's own", .is_refused = true},
    {.prefix = "zamba", .omits = "layers that share their weights", .is_refused = true}};

// Words of model_types behind a family's prefix: "vl" and "moe" of qwen3_vl_moe. A model with
// another one is built in another way: falcon_mamba, phi3small.
constexpr std::string_view kVariants =
    "v k m p o moe text vl mm multimodal omni thinker dense dsa lite shared moeshared moehybrid "
    "epoch msft";

// Models of other kinds, by globs of their model_type.
struct OtherModel {
  std::string_view globs, kind;
};
constexpr OtherModel kOtherModels[] = {
    {"t5* mt5* umt5* bart* mbart* pegasus* marian* m2m* switch_* longt5* prophetnet* nllb* led "
     "blenderbot* fsmt encoder-decoder *_seq2seq",
     "an encoder-decoder"},
    {"bert* roberta* xlm* deberta* electra* albert* distilbert* modernbert* camembert* ernie "
     "nomic_* longformer* eurobert*",
     "an encoder"},
    {"vit* clip* siglip* dino* swin* deit* convnext* beit* sam* detr* blip* *_vision",
     "a vision model"},
    {"whisper* wav2vec* hubert* speech* seamless* *_audio encodec* musicgen*", "an audio model"},
    {"*diffusion* unet* dit* flux*", "a diffusion model"},
    {"rwkv* xlstm* recurrent_gemma* mamba mamba2 hyena*", "a recurrent model without attention"}};

// Defaults of transformers' classes: a field equal to its class's default is left out of the file.
struct ClassDefault {
  std::string_view prefix, field;
  std::int64_t value;
};

constexpr ClassDefault kDefaults[] = {
    {"llama", "vocab_size", 32000},
    {"llama", "hidden_size", 4096},
    {"llama", "intermediate_size", 11008},
    {"llama", "num_hidden_layers", 32},
    {"llama", "num_attention_heads", 32},
    {"llama4", "vocab_size", 202048},
    {"llama4", "hidden_size", 5120},
    {"llama4", "intermediate_size", 8192},
    {"llama4", "intermediate_size_mlp", 16384},
    {"llama4", "num_hidden_layers", 48},
    {"llama4", "num_attention_heads", 40},
    {"llama4", "num_key_value_heads", 8},
    {"llama4", "head_dim", 128},
    {"llama4", "num_experts_per_tok", 1},
    {"llama4", "num_local_experts", 16},
    {"llama4", "interleave_moe_layer_step", 1},
    {"llama4", "attention_chunk_size", 8192},
    {"mistral", "vocab_size", 32000},
    {"mistral", "hidden_size", 4096},
    {"mistral", "intermediate_size", 14336},
    {"mistral", "num_hidden_layers", 32},
    {"mistral", "num_attention_heads", 32},
    {"mistral", "num_key_value_heads", 8},
    {"mistral", "sliding_window", 4096},
    {"mixtral", "vocab_size", 32000},
    {"mixtral", "hidden_size", 4096},
    {"mixtral", "intermediate_size", 14336},
    {"mixtral", "num_hidden_layers", 32},
    {"mixtral", "num_attention_heads", 32},
    {"mixtral", "num_key_value_heads", 8},
    {"mixtral", "num_local_experts", 8},
    {"mixtral", "num_experts_per_tok", 2},
    {"qwen2", "vocab_size", 151936},
    {"qwen2", "hidden_size", 4096},
    {"qwen2", "intermediate_size", 22016},
    {"qwen2", "num_hidden_layers", 32},
    {"qwen2", "num_attention_heads", 32},
    {"qwen2", "num_key_value_heads", 32},
    {"qwen3", "vocab_size", 151936},
    {"qwen3", "head_dim", 128},
    {"qwen2_moe", "hidden_size", 2048},
    {"qwen2_moe", "intermediate_size", 5632},
    {"qwen2_moe", "num_hidden_layers", 24},
    {"qwen2_moe", "num_attention_heads", 16},
    {"qwen2_moe", "num_key_value_heads", 16},
    {"qwen2_moe", "num_experts", 60},
    {"qwen2_moe", "num_experts_per_tok", 4},
    {"glm4_moe", "vocab_size", 151552},
    {"glm4_moe", "hidden_size", 4096},
    {"glm4_moe", "intermediate_size", 10944},
    {"glm4_moe", "num_hidden_layers", 46},
    {"glm4_moe", "num_attention_heads", 96},
    {"glm4_moe", "num_key_value_heads", 8},
    {"glm4_moe", "num_experts_per_tok", 8},
    {"qwen2_moe", "moe_intermediate_size", 1408},
    {"glm4_moe", "moe_intermediate_size", 1408},
    {"deepseek_v3", "moe_intermediate_size", 2048},
    {"qwen3_moe", "moe_intermediate_size", 768},
    {"qwen3_moe", "hidden_size", 2048},
    {"qwen3_moe", "intermediate_size", 6144},
    {"qwen3_moe", "num_hidden_layers", 24},
    {"qwen3_moe", "num_attention_heads", 32},
    {"qwen3_moe", "num_key_value_heads", 4},
    {"qwen3_moe", "head_dim", 0},  // hidden / heads, unlike qwen3's
    {"qwen3_moe", "num_experts_per_tok", 8},
    {"qwen3_moe", "num_experts", 128},
    {"deepseek_v3", "first_k_dense_replace", 3},
    {"deepseek_v3", "n_shared_experts", 1},
    {"deepseek_v3", "n_routed_experts", 256},
    {"deepseek_v3", "num_experts_per_tok", 8},
    {"deepseek_v3", "vocab_size", 129280},
    {"gpt_oss", "vocab_size", 201088},
    {"gpt_oss", "hidden_size", 2880},
    {"gpt_oss", "intermediate_size", 2880},
    {"gpt_oss", "num_hidden_layers", 36},
    {"gpt_oss", "num_attention_heads", 64},
    {"gpt_oss", "num_key_value_heads", 8},
    {"gpt_oss", "head_dim", 64},
    {"gpt_oss", "sliding_window", 128},
    {"gpt_oss", "num_local_experts", 128},
    {"gpt_oss", "num_experts_per_tok", 4},
    {"gemma", "vocab_size", 256000},
    {"gemma", "hidden_size", 3072},
    {"gemma", "intermediate_size", 24576},
    {"gemma", "num_hidden_layers", 28},
    {"gemma", "num_attention_heads", 16},
    {"gemma", "num_key_value_heads", 16},
    {"gemma", "head_dim", 256},
    {"gemma2", "hidden_size", 2304},
    {"gemma2", "intermediate_size", 9216},
    {"gemma2", "num_hidden_layers", 26},
    {"gemma2", "num_attention_heads", 8},
    {"gemma2", "num_key_value_heads", 4},
    {"gemma2", "sliding_window", 4096},
    {"gemma3", "vocab_size", 262208},
    {"gemma3", "hidden_size", 2304},
    {"gemma3", "intermediate_size", 9216},
    {"gemma3", "num_hidden_layers", 26},
    {"gemma3", "num_attention_heads", 8},
    {"gemma3", "num_key_value_heads", 4},
    {"gemma3", "sliding_window", 4096},
    {"gemma3", "sliding_window_pattern", 6},
    {"gemma4", "sliding_window_pattern", 6},
    {"cohere2", "sliding_window_pattern", 4},
    {"olmo3", "sliding_window_pattern", 4},
    {"qwen3_next", "linear_num_key_heads", 16},
    {"qwen3_next", "linear_num_value_heads", 32},
    {"qwen3_next", "linear_key_head_dim", 128},
    {"qwen3_next", "linear_value_head_dim", 128},
    {"qwen3_next", "linear_conv_kernel_dim", 4},
    {"qwen3_next", "full_attention_interval", 4},
    {"qwen3_5", "full_attention_interval", 4},
    {"qwen3_next", "head_dim", 256},
    {"qwen3_5", "head_dim", 256},
    {"deepseek_v3", "q_lora_rank", 1536},
    {"deepseek_v3", "kv_lora_rank", 512},
    {"deepseek_v3", "qk_nope_head_dim", 128},
    {"deepseek_v3", "qk_rope_head_dim", 64},
    {"deepseek_v3", "v_head_dim", 128},
    {"gpt2", "vocab_size", 50257},
    {"gpt2", "n_embd", 768},
    {"gpt2", "n_layer", 12},
    {"gpt2", "n_head", 12},
    {"gpt2", "n_positions", 1024},
    {"gpt_neox", "vocab_size", 50432},
    {"gpt_neox", "hidden_size", 6144},
    {"gpt_neox", "num_hidden_layers", 44},
    {"gpt_neox", "num_attention_heads", 64},
    {"gpt_neox", "intermediate_size", 24576},
    {"falcon", "vocab_size", 65024},
    {"falcon", "hidden_size", 4544},
    {"falcon", "num_hidden_layers", 32},
    {"falcon", "num_attention_heads", 71}};

// Fields that a scenario has no key for, and what they describe or what is simulated instead.
struct NotExpressed {
  std::string_view field, what;
};

constexpr NotExpressed kNotExpressed[] = {
    {"parallel_attn", kParallel},
    {"use_parallel_residual", kParallel},
    {"share_q_dim", "queries of two products of low rank: taken as of one"},
    {"vision_config", "the vision tower: only the language model is imported"},
    {"audio_config", "the audio tower: only the language model is imported"},
    {"attn_output_gate", "the gate on attention's output, as wide as the queries"},
    {"attention_output_gate", "the gate on attention's output, as wide as the queries"},
    {"sparse_attention_config", "attention to chosen blocks: every position is attended to"},
    {"compress_ratios", "compressed keys and values, layer by layer"},
    {"hc_mult", "hyper-connections: several residual streams"},
    {"o_lora_rank", "attention's output product in two of low rank and in groups"},
    {"num_hash_layers", "layers whose router is a hash: taken as the others"},
    {"num_mtp_modules", "more modules of multi-token prediction than num_nextn_predict_layers"},
    {"mtp_hybrid_override_pattern", "layers inside a multi-token prediction layer"},
    {"indexer_types", "layers that share another one's index: each has its own"},
    {"num_kv_shared_layers", "layers that take the keys and values of another one"},
    {"use_double_wide_mlp", "MLPs twice as wide in some layers"}};

// Fields that change neither time nor memory, by patterns of names.
constexpr std::string_view kQuietFields =
    "architectures model_type auto_map *transformers_version torch_dtype dtype "
    "quantization_config *_token_id *_token_index *_token_ids initializer_range *_std "
    "use_cache rope_* *_rope_* rotary_* *_rotary_* *dropout* attn_pdrop resid_pdrop "
    "embd_pdrop *_eps *_epsilon hidden_act hidden_activation *_hidden_act activation_function "
    "pretraining_tp ep_size *_coef aux_loss_alpha seq_aux routed_scaling_factor "
    "norm_topk_prob scoring_func output_* *softcapping time_step_* "
    "*_cache_dtype mamba_ssm_dtype residual_in_fp32 rescale_prenorm_residual "
    "num_logits_to_keep query_pre_attn_scalar scale_embedding swiglu_* expert_dtype "
    "moe_router_dtype mamba_proj_bias use_conv_bias use_mamba_kernels "
    "moe_shared_expert_overlap qk_norm_type use_gemma_norm use_bidirectional_* vision_soft_* "
    "*_for_mtp_* index_skip_topk_offset index_topk_freq index_topk_pattern "
    "indexer_rope_interleave initial_context_length mtp_use_dedicated_embeddings qk_head_dim "
    "vocab_size_per_layer_input hc_eps hc_sinkhorn_iters o_groups attn_temperature_* "
    "floor_scale attn_scale cache_implementation _name_or_path max_window_layers "
    "use_sliding_window layer_norm_* summary_* task_specific_params "
    "original_max_position_embeddings is_* tokenizer_class logit_scale *_multiplier "
    "logits_scaling for_llm_compressor layer_types reorder_* scale_* alibi "
    "apply_residual_* _attn_* attn_implementation multi_query_attention moe_gate moe_capacity "
    "mamba_conv_bias partial_rotary_factor lm_head_bias full_attn_mod interpolate_factor "
    "*_jitter_* *_in_fp32 order_of_interleaved_layers position_embedding_type "
    "use_gated_activation use_parallel_* layer_switch mlp_type norm_type "
    "do_layer_norm_before _remove_final_layer_norm layerdrop prefix sliding_window_size rmsnorm "
    "post_layer_norm original_rope apply_query_key_layer_scaling layernorm_* postnorm "
    "shared_moe_mode moe_renormalize moe_router_activation_func mla_* num_expert_group "
    "use_grouped_topk score_function router_dtype max_attn_value *_multiplier_scale use_moe "
    "use_mfa norm_expert_weight mtp_transformer_layers mtp_loss_* use_mtp mlp_intermediate_size "
    "num_image_* no_bias learned_pos_emb clip_qkv attention_method zero_expert_type verbose "
    "expert_layer_* attn_layer_* mamba_dt_rank calc_logits_* use_mixed_mlp_moe cla_share_factor "
    "moe_drop_tokens moe_random_* moe_layer_num_skipped num_media_embeds pool_type mask_init_id "
    "org_vocab_size im_* text_*_id sep_token dim_model_base offset_alibi skip_bias_* "
    "masked_softmax_fusion bias_dropout_fusion slow_but_exact *_loss_weight norm_head "
    "norm_softmax multi_gate normalization_function ";

// Returns whether a row's prefix fits and is at least as long as the best one so far: qwen3_next
// wins over qwen3.
template <class Row>
bool is_better_match(std::string_view model_type, const Row& row, std::string_view best) {
  return model_type.starts_with(row.prefix) && row.prefix.size() >= best.size();
}

// Returns whether all runs of letters are words of kVariants.
bool is_variant(std::string_view rest) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_of(kLetters), rest.size()));
    if (rest.empty()) return true;
    const std::size_t end = std::min(rest.find_first_not_of(kLetters), rest.size());
    if (!matches_word(rest.substr(0, end), kVariants)) return false;
    rest.remove_prefix(end);
  }
}

}  // namespace

const ModelFamily* family_of(std::string_view model_type) {
  const ModelFamily* found = nullptr;
  for (const ModelFamily& family : kFamilies) {
    if (is_better_match(model_type, family, found == nullptr ? "" : found->prefix)) found = &family;
  }
  const bool is_known = found != nullptr && is_variant(model_type.substr(found->prefix.size()));
  return is_known ? found : nullptr;
}

std::string_view other_model(std::string_view model_type) {
  for (const OtherModel& other : kOtherModels) {
    if (matches_word(model_type, other.globs)) return other.kind;
  }
  return "";
}

std::optional<std::int64_t> class_default(std::string_view model_type, std::string_view field) {
  std::optional<std::int64_t> value;
  std::string_view longest;
  for (const ClassDefault& row : kDefaults) {
    if (row.field != field || !is_better_match(model_type, row, longest)) continue;
    longest = row.prefix;
    value = row.value;
  }
  return value;
}

bool is_quiet_field(std::string_view name) { return matches_word(name, kQuietFields); }

std::string_view not_expressed_field(std::string_view name) {
  for (const NotExpressed& row : kNotExpressed) {
    if (row.field == name) return row.what;
  }
  return "";
}

}  // namespace tandem
