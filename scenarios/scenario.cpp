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

// The Error of a broken rule: "place: what was found, what was expected".
Error bad(const Scenario& scenario, std::vector<std::string> keys, std::string_view what) {
  return Error{fmt::format("{}: {}", scenario.place_of(keys), what)};
}

// Of a rule that names its key first: "model.heads: found ...".
Error bad(const Scenario& scenario, const Error& rule, std::vector<std::string> other_keys) {
  const std::string& what = rule.message;
  other_keys.insert(other_keys.begin(), what.substr(0, what.find_first_of(" :")));
  return bad(scenario, std::move(other_keys), what);
}

// How many GPUs: given, or the plan's; they must agree.
Status complete_gpus(Scenario* s) {
  Plan& plan = s->plan;
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t model_parallel = std::int64_t{plan.tp} * plan.pp;
  if (s->gpus > 0 && !s->places.contains("parallel.dp")) {
    if (s->gpus % model_parallel != 0)
      return bad(*s, {"cluster.gpus"},
                 fmt::format("found cluster.gpus = {}, expected a multiple of tp x pp = {} x {}",
                             s->gpus, plan.tp, plan.pp));
    plan.dp = static_cast<int>(s->gpus / model_parallel);
  }
  if (model_parallel > kMost || model_parallel * plan.dp > kMost)
    return bad(*s, {"parallel.dp", "parallel.tp", "parallel.pp"},
               fmt::format("found tp x pp x dp = {} x {} x {}, expected at most {} GPUs", plan.tp,
                           plan.pp, plan.dp, kMost));
  if (s->gpus == 0) s->gpus = plan.gpus();
  if (s->gpus != plan.gpus())
    return bad(*s, {"cluster.gpus"},
               fmt::format("found cluster.gpus = {}, expected tp x pp x dp = {} x {} x {} = {}",
                           s->gpus, plan.tp, plan.pp, plan.dp, plan.gpus()));
  return Done{};
}

Status complete_batch(Scenario* s) {
  Plan& plan = s->plan;
  constexpr std::int64_t kMost = 1'000'000'000;
  const std::int64_t step = std::int64_t{plan.micro_batch} * plan.dp;
  if (step > kMost)
    return bad(*s, {"parallel.micro_batch", "parallel.dp"},
               fmt::format("found micro_batch x dp = {} x {}, expected at most {} sequences",
                           plan.micro_batch, plan.dp, kMost));
  if (plan.global_batch == 0) plan.global_batch = static_cast<int>(step);
  if (plan.global_batch % step != 0)
    return bad(*s, {"parallel.global_batch", "parallel.micro_batch"},
               fmt::format("found parallel.global_batch = {}, expected a multiple of "
                           "micro_batch x dp = {} x {}",
                           plan.global_batch, plan.micro_batch, plan.dp));
  return Done{};
}

Status complete_order(Scenario* s) {
  s->order.pp = s->plan.pp;
  s->order.vpp = s->plan.vpp;
  s->order.microbatches = s->plan.microbatches();
  if (!s->places.contains("schedule.order"))
    s->order.name = s->plan.vpp > 1 ? "interleaved" : "1f1b";
  if (!s->order.name.ends_with(".csv")) return Done{};
  s->order_file = (std::filesystem::path(s->path).parent_path() / s->order.name).string();
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(s->order_file, unknown))
    return bad(*s, {"schedule.order"},
               fmt::format("found schedule.order = {}, which is no file, expected a CSV file in "
                           "PyTorch's form beside the scenario",
                           s->order.name));
  return Done{};
}

