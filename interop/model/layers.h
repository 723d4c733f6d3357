// Layers of an imported model: one by one as a file has them, and the text that a scenario has for
// them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interop/plan/imported_plan.h"

namespace tandem {

// More layers than any model has: a typing error is likelier.
inline constexpr int kMostLayers = 2000;

// A layer's kind by name, and the keys that it sets with their values.
struct ImportedLayer {
  std::string name;
  std::vector<std::pair<AnyKey, KeyValue>> keys;

  template <class T>
  void set(LayerKeyOf<ValueTypeOf<T>> key, const T& value) {
    keys.emplace_back(key, ValueTypeOf<T>(value));
  }
  bool has(AnyKey key) const;

  bool operator==(const ImportedLayer&) const = default;
};

// Returns the text of the form "a*3 + (b + c*2)*4" that gives these names in order with the fewest
// runs.
std::string pattern_of(const std::vector<std::string>& names);

// Writes the layers: if all are alike, as model.layers and keys of [model]; else as model.pattern
// and [model.kinds.NAME], with what all kinds share in [model]. `comment` stands at layers or
// pattern. Returns the kinds' names, one a layer; empty: all alike.
std::vector<std::string> write_layers(std::vector<ImportedLayer> layers, std::string_view comment,
                                      ImportedPlan* plan);

}  // namespace tandem
