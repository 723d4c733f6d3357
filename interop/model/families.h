// Families of models by model_type: tables of properties that their config.json does not state.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

// Selects the layers whose attention does not reach all positions, if the file has no layer_types.
enum class WindowRule {
  None,           // no layer has a window, even if the file states one
  All,            // every layer has sliding_window
  FromMaxWindow,  // with use_sliding_window the layers from max_window_layers on
  Every,          // all but each N-th, where N is sliding_window_pattern
  Alternate,      // the first, the third, ...
  Chunked,        // all but each fourth have attention_chunk_size
  Linear          // all but each N-th are gated delta nets: N is full_attention_interval
};

struct ModelFamily {
  std::string_view prefix;  // of model_type
  bool gated = true;
  bool tied = false;  // the default of tie_word_embeddings
  bool rms_norm = true;
  bool learned_positions = false;
  bool biases = false;
  bool qkv_bias = false;        // even if attention_bias is false
  bool no_output_bias = false;  // attention_bias applies to queries, keys and values only
  bool mlp_bias = false;
  bool qk_norm = false;
  WindowRule window = WindowRule::None;
  std::string_view omits = {};  // a part of the model that an import leaves out; empty: none
  bool is_refused = false;      // the part is essential: such a model is not imported
};

// Returns the family with the longest matching prefix; null: none matches, or a word behind the
// prefix is not known. Of family qwen3 "qwen3_vl" is a variant, and "qwen3_abc" is null.
const ModelFamily* family_of(std::string_view model_type);

// Returns the kind of a model that is not a decoder-only language model, such as "an encoder";
// empty: unknown.
std::string_view other_model(std::string_view model_type);

// Returns a field's default in transformers' class; nothing: not in the table.
std::optional<std::int64_t> class_default(std::string_view model_type, std::string_view field);

// Returns whether a field of config.json changes neither time nor memory.
bool is_quiet_field(std::string_view name);
// Returns the part of a model that such a field describes and a scenario cannot; empty: none.
std::string_view not_expressed_field(std::string_view name);

}  // namespace tandem
