// Makes the list of a model's layers, each with its keys of a scenario, from the model's sizes.
// Files are of three kinds: most have a rule or a list over the layers' indices (by_rules),
// Nemotron-H's a pattern of letters (by_pattern), Llama-Nemotron's a block of settings for every
// layer (by_blocks).
#include "interop/model/hugging_face_layers.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem {
namespace {

using Whole = HfModel::Whole;

constexpr std::string_view kBlockTypes = "mamba, attention, moe and mlp";

class HfLayers {
 public:
  HfLayers(const HfModel& model, FieldReader* fields, ImportedPlan* plan)
      : model_(model), fields_(fields), plan_(plan) {}

  Result<std::vector<ImportedLayer>> read() {
    const auto pattern = pattern_text();
    const DocumentNode* blocks = fields_->node({"block_configs"});
    RETURN_IF_ERROR(fields_->status());
    const std::vector<ImportedLayer> layers = pattern  ? by_pattern(*pattern)
                                              : blocks ? by_blocks(*blocks)
                                                       : by_rules();
    RETURN_IF_ERROR(fields_->status());
    return layers;
  }

 private:
  // Returns Nemotron-H's pattern, which transformers writes as words from version 5 on; nothing:
  // the file has none.
  std::optional<std::string> pattern_text() {
    auto pattern = fields_->text({"hybrid_override_pattern"});
    const auto words = fields_->texts({"layers_block_type"});
    if (pattern || !words) return pattern;
    if (model_.family->prefix != "nemotron_h")
      fields_->fail("layers_block_type", "it of nemotron_h");
    constexpr std::pair<std::string_view, char> kLetters[] = {
        {"mamba", 'M'}, {"attention", '*'}, {"moe", 'E'}, {"mlp", '-'}};
    std::string letters;
    for (const std::string& word : *words) {
      const auto* letter =
          std::ranges::find_if(kLetters, [&](const auto& known) { return known.first == word; });
      if (letter == std::end(kLetters)) fields_->fail("layers_block_type", kBlockTypes);
      letters += letter == std::end(kLetters) ? '?' : letter->second;
    }
    return letters;
  }

  // Sets softmax attention. `is_global`: the layer attends to all positions and others do not, so
  // it may have sizes of its own.
  void set_heads(bool is_global, ImportedLayer* layer) const {
    if (model_.kv_rank > 0) {
      layer->set("model.mixer", "latent");
      layer->set("model.heads", model_.heads);
      if (model_.q_rank > 0) layer->set("model.q_lora_rank", model_.q_rank);
      layer->set("model.kv_lora_rank", model_.kv_rank);
      layer->set("model.qk_nope_head_dim", model_.nope);
      layer->set("model.qk_rope_head_dim", model_.rope);
      layer->set("model.v_head_dim", model_.v_dim);
    } else {
      const Whole kv =
          is_global && model_.global_kv_heads > 0 ? model_.global_kv_heads : model_.kv_heads;
      const Whole dim =
          is_global && model_.global_head_dim > 0 ? model_.global_head_dim : model_.head_dim;
      layer->set("model.heads", model_.heads);
      if (kv != model_.heads) layer->set("model.kv_heads", kv);
      if (dim > 0 && dim * model_.heads != model_.hidden) layer->set("model.head_dim", dim);
      if (is_global && model_.shared_kv) layer->set("model.shared_kv", true);
    }
    if (model_.qk_norm) layer->set("model.qk_norm", true);
    if (model_.qkv_bias) layer->set("model.attention_bias", true);
    if (model_.output_bias) layer->set("model.output_bias", true);
    if (model_.is("gpt_oss")) layer->set("model.attention_sinks", true);
    if (model_.index_topk > 0) {
      layer->set("model.index_heads", model_.index_heads);
      layer->set("model.index_head_dim", model_.index_head_dim);
      layer->set("model.index_topk", model_.index_topk);
    }
  }

  void set_linear(ImportedLayer* layer) const {
    layer->set("model.mixer", "linear");
    layer->set("model.linear_key_heads", model_.key_heads);
    layer->set("model.linear_value_heads", model_.value_heads);
    layer->set("model.linear_key_head_dim", model_.key_dim);
    layer->set("model.linear_value_head_dim", model_.value_dim);
    layer->set("model.linear_conv", model_.conv);
  }

