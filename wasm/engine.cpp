// The engine of a page: takes a request and gives its answer, both as JSON. A request's member `do`
// names the action; beside it stands the action's input:
//
// - simulate: takes a `run`; gives its `result` as `tandem simulate --json` has it, but without
//   memory fixes; the `values` of the keys that a page has controls for; and, if `detail` is true,
//   the `detail`, which a page draws.
// - values: takes a `run`; gives these `values` alone.
// - fixes: takes a `run` that does not fit in memory; gives the `memory_fixes`.
// - check: takes a `run` and `tries`, a list of changes; gives for each why it is refused, or null.
// - tune: takes a `run`, `fixed` and `seconds`; gives the `best` plans, each with its `changes` and
//   `result`, and the `gap`. Plans keep the run's own values of the keys in `fixed`. The search
//   ends after `seconds`, and reports each better plan at once (better_plan).
// - words: gives the presets of clusters and the named orders.
//
// A run is {name, axes, points, settings, notes, files, changes}. `files` has the texts of the
// files that settings name. `changes` has settings that replace the run's own; null takes one away.
// A refusal is {error, keys}: one line, and the keys that it is about.
#include <emscripten/emscripten.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "base/units.h"
#include "job/compile.h"
#include "planning/simulate/simulate.h"
#include "planning/tune/refinement.h"
#include "planning/tune/space.h"
#include "planning/tune/tune.h"
#include "planning/what_if/memory_fixes.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"
#include "scenarios/setting_json.h"
#include "schedule/order/named_orders.h"
#include "topology/preset.h"

// Calls `found` of the module with a better plan of a search, as JSON: {changes, iteration_s}.
EM_JS(void, better_plan, (const char* plan), {
  if (Module["found"]) Module["found"](UTF8ToString(plan));
});

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using Answer = Result<std::string>;  // JSON

// Returns the run that a request describes. Files are written where its settings look for them.
Result<Scenario> run_of(const Json& run, const Json& changes) {
  const std::string name = run.at("name");
  for (const auto& [path, text] : run.at("files").items())
    RETURN_IF_ERROR(write_file(path, text.get<std::string>()));
  Json settings = run.at("settings");
  for (const Json& more : {run.at("changes"), changes}) {
    for (const auto& [key, value] : more.items()) {
      if (value.is_null()) {
        settings.erase(key);
      } else {
        settings[key] = value;
      }
    }
  }
  ASSIGN_OR_RETURN(const Settings values, settings_from_json(settings, "the page"));
  ASSIGN_OR_RETURN(Scenario scenario, make_scenario("scenario.toml", name, values));
  scenario.axes = run.at("axes").get<std::vector<std::string>>();
  scenario.points = run.at("points").get<std::vector<std::string>>();
  for (const Json& note : run.at("notes")) scenario.notes.push_back(note);
  return scenario;
}

// Returns a plan's words as values of their types.
Json typed(const std::vector<std::pair<std::string, std::string>>& words) {
  Settings settings;
  for (const auto& [key, word] : words) {
    if (const auto set = parse_set(key + '=' + word); set.ok()) settings.insert(*set);
  }
  return to_json(settings);
}

// Returns the values of the keys that a page has controls for, including those left to defaults.
Json values_of(const Scenario& scenario) {
  const ClusterSettings& cluster = scenario.cluster;
  const Plan& plan = scenario.job.plan;
  Json values = {{"cluster.preset", cluster.preset},
                 {"cluster.gpus", cluster.gpus},
                 {"cluster.intra_GBps", cluster.spec.intra_bytes_per_s / GB},
                 {"cluster.nic_Gbitps", cluster.spec.nic_bytes_per_s / Gbit},
                 {"parallel.dp", plan.dp},
                 {"parallel.global_batch", plan.global_batch},
                 {"schedule.order", scenario.job.order.name},
                 {"train.precision", plan.precision},
                 {"model.seq", scenario.job.model.seq},
                 {"variability.jitter", scenario.variability.jitter}};
  const Json plan_values = typed(plan_settings(candidate_of(scenario)));
  for (const auto& [key, value] : plan_values.items()) {
    if (!values.contains(key)) values[key] = value;
  }
  if (scenario.job.model.is_moe()) {
    values["overlap.expert"] = scenario.job.expert_overlap;
  } else {
    values.erase("parallel.ep");
  }
  return values;
}

Answer simulate_one(const Json& request) {
  ASSIGN_OR_RETURN(const Scenario scenario, run_of(request.at("run"), Json::object()));
  OutputFiles files;
  files.detail = request.at("detail").get<bool>() ? Detail::Timeline : Detail::None;
  ASSIGN_OR_RETURN(const RunResult result, simulate(scenario, Engine::Ideal, files));
  return fmt::format(R"({{"result":{},"values":{},"detail":{}}})", json_line(to_json(result)),
                     json_line(values_of(scenario)),
                     result.detail.empty() ? "null" : result.detail);
}

