// LayerKeys: a scenario's keys for layers, by name: in [model] for all layers, in
// [model.kinds.NAME] for those of one kind.
#pragma once

#include <vector>

#include "base/result.h"
#include "keys/bind.h"
#include "workload/model/model.h"

namespace tandem {

const std::vector<BoundKey<Model>>& layer_keys();

// Returns the kind of each layer, in order, from a pattern such as "dense*3 + moe*58" or "(local*5
// + global)*8 + local". The Error says what could not be read, or that there are more than a
// million layers.
Result<std::vector<std::string>> parse_layer_pattern(const std::string& text);

// Makes `layers` of the model from the names of its layers' kinds. Each of `kinds` has its own
// sizes beside the model's. The Error names a kind that does not exist, or is never used.
Status set_layers(const std::vector<std::string>& names, std::vector<Model> kinds, Model* model);

}  // namespace tandem
