// Settings as JSON: an object of dotted keys, {"parallel.tp": 8, "train.zero": 1}.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "scenarios/setting.h"

namespace tandem {

nlohmann::ordered_json to_json(const Settings& settings);

// Returns the settings of an object, each with `where` as its place. Error: a value is no
// number, text, flag, list of integers or list of texts.
Result<Settings> settings_from_json(const nlohmann::ordered_json& object, const std::string& where);

}  // namespace tandem
