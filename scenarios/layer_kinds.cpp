#include "scenarios/layer_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "workload/model/layer_keys.h"

namespace tandem {
namespace {

constexpr std::string_view kPrefix = "model.kinds.";

// The parts of "model.kinds.NAME.KEY". taken_apart() returns nothing for a key without KEY.
struct KindKey {
  std::string kind, key;
};
std::optional<KindKey> taken_apart(const std::string& key) {
  const std::size_t dot = is_kind_key(key) ? key.find('.', kPrefix.size()) : std::string::npos;
  if (dot == std::string::npos) return std::nullopt;
  return KindKey{key.substr(kPrefix.size(), dot - kPrefix.size()), key.substr(dot + 1)};
}

Status set_key(const std::string& key, const std::string& name, const Setting& setting,
               Model* kind) {
  const auto known = std::ranges::find(layer_keys(), name, &Key<Model>::name);
  if (known != layer_keys().end()) return set_by(*known, key, setting, kind);
  std::vector<std::string> names;
  for (const Key<Model>& each : layer_keys()) names.push_back(each.name);
  return Error{fmt::format("found unknown key '{}', expected a layer's; the nearest is '{}'", key,
                           nearest(name, names)),
               Error::BadInput,
               {.keys = {key}, .source = setting.where}};
}

}  // namespace

bool is_kind_key(const std::string& key) { return key.starts_with(kPrefix); }

bool is_known_kind_key(const std::string& key) {
  const auto parts = taken_apart(key);
  return parts &&
         std::ranges::find(layer_keys(), parts->key, &Key<Model>::name) != layer_keys().end();
}

Status apply_layer_kinds(const Settings& settings, Scenario* scenario) {
  JobSettings& job = scenario->job;
  std::vector<Model> kinds;
  for (const auto& [key, setting] : settings) {
    if (!is_kind_key(key)) continue;
    const auto parts = taken_apart(key);
    if (!parts) return setting.error(key, "a table [model.kinds.NAME] with a layer's keys");
    auto kind = std::ranges::find(kinds, parts->kind, &Model::kind);
    if (kind == kinds.end()) {
      kind = kinds.insert(kinds.end(), job.model);
      kind->kind = parts->kind;
    }
    RETURN_IF_ERROR(set_key(key, parts->key, setting, &*kind));
  }
  if (kinds.empty() && job.pattern.empty()) return Done{};
  if (job.pattern.empty())
    return scenario->placed(
        Error::of({fmt::format("{}{}", kPrefix, kinds.front().kind), "model.layers"},
                  "found [model.kinds] without model.pattern, expected the layers' kinds in order, "
                  "as in 'dense*3 + moe*58'"));
  auto names = parse_layer_pattern(job.pattern);
  if (!names.ok()) return scenario->placed(names.error());
  // A kind without a table of its own is [model]'s layer.
  for (const std::string& name : *names) {
    if (std::ranges::find(kinds, name, &Model::kind) != kinds.end()) continue;
    kinds.push_back(job.model);
    kinds.back().kind = name;
  }
  const int stated = job.model.layers;
  if (const Status status = set_layers(*names, std::move(kinds), &job.model); !status.ok())
    return scenario->placed(status.error());
  if (stated == 0 || stated == job.model.layers) return Done{};
  return scenario->placed(
      Error::of({"model.layers", "model.pattern"},
                fmt::format("found model.layers = {}, expected {}, as model.pattern has", stated,
                            job.model.layers)));
}

}  // namespace tandem
