// Writes cases as JSON. Declared in validation/published/cases.h.
#include <nlohmann/json.hpp>

#include "validation/published/cases.h"

namespace tandem {

nlohmann::ordered_json to_json(const CaseRow& row) {
  nlohmann::ordered_json json = {
      {"id", row.run.id}, {"family", row.run.family}, {"measured_s", row.run.measured_s}};
  const bool is_predicted = row.prediction.has_value();
  const auto number = [&](double value) {
    return is_predicted ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  const Prediction parts = row.prediction.value_or(Prediction{});
  json["predicted_s"] = number(parts.predicted_s);
  json["error"] = is_predicted ? nlohmann::ordered_json(row.error()) : nullptr;
  const auto& interval = parts.interval_s;
  json["low_s"] = interval ? nlohmann::ordered_json(interval->first) : nullptr;
  json["high_s"] = interval ? nlohmann::ordered_json(interval->second) : nullptr;
  json["calibrated"] = parts.calibrated ? nlohmann::ordered_json(*parts.calibrated) : nullptr;
  json["compute_s"] = number(parts.compute_s);
  json["bubble_s"] = number(parts.bubble_s);
  json["exposed_s"] = number(parts.exposed_s);
  const auto& verdict = parts.verdict;
  json["verdict"] = verdict ? nlohmann::ordered_json(verdict_text(*verdict)) : nullptr;
  json["spare_bytes"] = verdict ? nlohmann::ordered_json(parts.spare_bytes) : nullptr;
  json["line"] = row.run.line;
  if (row.run.measured_memory_bytes > 0) {
    json["measured_memory_bytes"] = row.run.measured_memory_bytes;
    json["predicted_memory_bytes"] = number(parts.memory_bytes);
    json["memory_error"] = number(row.memory_error());
  }
  if (!is_predicted) json["reason"] = row.reason;
  return json;
}

nlohmann::ordered_json to_json(const Accuracy& accuracy) {
  const auto share = [&](double value) {
    return accuracy.n > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json json = {
      {"mape", share(accuracy.mape)},     {"bias", share(accuracy.bias)},
      {"worst", share(accuracy.worst)},   {"n", accuracy.n},
      {"median", share(accuracy.median)}, {"worst_id", accuracy.worst_id},
      {"not_predicted", accuracy.without}};
  if (const Errors& memory = accuracy.memory; memory.n > 0)
    json["memory"] = {
        {"n", memory.n}, {"mape", memory.mape}, {"median", memory.median}, {"bias", memory.bias}};
  return json;
}

nlohmann::ordered_json cases_json(const std::vector<CaseRow>& rows) {
  nlohmann::ordered_json json = {{"rows", nlohmann::ordered_json::array()},
                                 {"families", nlohmann::ordered_json::object()},
                                 {"overall", to_json(accuracy_of(rows))}};
  for (const CaseRow& row : rows) json["rows"].push_back(to_json(row));
  for (const Accuracy& family : accuracy_by_family(rows))
    json["families"][family.family] = to_json(family);
  return json;
}

}  // namespace tandem
