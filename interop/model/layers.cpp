// Writes a list of layers as a scenario does: each kind of layer once, and a pattern of their names
// with the fewest runs: dense moe moe moe is "dense + moe*3", and a b a b is "(a + b)*2".
#include "interop/model/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tandem {
namespace {

// Keys that may stand in [model] though some kinds lack them: a kind without attention ignores
// model.heads. Any other key stands in [model] only if every kind has it.
constexpr AnyKey kHarmless[] = {
    "model.heads",          "model.kv_heads",         "model.head_dim",         "model.qk_norm",
    "model.attention_bias", "model.output_bias",      "model.attention_sinks",  "model.q_lora_rank",
    "model.kv_lora_rank",   "model.qk_nope_head_dim", "model.qk_rope_head_dim", "model.v_head_dim",
    "model.ffn_hidden",     "model.gated_mlp",        "model.mlp_bias"};

// Returns "name" or "name*3".
std::string run_text(const std::string& name, std::size_t times) {
  return times == 1 ? name : fmt::format("{}*{}", name, times);
}

// Returns the runs of equal names in [begin, end), joined, and how many there are.
std::pair<std::string, std::size_t> runs_of(const std::vector<std::string>& names,
                                            std::size_t begin, std::size_t end) {
  std::string text;
  std::size_t runs = 0;
  for (std::size_t i = begin; i < end; ++runs) {
    std::size_t stop = i;
    while (stop < end && names[stop] == names[i]) ++stop;
    text += (text.empty() ? "" : " + ") + run_text(names[i], stop - i);
    i = stop;
  }
  return {text, runs};
}

// The longest repeated part of a pattern that is looked for. The longest of any model so far has 9
// layers.
constexpr std::size_t kLongestPeriod = 24;

// The best pattern found for the names from some place to the end.
struct SuffixPattern {
  std::size_t runs = std::numeric_limits<std::size_t>::max();
  std::string text;
};

const KeyValue* value_in(const ImportedLayer& layer, AnyKey key) {
  for (const auto& [name, value] : layer.keys) {
    if (name == key) return &value;
  }
  return nullptr;
}

// Returns a key's value if it may stand in [model], as no kind has another value; null: it may not.
const KeyValue* shared_value(const std::vector<ImportedLayer>& kinds, AnyKey key) {
  const KeyValue* shared = nullptr;
  const bool harmless =
      std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless);
  for (const ImportedLayer& kind : kinds) {
    const KeyValue* value = value_in(kind, key);
    if (value == nullptr && !harmless) return nullptr;
    if (value != nullptr && shared != nullptr && *value != *shared) return nullptr;
    if (value != nullptr) shared = value;
  }
  return shared;
}

// Adds the layer's kind to `kinds`, unless it is one of these. A name that another kind has gets a
// number: "moe2".
void add_kind(ImportedLayer* layer, std::vector<ImportedLayer>* kinds) {
  const std::string name = layer->name;
  for (int number = 2;; ++number) {
    const auto same = std::ranges::find(*kinds, layer->name, &ImportedLayer::name);
    if (same == kinds->end()) return kinds->push_back(*layer);
    if (same->keys == layer->keys) return;
    layer->name = fmt::format("{}{}", name, number);
  }
}

}  // namespace

bool ImportedLayer::has(AnyKey key) const { return value_in(*this, key) != nullptr; }

// Uses dynamic programming from the end: best[i] has the fewest runs for the names from i on. It
// begins with a run (a*3), a part of one, or a period that repeats ((a + b)*2, which has two runs),
// followed by the best pattern behind it.
std::string pattern_of(const std::vector<std::string>& names) {
  const std::size_t n = names.size();
  std::vector<SuffixPattern> best(n + 1);
  best[n].runs = 0;
  const auto offer = [&](std::size_t at, std::size_t behind, std::size_t runs,
                         const std::string& text) {
    if (best[behind].runs + runs >= best[at].runs) return;
    best[at] = {best[behind].runs + runs, text + (behind == n ? "" : " + ") + best[behind].text};
  };
  for (std::size_t i = n; i-- > 0;) {
    std::size_t stop = i;
    while (stop < n && names[stop] == names[i]) ++stop;
    offer(i, stop, 1, run_text(names[i], stop - i));
    for (std::size_t period = 2; period <= kLongestPeriod && i + 2 * period <= n; ++period) {
      std::size_t times = 1;  // of the names in [i, i + period) in a row
      while (i + (times + 1) * period <= n &&
             std::equal(names.begin() + static_cast<std::ptrdiff_t>(i),
                        names.begin() + static_cast<std::ptrdiff_t>(i + period),
                        names.begin() + static_cast<std::ptrdiff_t>(i + times * period)))
        ++times;
      const auto [text, runs] = runs_of(names, i, i + period);
      if (times > 1 && runs > 1)
        offer(i, i + times * period, runs, fmt::format("({})*{}", text, times));
    }
    // A part of a run is offered too, so that a period may begin inside the run.
    for (std::size_t part = i + 1; part < stop; ++part)
      offer(i, part, 1, run_text(names[i], part - i));
  }
  return best[0].text;
}

std::vector<std::string> write_layers(std::vector<ImportedLayer> layers, std::string_view comment,
                                      ImportedPlan* plan) {
  std::vector<ImportedLayer> kinds;
  for (ImportedLayer& layer : layers) add_kind(&layer, &kinds);
  if (kinds.size() == 1) {
    plan->set("model.layers", static_cast<std::int64_t>(layers.size()), comment);
    for (const auto& [key, value] : kinds[0].keys) plan->set_value(key.name(), value, "");
    return {};
  }
  std::vector<std::string> names;
  for (const ImportedLayer& layer : layers) names.push_back(layer.name);
  plan->set("model.layers", static_cast<std::int64_t>(layers.size()), "");
  plan->set("model.pattern", pattern_of(names), comment);
  for (const ImportedLayer& kind : kinds) {
    for (const auto& [key, value] : kind.keys) {
      if (const KeyValue* shared = shared_value(kinds, key)) {
        plan->set_value(key.name(), *shared, "");
      } else {
        plan->set_value(fmt::format("{}{}.{}", kKindPrefix, kind.name, key.last_word()), value, "");
      }
    }
  }
  return names;
}

}  // namespace tandem
