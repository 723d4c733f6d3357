// Lists the keys, each with the member of Model that it sets, and reads layer patterns.
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

std::vector<BoundKey<Model>> mixer_keys() {
  return {keys::choice<Mixer>("model.mixer",
                              {{"heads", Mixer::Heads},
                               {"latent", Mixer::Latent},
                               {"mamba", Mixer::Mamba},
                               {"linear", Mixer::Linear},
                               {"none", Mixer::None}},
                              AT(mixer)),
          keys::whole("model.heads", AT(heads), 1),
          keys::whole("model.kv_heads", AT(kv_heads), 1),
          keys::whole("model.head_dim", AT(head_dim), 1),
          keys::whole("model.window", AT(window), 0),
          keys::whole("model.attention_chunk", AT(attention_chunk), 0),
          keys::whole("model.document", AT(document), 0),
          keys::flag("model.shared_kv", AT(shared_kv)),
          keys::flag("model.qk_norm", AT(qk_norm)),
          keys::flag("model.attention_sinks", AT(attention_sinks)),
          {"model.biases", set_biases},
          keys::flag("model.attention_bias", AT(attention_bias)),
          keys::flag("model.output_bias", AT(output_bias)),
          keys::whole("model.q_lora_rank", AT(q_lora_rank), 0),
          keys::whole("model.kv_lora_rank", AT(kv_lora_rank), 1),
          keys::whole("model.qk_nope_head_dim", AT(qk_nope_head_dim), 1),
          keys::whole("model.qk_rope_head_dim", AT(qk_rope_head_dim), 0),
          keys::whole("model.v_head_dim", AT(v_head_dim), 1),
          keys::whole("model.mamba_heads", AT(mamba_heads), 1),
          keys::whole("model.mamba_head_dim", AT(mamba_head_dim), 1),
          keys::whole("model.mamba_state", AT(mamba_state), 1),
          keys::whole("model.mamba_groups", AT(mamba_groups), 1),
          keys::whole("model.mamba_conv", AT(mamba_conv), 1),
          keys::whole("model.mamba_chunk", AT(mamba_chunk), 1),
          keys::whole("model.linear_key_heads", AT(linear_key_heads), 1),
          keys::whole("model.linear_value_heads", AT(linear_value_heads), 1),
          keys::whole("model.linear_key_head_dim", AT(linear_key_head_dim), 1),
          keys::whole("model.linear_value_head_dim", AT(linear_value_head_dim), 1),
          keys::whole("model.linear_conv", AT(linear_conv), 1)};
}

std::vector<BoundKey<Model>> mlp_keys() {
  return {
      keys::flag("model.mlp", AT(has_mlp)),
      keys::whole("model.ffn_hidden", AT(ffn_hidden), 1),
      keys::flag("model.gated_mlp", AT(gated_mlp)),
      keys::flag("model.mlp_bias", AT(mlp_bias)),
      keys::whole("model.experts", AT(experts), 0),
      keys::whole("model.top_k", AT(top_k), 1),
      keys::whole("model.router_groups", AT(router_groups), 0),
      keys::whole("model.router_topk_groups", AT(router_topk_groups), 0),
      keys::whole("model.expert_ffn_hidden", AT(expert_ffn_hidden), 1),
      keys::whole("model.shared_expert_ffn", AT(shared_expert_ffn), 0),
      keys::whole("model.moe_latent", AT(moe_latent), 0),
      keys::flag("model.router_bias", AT(router_bias)),
      keys::number("model.expert_imbalance", AT(expert_imbalance), 1, {.least = 1, .most = 1000}),
      keys::number("model.capacity_factor", AT(capacity_factor), 1, {.most = 1000}),
      keys::flag("model.pad_to_capacity", AT(pad_to_capacity))};
}

#undef AT

// Reads a pattern such as "(local*5 + global)*8 + local", by recursive descent:
//   sum      product { '+' product }
//   product  ( kind | '(' sum ')' ) [ '*' number ]
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

const std::vector<BoundKey<Model>>& layer_keys() {
  static const std::vector<BoundKey<Model>> kKeys = [] {
    std::vector<BoundKey<Model>> keys = mixer_keys();
    for (BoundKey<Model>& key : mlp_keys()) keys.push_back(std::move(key));
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
