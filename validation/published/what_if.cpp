// Compares each row with the first one of the same source, model and `changed`: the change of the
// measured time with that of the predicted time.
#include "validation/published/what_if.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/csv.h"

namespace tandem {
namespace {

constexpr const char* kNeeded[] = {"source", "model", "changed", "value"};

// Returns why two runs cannot be compared; empty: they can.
std::string missing_of(const CaseRow& from, const CaseRow& to) {
  for (const CaseRow* row : {&from, &to}) {
    if (row->run.measured_s == 0) return fmt::format("{}: found no time", row->run.place());
    if (!row->prediction) return fmt::format("{}: {}", row->run.place(), row->reason);
  }
  return "";
}

WhatIf compared(const CaseRow& from, const CaseRow& to) {
  WhatIf pair{.place = to.run.place(), .source = to.run.source, .model = to.run.model};
  if (from.run.measured_s > 0 && to.run.measured_s > 0)
    pair.measured = to.run.measured_s / from.run.measured_s - 1;
  if (from.prediction && to.prediction)
    pair.predicted = to.prediction->predicted_s / from.prediction->predicted_s - 1;
  pair.reason = missing_of(from, to);
  return pair;
}

nlohmann::ordered_json optional_json(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace

Result<std::vector<WhatIf>> what_ifs(const std::string& path, Engine engine, int jobs,
                                     const Sets& sets) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  for (const char* column : kNeeded) {
    if (!table.has(column))
      return Error::at(path + ":1", fmt::format("found no column '{}', expected the columns {}",
                                                column, fmt::join(kNeeded, ", ")));
  }
  ASSIGN_OR_RETURN(const std::vector<Case> cases, read_partial_cases(path));
  ASSIGN_OR_RETURN(const std::vector<CaseRow> rows, predict(cases, engine, jobs, sets));
  std::map<std::tuple<std::string, std::string, std::string>, int> first;
  std::vector<WhatIf> pairs;
  for (int row = 0; row < table.size(); ++row) {
    const std::string changed(table.text(row, "changed"));
    if (changed.empty())
      return table.error(row, "column 'changed': found nothing, expected a text");
    const auto [base, is_new] =
        first.try_emplace({rows[row].run.source, rows[row].run.model, changed}, row);
    if (is_new) continue;
    WhatIf& pair = pairs.emplace_back(compared(rows[base->second], rows[row]));
    pair.changed = changed;
    pair.from = table.text(base->second, "value");
    pair.to = table.text(row, "value");
  }
  if (pairs.empty())
    return Error::at(path + ":1",
                     "found no two rows of one source, model and 'changed', expected some");
  return pairs;
}

GainErrors gain_errors(const std::vector<WhatIf>& pairs) {
  GainErrors errors;
  for (const WhatIf& pair : pairs) {
    if (!pair.measured || !pair.predicted) continue;
    const double off = *pair.predicted - *pair.measured;
    ++errors.n;
    errors.mean_absolute += std::abs(off);
    errors.bias += off;
    errors.same_direction += (*pair.predicted < 0) == (*pair.measured < 0) ? 1 : 0;
    if (std::abs(*pair.measured) <= kLargeGain) continue;
    ++errors.large;
    errors.within_a_third += std::abs(off) <= std::abs(*pair.measured) / 3 ? 1 : 0;
  }
  if (errors.n > 0) {
    errors.mean_absolute /= errors.n;
    errors.bias /= errors.n;
  }
  return errors;
}

nlohmann::ordered_json what_ifs_json(const std::vector<WhatIf>& pairs) {
  nlohmann::ordered_json json = {{"pairs", nlohmann::ordered_json::array()}};
  for (const WhatIf& pair : pairs) {
    nlohmann::ordered_json& one = json["pairs"].emplace_back(
        nlohmann::ordered_json{{"place", pair.place},
                               {"source", pair.source},
                               {"model", pair.model},
                               {"changed", pair.changed},
                               {"from", pair.from},
                               {"to", pair.to},
                               {"measured_change", optional_json(pair.measured)},
                               {"predicted_change", optional_json(pair.predicted)}});
    if (!pair.reason.empty()) one["reason"] = pair.reason;
  }
  const GainErrors errors = gain_errors(pairs);
  const auto mean = [&](double value) {
    return errors.n > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  json["overall"] = {{"n", errors.n},
                     {"mean_absolute_difference", mean(errors.mean_absolute)},
                     {"bias", mean(errors.bias)},
                     {"same_direction", errors.same_direction},
                     {"large", errors.large},
                     {"within_a_third", errors.within_a_third}};
  return json;
}

}  // namespace tandem
