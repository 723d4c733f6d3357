// LayerKinds: the keys of [model.kinds.NAME], one table for each kind of layer in model.pattern.
#pragma once

#include <string>

#include "base/result.h"
#include "scenarios/scenario.h"
#include "scenarios/setting.h"

namespace tandem {

// Whether the key begins with "model.kinds.".
bool is_kind_key(const std::string& key);

// Sets the model's layers from the tables of kinds and model.pattern. A kind is [model]'s layer
// with the keys of its own table changed. REQUIRES: the settings of [model] are applied.
Status apply_layer_kinds(const Settings& settings, Scenario* scenario);

}  // namespace tandem
