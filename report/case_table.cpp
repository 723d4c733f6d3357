#include "report/case_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "report/table.h"

namespace tandem {
namespace {

using Cells = std::vector<std::string>;

std::string seconds(double value) { return fmt::format("{:.4g}", value); }

// Signed; never "-0.0".
std::string signed_percent(double share) {
  return std::abs(share) < 0.0005 ? "0.0" : fmt::format("{:+.1f}", 1e2 * share);
}

std::string percent(double share) { return fmt::format("{:.1f}", 1e2 * share); }

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

Cells family_cells(const Accuracy& of, const std::string& name) {
  Cells cells = {name, std::to_string(of.n), std::to_string(of.without)};
  if (of.n == 0) {
    cells.resize(8, "-");
    return cells;
  }
  cells.insert(cells.end(), {percent(of.mape), percent(of.median), signed_percent(of.bias),
                             signed_percent(of.worst), of.worst_id});
  return cells;
}

std::vector<Cells> families(const std::vector<CaseRow>& rows) {
  std::vector<Cells> all = {{"family", "rows", "not predicted", "mean absolute %", "median %",
                             "bias %", "worst %", "worst row"}};
  for (const Accuracy& family : accuracy_by_family(rows))
    all.push_back(family_cells(family, family.family));
  all.push_back(family_cells(accuracy_of(rows), "overall"));
  return all;
}

std::string reasons(const std::vector<CaseRow>& rows, const char* before) {
  std::string text;
  for (const CaseRow& row : rows) {
    if (!row.prediction) text += fmt::format("{}{}: {}\n", before, row.run.id, row.reason);
  }
  return text;
}

std::string markdown(const std::vector<Cells>& rows, std::size_t left) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("| {} |\n", fmt::join(rows[i], " | "));
    if (i > 0) continue;
    for (std::size_t column = 0; column < rows[i].size(); ++column)
      text += column < left ? "|---" : "|---:";
    text += "|\n";
  }
  return text;
}

}  // namespace

std::string case_table(const std::vector<CaseRow>& rows) {
  std::vector<Cells> all = {case_titles()};
  for (const CaseRow& row : rows) all.push_back(case_cells(row));
  const std::string below = reasons(rows, "");
  return aligned(all, 2) + "\n" + aligned(families(rows), 1) +
         (below.empty() ? "" : "\nnot predicted:\n" + below);
}

std::string case_csv(const std::vector<CaseRow>& rows) {
  std::string text =
      "id,family,measured_s,predicted_s,error,compute_s,bubble_s,exposed_s,line,reason\n";
  for (const CaseRow& row : rows) {
    Cells cells;
    const nlohmann::ordered_json json = to_json(row);
    for (const auto& [key, value] : json.items()) {
      if (key == "reason") continue;
      cells.push_back(value.is_string() ? csv_cell(value.get<std::string>())
                      : value.is_null() ? ""
                                        : value.dump());
    }
    cells.push_back(csv_cell(row.reason));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

std::string case_page(const std::vector<CaseRow>& rows, const std::string& title) {
  constexpr std::size_t kFarthest = 20;
  std::vector<const CaseRow*> farthest;
  for (const CaseRow& row : rows) {
    if (row.prediction) farthest.push_back(&row);
  }
  std::ranges::stable_sort(farthest, std::ranges::greater{},
                           [](const CaseRow* row) { return std::abs(row->error()); });
  farthest.resize(std::min(farthest.size(), kFarthest));
  std::vector<Cells> cells = {case_titles()};
  for (const CaseRow* row : farthest) cells.push_back(case_cells(*row));
  std::string text = fmt::format("# {}\n\n{}\n## Farthest off\n\n{}", title,
                                 markdown(families(rows), 1), markdown(cells, 2));
  const std::string below = reasons(rows, "- ");
  return text + (below.empty() ? "" : "\n## Not predicted\n\n" + below);
}

}  // namespace tandem
