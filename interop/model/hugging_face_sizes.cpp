// Reads the sizes of a config.json. Families name the same size differently, so a size is looked up
// under all its names. A field that is left out has the default of the family's class. Which layers
// have windows, linear attention or experts comes from a list in the file or a rule of the family.
#include "interop/model/hugging_face_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"
#include "interop/model/layers.h"

namespace tandem {
namespace {

using Whole = HfModel::Whole;

bool contains(const std::vector<Whole>& list, Whole value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Reads one file. Each read_ function is called once, in this order.
class HfReader {
 public:
  HfReader(FieldReader* fields, HfModel* model, ImportedPlan* plan)
      : fields_(fields), model_(model), plan_(plan) {}

  Status read() {
    read_sizes();
    RETURN_IF_ERROR(fields_->status());
    read_attention();
    read_latent();
    read_linear();
    read_mamba();
    RETURN_IF_ERROR(fields_->status());
    read_attends();
    read_mlp();
    read_experts();
    RETURN_IF_ERROR(fields_->status());
    read_sparse_layers();
    if (model_->is("longcat")) split_layers();
    return fields_->status();
  }

 private:
  void assume(std::string line) { plan_->assumed.push_back(std::move(line)); }

  // Returns a field's value, or the default of transformers' class, which is noted as assumed. A
  // field without either is an error.
  Whole needed(FieldReader::Names names) {
    if (const auto whole = fields_->whole(names, 1)) return *whole;
    for (const std::string_view name : names) {
      if (const auto value = class_default(model_->type, name)) {
        assume(fmt::format("{} = {}: left out, what transformers' class for {} has", name, *value,
                           model_->type));
        return *value;
      }
    }
    fields_->fail(*names.begin(), "it to be there");
    return 1;
  }

  // Returns a field: one value, or a list with the same value for each layer. If it is left out,
  // returns the default of its class, else `otherwise`. A null in the file means `otherwise`.
  Whole or_default(FieldReader::Names names, Whole otherwise) {
    const DocumentNode* node = fields_->node(names);
    if (node != nullptr && node->list() != nullptr) {
      const auto list = fields_->wholes(names).value_or(std::vector<Whole>());
      if (!list.empty() && list[0] >= 0 && list[0] <= kMostWhole &&
          std::count(list.begin(), list.end(), list[0]) == static_cast<Whole>(list.size()))
        return list[0];
      fields_->fail(fields_->name_of(names), "one value for all layers");
    }
    if (node != nullptr) return fields_->whole(names).value_or(otherwise);
    for (const std::string_view name : names) {
      const auto value = class_default(model_->type, name);
      if (value && !fields_->is_null(name)) return *value;
    }
    return otherwise;
  }

  void read_sizes() {
    if (fields_->flag({"is_encoder_decoder"}).value_or(false))
      fields_->fail("is_encoder_decoder", "a decoder alone");
    const bool by_pattern =
        fields_->has("hybrid_override_pattern") || fields_->has("layers_block_type");
    const FieldReader::Names layers = {"num_hidden_layers", "n_layer", "num_layers", "n_layers"};
    const FieldReader::Names hidden = {"hidden_size", "n_embd", "n_embed", "d_model"};
    model_->layers_field = fields_->name_of(layers);
    model_->hidden_field = fields_->name_of(hidden);
    model_->layers = by_pattern && model_->layers_field.empty() ? 0 : needed(layers);
    model_->hidden = needed(hidden);
    model_->heads = needed({"num_attention_heads", "n_head", "n_heads"});
    model_->vocab = needed({"vocab_size", "padded_vocab_size"});
    model_->gated = model_->family->gated;
    model_->biases = fields_->flag({"bias", "use_bias"}).value_or(model_->family->biases);
    if (model_->layers > kMostLayers)
      fields_->fail(model_->layers_field, fmt::format("at most {} layers", kMostLayers));
  }

  void read_attention() {
    model_->kv_heads = or_default({"num_key_value_heads", "n_head_kv", "num_kv_heads",
                                   "multi_query_group_num", "num_attention_groups"},
                                  model_->heads);
    // Falcon's first decoder and GPT-BigCode have one key-value head (multi-query attention).
    const bool newer = fields_->flag({"new_decoder_architecture"}).value_or(false);
    const bool is_multi_query =
        (model_->is("falcon") && !model_->is("falcon_h1")) || model_->is("gpt_bigcode");
    if (fields_->flag({"multi_query"}).value_or(is_multi_query) && !newer) model_->kv_heads = 1;
    if (const DocumentNode* inner = fields_->node({"attn_config"}); inner && inner->map()) {
      FieldReader attention(*inner, "attn_config");
      model_->kv_heads = attention.whole({"kv_n_heads"}, 1).value_or(model_->kv_heads);
    }
    model_->head_dim = or_default({"head_dim", "kv_channels", "attention_head_dim"}, 0);
    model_->global_head_dim = fields_->whole({"global_head_dim"}).value_or(0);
    model_->global_kv_heads = fields_->whole({"num_global_key_value_heads"}).value_or(0);
    model_->shared_kv = fields_->flag({"attention_k_eq_v"}).value_or(false);
    const bool all_biases = fields_->flag({"attention_bias"}).value_or(false);
    const bool qkv_biases = fields_->flag({"qkv_bias", "add_qkv_bias", "use_qkv_bias"})
                                .value_or(model_->family->qkv_bias);
    model_->qkv_bias = all_biases || qkv_biases;
    model_->output_bias = fields_->flag({"attention_out_bias"})
                              .value_or(all_biases && !model_->family->no_output_bias);
    model_->qk_norm =
        fields_->flag({"use_qk_norm", "qk_layernorm", "qk_norm"}).value_or(model_->family->qk_norm);
    model_->index_heads = fields_->whole({"index_n_heads"}).value_or(0);
    model_->index_head_dim = fields_->whole({"index_head_dim"}).value_or(0);
    model_->index_topk = fields_->whole({"index_topk"}).value_or(0);
    model_->window = or_default({"sliding_window"}, 0);
    model_->chunk = or_default({"attention_chunk_size"}, 0);
  }

  void read_latent() {
    model_->q_rank = or_default({"q_lora_rank"}, 0);
    model_->kv_rank = or_default({"kv_lora_rank"}, 0);
    model_->nope = or_default({"qk_nope_head_dim"}, 0);
    model_->rope = or_default({"qk_rope_head_dim"}, 0);
    model_->v_dim = or_default({"v_head_dim"}, 0);
    if (model_->is("deepseek_v4") && model_->kv_rank == 0) return as_latent_v4();
    if (model_->kv_rank == 0) return;
    if (model_->nope == 0) fields_->fail("qk_nope_head_dim", "it beside kv_lora_rank");
    if (model_->rope == 0) fields_->fail("qk_rope_head_dim", "it beside kv_lora_rank");
    if (model_->v_dim == 0) model_->v_dim = model_->hidden / model_->heads;
  }

  // Describes DeepSeek-V4's attention as multi-head latent attention (MLA): its single key-value
  // head takes the place of the latent.
  void as_latent_v4() {
    model_->kv_rank = model_->head_dim;
    model_->nope = model_->head_dim - model_->rope;
    model_->v_dim = model_->head_dim;
    assume(
        fmt::format("DeepSeek-V4's attention is latent attention of rank {}: one key and value "
                    "head of {}, queries of rank {}; its compressed keys and grouped output are "
                    "not there",
                    model_->kv_rank, model_->head_dim, model_->q_rank));
  }

  // Reads linear attention: gated delta nets, and MiniMax's and Kimi's kinds, which are priced as
  // gated delta nets.
  void read_linear() {
    model_->key_heads = or_default({"linear_num_key_heads"}, 0);
    model_->value_heads = or_default({"linear_num_value_heads"}, 0);
    model_->key_dim = or_default({"linear_key_head_dim"}, 0);
    model_->value_dim = or_default({"linear_value_head_dim"}, 0);
    model_->conv = or_default({"linear_conv_kernel_dim"}, 0);
    if (model_->is("minimax")) {  // without a convolution
      model_->key_heads = model_->value_heads = model_->heads;
      model_->key_dim = model_->value_dim =
          model_->head_dim > 0 ? model_->head_dim : model_->hidden / model_->heads;
      model_->conv = 1;
    }
    const DocumentNode* kimi = fields_->node({"linear_attn_config"});
    if (kimi == nullptr || kimi->map() == nullptr) return;
    FieldReader inner(*kimi, "linear_attn_config");
    model_->key_heads = model_->value_heads = inner.whole({"num_heads"}).value_or(model_->heads);
    model_->key_dim = model_->value_dim = inner.whole({"head_dim"}).value_or(128);
    model_->conv = inner.whole({"short_conv_kernel_size"}).value_or(4);
    for (const Whole layer : inner.wholes({"kda_layers"}).value_or(std::vector<Whole>()))
      delta_layers_.push_back(layer - 1);
    assume("Kimi's delta attention is priced as a gated delta net");
  }

  void read_mamba() {
    model_->mamba_heads = fields_->whole({"mamba_num_heads", "mamba_n_heads"}).value_or(0);
    const DocumentNode* dim = fields_->node({"mamba_head_dim", "mamba_d_head"});
    if (dim != nullptr && dim->text() != "auto")
      model_->mamba_head_dim = fields_->whole({"mamba_head_dim", "mamba_d_head"}).value_or(0);
    model_->mamba_state = fields_->whole({"ssm_state_size", "mamba_d_state"}).value_or(0);
    model_->mamba_groups = fields_->whole({"n_groups", "mamba_n_groups"}).value_or(0);
    model_->mamba_conv = fields_->whole({"conv_kernel", "mamba_d_conv"}).value_or(0);
    model_->mamba_chunk = fields_->whole({"chunk_size", "mamba_chunk_size"}).value_or(0);
    const Whole expand = fields_->whole({"mamba_expand", "expand"}, 1).value_or(2);
    const Whole inner = product_of({expand, model_->hidden});
    if (model_->mamba_heads > 0 && model_->mamba_head_dim == 0)
      model_->mamba_head_dim = inner / model_->mamba_heads;
    if (model_->mamba_state == 0 || model_->mamba_heads > 0) return;
    // Mamba-1 has no heads, and is priced as Mamba-2 with heads of 64 channels.
    model_->mamba_head_dim = 64;
    model_->mamba_heads = inner / model_->mamba_head_dim;
    model_->mamba_groups = 1;
    assume(fmt::format("Mamba's first form is priced as its second, of {} heads of {}",
                       model_->mamba_heads, model_->mamba_head_dim));
  }

  // Returns the meaning of a word in layer_types. Unknown kinds of attention are taken as full
  // attention and reported once; any other unknown word is an error.
  Attends attends_of(const std::string& type) {
    constexpr std::pair<std::string_view, Attends> kTypes[] = {
        {"full_attention", Attends::All},       {"attention", Attends::All},
        {"sliding_attention", Attends::Window}, {"chunked_attention", Attends::Chunk},
        {"linear_attention", Attends::Linear},  {"mamba", Attends::Mamba}};
    for (const auto& [name, kind] : kTypes) {
      if (name == type) return kind;
    }
    if (type.ends_with("attention")) {
      const std::string line = fmt::format("{}: layer_types: {}: taken as full attention",
                                           fields_->place_of("layer_types"), type);
      auto& lines = plan_->not_understood;
      if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
      return Attends::All;
    }
    fields_->fail("layer_types", fmt::format("no {}: layers of attention, windows, delta nets or "
                                             "Mamba",
                                             type));
    return Attends::All;
  }

  // Checks that a list has an entry for each layer.
  template <class Entry>
  void check_length(std::string_view name, const std::optional<std::vector<Entry>>& list) {
    if (list && static_cast<Whole>(list->size()) < model_->layers)
      fields_->fail(name, fmt::format("{} layers' types", model_->layers));
  }

  // Finds what each layer attends to: from a list of the file, or by its family's rule.
  void read_attends() {
    const auto types = fields_->texts({"layer_types"});
    const auto linear = fields_->wholes({"attn_type_list"});  // MiniMax: 0 is linear attention
    // Models of Mamba layers name those with attention, or a period and the offset in it.
    const auto softmax = fields_->wholes({"attn_layer_indices"});
    const Whole period = fields_->whole({"attn_layer_period"}, 1).value_or(0);
    const Whole offset = fields_->whole({"attn_layer_offset"}).value_or(0);
    read_rule();
    check_length("layer_types", types);
    check_length("attn_type_list", linear);
    if (!fields_->status().ok()) return;
    for (Whole i = 0; i < model_->layers; ++i) {
      const auto index = static_cast<std::size_t>(i);
      Attends kind = Attends::All;
      if (types) {
        kind = attends_of((*types)[index]);
      } else if (linear) {
        if ((*linear)[index] == 0) kind = Attends::Linear;
      } else if (softmax) {
        if (!contains(*softmax, i)) kind = Attends::Mamba;
      } else if (period > 0) {
        if (i % period != offset) kind = Attends::Mamba;
      } else {
        kind = contains(delta_layers_, i) ? Attends::Linear : by_rule(i);
      }
      const bool has_no_window = kind == Attends::Window && model_->window == 0;
      const bool has_no_chunk = kind == Attends::Chunk && model_->chunk == 0;
      model_->attends.push_back(has_no_window || has_no_chunk ? Attends::All : kind);
    }
    if (model_->is("minimax") &&
        std::count(model_->attends.begin(), model_->attends.end(), Attends::Linear))
      assume("MiniMax's lightning attention is priced as a gated delta net");
  }

  // Reads the fields that by_rule() needs.
  void read_rule() {
    // EXAONE has a pattern of letters that repeats: in "LLLG" each fourth layer is global.
    const FieldReader::Names pattern = {"sliding_window_pattern", "_sliding_window_pattern"};
    const DocumentNode* node = fields_->node(pattern);
    const auto* letters = node == nullptr ? nullptr : std::get_if<std::string>(&node->value);
    if (letters != nullptr && !letters->empty() &&
        letters->find_first_not_of("LG") == std::string::npos)
      letters_ = *letters;
    else
      window_pattern_ = or_default(pattern, 0);
    full_interval_ = or_default({"full_attention_interval"}, 0);
    first_window_layer_ = or_default({"max_window_layers"}, 0);
    uses_window_ = fields_->flag({"use_sliding_window"}).value_or(false);
    rope_layers_ = fields_->wholes({"no_rope_layers"}).value_or(std::vector<Whole>());
  }

  // Returns what layer i attends to by its family's rule.
  Attends by_rule(Whole i) const {
    if (!letters_.empty())
      return letters_[static_cast<std::size_t>(i) % letters_.size()] == 'L' ? Attends::Window
                                                                            : Attends::All;
    const auto at = static_cast<std::size_t>(i);
    // Llama 4's layers without rotary positions attend to all: each fourth, unless a list has a 0.
    const bool no_rope = at < rope_layers_.size() ? rope_layers_[at] == 0 : (i + 1) % 4 == 0;
    switch (model_->family->window) {
      case WindowRule::None:
        return Attends::All;
      case WindowRule::All:
        return Attends::Window;
      case WindowRule::Alternate:
        return i % 2 == 0 ? Attends::Window : Attends::All;
      case WindowRule::FromMaxWindow:
        return uses_window_ && i >= first_window_layer_ ? Attends::Window : Attends::All;
      case WindowRule::Every:
        return window_pattern_ > 0 && (i + 1) % window_pattern_ != 0 ? Attends::Window
                                                                     : Attends::All;
      case WindowRule::Chunked:
        return no_rope ? Attends::All : Attends::Chunk;
      case WindowRule::Linear:
        return full_interval_ > 0 && (i + 1) % full_interval_ != 0 ? Attends::Linear : Attends::All;
    }
    return Attends::All;
  }

  void read_mlp() {
    model_->ffn =
        or_default({"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "d_ff"}, 0);
    if (const auto ratio = fields_->whole({"expansion_ratio"}, 1))
      model_->ffn = product_of({*ratio, model_->hidden});
    // LFM2's width is 2/3 of what the field says, rounded up to a multiple of block_multiple_of.
    const Whole multiple = fields_->whole({"block_multiple_of"}, 1).value_or(256);
    if (fields_->flag({"block_auto_adjust_ff_dim"}).value_or(false))
      model_->ffn = (2 * model_->ffn / 3 + multiple - 1) / multiple * multiple;
    model_->mlp_bias = fields_->flag({"mlp_bias"}).value_or(model_->family->mlp_bias);
    model_->experts =
        or_default({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, 0);
    model_->top_k = or_default({"num_experts_per_tok", "experts_per_token", "top_k_experts",
                                "num_experts_per_token", "moe_k", "moe_topk", "moe_top_k"},
                               0);
    if (const DocumentNode* inner = fields_->node({"ffn_config"}); inner && inner->map()) {
      FieldReader ffn(*inner, "ffn_config");
      model_->ffn = ffn.whole({"ffn_hidden_size"}, 1).value_or(model_->ffn);
      model_->experts = ffn.whole({"moe_num_experts"}).value_or(model_->experts);
      model_->top_k = ffn.whole({"moe_top_k"}).value_or(model_->top_k);
    }
  }

  void read_experts() {
    const Whole expert_ffn = or_default({"moe_intermediate_size", "expert_ffn_hidden_size"}, 0);
    model_->expert_ffn = expert_ffn > 0 ? expert_ffn : model_->ffn;
    // Llama 4's intermediate_size is an expert's width; dense MLPs have a field of their own.
    const auto dense = fields_->whole({"intermediate_size_mlp", "dense_intermediate_size"}, 1);
    if (model_->is("llama4")) model_->shared = model_->ffn;
    if (dense || model_->is("llama4"))
      model_->ffn = dense.value_or(or_default({"intermediate_size_mlp"}, model_->ffn));
    if (model_->ffn == 0 && (model_->experts == 0 || expert_ffn == 0)) {
      model_->ffn = product_of({4, model_->hidden});
      assume(fmt::format("the MLP is 4 hidden = {} wide", model_->ffn));
    }
    const Whole shared_experts = or_default(
        {"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"},
        0);
    const auto shared_width =
        fields_->whole({"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size",
                        "shared_intermediate_size", "share_expert_dim"});
    if (shared_width) {
      model_->shared = *shared_width;
    } else if (shared_experts > 0) {
      model_->shared = product_of({shared_experts, model_->expert_ffn});
    }
    // Granite's hybrid models may have no experts, and only what they call the shared MLP.
    if (model_->experts == 0 && model_->shared > 0) model_->ffn = model_->shared;
    model_->latent = fields_->whole({"moe_latent_size", "routed_expert_hidden_size"}).value_or(0);
    model_->has_dense_mlp_too = fields_->flag({"enable_moe_block"}).value_or(false);
    // A router's bias has one value for each expert, as DeepSeek's e_score_correction_bias.
    const bool has_correction = fields_->text({"topk_method"}).value_or("") == "noaux_tc";
    model_->router_bias =
        fields_->flag({"use_routing_bias", "moe_router_enable_expert_bias", "moe_use_aux_free"})
            .value_or(has_correction || model_->is("gpt_oss") || model_->is("glm") ||
                      model_->is("nemotron_h") || model_->is("longcat"));
    model_->router_groups = fields_->whole({"n_group"}).value_or(0);
    model_->router_topk_groups = fields_->whole({"topk_group"}).value_or(0);
    if (model_->experts > 0 && model_->top_k == 0)
      fields_->fail("num_experts_per_tok", "experts a token takes");
    if (model_->experts > 0 && model_->top_k > model_->experts)
      fields_->fail("num_experts_per_tok", fmt::format("at most all {} experts", model_->experts));
    if (model_->router_groups > 1 && model_->experts % model_->router_groups != 0)
      fields_->fail("n_group", fmt::format("a divisor of the {} experts", model_->experts));
  }

  // Returns the indices of layers that have experts, from a list or from a text such as "4,5,6".
  std::optional<std::vector<Whole>> listed_layers() {
    const auto text = fields_->text({"moe_layers_enum"});
    if (!text) return fields_->wholes({"moe_layers"});
    std::vector<Whole> layers;
    for (const std::string& word : split(*text, ",")) {
      const auto layer = whole_number(plain_scalar(word, 0));
      if (!layer) fields_->fail("moe_layers_enum", "layers' numbers and commas");
      layers.push_back(layer.value_or(0));
    }
    return layers;
  }

  // Finds the layers that have experts: from a list of the file, else by its rule, which is made of
  // a first and a last layer, a step, a period with an offset, and exceptions.
  void read_sparse_layers() {
    const Whole first = or_default({"first_k_dense_replace", "moe_layer_start_index"}, 0);
    const Whole end = fields_->whole({"moe_layer_end_index"}, -1).value_or(-1);
    const Whole last = end < 0 ? model_->layers - 1 : end;
    // A list with a 1 for each layer that has experts, or N: the first of each N layers has them.
    const DocumentNode* freq = fields_->node({"moe_layer_freq"});
    const bool is_list = freq != nullptr && freq->list() != nullptr;
    const auto listed = is_list ? fields_->wholes({"moe_layer_freq"}) : std::nullopt;
    const Whole step =
        is_list ? 1 : std::max<Whole>(1, fields_->whole({"moe_layer_freq"}).value_or(1));
    const auto dense_layers = fields_->wholes({"mlp_only_layers"}).value_or(std::vector<Whole>());
    const Whole period =
        std::max<Whole>(1, or_default({"decoder_sparse_step", "interleave_moe_layer_step",
                                       "moe_layer_interval", "expert_layer_period"},
                                      1));
    // Jamba says which layer of a period has experts. In other models it is the last.
    const Whole offset = fields_->whole({"expert_layer_offset"}).value_or(period - 1);
    const auto types = fields_->texts({"mlp_layer_types"});
    const auto moe_layers = listed_layers();
    check_length("moe_layer_freq", listed);
    check_length("mlp_layer_types", types);
    if (!fields_->status().ok()) return;
    const auto by_rule = [&](Whole i) {
      return i >= first && i <= last && i % step == 0 && i % period == offset &&
             !contains(dense_layers, i);
    };
    for (Whole i = 0; i < model_->layers; ++i) {
      const auto index = static_cast<std::size_t>(i);
      bool has_experts = false;
      if (types) {
        has_experts = (*types)[index] == "sparse";
      } else if (listed) {
        has_experts = (*listed)[index] != 0;
      } else {
        has_experts = moe_layers ? contains(*moe_layers, i) : by_rule(i);
      }
      model_->sparse.push_back(model_->experts > 0 && has_experts ? 1 : 0);
    }
  }

  // Splits each of LongCat's layers in two. Each half has attention and an MLP; the first has
  // experts beside its MLP. Some experts compute nothing, so a token's top_k counts the others
  // only: of 512 experts and 256 idle ones, two thirds.
  void split_layers() {
    const Whole idle = fields_->whole({"zero_expert_num"}).value_or(0);
    const Whole real_top_k =
        model_->top_k * model_->experts / std::max<Whole>(1, model_->experts + idle);
    assume(fmt::format("each of {} layers is two, with experts beside the first one's MLP",
                       model_->layers));
    if (real_top_k != model_->top_k)
      assume(fmt::format("a token takes {} experts: of {}, as {} more compute nothing", real_top_k,
                         model_->top_k, idle));
    model_->top_k = std::max<Whole>(1, real_top_k);
    model_->layers *= 2;
    model_->has_dense_mlp_too = true;
    model_->attends.assign(static_cast<std::size_t>(model_->layers), Attends::All);
    model_->sparse.clear();
    for (Whole i = 0; i < model_->layers; ++i) model_->sparse.push_back(i % 2 == 0 ? 1 : 0);
  }

  FieldReader* fields_;
  HfModel* model_;
  ImportedPlan* plan_;
  std::vector<Whole> delta_layers_, rope_layers_;
  std::string letters_;  // of EXAONE's repeated pattern, L for a window and G for all
  Whole window_pattern_ = 0, full_interval_ = 0, first_window_layer_ = 0;
  bool uses_window_ = false;
};

}  // namespace

Status read_hugging_face(FieldReader* fields, HfModel* model, ImportedPlan* plan) {
  return HfReader(fields, model, plan).read();
}

}  // namespace tandem
