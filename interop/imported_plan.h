// ImportedPlan: what files of other tools say, as keys of a scenario; and how it is written down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// One key of a scenario, its value as TOML has it, and where it comes from: the field, or why; and
// "config.json:12", or the file where no line says it.
struct ImportedKey {
  std::string key, value, comment;
  std::string where = {};
};

// What a log says that the run took.
struct MeasuredRun {
  std::optional<double> iteration_s;  // the median of the iterations behind the warm-up
  int iterations = 0, warmup = 0;     // counted in the median, and left out
  std::optional<double> tflops_per_gpu;
  std::optional<double> max_allocated_bytes;  // of the rank that has most

  bool any() const { return iteration_s || max_allocated_bytes; }
};

class ImportedPlan {
 public:
  // Over what was said of the key before.
  void set(std::string_view key, std::int64_t value, std::string_view comment);
  void set(std::string_view key, int value, std::string_view comment) {
    set(key, std::int64_t{value}, comment);
  }
  void set(std::string_view key, bool value, std::string_view comment);
  void set(std::string_view key, double value, std::string_view comment);
  void set_text(std::string_view key, std::string_view text, std::string_view comment);
  void set_toml(std::string_view key, std::string toml, std::string_view comment);
  void erase(std::string_view key);

  // The value as TOML; empty: not said.
  std::string value_of(std::string_view key) const;
  std::optional<std::int64_t> whole_of(std::string_view key) const;
  // Whether it has a model's layers.
  bool states_model() const;

  // What a later file says goes over this; a file that states a model states all of it.
  void add(const ImportedPlan& later);

  std::vector<ImportedKey> keys;
  std::vector<std::string> sources;         // "config.json (Hugging Face config.json, llama)"
  std::vector<std::string> assumed;         // sentences: what no file says
  std::vector<std::string> left_out;        // sentences: parts of a cluster that no job runs on
  std::vector<std::string> not_expressed;   // understood, but a scenario has no key for it
  std::vector<std::string> not_understood;  // "train.sh:12: --foo 3"
  int without_effect = 0;                   // settings that change neither time nor memory
  std::string size;                         // "8.0 B parameters", where somebody counted them
  MeasuredRun measured;
};

// A scenario's text: each assumption and all that was left out has a comment line of its own.
// Without a cluster one stands there as a comment.
std::string scenario_text(const ImportedPlan& plan);

// As TOML has a text, and as a key of a table.
std::string toml_text(std::string_view text);

}  // namespace tandem
