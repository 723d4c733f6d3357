#include "scenarios/config/layer_kinds.h"

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

Status set_key(const std::string& key, const std::string& name, const Setting& setting,
               Model* kind) {
  std::vector<std::string> known;
  for (const Key<Model>& each : layer_keys()) {
    known.push_back(each.name);
    if (each.name != name) continue;
    const std::optional<std::string> expected = each.set(setting.value, kind);
    if (expected) return setting.error(key, *expected);
    return Done{};
  }
  return Error::at(setting.where,
                   fmt::format("found unknown key '{}', expected a layer's; the nearest is '{}'",
                               key, nearest(name, known)));
}

}  // namespace

bool is_kind_key(const std::string& key) { return key.starts_with(kPrefix); }

bool is_known_kind_key(const std::string& key) {
  const std::size_t dot = is_kind_key(key) ? key.find('.', kPrefix.size()) : std::string::npos;
  return dot != std::string::npos && std::ranges::any_of(layer_keys(), [&](const Key<Model>& each) {
           return each.name == key.substr(dot + 1);
         });
}

Status apply_layer_kinds(const Settings& settings, Scenario* scenario) {
  JobSettings& job = scenario->job;
  std::vector<Model> kinds;
  for (const auto& [key, setting] : settings) {
    if (!is_kind_key(key)) continue;
    const std::size_t dot = key.find('.', kPrefix.size());
    if (dot == std::string::npos)
      return setting.error(key, "a table [model.kinds.NAME] with a layer's keys");
    const std::string name = key.substr(kPrefix.size(), dot - kPrefix.size());
    auto kind = std::ranges::find(kinds, name, &Model::kind);
    if (kind == kinds.end()) {
      kind = kinds.insert(kinds.end(), job.model);
      kind->kind = name;
    }
    RETURN_IF_ERROR(set_key(key, key.substr(dot + 1), setting, &*kind));
  }
  if (kinds.empty() && job.pattern.empty()) return Done{};
  if (job.pattern.empty())
    return scenario->placed(
        Error::of({fmt::format("{}{}", kPrefix, kinds.front().kind), "model.layers"},
                  "found [model.kinds] without model.pattern, expected the layers' kinds in order, "
                  "as in 'dense*3 + moe*58'"));
  auto names = parse_layer_pattern(job.pattern);
  if (!names.ok()) return scenario->placed(names.error());
  // A kind without a table of its own is as [model] says.
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
