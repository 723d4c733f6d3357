// Writes the JSON of a sizing, as docs/planning.md describes it. Declared in planning/size/size.h.
#include <nlohmann/json.hpp>

#include "planning/size/size.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Economics& e) {
  return {{"iterations", e.iterations},
          {"ideal_days", e.ideal_days},
          {"days_p50", e.days_p50()},
          {"days_p95", e.days_p95()},
          {"goodput", e.goodput},
          {"available", e.available},
          {"checkpoint_interval_s", e.checkpoint_interval_s},
          {"nodes", e.nodes},
          {"spare_nodes", e.spares},
          {"energy_MWh", e.energy_MWh},
          {"cost", e.cost},
          {"cost_per_T_tokens", e.cost_per_T},
          {"days_per_T_tokens", e.days_per_T}};
}

Json to_json(const SizedCandidate& one) {
  Json json = {{"job", one.job}, {"candidate", one.candidate}, {"gpus", one.gpus}};
  json["out"] = one.reason.empty() ? Json(nullptr) : Json(one.reason);
  json["recommended"] = one.recommended;
  json["frontier"] = one.on_frontier;
  if (!one.result) return json;
  json["calibrated"] = one.result->calibrated ? Json(*one.result->calibrated) : Json();
  for (const auto& [key, value] : plan_settings(one.plan->candidate)) json["plan"][key] = value;
  json["economics"] = to_json(one.economics);
  json["oversubscribed"] = {{"2", one.oversubscribed_2}, {"4", one.oversubscribed_4}};
  json["nics"] = {{"0.9", one.slower_nics}, {"1.1", one.faster_nics}};
  json["simulate"] = to_json(*one.result);
  return json;
}

}  // namespace

Json to_json(const SizeResult& result) {
  Json json = {{"seed", result.seed}};
  json["sized"] = Json::array();
  for (const SizedCandidate& one : result.sized) json["sized"].push_back(to_json(one));
  json["tiers"] = Json::array();
  for (const NetworkComparison& tier : result.tiers)
    json["tiers"].push_back({{"job", tier.job},
                             {"gpus", tier.gpus},
                             {"candidate", tier.candidate},
                             {"best", tier.best},
                             {"times_as_long", tier.times_as_long}});
  json["sensitivities"] = Json::array();
  for (const InputChange& s : result.input_changes)
    json["sensitivities"].push_back(
        {{"job", s.job},
         {"input", s.input},
         {"days_change", s.days_change},
         {"cost_change", s.cost_change},
         {"recommended", s.recommended.empty() ? Json(nullptr) : Json(s.recommended)}});
  return json;
}

}  // namespace tandem
