#include "interop/model/hugging_face_layers.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem {
namespace {

using Whole = std::int64_t;

// Beyond any model: a typing error is likelier.
constexpr Whole kMostLayers = 2000;

enum class Attends { All, Window, Chunk, Linear, Mamba };

// Reads one file; functions are called once each.
class HfLayers {
 public:
  HfLayers(FieldReader* fields, HfModel* model, ImportedPlan* plan)
      : fields_(fields), model_(model), plan_(plan) {}

  Result<std::vector<ImportedLayer>> read() {
    read_sizes();
    RETURN_IF_ERROR(fields_->status());
    if (model_->layers > kMostLayers)
      fields_->fail(model_->layers_field, fmt::format("at most {} layers", kMostLayers));
    RETURN_IF_ERROR(fields_->status());
    read_attention();
    RETURN_IF_ERROR(fields_->status());
    read_experts();
    read_mamba();
    RETURN_IF_ERROR(fields_->status());
    std::vector<ImportedLayer> layers;
    const auto pattern = fields_->text({"hybrid_override_pattern"});
    const DocumentNode* blocks = fields_->node({"block_configs"});
    if (pattern) {
      layers = by_pattern(*pattern);
    } else if (blocks != nullptr) {
      layers = by_blocks(*blocks);
    } else {
      layers = by_rules();
    }
    RETURN_IF_ERROR(fields_->status());
    return layers;
  }

 private:
  // A field, or the default of its class, which is told; or a fault.
  Whole needed(FieldReader::Names names) {
    if (const auto whole = fields_->whole(names, 1)) return *whole;
    for (const std::string_view name : names) {
      if (const auto value = class_default(model_->type, name)) {
        plan_->assumed.push_back(fmt::format(
            "{} = {}: left out, what transformers' class for {} has", name, *value, model_->type));
        return *value;
      }
    }
    fields_->fail(*names.begin(), "it to be there");
    return 1;
  }
  Whole or_default(FieldReader::Names names, Whole otherwise) {
    if (const auto whole = fields_->whole(names)) return *whole;
    for (const std::string_view name : names) {
      if (const auto value = class_default(model_->type, name)) return *value;
    }
    return otherwise;
  }
  bool is(std::string_view prefix) const { return model_->type.starts_with(prefix); }

  void read_sizes() {
    const auto pattern_layers = fields_->has("hybrid_override_pattern");
    model_->layers_field = fields_->name_of({"num_hidden_layers", "n_layer", "num_layers"});
    model_->hidden_field = fields_->name_of({"hidden_size", "n_embd", "d_model"});
    model_->layers = pattern_layers && model_->layers_field.empty()
                         ? 0
                         : needed({"num_hidden_layers", "n_layer", "num_layers"});
    model_->hidden = needed({"hidden_size", "n_embd", "d_model"});
    model_->heads = needed({"num_attention_heads", "n_head", "n_heads"});
    model_->vocab = needed({"vocab_size", "padded_vocab_size"});
    model_->gated = model_->family->gated;
    model_->biases = fields_->flag({"bias", "use_bias"}).value_or(model_->family->biases);
  }

  void read_attention() {
    kv_heads_ =
        or_default({"num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num"},
                   model_->heads);
    if (is("falcon")) {
      const bool multi_query = fields_->flag({"multi_query"}).value_or(true);
      const bool newer = fields_->flag({"new_decoder_architecture"}).value_or(false);
      if (multi_query && !newer) kv_heads_ = 1;
    }
    head_dim_ = or_default({"head_dim", "kv_channels"}, 0);
    global_head_dim_ = fields_->whole({"global_head_dim"}).value_or(0);
    global_kv_heads_ = fields_->whole({"num_global_key_value_heads"}).value_or(0);
    shared_kv_ = fields_->flag({"attention_k_eq_v"}).value_or(false);
    qkv_bias_ = fields_->flag({"attention_bias", "qkv_bias", "add_qkv_bias"}).value_or(false);
    output_bias_ = qkv_bias_;
    qkv_bias_ = qkv_bias_ || model_->family->qkv_bias;
    qk_norm_ = fields_->flag({"use_qk_norm", "qk_layernorm"}).value_or(model_->family->qk_norm);
    index_heads_ = fields_->whole({"index_n_heads"}).value_or(0);
    index_head_dim_ = fields_->whole({"index_head_dim"}).value_or(0);
    index_topk_ = fields_->whole({"index_topk"}).value_or(0);
    q_rank_ = fields_->whole({"q_lora_rank"}).value_or(0);
    kv_rank_ = fields_->whole({"kv_lora_rank"}).value_or(0);
    nope_ = fields_->whole({"qk_nope_head_dim"}).value_or(0);
    rope_ = fields_->whole({"qk_rope_head_dim"}).value_or(0);
    v_dim_ = fields_->whole({"v_head_dim"}).value_or(0);
    if (is("deepseek_v4") && kv_rank_ == 0) as_latent_v4();
    read_windows();
    read_linear();
  }

