// Reads the model that Megatron-LM's arguments describe: which attention and which MLP each layer
// has, and their sizes. Layers come from flags (by_rules) or from a pattern with a letter for each
// (by_pattern). Where an argument is missing, Megatron-LM's default holds. Declared in
// interop/megatron/megatron.h.
#include <fmt/format.h>

#include <algorithm>

#include "interop/document/fields.h"
#include "interop/megatron/megatron.h"
#include "interop/model/layers.h"

namespace tandem {
namespace {

using Whole = std::int64_t;

// Sizes of vocabularies, for arguments that name a tokenizer and no vocabulary.
struct KnownTokenizer {
  std::string_view name;
  Whole vocab;
};
constexpr KnownTokenizer kTokenizers[] = {
    {"nemotron_2_256k", 256000}, {"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}};
constexpr Whole kUsualVocab = 128'000;  // where the tokenizer is unknown

class MegatronModel {
 public:
  MegatronModel(MegatronArguments* arguments, MegatronStyle style, ImportedPlan* plan)
      : args_(arguments), style_(style), plan_(plan) {}

  void set() {
    if (args_->has("decoder_num_layers"))
      args_->fail("decoder_num_layers", "a decoder-only model, not an encoder-decoder");
    if (args_->flag("perform_rl_step"))
      args_->fail("perform_rl_step", "training without rollouts, which are not covered");
    if (args_->flag("vision_pretraining"))
      args_->fail("vision_pretraining", "a language model, not one of pictures");
    const auto pattern = args_->text("hybrid_layer_pattern");
    layers_ = args_->whole("num_layers", 1).value_or(0);
    // A pattern without sizes says only how the layers of another file's model are cut.
    if (layers_ == 0 && !(pattern && args_->has("hidden_size"))) return;
    if (layers_ > kMostLayers) {
      args_->fail("num_layers", fmt::format("at most {} layers", kMostLayers));
      return;
    }
    hidden_ = args_->whole("hidden_size", 1).value_or(0);
    heads_ = args_->whole("num_attention_heads", 1).value_or(0);
    if (hidden_ == 0) args_->fail("hidden_size", "it beside the layers");
    if (heads_ == 0) args_->fail("num_attention_heads", "it beside the layers");
    if (!args_->status().ok()) return;
    read_attention();
    read_mlp();
    plan_->set("model.hidden", hidden_, args_->spelled("hidden_size"));
    const auto layers = pattern ? by_pattern(*pattern) : by_rules();
    if (!args_->status().ok() || layers.empty()) return;
    write_layers(layers,
                 pattern ? args_->spelled("hybrid_layer_pattern") : args_->spelled("num_layers"),
                 plan_);
    set_vocabulary();
    set_style();
  }

 private:
  void read_attention() {
    // In Megatron-LM the flag without a number is one group, the number without the flag nothing.
    const auto groups = args_->whole("num_query_groups", 1);
    const bool is_grouped = args_->flag("group_query_attention");
    const bool bridge = style_ == MegatronStyle::Bridge;
    kv_heads_ = bridge || is_grouped ? groups.value_or(bridge ? heads_ : 1) : heads_;
    if (is_grouped && !groups && !bridge)
      plan_->assumed.push_back("model.kv_heads = 1: Megatron-LM's, there is no --num-query-groups");
    if (const auto heads = args_->whole("num_key_value_heads", 1))  // Megatron-DeepSpeed's
      kv_heads_ = *heads;
    head_dim_ = args_->whole("kv_channels", 1).value_or(0);
    latent_ = args_->flag("multi_latent_attention");
    if (latent_) {
      q_rank_ = args_->whole("q_lora_rank").value_or(0);
      kv_rank_ = args_->whole("kv_lora_rank").value_or(32);
      nope_ = args_->whole("qk_head_dim").value_or(128);
      rope_ = args_->whole("qk_pos_emb_head_dim").value_or(64);
      v_dim_ = args_->whole("v_head_dim").value_or(128);
    }
    qk_norm_ = (args_->flag("qk_layernorm") || args_->flag("qk_l2_norm")) && !latent_;
    qkv_bias_ = args_->flag("add_qkv_bias");
    sinks_ = args_->text("softmax_type").value_or("vanilla") == "learnable";
    // The argument counts the positions before a token's own, so the window is one more. -1 means
    // all positions, and makes 0.
    if (const auto window = args_->wholes("window_size"); window && !window->empty())
      window_ = window->front() + 1;
    const std::string variant = args_->text("experimental_attention_variant").value_or("");
    delta_ = variant == "gated_delta_net" || variant.starts_with("gdn");
    if (variant == "gdn2")
      plan_->assumed.push_back("gdn2 is priced as gated_delta_net: " +
                               args_->spelled("experimental_attention_variant"));
    if (!variant.empty() && variant != "dsa" && !delta_)
      args_->fail("experimental_attention_variant", "dsa, gdn or gated_delta_net");
    if (variant == "dsa") {
      index_heads_ = args_->whole("dsa_indexer_n_heads").value_or(0);
      index_head_dim_ = args_->whole("dsa_indexer_head_dim").value_or(0);
      index_topk_ = args_->whole("dsa_indexer_topk").value_or(0);
    }
    read_attention_kinds();
  }

  void read_attention_kinds() {
    windowed_.assign(static_cast<std::size_t>(layers_), window_ == 0 ? 0 : 1);
    linear_.assign(static_cast<std::size_t>(layers_), 0);
    args_->text("window_attn_skip_freq");  // marks it as read
    if (window_ > 0) windowed_ = marks_of("window_attn_skip_freq");
    if (delta_) linear_ = marks_of("linear_attention_freq");
  }

  // Returns which layers have a window or linear attention: by an integer N all but each N-th, by a
  // list those with a 1, and without the argument all.
  std::vector<char> marks_of(std::string_view name) {
    std::vector<char> marks(static_cast<std::size_t>(layers_), 1);
    const auto text = args_->text(name);
    if (!text) return marks;
    const auto list = python_list(*text);
    if (list && list->size() != marks.size()) {
      args_->fail(name, fmt::format("a list of {} layers", marks.size()));
      return marks;
    }
    const Whole every = list ? 0 : args_->whole(name, 1).value_or(1);
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const bool is_marked = list ? (*list)[i] != 0 : (static_cast<Whole>(i) + 1) % every != 0;
      marks[i] = is_marked ? 1 : 0;
    }
    return marks;
  }

  void read_mlp() {
    gated_ = args_->flag("swiglu") || args_->flag("quick_geglu");
    if (args_->flag("squared_relu")) gated_ = false;
    // The default is 4 x hidden; with Megatron-LM's --swiglu 2/3 of that in whole multiples of 64.
    const bool is_narrow = args_->flag("swiglu") && style_ == MegatronStyle::Megatron;
    ffn_ = is_narrow ? 4 * hidden_ * 2 / 3 / 64 * 64 : 4 * hidden_;
    ffn_ = args_->whole("ffn_hidden_size", 1).value_or(ffn_);
    biases_ = args_->flag("add_bias_linear", true);
    read_experts();
    if (experts_ == 0) return;
    if (style_ == MegatronStyle::Megatron && !args_->flag("moe_grouped_gemm"))
      plan_->assumed.push_back("experts are one grouped GEMM: there is no --moe-grouped-gemm");
    top_k_ = args_->whole("moe_router_topk", 1).value_or(2);
    if (!args_->has("moe_router_topk"))
      plan_->assumed.push_back("model.top_k = 2: Megatron-LM's, there is no --moe-router-topk");
    expert_ffn_ = args_->whole("moe_ffn_hidden_size", 1).value_or(ffn_);
    // Megatron-DeepSpeed's residual experts stand beside an MLP.
    shared_ = args_->whole("moe_shared_expert_intermediate_size")
                  .value_or(args_->text("mlp_type") == "residual" ? ffn_ : 0);
    moe_latent_ = args_->whole("moe_latent_size").value_or(0);
    router_groups_ = args_->whole("moe_router_num_groups").value_or(0);
    router_topk_groups_ = args_->whole("moe_router_group_topk").value_or(0);
    router_bias_ = args_->flag("moe_router_enable_expert_bias");
    const auto freq = args_->text("moe_layer_freq");
    if (!freq || layers_ == 0) return;
    if (const auto list = python_list(*freq)) {
      if (list->size() != experts_of_.size()) {
        args_->fail("moe_layer_freq", fmt::format("a list of {} layers", layers_));
        return;
      }
      for (std::size_t i = 0; i < experts_of_.size(); ++i)
        experts_of_[i] = (*list)[i] != 0 ? experts_ : 0;
      return;
    }
    // The first layer of each N has experts.
    const Whole every = args_->whole("moe_layer_freq", 1).value_or(1);
    for (std::size_t i = 0; i < experts_of_.size(); ++i)
      experts_of_[i] = static_cast<Whole>(i) % every == 0 ? experts_ : 0;
  }

  // Reads one number for all layers, or a list of each layer's.
  void read_experts() {
    const auto list = python_list(args_->text("num_experts").value_or(""));
    experts_ =
        list && !list->empty() ? std::ranges::max(*list) : args_->whole("num_experts").value_or(0);
    experts_of_.assign(static_cast<std::size_t>(layers_), experts_);
    if (list && list->size() == experts_of_.size())
      experts_of_ = *list;
    else if (list)
      args_->fail("num_experts", fmt::format("a list of {} layers", layers_));
  }

  void add_heads(ImportedLayer* layer) const {
    if (latent_) {
      layer->set("model.mixer", "latent");
      layer->set("model.heads", heads_);
      if (q_rank_ > 0) layer->set("model.q_lora_rank", q_rank_);
      layer->set("model.kv_lora_rank", kv_rank_);
      layer->set("model.qk_nope_head_dim", nope_);
      layer->set("model.qk_rope_head_dim", rope_);
      layer->set("model.v_head_dim", v_dim_);
    } else {
      layer->set("model.heads", heads_);
      if (kv_heads_ != heads_) layer->set("model.kv_heads", kv_heads_);
      if (head_dim_ > 0 && head_dim_ * heads_ != hidden_) layer->set("model.head_dim", head_dim_);
    }
    if (qk_norm_) layer->set("model.qk_norm", true);
    if (qkv_bias_ && !biases_) layer->set("model.attention_bias", true);
    if (sinks_) layer->set("model.attention_sinks", true);
    if (index_topk_ > 0) {
      layer->set("model.index_heads", index_heads_);
      layer->set("model.index_head_dim", index_head_dim_);
      layer->set("model.index_topk", index_topk_);
    }
  }

  void add_linear(ImportedLayer* layer) {
    layer->set("model.mixer", "linear");
    layer->set("model.linear_key_heads", args_->whole("linear_num_key_heads").value_or(16));
    layer->set("model.linear_value_heads", args_->whole("linear_num_value_heads").value_or(32));
    layer->set("model.linear_key_head_dim", args_->whole("linear_key_head_dim").value_or(128));
    layer->set("model.linear_value_head_dim", args_->whole("linear_value_head_dim").value_or(128));
    layer->set("model.linear_conv", args_->whole("linear_conv_kernel_dim").value_or(4));
  }

  void add_mamba(ImportedLayer* layer) {
    const Whole dim = args_->whole("mamba_head_dim", 1).value_or(64);
    layer->set("model.mixer", "mamba");
    // By default all heads together are twice as wide as the model.
    layer->set("model.mamba_heads", args_->whole("mamba_num_heads", 1).value_or(2 * hidden_ / dim));
    layer->set("model.mamba_head_dim", dim);
    layer->set("model.mamba_state", args_->whole("mamba_state_dim").value_or(128));
    layer->set("model.mamba_groups", args_->whole("mamba_num_groups").value_or(8));
    layer->set("model.mamba_conv", 4L);
    layer->set("model.mamba_chunk", 128L);
  }

  void add_dense(ImportedLayer* layer) const {
    layer->set("model.ffn_hidden", ffn_);
    if (gated_) layer->set("model.gated_mlp", true);
  }

  void add_experts(Whole experts, ImportedLayer* layer) const {
    if (gated_) layer->set("model.gated_mlp", true);
    layer->set("model.experts", experts);
    layer->set("model.top_k", top_k_);
    if (router_topk_groups_ > 0 && router_topk_groups_ < router_groups_) {
      layer->set("model.router_groups", router_groups_);
      layer->set("model.router_topk_groups", router_topk_groups_);
    }
    layer->set("model.expert_ffn_hidden", expert_ffn_);
    if (shared_ > 0) layer->set("model.shared_expert_ffn", shared_);
    if (moe_latent_ > 0) layer->set("model.moe_latent", moe_latent_);
    if (router_bias_) layer->set("model.router_bias", true);
  }

  // Makes the layers from the marks in windowed_ and linear_, and from experts_of_. A layer's name
  // says how it differs from others: "dense" and "moe", "local" and "global", or "local_moe" and so
  // on.
  std::vector<ImportedLayer> by_rules() {
    std::vector<ImportedLayer> layers;
    const auto all_same = [](const auto& marks) {
      return std::count(marks.begin(), marks.end(), marks[0]) ==
             static_cast<std::ptrdiff_t>(marks.size());
    };
    const bool same_mlp = all_same(experts_of_);
    const bool same_attention = all_same(windowed_) && all_same(linear_);
    for (std::size_t i = 0; i < experts_of_.size(); ++i) {
      ImportedLayer layer;
      const std::string attention = linear_[i] != 0     ? "linear"
                                    : windowed_[i] != 0 ? "local"
                                                        : "global";
      const std::string mlp = experts_of_[i] != 0 ? "moe" : "dense";
      layer.name = same_attention ? mlp : same_mlp ? attention : attention + "_" + mlp;
      if (linear_[i] != 0) {
        add_linear(&layer);
      } else {
        add_heads(&layer);
      }
      if (linear_[i] == 0 && windowed_[i] != 0) layer.set("model.window", window_);
      if (experts_of_[i] != 0) {
        add_experts(experts_of_[i], &layer);
      } else {
        add_dense(&layer);
      }
      layers.push_back(std::move(layer));
    }
    return layers;
  }

  // Reads "M-M*E|..": one letter a layer, M for Mamba, * for attention, E for experts and - for an
  // MLP. Bars separate stages, and other patterns follow a slash.
  std::vector<ImportedLayer> by_pattern(std::string pattern) {
    if (pattern.find('/') != std::string::npos)
      plan_->not_expressed.push_back(fmt::format(
          "{}: patterns behind a slash: layers of multi-token prediction are as the last",
          args_->spelled("hybrid_layer_pattern")));
    pattern = pattern.substr(0, pattern.find('/'));
    std::erase(pattern, '|');  // ends of stages, which plan.cpp reads
    std::vector<ImportedLayer> layers;
    if (experts_ == 0 && pattern.find('E') != std::string::npos)
      args_->fail("num_experts", "experts for the letter E");
    if (pattern.find_first_not_of("ME*-") != std::string::npos || pattern.empty() ||
        pattern.size() > kMostLayers) {
      args_->fail("hybrid_layer_pattern", "letters M, E, * and -");
      return layers;
    }
    for (const char c : pattern) {
      ImportedLayer& layer = layers.emplace_back();
      if (c == 'M' || c == '*') {
        layer.name = c == 'M' ? "mamba" : "attention";
        c == 'M' ? add_mamba(&layer) : add_heads(&layer);
        layer.set("model.mlp", false);
      } else {
        layer.name = c == 'E' ? "moe" : "dense";
        layer.set("model.mixer", "none");
        c == 'E' ? add_experts(experts_, &layer) : add_dense(&layer);
      }
    }
    return layers;
  }

  // Sets the vocabulary, padded as Megatron-LM pads it.
  void set_vocabulary() {
    const Whole tp = std::max<Whole>(1, args_->whole("tensor_model_parallel_size").value_or(1));
    const Whole multiple =
        args_->flag("pad_vocab_size", true)
            ? product_of({args_->whole("make_vocab_size_divisible_by", 1).value_or(128), tp})
            : 1;
    if (const auto padded = args_->whole("padded_vocab_size", 1)) {
      plan_->set("model.vocab", *padded, args_->spelled("padded_vocab_size"));
      return;
    }
    auto vocab = args_->whole("vocab_size", 1);
    std::string from = args_->spelled("vocab_size");
    if (!vocab) {
      const std::string words = args_->text("tokenizer_type").value_or("") + ' ' +
                                args_->text("tokenizer_model").value_or("");
      for (const KnownTokenizer& known : kTokenizers) {
        if (!vocab && words.find(known.name) != std::string::npos) {
          vocab = known.vocab;
          from = known.name;
        }
      }
      if (!vocab) from = "no tokenizer that is known";
      vocab = vocab.value_or(kUsualVocab);
      plan_->assumed.push_back(fmt::format("a vocabulary of {}: {}", *vocab, from));
    }
    plan_->set("model.vocab", (*vocab + multiple - 1) / multiple * multiple,
               multiple == 1
                   ? from
                   : fmt::format("{}, {} padded to a multiple of {}", from, *vocab, multiple));
  }

  // Sets norm, positions and biases where they differ from a scenario's defaults. These follow
  // gated_mlp: with it RMSNorm, rotary positions and no biases (Llama's style), without it
  // LayerNorm, learned positions and biases (GPT's).
  void set_style() {
    // Megatron-DeepSpeed writes "rmsnorm".
    const std::string norm = args_->text("normalization").value_or("LayerNorm");
    const bool is_rms = norm == "RMSNorm" || norm == "rmsnorm";
    if (!is_rms && norm != "LayerNorm" && norm != "layernorm")
      args_->fail("normalization", "LayerNorm or RMSNorm");
    if (is_rms != gated_)
      plan_->set("model.norm", is_rms ? "rmsnorm" : "layernorm", args_->spelled("normalization"));
    const std::string positions =
        args_->text("position_embedding_type").value_or("learned_absolute");
    const bool learned =
        positions == "learned_absolute" && args_->flag("add_position_embedding", true);
    if (learned == gated_)
      plan_->set("model.learned_positions", learned, args_->spelled("position_embedding_type"));
    if (biases_ == gated_) plan_->set("model.biases", biases_, args_->spelled("add_bias_linear"));
    const bool tied = args_->has("share_embeddings_and_output_weights")
                          ? args_->flag("share_embeddings_and_output_weights", true)
                          : !args_->flag("untie_embeddings_and_output_weights");
    if (!tied)
      plan_->set("model.tied_embeddings", false,
                 args_->spelled("untie_embeddings_and_output_weights"));
  }

  MegatronArguments* args_;
  MegatronStyle style_;
  ImportedPlan* plan_;
  Whole layers_ = 0, hidden_ = 0, heads_ = 0, kv_heads_ = 0, head_dim_ = 0, window_ = 0;
  Whole q_rank_ = 0, kv_rank_ = 0, nope_ = 0, rope_ = 0, v_dim_ = 0;  // of latent attention
  Whole index_heads_ = 0, index_head_dim_ = 0, index_topk_ = 0;
  Whole router_groups_ = 0, router_topk_groups_ = 0;
  Whole ffn_ = 0, experts_ = 0, top_k_ = 0, expert_ffn_ = 0, shared_ = 0, moe_latent_ = 0;
  // Multi-head latent attention (MLA); gated delta net (linear attention) in some layers.
  bool latent_ = false, delta_ = false, qk_norm_ = false, qkv_bias_ = false, sinks_ = false,
       gated_ = false;
  bool biases_ = true, router_bias_ = false;
  // By layer: 1 if its attention has a window, 1 if it is linear, and its number of experts.
  std::vector<char> windowed_, linear_;
  std::vector<Whole> experts_of_;
};

// Sets the layers of multi-token prediction. Without the argument Megatron-LM trains none, and
// Megatron-Bridge those of config.json (model_bridge.py:497 in megatron/bridge/models/conversion at
// 067f987d).
void set_predictions(MegatronArguments* arguments, MegatronStyle style, const ImportedPlan& before,
                     ImportedPlan* plan) {
  const std::string_view name = "mtp_num_layers";
  const auto layers = arguments->whole(name);
  const bool is_stated = arguments->has_any(name);  // also as null
  if (layers.value_or(0) > 0) {
    plan->set("model.mtp_layers", *layers, arguments->spelled(name));
  } else if (is_stated && before.has("model.mtp_layers")) {
    plan->set("model.mtp_layers", 0, arguments->spelled(name));
  } else if (style == MegatronStyle::Megatron && !arguments->open_value(name)) {
    leave_out_mtp(before, plan);
  }
}

}  // namespace

bool some_layers_have(std::string_view size, const ImportedPlan& before, const ImportedPlan& plan) {
  const auto has_it = [&](const ImportedKey& key) {
    return key.key.starts_with("model.") && key.key.ends_with(fmt::format(".{}", size)) &&
           key.value != KeyValue(Whole{0});
  };
  return std::ranges::any_of(plan.keys, has_it) || std::ranges::any_of(before.keys, has_it);
}

void set_megatron_model(MegatronArguments* arguments, MegatronStyle style,
                        const ImportedPlan& before, ImportedPlan* plan) {
  MegatronModel(arguments, style, plan).set();
  set_predictions(arguments, style, before, plan);
}

void pad_earlier_vocabulary(MegatronArguments* arguments, const ImportedPlan& before,
                            ImportedPlan* plan) {
  const auto vocab = before.whole_of("model.vocab");
  const auto stated = arguments->whole("vocab_size", 1);
  const bool pads = arguments->flag("pad_vocab_size", true);
  if (!vocab || (stated && *stated != *vocab)) return;
  const Whole multiple =
      pads ? product_of({arguments->whole("make_vocab_size_divisible_by", 1).value_or(128),
                         plan->whole_of("parallel.tp").value_or(1)})
           : 1;
  const Whole padded = (*vocab + multiple - 1) / multiple * multiple;
  const bool states_one = stated || arguments->has("padded_vocab_size");
  if (states_one && plan->whole_of("model.vocab") != padded) return;  // another vocabulary
  if (!states_one && padded == *vocab) {
    // The earlier file's key counts, not this file's assumption.
    std::erase_if(plan->keys, [](const ImportedKey& key) { return key.key == "model.vocab"; });
    return;
  }
  if (!states_one)
    plan->set("model.vocab", padded,
              fmt::format("{} padded to a multiple of {}", *vocab, multiple));
  // The key's source is the earlier file's line, as both files state the same vocabulary.
  std::ranges::find(plan->keys, "model.vocab", &ImportedKey::key)->where =
      std::ranges::find(before.keys, "model.vocab", &ImportedKey::key)->where;
}

}  // namespace tandem
