#include "workload/model/layer_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace tandem {
namespace {

std::optional<std::string> set_biases(const KeyValue& value, Model* model) {
  const auto* biases = std::get_if<bool>(&value);
  if (biases == nullptr) return "true or false";
  model->attention_bias = model->output_bias = model->mlp_bias = *biases;
  return std::nullopt;
}

#define AT(member) \
  [](Model & model) -> auto& { return model.member; }

std::vector<Key<Model>> mixer_keys() {
  return {
      keys::choice<Mixer>(
          "mixer",
          "text: a layer's first half: heads (attention), latent (multi-head latent "
          "attention), mamba (Mamba-2), linear (gated delta net) or none; default heads",
          {{"heads", Mixer::Heads},
           {"latent", Mixer::Latent},
           {"mamba", Mixer::Mamba},
           {"linear", Mixer::Linear},
           {"none", Mixer::None}},
          AT(mixer)),
      keys::whole("heads", "integer: attention heads a", AT(heads), 1),
      keys::whole("kv_heads", "integer: key/value heads (grouped-query attention); default heads",
                  AT(kv_heads), 1),
      keys::whole("head_dim", "integer: size of a head; default hidden / heads", AT(head_dim), 1),
      keys::whole(
          "window",
          "integer: positions that one attends to, its own and those before it; default 0: all",
          AT(window), 0),
      keys::whole("attention_chunk",
                  "integer: attention inside chunks of so many positions; default 0: over all",
                  AT(attention_chunk), 0),
      keys::whole("document",
                  "integer: positions of a document in a packed sequence, each attended apart; "
                  "default 0: one is the sequence",
                  AT(document), 0),
      keys::flag("shared_kv",
                 "true or false: keys are the values too, of one product; default false",
                 AT(shared_kv)),
      keys::flag("qk_norm", "true or false: a norm of each head's queries and keys; default false",
                 AT(qk_norm)),
      keys::flag("attention_sinks",
                 "true or false: a learned logit a head that takes part in the softmax; default "
                 "false",
                 AT(attention_sinks)),
      {"biases",
       "true or false: biases of a layer's products, but for the router's; default as without "
       "gated_mlp",
       set_biases},
      keys::flag("attention_bias",
                 "true or false: biases of queries, keys and values; default as without "
                 "gated_mlp",
                 AT(attention_bias)),
      keys::flag("output_bias",
                 "true or false: a bias of the projection; default as without gated_mlp",
                 AT(output_bias)),
      keys::whole("q_lora_rank",
                  "integer: latent: rank of the compressed queries; default 0: they are "
                  "not",
                  AT(q_lora_rank), 0),
      keys::whole("kv_lora_rank", "integer: latent: rank of the compressed keys and values",
                  AT(kv_lora_rank), 1),
      keys::whole("qk_nope_head_dim", "integer: latent: a head's part without rotary positions",
                  AT(qk_nope_head_dim), 1),
      keys::whole("qk_rope_head_dim",
                  "integer: latent: a head's part with them, one for all heads' keys",
                  AT(qk_rope_head_dim), 0),
      keys::whole("v_head_dim", "integer: latent: size of a head's value", AT(v_head_dim), 1),
      keys::whole("mamba_heads", "integer: mamba: heads of the inner array", AT(mamba_heads), 1),
      keys::whole("mamba_head_dim", "integer: mamba: size of a head", AT(mamba_head_dim), 1),
      keys::whole("mamba_state", "integer: mamba: size of the state", AT(mamba_state), 1),
      keys::whole("mamba_groups", "integer: mamba: groups of heads that share B and C; default 1",
                  AT(mamba_groups), 1),
      keys::whole("mamba_conv", "integer: mamba: width of the convolution; default 4",
                  AT(mamba_conv), 1),
      keys::whole("mamba_chunk", "integer: mamba: positions of a chunk of the scan; default 128",
                  AT(mamba_chunk), 1),
      keys::whole("linear_key_heads", "integer: linear: heads of queries and keys",
                  AT(linear_key_heads), 1),
      keys::whole("linear_value_heads", "integer: linear: heads of values", AT(linear_value_heads),
                  1),
      keys::whole("linear_key_head_dim", "integer: linear: size of a key", AT(linear_key_head_dim),
                  1),
      keys::whole("linear_value_head_dim", "integer: linear: size of a value",
                  AT(linear_value_head_dim), 1),
      keys::whole("linear_conv", "integer: linear: width of the convolution; default 4",
                  AT(linear_conv), 1)};
}

std::vector<Key<Model>> mlp_keys() {
  return {
      keys::flag("mlp", "true or false: a layer's second half, an MLP or experts; default true",
                 AT(has_mlp)),
      keys::whole("ffn_hidden", "integer: width of the MLP; default 4 hidden", AT(ffn_hidden), 1),
      keys::flag("gated_mlp", "true or false: three matrices in the MLP (SwiGLU); default false",
                 AT(gated_mlp)),
      keys::flag("mlp_bias",
                 "true or false: biases of the MLP, or of the experts; default as without "
                 "gated_mlp",
                 AT(mlp_bias)),
      keys::whole("experts",
                  "integer: experts of every layer's MLP (mixture of experts); default 0: dense",
                  AT(experts), 0),
      keys::whole("top_k", "integer: experts that a token takes", AT(top_k), 1),
      keys::whole("router_groups",
                  "integer: equal groups of experts, of which a token's experts lie in "
                  "router_topk_groups; default 0: in any",
                  AT(router_groups), 0),
      keys::whole("router_topk_groups",
                  "integer: groups that a token's experts lie in at most, with router_groups",
                  AT(router_topk_groups), 0),
      keys::whole("expert_ffn_hidden", "integer: width of an expert; default ffn_hidden",
                  AT(expert_ffn_hidden), 1),
      keys::whole("shared_expert_ffn",
                  "integer: width of an expert beside them that all tokens take; default 0: none",
                  AT(shared_expert_ffn), 0),
      keys::whole(
          "moe_latent",
          "integer: width that experts work in, between two products all of them share; default "
          "0: hidden",
          AT(moe_latent), 0),
      keys::flag("router_bias", "true or false: a bias of the router; default false",
                 AT(router_bias)),
      keys::number("expert_imbalance",
                   "number: tokens of the busiest expert rank over the mean; default 1",
                   AT(expert_imbalance), 1, {.least = 1, .most = 1000}),
      keys::number(
          "capacity_factor",
          "number: tokens that an expert takes at most, over the mean, others are dropped; "
          "default 0: none are",
          AT(capacity_factor), 1, {.most = 1000}),
      keys::flag("pad_to_capacity",
                 "true or false: an expert takes as many always, with padding; default false",
                 AT(pad_to_capacity))};
}

#undef AT

// Reads a sum of kinds, each perhaps times a number, with parentheses (recursive descent).
class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> read() {
    ASSIGN_OR_RETURN(std::vector<std::string> names, sum());
    if (!rest().empty()) return expected("'+', '*' or the end");
    return names;
  }