Status complete_uniform(Scenario* s) {
  const auto given = [&](const char* key) { return s->places.contains(key); };
  UniformCosts& costs = *s->uniform;
  if (!given("costs.forward_s") ||
      (!given("costs.backward_s") && !(given("costs.input_s") && given("costs.weight_s"))))
    return bad(*s, {"costs.source"},
               "found costs.source = uniform without its seconds, expected costs.forward_s and "
               "costs.backward_s (or input_s and weight_s)");
  if (!given("costs.backward_s")) costs.backward_s = costs.input_s + costs.weight_s;
  if (!given("costs.input_s")) costs.input_s = costs.backward_s / 2;
  if (!given("costs.weight_s")) costs.weight_s = costs.backward_s / 2;
  return Done{};
}

// What depends on several keys: defaults, then the rules.
Status complete(Scenario* s) {
  RETURN_IF_ERROR(complete_gpus(s));
  RETURN_IF_ERROR(complete_batch(s));
  RETURN_IF_ERROR(complete_order(s));
  if (s->uniform) return complete_uniform(s);
  if (s->cluster.gpus_per_node == 0)
    return bad(*s, {"cluster.gpus_per_node"},
               "found no cluster, expected [cluster] with a preset or with its numbers");
  if (!s->places.contains("train.gradient_dtype"))
    s->plan.gradient_dtype = s->plan.precision == "fp16" ? "fp16" : "fp32";
  if (const Status status = check(s->model, s->plan); !status.ok())
    return bad(*s, status.error(), {"model.layers"});
  if (const Status status = check(CostModel{s->cluster.device, s->plan.precision}); !status.ok())
    return bad(*s, status.error(), {"cluster.preset", "cluster.gpu"});
  return Done{};
}

// The names of the points, or of the file where it has no axes.
std::string name_of(const ScenarioFile& file, const std::vector<const Point*>& points) {
  std::string joined;
  for (const Point* point : points) {
    for (const std::string& name : point->names) joined += (joined.empty() ? "" : ", ") + name;
  }
  return joined.empty() ? std::filesystem::path(file.path).stem().string() : joined;
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
    }
  }
  for (const auto& [key, setting] : sets) settings[key] = setting;
  scenario.name = name_of(file, points);
  scenario.path = file.path;
  for (const auto& [key, setting] : settings) scenario.places[key] = setting.where;
  RETURN_IF_ERROR(apply_settings(settings, &scenario));
  RETURN_IF_ERROR(complete(&scenario));
  return scenario;
}

}  // namespace

std::string Scenario::place_of(const std::vector<std::string>& keys) const {
  for (const std::string& key : keys) {
    if (const auto place = places.find(key); place != places.end()) return place->second;
  }
  for (const std::string& key : keys) {
    const std::string table = key.substr(0, key.find('.') + 1);
    for (const auto& [other, place] : places) {
      if (!table.empty() && other.starts_with(table) && place.starts_with(path)) return place;
    }
  }
  return path;
}

Result<std::vector<Scenario>> load_scenarios(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(path));
  std::vector<Scenario> scenarios;
  std::vector<std::size_t> at(file.axes.size());
  for (bool more = true; more;) {
    std::vector<const Point*> points;
    for (std::size_t i = 0; i < at.size(); ++i) points.push_back(&file.axes[i].points[at[i]]);
    const std::string name = name_of(file, points);
    if (name.find(only) != std::string::npos) {
      auto scenario = make_scenario(file, points, sets);
      if (!scenario.ok() && !points.empty())
        return Error{fmt::format("{} (run '{}')", scenario.error().message, name)};
      if (!scenario.ok()) return scenario.error();
      scenarios.push_back(*std::move(scenario));
    }
    more = false;
    for (std::size_t i = at.size(); i-- > 0 && !more;) {
      more = ++at[i] < file.axes[i].points.size();
      if (!more) at[i] = 0;
    }
  }
  if (scenarios.empty())
    return Error{fmt::format("--only: found no run whose name holds '{}' in {}", only, path)};
  return scenarios;
}

std::vector<std::pair<std::string, std::string>> scenario_keys() {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const Field& field : fields()) keys.emplace_back(field.key, field.help);
  return keys;
}

}  // namespace tandem