  void set_mamba(ImportedLayer* layer) const {
    layer->set("model.mixer", "mamba");
    layer->set("model.mamba_heads", model_.mamba_heads);
    layer->set("model.mamba_head_dim", model_.mamba_head_dim);
    layer->set("model.mamba_state", model_.mamba_state);
    if (model_.mamba_groups > 0) layer->set("model.mamba_groups", model_.mamba_groups);
    if (model_.mamba_conv > 0) layer->set("model.mamba_conv", model_.mamba_conv);
    if (model_.mamba_chunk > 0) layer->set("model.mamba_chunk", model_.mamba_chunk);
  }

  void set_dense(ImportedLayer* layer) const {
    layer->set("model.ffn_hidden", model_.ffn);
    if (model_.gated) layer->set("model.gated_mlp", true);
    if (model_.mlp_bias) layer->set("model.mlp_bias", true);
  }

  void set_experts(ImportedLayer* layer) const {
    if (model_.gated && !layer->has("model.gated_mlp")) layer->set("model.gated_mlp", true);
    if (model_.mlp_bias && !layer->has("model.mlp_bias")) layer->set("model.mlp_bias", true);
    layer->set("model.experts", model_.experts);
    layer->set("model.top_k", model_.top_k);
    if (model_.router_topk_groups > 0 && model_.router_topk_groups < model_.router_groups) {
      layer->set("model.router_groups", model_.router_groups);
      layer->set("model.router_topk_groups", model_.router_topk_groups);
    }
    layer->set("model.expert_ffn_hidden", model_.expert_ffn);
    // An MLP beside the experts is a shared one, which all tokens take.
    const Whole shared = model_.shared + (model_.has_dense_mlp_too ? model_.ffn : 0);
    if (shared > 0) layer->set("model.shared_expert_ffn", shared);
    if (model_.latent > 0) layer->set("model.moe_latent", model_.latent);
    if (model_.router_bias) layer->set("model.router_bias", true);
  }

  static std::string mixer_name(Attends kind) {
    if (kind == Attends::Linear) return "linear";
    if (kind == Attends::Mamba) return "mamba";
    return kind == Attends::All ? "global" : "local";
  }

  // Makes the layers from `attends` and `sparse`. A layer's name says how it differs from others:
  // "dense" and "moe", "local" and "global", or "local_moe" and so on.
  std::vector<ImportedLayer> by_rules() {
    std::vector<ImportedLayer> layers;
    const bool same_mlps =
        std::ranges::count(model_.sparse, model_.sparse[0]) == std::ssize(model_.sparse);
    const bool same_attention =
        std::ranges::count(model_.attends, model_.attends[0]) == model_.layers;
    for (std::size_t i = 0; i < model_.attends.size(); ++i) {
      ImportedLayer layer;
      const Attends kind = model_.attends[i];
      const bool is_global = kind == Attends::All && !same_attention;
      const std::string mlp = model_.sparse[i] ? "moe" : "dense";
      if (same_attention) {
        layer.name = mlp;
      } else {
        layer.name = mixer_name(kind) + (same_mlps ? "" : "_" + mlp);
      }
      if (kind == Attends::Linear) {
        set_linear(&layer);
      } else if (kind == Attends::Mamba) {
        set_mamba(&layer);
      } else {
        set_heads(is_global, &layer);
      }
      if (kind == Attends::Window) layer.set("model.window", model_.window);
      if (kind == Attends::Chunk) layer.set("model.attention_chunk", model_.chunk);
      if (!model_.sparse[i]) set_dense(&layer);
      if (model_.sparse[i]) set_experts(&layer);
      layers.push_back(std::move(layer));
    }
    return layers;
  }

