// LayerKeys: what a scenario says of a layer, by name: in [model] of all layers, in
// [model.kinds.NAME] of those of one kind.
#pragma once

#include <vector>

#include "base/key.h"
#include "base/result.h"
#include "workload/model/model.h"

namespace tandem {

const std::vector<Key<Model>>& layer_keys();

// The kinds of a model's layers in order, from a pattern such as "dense*3 + moe*58" or
// "(local*5 + global)*8 + local". Error: what could not be read, or more than a million layers.
Result<std::vector<std::string>> parse_layer_pattern(const std::string& text);

// Makes `layers` of the model from the names of its layers' kinds: each kind of `kinds` is what it
// is beside the model's own sizes. Error: a kind that is not there, or is never used.
Status set_layers(const std::vector<std::string>& names, std::vector<Model> kinds, Model* model);

}  // namespace tandem