  // One key and value head as wide as a latent: nearest is latent attention of that rank.
  void as_latent_v4() {
    kv_rank_ = head_dim_;
    nope_ = head_dim_ - rope_;
    v_dim_ = head_dim_;
    plan_->assumed.push_back(fmt::format(
        "DeepSeek-V4's attention is latent attention of rank {}: one key and value head of {}, "
        "queries of rank {}; its compressed keys and grouped output are not there",
        kv_rank_, head_dim_, q_rank_));
  }

  // A word of layer_types; one that is not known is told once.
  Attends attends_of(const std::string& type) {
    constexpr std::pair<std::string_view, Attends> kTypes[] = {
        {"full_attention", Attends::All},       {"attention", Attends::All},
        {"sliding_attention", Attends::Window}, {"chunked_attention", Attends::Chunk},
        {"linear_attention", Attends::Linear},  {"mamba", Attends::Mamba}};
    for (const auto& [name, kind] : kTypes) {
      if (name == type) return kind;
    }
    const std::string line = fmt::format("{}: layer_types: {}: taken as full attention",
                                         fields_->place_of("layer_types"), type);
    auto& lines = plan_->not_understood;
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    return Attends::All;
  }

  void read_windows() {
    const WindowRule rule = model_->family->window;
    window_ = or_default({"sliding_window"}, 0);
    chunk_ = or_default({"attention_chunk_size"}, 0);
    const Whole every = or_default({"sliding_window_pattern", "_sliding_window_pattern"}, 0);
    const Whole interval = or_default({"full_attention_interval"}, 0);
    const Whole from = or_default({"max_window_layers"}, 0);
    const bool use = fields_->flag({"use_sliding_window"}).value_or(false);
    const auto types = fields_->texts({"layer_types"});
    const auto no_rope = fields_->wholes({"no_rope_layers"});
    if (types && static_cast<Whole>(types->size()) < model_->layers) {
      fields_->fail("layer_types", fmt::format("{} layers' types", model_->layers));
      return;
    }
    for (Whole i = 0; i < model_->layers; ++i) {
      const auto at = static_cast<std::size_t>(i);
      Attends kind = Attends::All;
      if (types) {
        kind = attends_of((*types)[at]);
      } else if (rule == WindowRule::All || (rule == WindowRule::Alternate && i % 2 == 0) ||
                 (rule == WindowRule::FromMaxWindow && use && i >= from) ||
                 (rule == WindowRule::Every && every > 0 && (i + 1) % every != 0)) {
        kind = Attends::Window;
      } else if (rule == WindowRule::Chunked) {
        const bool full = no_rope && at < no_rope->size() ? (*no_rope)[at] == 0 : (i + 1) % 4 == 0;
        kind = full ? Attends::All : Attends::Chunk;
      } else if (rule == WindowRule::Linear && interval > 0 && (i + 1) % interval != 0) {
        kind = Attends::Linear;
      }
      if ((kind == Attends::Window && window_ == 0) || (kind == Attends::Chunk && chunk_ == 0))
        kind = Attends::All;
      attends_.push_back(kind);
    }
  }

