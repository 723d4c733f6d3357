// Families of models by model_type: tables of what their config.json does not say.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

// How attention differs over the layers if no layer_types say it.
enum class WindowRule {
  None,           // no layer has a window, whatever the file says
  All,            // every layer has sliding_window
  FromMaxWindow,  // with use_sliding_window the layers from max_window_layers on
  Every,          // all but each sliding_window_pattern-th
  Alternate,      // the first, the third, ...
  Chunked,        // attention_chunk_size but for each fourth layer
  Linear          // gated delta net but for each full_attention_interval-th
};

struct ModelFamily {
  std::string_view prefix;  // of model_type
  bool gated = true;
  bool tied = false;  // where tie_word_embeddings is left out
  bool rms_norm = true;
  bool learned_positions = false;
  bool biases = false;
  bool qkv_bias = false;        // whatever attention_bias says
  bool no_output_bias = false;  // attention_bias is of queries, keys and values alone
  bool mlp_bias = false;
  bool qk_norm = false;
  WindowRule window = WindowRule::None;
  std::string_view omits = {};  // what neither a scenario nor the file has a word for
  bool is_refused = false;      // without what it omits nothing would be right
};

// Returns the family whose prefix fits and is longest; null: not known.
const ModelFamily* family_of(std::string_view model_type);

// Says what a model_type is that is no decoder-only language model: "an encoder"; empty: not known.
std::string_view other_model(std::string_view model_type);

// Returns the value that transformers' class has if the file is silent; nothing: not in the table.
std::optional<std::int64_t> class_default(std::string_view model_type, std::string_view field);

// Returns whether a field of config.json changes neither time nor memory.
bool is_quiet_field(std::string_view name);
// Says what a scenario cannot express of a field that has a value; empty: nothing.
std::string_view not_expressed_field(std::string_view name);

}  // namespace tandem
