#include "scenarios/scenario.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/nearest.h"
#include "scenarios/fields.h"
#include "topology/preset.h"

namespace tandem {
namespace {

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  for (const Field& field : fields()) keys.emplace_back(field.key);
  return keys;
}

// Presets first, so that single numbers of [cluster] change what the preset gives.
Status apply_settings(const Settings& settings, Scenario* scenario) {
  if (const auto preset = settings.find("cluster.preset"); preset != settings.end()) {
    const std::string& where = preset->second.where;
    const auto* name = std::get_if<std::string>(&preset->second.value);
    if (name == nullptr) return preset->second.error("cluster.preset", "a preset's name");
    auto spec = load_preset(*name);
    if (!spec.ok()) return Error{fmt::format("{}: {}", where, spec.error().message)};
    scenario->cluster = *spec;
    scenario->preset = *name;
  }
  for (const auto& [key, setting] : settings) {
    const Field* known = nullptr;
    for (const Field& field : fields()) {
      if (field.key == key) known = &field;
    }
    if (known == nullptr)
      return Error{
          fmt::format("{}: found unknown key '{}', expected a known one; the nearest is '{}'",
                      setting.where, key, nearest(key, known_keys()))};
    RETURN_IF_ERROR(known->set(setting, scenario));
  }
  return Done{};
}

// "file:line" of the first of the keys that is set, else the file.
std::string place_of(const Settings& settings, const std::string& path,
                     std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const auto it = settings.find(key); it != settings.end()) return it->second.where;
  }
  return path;
}

// What depends on several keys: defaults, then the rules.
Status complete(const Settings& settings, const std::string& path, Scenario* s) {
  Plan& plan = s->plan;
  const auto bad = [&](std::initializer_list<const char*> keys, const std::string& what) {
    return Error{fmt::format("{}: {}", place_of(settings, path, keys), what)};
  };
  const int model_parallel = plan.tp * plan.pp;
  if (!settings.contains("parallel.dp") && s->gpus > 0) {
    if (s->gpus % model_parallel != 0)
      return bad({"cluster.gpus"},
                 fmt::format("found cluster.gpus = {}, expected a multiple of tp x pp = {} x {}",
                             s->gpus, plan.tp, plan.pp));
    plan.dp = s->gpus / model_parallel;
  }
  if (s->gpus == 0) s->gpus = plan.gpus();
  if (s->gpus != plan.gpus())
    return bad({"cluster.gpus"},
               fmt::format("found cluster.gpus = {}, expected tp x pp x dp = {} x {} x {} = {}",
                           s->gpus, plan.tp, plan.pp, plan.dp, plan.gpus()));
  if (plan.global_batch == 0) plan.global_batch = plan.micro_batch * plan.dp;
  if (plan.global_batch % (plan.micro_batch * plan.dp) != 0)
    return bad(
        {"parallel.global_batch"},
        fmt::format(
            "found parallel.global_batch = {}, expected a multiple of micro_batch x dp = {} x {}",
            plan.global_batch, plan.micro_batch, plan.dp));
  s->order.pp = plan.pp;
  s->order.vpp = plan.vpp;
  s->order.microbatches = plan.microbatches();
  if (!settings.contains("schedule.order")) s->order.name = plan.vpp > 1 ? "interleaved" : "1f1b";
  if (s->order.name.ends_with(".csv")) {
    s->order_file = (std::filesystem::path(path).parent_path() / s->order.name).string();
  }
  if (s->uniform) {
    UniformCosts& costs = *s->uniform;
    const bool split = settings.contains("costs.input_s") && settings.contains("costs.weight_s");
    if (!settings.contains("costs.forward_s") || (!settings.contains("costs.backward_s") && !split))
      return bad({"costs.source"},
                 "found costs.source = uniform without its seconds, expected costs.forward_s and "
                 "costs.backward_s (or input_s and weight_s)");
    if (!settings.contains("costs.backward_s")) costs.backward_s = costs.input_s + costs.weight_s;
    if (!settings.contains("costs.input_s")) costs.input_s = costs.backward_s / 2;
    if (!settings.contains("costs.weight_s")) costs.weight_s = costs.backward_s / 2;
    return Done{};
  }
  if (s->cluster.gpus_per_node == 0)
    return bad({}, "found no cluster, expected [cluster] with a preset or with its numbers");
  if (!settings.contains("train.gradient_dtype"))
    plan.gradient_dtype = plan.precision == "fp16" ? "fp16" : "fp32";
  if (const Status status = check(s->model, plan); !status.ok())
    return bad({"model.layers"}, status.error().message);
  if (const Status status = check(CostModel{s->cluster.device, plan.precision}); !status.ok())
    return bad({"train.precision", "cluster.preset"}, status.error().message);
  return Done{};
}

Result<Scenario> make_scenario(const ScenarioFile& file, const std::vector<const Point*>& points,
                               const std::vector<std::pair<std::string, Setting>>& sets) {
  Settings settings = file.base;
  Scenario scenario;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const auto& [key, setting] : points[i]->settings) settings[key] = setting;
    for (const std::string& name : points[i]->names) {
      scenario.axes.push_back(file.axes[i].name);
      scenario.points.push_back(name);
      scenario.name += (scenario.name.empty() ? "" : ", ") + name;
    }
  }
  for (const auto& [key, setting] : sets) settings[key] = setting;
  if (scenario.name.empty()) scenario.name = std::filesystem::path(file.path).stem().string();
  RETURN_IF_ERROR(apply_settings(settings, &scenario));
  RETURN_IF_ERROR(complete(settings, file.path, &scenario));
  return scenario;
}

}  // namespace

Result<std::vector<Scenario>> load_scenarios(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets) {
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(path));
  std::vector<Scenario> scenarios;
  std::vector<std::size_t> at(file.axes.size());
  for (bool more = true; more;) {
    std::vector<const Point*> points;
    for (std::size_t i = 0; i < at.size(); ++i) points.push_back(&file.axes[i].points[at[i]]);
    ASSIGN_OR_RETURN(Scenario scenario, make_scenario(file, points, sets));
    scenarios.push_back(std::move(scenario));
    more = false;
    for (std::size_t i = at.size(); i-- > 0 && !more;) {
      more = ++at[i] < file.axes[i].points.size();
      if (!more) at[i] = 0;
    }
  }
  return scenarios;
}

std::vector<std::pair<std::string, std::string>> scenario_keys() {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const Field& field : fields()) keys.emplace_back(field.key, field.help);
  return keys;
}

}  // namespace tandem
