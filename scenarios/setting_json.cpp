#include "scenarios/setting_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

std::optional<KeyValue> value_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) return {};
  const auto all = [&](bool (Json::*is_type)() const noexcept) {
    return std::ranges::all_of(json, [&](const Json& item) { return (item.*is_type)(); });
  };
  if (all(&Json::is_number_integer)) return json.get<std::vector<std::int64_t>>();
  if (all(&Json::is_string)) return json.get<std::vector<std::string>>();
  return {};
}

}  // namespace

Json to_json(const Settings& settings) {
  Json object = Json::object();
  for (const auto& [key, setting] : settings) {
    Json& json = object[key];
    std::visit([&](const auto& value) { json = value; }, setting.value);
  }
  return object;
}

Result<Settings> settings_from_json(const Json& object, const std::string& where) {
  Settings settings;
  for (const auto& [key, json] : object.items()) {
    const std::optional<KeyValue> value = value_of(json);
    if (!value)
      return Error{fmt::format("found {} = {}, expected a number, a text, true, false or a list",
                               key, json.dump()),
                   Error::BadInput,
                   {.keys = {key}, .source = where}};
    settings[key] = {*value, where};
  }
  return settings;
}

}  // namespace tandem
