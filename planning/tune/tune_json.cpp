// Writes what a search has found as JSON (tandem tune --json): counts, bound, the plans that were
// played, refinements, and the rules of tuning guides. Declared in planning/tune/tune.h.
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "planning/tune/tune.h"

namespace tandem {
namespace {

nlohmann::ordered_json plan_json(const Tuned& tuned, const Candidate& candidate,
                                 const Refinement& refinement = {}) {
  nlohmann::ordered_json plan;
  for (const auto& [key, value] : tuned.trainer) plan[key] = value;
  for (const auto& [key, value] : plan_settings(candidate, refinement)) plan[key] = value;
  return plan;
}

nlohmann::ordered_json to_json(const Tuned& tuned, const std::optional<Found>& found) {
  if (!found) return nullptr;
  return {{"plan", plan_json(tuned, found->candidate)},
          {"stage_level_s", to_seconds(found->iteration_ns)}};
}

nlohmann::ordered_json to_json(const Tuned& tuned, const Refined& plan) {
  nlohmann::ordered_json json = {{"plan", plan_json(tuned, plan.candidate)},
                                 {"simulate", to_json(plan.plain)},
                                 {"with", nlohmann::ordered_json::array()}};
  for (const auto& [refinement, result] : plan.with) {
    nlohmann::ordered_json with = {{"plan", plan_json(tuned, plan.candidate, refinement)}};
    if (result.ok()) {
      with["saved_s"] = plan.saved_s(*result);
      with["saved"] = plan.saved_s(*result) / plan.plain.iteration_s;
      with["simulate"] = to_json(*result);
    } else {
      with["error"] = result.error().text();
    }
    json["with"].push_back(std::move(with));
  }
  return json;
}

nlohmann::ordered_json to_json(const Tuned& tuned, const Finalist& finalist) {
  nlohmann::ordered_json json = {
      {"plan", plan_json(tuned, finalist.candidate, finalist.refinement)},
      {"stage_level_s", nullptr}};
  if (finalist.stage_level_ns) json["stage_level_s"] = to_seconds(*finalist.stage_level_ns);
  if (finalist.result.ok()) {
    json["simulate"] = to_json(*finalist.result);
  } else {
    json["error"] = finalist.result.error().text();
  }
  return json;
}

}  // namespace

nlohmann::ordered_json to_json(const Tuned& tuned) {
  const SearchCounts& counts = tuned.counts;
  nlohmann::ordered_json json = {{"scenario", tuned.scenario},
                                 {"cuts",
                                  {{"all", counts.cuts},
                                   {"memory", counts.cuts_memory},
                                   {"work", counts.cuts_work},
                                   {"not_searched", counts.cuts_left}}},
                                 {"enumerated", counts.enumerated},
                                 {"pruned",
                                  {{"memory", counts.memory},
                                   {"work", counts.work},
                                   {"pipeline", counts.pipeline},
                                   {"data", counts.data}}},
                                 {"scheduled", counts.scheduled},
                                 {"orders_played", counts.orders},
                                 {"unplayable", counts.unplayable},
                                 {"not_searched", counts.left},
                                 {"complete", tuned.complete},
                                 {"bound_s", nullptr},
                                 {"gap", nullptr},
                                 {"search_wall_s", tuned.search_s},
                                 {"cleared", tuned.cleared},
                                 {"framework", nullptr},
                                 {"assumes", nullptr}};
  if (const std::optional<double> gap = tuned.gap()) {
    json["bound_s"] = to_seconds(tuned.bound_ns);
    json["gap"] = *gap;
  }
  if (!tuned.assumes.empty()) json["assumes"] = tuned.assumes;
  if (!tuned.framework.empty()) {
    json["framework"] = tuned.framework;
    json["own_breaks"] = nullptr;
    if (!tuned.own_breaks.empty()) json["own_breaks"] = tuned.own_breaks;
  }
  json["best"] = nlohmann::ordered_json::array();
  for (const Finalist& finalist : tuned.finalists) {
    if (finalist.label == "rules" || finalist.label == "own") {
      json[finalist.label] = to_json(tuned, finalist);
    } else {
      json["best"].push_back(to_json(tuned, finalist));
    }
  }
  if (!tuned.own_refused.empty()) {
    json["own"] = nullptr;
    json["own_refused"] = tuned.own_refused;
  }
  json["refined"] = nlohmann::ordered_json::array();
  for (const Refined& plan : tuned.refined) json["refined"].push_back(to_json(tuned, plan));
  json["verdicts"] = nlohmann::ordered_json::array();
  for (const RuleCheck& verdict : tuned.verdicts)
    json["verdicts"].push_back({{"rule", verdict.rule},
                                {"source", verdict.source},
                                {"complete", verdict.complete},
                                {"keeps", to_json(tuned, verdict.keeps)},
                                {"breaks", to_json(tuned, verdict.breaks)}});
  return json;
}

}  // namespace tandem