  // Reads Nemotron-H's pattern, a letter a layer. A layer has either a mixer (M: Mamba, *:
  // attention) or an MLP (E: experts, -: dense).
  std::vector<ImportedLayer> by_pattern(const std::string& pattern) {
    std::vector<ImportedLayer> layers;
    const bool fits = model_.layers == 0 || static_cast<Whole>(pattern.size()) == model_.layers;
    const bool is_known = pattern.find_first_not_of("ME*-") == std::string::npos;
    if (!fits || !is_known || pattern.size() > kMostLayers || pattern.empty()) {
      fields_->fail(fields_->name_of({"hybrid_override_pattern", "layers_block_type"}),
                    model_.layers == 0 ? "letters M, E, * and -, one a layer"
                                       : fmt::format("{} letters M, E, * and -", model_.layers));
      return layers;
    }
    if (model_.experts == 0 && pattern.find('E') != std::string::npos)
      fields_->fail("n_routed_experts", "experts for the letter E");
    for (const char c : pattern) {
      ImportedLayer& layer = layers.emplace_back();
      if (c == 'M' || c == '*') {
        layer.name = c == 'M' ? "mamba" : "attention";
        c == 'M' ? set_mamba(&layer) : set_heads(/*is_global=*/false, &layer);
        layer.set("model.mlp", false);
      } else {
        layer.name = c == 'E' ? "moe" : "dense";
        layer.set("model.mixer", "none");
        c == 'E' ? set_experts(&layer) : set_dense(&layer);
      }
    }
    return layers;
  }

  // Reads Llama-Nemotron's blocks: every layer has its own heads and widths.
  std::vector<ImportedLayer> by_blocks(const DocumentNode& blocks) {
    std::vector<ImportedLayer> layers;
    if (blocks.list() == nullptr || static_cast<Whole>(blocks.list()->size()) != model_.layers) {
      fields_->fail("block_configs", fmt::format("a list of {} layers", model_.layers));
      return layers;
    }
    for (const DocumentNode& block : *blocks.list()) layers.push_back(layer_of_block(block));
    return layers;
  }

  ImportedLayer layer_of_block(const DocumentNode& block) {
    static const DocumentNode kNothing{DocumentNode::Map{}, 0};
    const DocumentNode* attention_node = block.find("attention");
    const DocumentNode* ffn_node = block.find("ffn");
    FieldReader attention(attention_node == nullptr ? kNothing : *attention_node, "");
    FieldReader ffn(ffn_node == nullptr ? kNothing : *ffn_node, "");
    ImportedLayer layer;
    layer.name = "layer";
    // Returns whether this half of the layer, attention or MLP, is left out.
    const auto is_nothing = [&](FieldReader* half) {
      const bool linear = half->flag({"replace_with_linear"}).value_or(false);
      if (linear && !has_listed_linear_)
        plan_->not_expressed.push_back(
            "block_configs: replace_with_linear, one product: taken as nothing");
      has_listed_linear_ = has_listed_linear_ || linear;
      return half->flag({"no_op"}).value_or(false) || linear;
    };
    if (is_nothing(&attention)) {
      layer.set("model.mixer", "none");
    } else {
      const auto group = attention.whole({"n_heads_in_group"}, 1);
      model_.kv_heads = attention.whole({"num_key_value_heads"}, 1)
                            .value_or(group ? model_.heads / *group : kv_heads_);
      set_heads(/*is_global=*/false, &layer);
    }
    model_.ffn = ffn_;
    // The model's own code has the width 2/3 x ffn_mult x hidden, rounded up to a multiple of 256.
    const auto ffn_mult = ffn.number({"ffn_mult"});
    const bool is_possible = ffn_mult.value_or(1) > 0 && ffn_mult.value_or(1) < 1000;
    if (ffn_mult && is_possible)
      model_.ffn =
          (static_cast<Whole>(2 * *ffn_mult * static_cast<double>(model_.hidden) / 3) + 255) / 256 *
          256;
    model_.ffn = ffn.whole({"intermediate_size"}, 1).value_or(model_.ffn);
    if (is_nothing(&ffn)) {
      layer.set("model.mlp", false);
    } else {
      set_dense(&layer);
    }
    if (!attention.status().ok() || !ffn.status().ok() || !is_possible || block.map() == nullptr)
      fields_->fail("block_configs", "no_op, n_heads_in_group and ffn_mult in each");
    return layer;
  }

  HfModel model_;  // with block_configs its heads and widths change from block to block
  const Whole kv_heads_ = model_.kv_heads, ffn_ = model_.ffn;  // for a block that states none
  FieldReader* fields_;
  ImportedPlan* plan_;
  bool has_listed_linear_ = false;  // the plan says already what is done with replace_with_linear
};

}  // namespace

Result<std::vector<ImportedLayer>> layers_of(const HfModel& model, FieldReader* fields,
                                             ImportedPlan* plan) {
  return HfLayers(model, fields, plan).read();
}

}  // namespace tandem