 private:
  using Names = std::vector<std::string>;
  static constexpr std::size_t kMostLayers = 1'000'000;

  std::string_view rest() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
    return text_;
  }
  bool take(char mark) {
    if (!rest().starts_with(mark)) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string_view take_word() {
    const std::string_view all = rest();
    const auto end = std::ranges::find_if_not(
        all, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
    const std::string_view word = all.substr(0, static_cast<std::size_t>(end - all.begin()));
    text_.remove_prefix(word.size());
    return word;
  }
  Error expected(std::string_view what) {
    return Error::of({"model.pattern"},
                     fmt::format("model.pattern: found '{}', expected {}, as in 'dense*3 + moe*58'",
                                 rest(), what));
  }

  Result<Names> sum() {
    ASSIGN_OR_RETURN(Names all, product());
    while (take('+')) {
      ASSIGN_OR_RETURN(const Names more, product());
      all.insert(all.end(), more.begin(), more.end());
      if (all.size() > kMostLayers) return expected("at most a million layers");
    }
    return all;
  }

  Result<Names> product() {
    Names names;
    if (take('(')) {
      ASSIGN_OR_RETURN(names, sum());
      if (!take(')')) return expected("')'");
    } else {
      const std::string_view word = take_word();
      if (word.empty()) return expected("a kind");
      names = {std::string(word)};
    }
    if (!take('*')) return names;
    std::size_t times = 0;
    for (const char digit : take_word()) {
      if (digit < '0' || digit > '9' || times > kMostLayers) return expected("a number");
      times = 10 * times + static_cast<std::size_t>(digit - '0');
    }
    if (times == 0 || times * names.size() > kMostLayers)
      return expected("a number from 1 on, and at most a million layers");
    Names all;
    for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), names.begin(), names.end());
    return all;
  }

  std::string_view text_;
};

}  // namespace

const std::vector<Key<Model>>& layer_keys() {
  static const std::vector<Key<Model>> kKeys = [] {
    std::vector<Key<Model>> keys = mixer_keys();
    for (Key<Model>& key : mlp_keys()) keys.push_back(std::move(key));
    return keys;
  }();
  return kKeys;
}

Result<std::vector<std::string>> parse_layer_pattern(const std::string& text) {
  return PatternReader(text).read();
}

Status set_layers(const std::vector<std::string>& names, std::vector<Model> kinds, Model* model) {
  model->layers = static_cast<int>(names.size());
  model->layer_kinds.clear();
  for (Model& kind : kinds) kind.layers = 0;
  for (const std::string& name : names) {
    const auto kind = std::ranges::find(kinds, name, &Model::kind);
    if (kind == kinds.end())
      return Error::of(
          {"model.pattern"},
          fmt::format("model.pattern: found kind {}, expected one of the model's", name));
    ++kind->layers;
    model->layer_kinds.push_back(static_cast<int>(kind - kinds.begin()));
  }
  for (const Model& kind : kinds) {
    if (kind.layers == 0)
      return Error::of(
          {fmt::format("model.kinds.{}", kind.kind), "model.pattern"},
          fmt::format("found [model.kinds.{}], expected it in model.pattern", kind.kind));
  }
  model->kinds = std::move(kinds);
  return Done{};
}

}  // namespace tandem