  // Gated delta net, or Kimi's linear layers, which their file lists.
  void read_linear() {
    key_heads_ = or_default({"linear_num_key_heads"}, 0);
    value_heads_ = or_default({"linear_num_value_heads"}, 0);
    key_dim_ = or_default({"linear_key_head_dim"}, 0);
    value_dim_ = or_default({"linear_value_head_dim"}, 0);
    conv_ = or_default({"linear_conv_kernel_dim"}, 0);
    const DocumentNode* kimi = fields_->node({"linear_attn_config"});
    if (kimi == nullptr || kimi->map() == nullptr) return;
    FieldReader inner(*kimi, "linear_attn_config");
    key_heads_ = value_heads_ = inner.whole({"num_heads"}).value_or(model_->heads);
    key_dim_ = value_dim_ = inner.whole({"head_dim"}).value_or(128);
    conv_ = inner.whole({"short_conv_kernel_size"}).value_or(4);
    for (const Whole layer : inner.wholes({"kda_layers"}).value_or(std::vector<Whole>())) {
      if (layer >= 1 && layer <= model_->layers)
        attends_[static_cast<std::size_t>(layer - 1)] = Attends::Linear;
    }
    plan_->assumed.push_back("Kimi's delta attention is priced as a gated delta net");
  }

  void read_experts() {
    ffn_ = fields_->whole({"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"})
               .value_or(class_default(model_->type, "intermediate_size").value_or(0));
    experts_ =
        or_default({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, 0);
    top_k_ = or_default({"num_experts_per_tok", "experts_per_token", "top_k_experts",
                         "num_experts_per_token", "moe_k"},
                        0);
    const Whole expert_ffn = or_default({"moe_intermediate_size"}, 0);
    expert_ffn_ = expert_ffn > 0 ? expert_ffn : ffn_;
    const auto dense = fields_->whole({"intermediate_size_mlp", "dense_intermediate_size"}, 1);
    if (is("llama4")) shared_ = ffn_;
    if (dense || is("llama4")) ffn_ = dense.value_or(or_default({"intermediate_size_mlp"}, ffn_));
    if (ffn_ == 0 && (experts_ == 0 || expert_ffn == 0)) {
      ffn_ = 4 * model_->hidden;
      plan_->assumed.push_back(fmt::format("the MLP is 4 hidden = {} wide", ffn_));
    }
    const Whole count =
        or_default({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}, 0);
    if (const auto width =
            fields_->whole({"moe_shared_expert_intermediate_size",
                            "shared_expert_intermediate_size", "shared_intermediate_size"})) {
      shared_ = *width;
    } else if (count > 0) {
      shared_ = count * expert_ffn_;
    }
    // Granite's hybrid models without experts have the shared MLP alone.
    if (experts_ == 0 && shared_ > 0) ffn_ = shared_;
    latent_ = fields_->whole({"moe_latent_size"}).value_or(0);
    both_ = fields_->flag({"enable_moe_block"}).value_or(false);
    mlp_bias_ = fields_->flag({"mlp_bias"}).value_or(is("gpt_oss"));
    // DeepSeek's e_score_correction_bias, and a bias of gpt-oss's router: one value an expert.
    const bool corrected = fields_->text({"topk_method"}).value_or("") == "noaux_tc";
    router_bias_ = fields_->flag({"use_routing_bias", "moe_router_enable_expert_bias"})
                       .value_or(corrected || is("gpt_oss") || is("glm") || is("nemotron_h"));
    if (experts_ > 0 && top_k_ == 0) fields_->fail("num_experts_per_tok", "experts a token takes");
    read_sparse_layers();
  }

  void read_sparse_layers() {
    const Whole first = or_default({"first_k_dense_replace", "moe_layer_start_index"}, 0);
    const DocumentNode* freq = fields_->node({"moe_layer_freq"});
    std::vector<Whole> listed;
    Whole step = 1;
    if (freq != nullptr && freq->list() != nullptr) {
      listed = fields_->wholes({"moe_layer_freq"}).value_or(listed);
    } else {
      step = std::max<Whole>(1, fields_->whole({"moe_layer_freq"}).value_or(1));
    }
    const auto dense_only = fields_->wholes({"mlp_only_layers"}).value_or(std::vector<Whole>());
    const Whole sparse_step = fields_->whole({"decoder_sparse_step"}, 1).value_or(1);
    const Whole interleave = std::max<Whole>(1, or_default({"interleave_moe_layer_step"}, 1));
    const auto types = fields_->texts({"mlp_layer_types"});
    const auto moe_layers = fields_->wholes({"moe_layers"});
    if (!listed.empty() && static_cast<Whole>(listed.size()) < model_->layers)
      fields_->fail("moe_layer_freq", fmt::format("{} layers", model_->layers));
    if (types && static_cast<Whole>(types->size()) < model_->layers)
      fields_->fail("mlp_layer_types", fmt::format("{} layers' types", model_->layers));
    if (!fields_->status().ok()) return;
    for (Whole i = 0; i < model_->layers; ++i) {
      const auto at = static_cast<std::size_t>(i);
      bool sparse = experts_ > 0;
      if (types) {
        sparse = sparse && (*types)[at] == "sparse";
      } else if (!listed.empty()) {
        sparse = sparse && listed[at] != 0;
      } else if (moe_layers) {
        sparse =
            sparse && std::find(moe_layers->begin(), moe_layers->end(), i) != moe_layers->end();
      } else {
        sparse = sparse && i >= first && i % step == 0 && (i + 1) % sparse_step == 0 &&
                 (i + 1) % interleave == 0 &&
                 std::find(dense_only.begin(), dense_only.end(), i) == dense_only.end();
      }
      sparse_.push_back(sparse);
    }
  }

  void read_mamba() {
    mamba_heads_ = fields_->whole({"mamba_num_heads", "mamba_n_heads"}).value_or(0);
    mamba_head_dim_ = fields_->whole({"mamba_head_dim", "mamba_d_head"}).value_or(0);
    mamba_state_ = fields_->whole({"ssm_state_size", "mamba_d_state"}).value_or(0);
    mamba_groups_ = fields_->whole({"n_groups", "mamba_n_groups"}).value_or(0);
    mamba_conv_ = fields_->whole({"conv_kernel", "mamba_d_conv"}).value_or(0);
    mamba_chunk_ = fields_->whole({"chunk_size", "mamba_chunk_size"}).value_or(0);
  }

  void set_heads(bool global, ImportedLayer* layer) const {
    if (kv_rank_ > 0) {
      layer->set_text("mixer", "latent");
      layer->set("heads", model_->heads);
      if (q_rank_ > 0) layer->set("q_lora_rank", q_rank_);
      layer->set("kv_lora_rank", kv_rank_);
      layer->set("qk_nope_head_dim", nope_);
      layer->set("qk_rope_head_dim", rope_);
      layer->set("v_head_dim", v_dim_);
    } else {
      const Whole kv = global && global_kv_heads_ > 0 ? global_kv_heads_ : kv_heads_;
      const Whole dim = global && global_head_dim_ > 0 ? global_head_dim_ : head_dim_;
      layer->set("heads", model_->heads);
      if (kv != model_->heads) layer->set("kv_heads", kv);
      if (dim > 0 && dim * model_->heads != model_->hidden) layer->set("head_dim", dim);
      if (global && shared_kv_) layer->set("shared_kv", true);
    }
    if (qk_norm_) layer->set("qk_norm", true);
    if (qkv_bias_) layer->set("attention_bias", true);
    if (output_bias_) layer->set("output_bias", true);
    if (is("gpt_oss")) layer->set("attention_sinks", true);
    if (index_topk_ > 0) {
      layer->set("index_heads", index_heads_);
      layer->set("index_head_dim", index_head_dim_);
      layer->set("index_topk", index_topk_);
    }
  }

  void set_linear(ImportedLayer* layer) const {
    layer->set_text("mixer", "linear");
    layer->set("linear_key_heads", key_heads_);
    layer->set("linear_value_heads", value_heads_);
    layer->set("linear_key_head_dim", key_dim_);
    layer->set("linear_value_head_dim", value_dim_);
    layer->set("linear_conv", conv_);
  }

  void set_mamba(ImportedLayer* layer) const {
    layer->set_text("mixer", "mamba");
    layer->set("mamba_heads", mamba_heads_);
    layer->set("mamba_head_dim", mamba_head_dim_);
    layer->set("mamba_state", mamba_state_);
    layer->set("mamba_groups", mamba_groups_);
    layer->set("mamba_conv", mamba_conv_);
    layer->set("mamba_chunk", mamba_chunk_);
  }

  void set_dense(ImportedLayer* layer) const {
    layer->set("ffn_hidden", ffn_);
    if (model_->gated) layer->set("gated_mlp", true);
    if (mlp_bias_) layer->set("mlp_bias", true);
  }

  void set_experts(ImportedLayer* layer) const {
    if (model_->gated && !layer->has("gated_mlp")) layer->set("gated_mlp", true);
    if (mlp_bias_ && !layer->has("mlp_bias")) layer->set("mlp_bias", true);
    layer->set("experts", experts_);
    layer->set("top_k", top_k_);
    layer->set("expert_ffn_hidden", expert_ffn_);
    // An MLP beside the experts is one that all tokens take.
    const Whole shared = shared_ + (both_ ? ffn_ : 0);
    if (shared > 0) layer->set("shared_expert_ffn", shared);
    if (latent_ > 0) layer->set("moe_latent", latent_);
    if (router_bias_) layer->set("router_bias", true);
  }

  // What the file says by rules or lists over the layers' numbers.
  std::vector<ImportedLayer> by_rules() {
    std::vector<ImportedLayer> layers;
    const bool mixed = std::find(sparse_.begin(), sparse_.end(), sparse_[0] == 0) != sparse_.end();
    const bool alike = std::count(attends_.begin(), attends_.end(), attends_[0]) == model_->layers;
    for (std::size_t i = 0; i < attends_.size(); ++i) {
      ImportedLayer layer;
      const Attends kind = attends_[i];
      const bool global = kind == Attends::All && !alike;
      layer.name = kind == Attends::Linear  ? "linear"
                   : kind == Attends::Mamba ? "mamba"
                   : kind == Attends::All   ? "global"
                                            : "local";
      if (alike) layer.name.clear();
      if (mixed || alike) layer.name += (layer.name.empty() ? "" : "_");
      if (mixed || alike) layer.name += sparse_[i] ? "moe" : "dense";
      if (kind == Attends::Linear) {
        set_linear(&layer);
      } else if (kind == Attends::Mamba) {
        set_mamba(&layer);
      } else {
        set_heads(global, &layer);
      }
      if (kind == Attends::Window) layer.set("window", window_);
      if (kind == Attends::Chunk) layer.set("attention_chunk", chunk_);
      if (!sparse_[i]) set_dense(&layer);
      if (sparse_[i]) set_experts(&layer);
      layers.push_back(std::move(layer));
    }
    return layers;
  }

  // Nemotron-H: one character a layer, which is attention or an MLP alone.
  std::vector<ImportedLayer> by_pattern(const std::string& pattern) {
    std::vector<ImportedLayer> layers;
    const bool fits = model_->layers == 0 || static_cast<Whole>(pattern.size()) == model_->layers;
    const bool known = pattern.find_first_not_of("ME*-") == std::string::npos;
    if (!fits || !known || pattern.size() > kMostLayers || pattern.empty()) {
      fields_->fail("hybrid_override_pattern", fmt::format("{} of M, E, * and -", model_->layers));
      return layers;
    }
    model_->layers = static_cast<Whole>(pattern.size());
    for (const char c : pattern) {
      ImportedLayer layer;
      layer.name = c == 'M' ? "mamba" : c == '*' ? "attention" : c == 'E' ? "moe" : "dense";
      if (c == 'M') set_mamba(&layer);
      if (c == '*') set_heads(false, &layer);
      if (c == 'E' || c == '-') layer.set_text("mixer", "none");
      if (c == 'E') {
        set_experts(&layer);
      } else if (c == '-') {
        set_dense(&layer);
      } else {
        layer.set("mlp", false);
      }
      layers.push_back(std::move(layer));
    }
    return layers;
  }

  // Llama-Nemotron: every layer its own heads and widths.
  std::vector<ImportedLayer> by_blocks(const DocumentNode& blocks) {
    std::vector<ImportedLayer> layers;
    if (blocks.list() == nullptr || static_cast<Whole>(blocks.list()->size()) != model_->layers) {
      fields_->fail("block_configs", fmt::format("a list of {} layers", model_->layers));
      return layers;
    }
    const DocumentNode kNothing{DocumentNode::Map{}, blocks.line};
    for (const DocumentNode& block : *blocks.list()) {
      const DocumentNode* attention_node = block.find("attention");
      const DocumentNode* ffn_node = block.find("ffn");
      FieldReader attention(attention_node == nullptr ? kNothing : *attention_node, "");
      FieldReader ffn(ffn_node == nullptr ? kNothing : *ffn_node, "");
      ImportedLayer layer;
      layer.name = "layer";
      const bool linear = attention.flag({"replace_with_linear"}).value_or(false) ||
                          ffn.flag({"replace_with_linear"}).value_or(false);
      if (linear && !told_linear_)
        plan_->not_expressed.push_back(
            "block_configs: replace_with_linear, one product: taken as nothing");
      told_linear_ = told_linear_ || linear;
      if (attention.flag({"no_op"}).value_or(false) ||
          attention.flag({"replace_with_linear"}).value_or(false)) {
        layer.set_text("mixer", "none");
      } else {
        const Whole group = attention.whole({"n_heads_in_group"}, 1).value_or(1);
        kv_heads_ = attention.whole({"num_key_value_heads"}, 1).value_or(model_->heads / group);
        set_heads(false, &layer);
      }
      if (ffn.flag({"no_op"}).value_or(false) ||
          ffn.flag({"replace_with_linear"}).value_or(false)) {
        layer.set("mlp", false);
      } else {
        if (const auto times = ffn.number({"ffn_mult"})) {
          // 2/3 of so many times hidden, up to a multiple of 256, as its modeling file has it.
          ffn_ = (static_cast<Whole>(2 * *times * static_cast<double>(model_->hidden) / 3) + 255) /
                 256 * 256;
        }
        ffn_ = ffn.whole({"intermediate_size"}, 1).value_or(ffn_);
        set_dense(&layer);
      }
      if (!attention.status().ok() || !ffn.status().ok())
        fields_->fail("block_configs", "no_op, n_heads_in_group and ffn_mult in each");
      layers.push_back(std::move(layer));
    }
    return layers;
  }

  FieldReader* fields_;
  HfModel* model_;
  ImportedPlan* plan_;
  Whole kv_heads_ = 0, head_dim_ = 0, global_head_dim_ = 0, global_kv_heads_ = 0;
  Whole q_rank_ = 0, kv_rank_ = 0, nope_ = 0, rope_ = 0, v_dim_ = 0;
  Whole index_heads_ = 0, index_head_dim_ = 0, index_topk_ = 0, window_ = 0, chunk_ = 0;
  bool shared_kv_ = false, qkv_bias_ = false, output_bias_ = false, qk_norm_ = false;
  Whole key_heads_ = 0, value_heads_ = 0, key_dim_ = 0, value_dim_ = 0, conv_ = 0;
  Whole ffn_ = 0, experts_ = 0, top_k_ = 0, expert_ffn_ = 0, shared_ = 0, latent_ = 0;
  bool both_ = false, mlp_bias_ = false, router_bias_ = false, told_linear_ = false;
  Whole mamba_heads_ = 0, mamba_head_dim_ = 0, mamba_state_ = 0, mamba_groups_ = 0, mamba_conv_ = 0,
        mamba_chunk_ = 0;
  std::vector<Attends> attends_;  // by layer
  std::vector<char> sparse_;      // by layer: its MLP is experts
};

}  // namespace

Result<std::vector<ImportedLayer>> read_layers(FieldReader* fields, HfModel* model,
                                               ImportedPlan* plan) {
  return HfLayers(fields, model, plan).read();
}

}  // namespace tandem
