// LayerKinds: the keys [model.kinds.NAME], one table for each kind of layer in model.pattern.
#pragma once

#include <string>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/config/setting.h"

namespace tandem {

// "model.kinds.NAME.KEY".
bool is_kind_key(const std::string& key);

// Whether its KEY is a layer's.
bool is_known_kind_key(const std::string& key);

// What the settings say of kinds; each is [model]'s layer but for its own keys. REQUIRES: what they
// say of [model] is applied.
Status apply_layer_kinds(const Settings& settings, Scenario* scenario);

}  // namespace tandem
