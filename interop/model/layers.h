// Layers of an imported model: a list with one entry a layer, and how a scenario writes it: each
// kind of layer once, and a pattern of the kinds' names.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interop/plan/imported_plan.h"

namespace tandem {

// More layers than any model has: a typing error is likelier.
inline constexpr int kMostLayers = 2000;

// The name of a layer's kind, such as "moe", and the keys of a scenario that it sets.
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

// Returns the shortest pattern that gives these names in order, such as "a*3 + (b + c*2)*4". Its
// length is counted in runs: here three, a*3, b and c*2.
std::string pattern_of(const std::vector<std::string>& names);

// Writes the layers: if all are alike, as model.layers and keys of [model]; else as model.pattern
// and [model.kinds.NAME], with what all kinds share in [model]. `comment` stands at layers or
// pattern. Returns the kinds' names, one a layer; empty: all alike.
std::vector<std::string> write_layers(std::vector<ImportedLayer> layers, std::string_view comment,
                                      ImportedPlan* plan);

}  // namespace tandem
