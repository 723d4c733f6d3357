#include "scenarios/layer_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "scenarios/fields.h"
#include "workload/model/layer_keys.h"

namespace tandem {
namespace {

// The parts of "model.kinds.NAME.KEY". split_kind_key() returns nothing for a key without KEY.
struct KindKey {
  std::string kind, key;
};
std::optional<KindKey> split_kind_key(const std::string& key) {
  const std::size_t dot = is_kind_key(key) ? key.find('.', kKindPrefix.size()) : std::string::npos;
  if (dot == std::string::npos) return std::nullopt;
  return KindKey{key.substr(kKindPrefix.size(), dot - kKindPrefix.size()), key.substr(dot + 1)};
}

// Sets a layer's key, such as model.kinds.moe.heads, in `kind`. `name`: its last word, "heads".
Status set_key(const std::string& key, const std::string& name, const Setting& setting,
               Model* kind) {
  std::vector<std::string> names;
  for (const BoundKey<Model>& bound : layer_keys()) {
    names.emplace_back(bound.key.last_word());
    if (names.back() == name) return set_by(bound, key, setting, kind);
  }
  return Error{fmt::format("found unknown key '{}', expected a layer's; the nearest is '{}'", key,
                           nearest(name, names)),
               Error::BadInput,
               {.keys = {key}, .source = setting.where}};
}

}  // namespace

bool is_kind_key(const std::string& key) { return key.starts_with(kKindPrefix); }

Status apply_layer_kinds(const Settings& settings, Scenario* scenario) {
  JobSettings& job = scenario->job;
  std::vector<Model> kinds;
  for (const auto& [key, setting] : settings) {
    if (!is_kind_key(key)) continue;
    const auto parts = split_kind_key(key);
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
        Error::of({fmt::format("{}{}", kKindPrefix, kinds.front().kind), "model.layers"},
                  "found [model.kinds] without model.pattern, expected the layers' kinds in order, "
                  "as in 'dense*3 + moe*58'"));
  auto names = parse_layer_pattern(job.pattern);
  if (!names.ok()) return scenario->placed(names.error());
  // A kind without a table of its own has the layer of [model].
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