Answer values(const Json& request) {
  ASSIGN_OR_RETURN(const Scenario scenario, run_of(request.at("run"), Json::object()));
  return json_line(Json{{"values", values_of(scenario)}});
}

Answer fixes(const Json& request) {
  ASSIGN_OR_RETURN(const Scenario scenario, run_of(request.at("run"), Json::object()));
  std::vector<Result<RunResult>> played = {simulate(scenario, Engine::Ideal)};
  add_memory_fixes({scenario}, 1, &played);
  if (!played[0].ok()) return played[0].error();
  return json_line(Json{{"memory_fixes", to_json(*played[0]).at("memory_fixes")}});
}

// Returns why the rules refuse a run; empty if they accept it.
std::string refused(const Json& run, const Json& changes) {
  const Result<Scenario> scenario = run_of(run, changes);
  if (!scenario.ok()) return scenario.error().message;
  if (scenario->job.is_open()) return "";
  const Result<OrderedJob> job = order_job(*scenario);
  return job.ok() ? "" : job.error().message;
}

Answer check(const Json& request) {
  Json answer = Json::array();
  for (const Json& changes : request.at("tries")) {
    const std::string why = refused(request.at("run"), changes);
    answer.push_back(why.empty() ? Json() : Json(why));
  }
  return json_line(answer);
}

Answer tune_run(const Json& request) {
  ASSIGN_OR_RETURN(const Scenario scenario, run_of(request.at("run"), Json::object()));
  const std::vector<std::string> fixed = request.at("fixed");
  const std::vector<std::string> searched = Space::keys();
  std::vector<std::string> among;  // "parallel.tp=8": a fixed key has the run's value alone
  for (const auto& [key, word] : plan_settings(candidate_of(scenario))) {
    const bool is_searched = std::ranges::find(searched, key) != searched.end();
    if (is_searched && std::ranges::find(fixed, key) != fixed.end())
      among.push_back(key + '=' + word);
  }
  ASSIGN_OR_RETURN(const Space space, Space::among(among));
  const auto better = [](const Found& found, bool /*of_rules*/) {
    better_plan(json_line(Json{{"changes", typed(plan_settings(found.candidate))},
                               {"iteration_s", to_seconds(found.iteration_ns)}})
                    .c_str());
  };
  ASSIGN_OR_RETURN(
      const Tuned tuned,
      tune(scenario, space,
           {.engine = Engine::Ideal, .seconds = request.at("seconds"), .on_better = better}));
  Json best = Json::array();
  for (const Finalist& finalist : tuned.finalists) {
    if (!finalist.result.ok() || finalist.label == "own") continue;  // "own": the run's own plan
    Json changes = typed(plan_settings(finalist.candidate, finalist.refinement));
    for (const std::string& key : tuned.cleared) changes[key] = nullptr;
    best.push_back({{"changes", std::move(changes)}, {"result", to_json(*finalist.result)}});
  }
  const std::optional<double> gap = tuned.gap();
  return json_line(Json{
      {"best", std::move(best)}, {"gap", gap ? Json(*gap) : Json()}, {"complete", tuned.complete}});
}

Answer words(const Json& /*request*/) {
  return json_line(Json{{"presets", preset_names()}, {"orders", order_names()}});
}

Answer answer(const Json& request) {
  static const std::map<std::string, Answer (*)(const Json&)> kActions = {
      {"simulate", simulate_one}, {"fixes", fixes},   {"values", values},
      {"check", check},           {"tune", tune_run}, {"words", words}};
  const std::string action = request.at("do");
  const auto found = kActions.find(action);
  if (found == kActions.end())
    return Error{fmt::format("found the request '{}', expected one such as 'simulate'", action)};
  return found->second(request);
}

std::string answer_text(const char* request) {
  const auto failed = [](const Error& error) {
    return json_line(Json{{"error", error.message}, {"keys", error.place.keys}});
  };
  try {
    const Answer given = answer(Json::parse(request));
    return given.ok() ? *given : failed(given.error());
  } catch (const std::bad_alloc&) {
    return failed(
        Error{"the page ran out of memory (2 GB): expected a smaller job, or tandem itself"});
  } catch (const Json::exception& wrong) {
    return failed(Error{std::string("found a request that is not understood: ") + wrong.what()});
  }
}

}  // namespace
}  // namespace tandem

// Returns the answer as text. The caller frees it.
extern "C" char* tandem_answer(const char* request) {
  const std::string text = tandem::answer_text(request);
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}
