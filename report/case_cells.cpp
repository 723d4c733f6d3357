#include "report/case_cells.h"

#include <fmt/format.h>

#include <cmath>

namespace tandem {
namespace {

std::string seconds(double value) { return fmt::format("{:.4g}", value); }

}  // namespace

std::string percent(double share) { return fmt::format("{:.1f}", 1e2 * share); }

std::string signed_percent(double share) {
  return std::abs(share) < 0.0005 ? "0.0" : fmt::format("{:+.1f}", 1e2 * share);
}

Cells case_titles() {
  return {"id",      "family",    "measured s", "predicted s",
          "error %", "compute s", "bubble s",   "exposed s"};
}

Cells case_cells(const CaseRow& row) {
  Cells cells = {row.run.id, row.run.family, seconds(row.run.measured_s)};
  if (!row.prediction) {
    cells.resize(case_titles().size(), "-");
    return cells;
  }
  const Prediction& parts = *row.prediction;
  cells.push_back(seconds(parts.predicted_s));
  cells.push_back(signed_percent(row.error()));
  for (const double part : {parts.compute_s, parts.bubble_s, parts.exposed_s})
    cells.push_back(seconds(part));
  return cells;
}

Cells family_titles() {
  return {"family",   "rows",   "not predicted", "mean absolute %",
          "median %", "bias %", "worst %",       "worst row"};
}

Cells family_cells(const Accuracy& of, const std::string& name) {
  Cells cells = {name, std::to_string(of.n), std::to_string(of.without)};
  if (of.n == 0) {
    cells.resize(family_titles().size(), "-");
    return cells;
  }
  cells.insert(cells.end(), {percent(of.mape), percent(of.median), signed_percent(of.bias),
                             signed_percent(of.worst), of.worst_id});
  return cells;
}

std::string reasons(const std::vector<CaseRow>& rows, const char* before) {
  std::string text;
  for (const CaseRow& row : rows) {
    if (!row.prediction) text += fmt::format("{}{}: {}\n", before, row.run.id, row.reason);
  }
  return text;
}

}  // namespace tandem
