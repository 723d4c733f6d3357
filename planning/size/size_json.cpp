// Writes the JSON of a sizing, as docs/planning.md describes it. Declared in planning/size/size.h.
#include <cmath>
#include <nlohmann/json.hpp>

#include "planning/size/answer_text.h"
#include "planning/size/size.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Null for 0: nothing was stated to count it from, such as price.node_kW.
Json known(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json to_json(const Economics& e) {
  return {{"iterations", e.iterations},
          {"ideal_days", e.ideal_days},
          {"days_p50", e.days_p50()},
          {"days_late", e.days_late()},
          {"goodput", e.goodput},
          {"available", e.available},
          {"checkpoint_interval_s", e.checkpoint_interval_s},
          {"nodes", e.nodes},
          {"spare_nodes", e.spares},
          {"energy_MWh", known(e.energy_MWh)},
          {"CO2_t", known(e.CO2_t)},
          {"cost", e.cost},
          {"cost_per_T_tokens", e.cost_per_T},
          {"cost_per_M_tokens", e.cost_per_T / 1e6},
          {"days_per_T_tokens", e.days_per_T}};
}

Json to_json(const SizedJob& job) {
  Json json = {{"job", job.job},   {"candidate", job.offer}, {"nodes", job.nodes},
               {"gpus", job.gpus}, {"batch", job.batch()},   {"out", text_or_null(job.reason)}};
  json["frontier"] = job.on_frontier;
  if (!job.result) return json;
  json["on_engine"] = job.on_engine;
  json["calibrated"] = or_null(job.result->calibrated);
  for (const auto& [key, value] : plan_settings(job.plan->candidate)) json["plan"][key] = value;
  json["economics"] = to_json(job.economics);
  json["oversubscribed"] = {{"2", job.oversubscribed_2}, {"4", job.oversubscribed_4}};
  json["nics"] = {{"0.9", job.slower_nics}, {"1.1", job.faster_nics}};
  json["plain_numerics"] = or_null(job.plain_numerics);
  json["simulate"] = to_json(*job.result);
  return json;
}

Json to_json(const std::optional<NetworkBill>& bill) {
  if (!bill) return nullptr;
  return {{"switch", bill->model.name},
          {"tiers", bill->tiers},
          {"switches", bill->switches()},
          {"cables", bill->cables()},
          {"optics", bill->optics()}};
}

Json to_json(const Machine& machine) {
  return {{"candidate", machine.offer},
          {"nodes", machine.nodes},
          {"spare_nodes", machine.spares},
          {"gpus", machine.gpus},
          {"jobs", machine.jobs},
          {"purchase", machine.costs.purchase},
          {"network", to_json(machine.network)},
          {"network_price", machine.network_price},
          {"warnings", machine.warnings},
          {"monthly", machine.costs.monthly},
          {"total", machine.total},
          {"peak_MW", known(machine.costs.peak_MW)},
          {"mean_MW", known(machine.costs.mean_MW)},
          {"days_late", machine.days_late},
          {"out", text_or_null(machine.reason)},
          {"excess", std::isfinite(machine.excess) ? Json(machine.excess) : Json(nullptr)},
          {"recommended", machine.recommended}};
}

}  // namespace

Json to_json(const SizeResult& result) {
  Json json = {{"seed", result.seed}, {"certainty", result.asked.front().certainty}};
  json["answers"] = Json::array();
  for (const SizeAnswer& answer : result.answers)
    json["answers"].push_back({{"question", question_word(answer.question)},
                               {"machine", or_null(answer.machine)},
                               {"sentence", answer_text(result, answer)}});
  json["nearest"] = or_null(result.nearest);
  json["machines"] = Json::array();
  for (const Machine& machine : result.machines) json["machines"].push_back(to_json(machine));
  json["sized"] = Json::array();
  for (const SizedJob& job : result.sized) json["sized"].push_back(to_json(job));
  for (const Machine& machine : result.machines) {
    for (const std::size_t job : machine.jobs)
      json["sized"][job]["recommended"] = machine.recommended;
  }
  json["tiers"] = Json::array();
  for (const NetworkComparison& tier : result.tiers)
    json["tiers"].push_back({{"job", tier.job},
                             {"gpus", tier.gpus},
                             {"candidate", tier.offer},
                             {"best", tier.best},
                             {"times_as_long", tier.times_as_long}});
  json["tornado"] = Json::array();
  for (const TornadoBar& bar : result.tornado)
    json["tornado"].push_back({{"input", bar.input},
                               {"low", bar.low},
                               {"high", bar.high},
                               {"days_low", bar.days_low},
                               {"days_high", bar.days_high},
                               {"total_low", bar.total_low},
                               {"total_high", bar.total_high},
                               {"flips_at", or_null(bar.flips_at)},
                               {"flips_to", text_or_null(bar.flips_to)}});
  json["sure"] = nullptr;
  if (result.sureness)
    json["sure"] = {{"machine", result.sureness->machine},
                    {"offers", result.sureness->offers},
                    {"none", result.sureness->none},
                    {"measure", text_or_null(result.sureness->measure)}};
  json["assumptions"] = Json::array();
  for (const Assumption& one : result.assumptions)
    json["assumptions"].push_back({{"key", one.key}, {"value", one.value}});
  json["unused_keys"] = result.unused_keys;
  return json;
}

}  // namespace tandem
