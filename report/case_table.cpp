#include "report/case_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "report/case_cells.h"
#include "report/table.h"

namespace tandem {
namespace {

std::string guesses(const std::vector<CaseRow>& rows) {
  const auto count = std::ranges::count_if(rows, [](const CaseRow& row) {
    return row.prediction && row.prediction->calibrated == false;
  });
  if (count == 0) return "";
  return fmt::format(
      "\n{} of {} rows are not calibrated: no other measured run stands behind them.\n", count,
      rows.size());
}

}  // namespace

std::string case_table(const std::vector<CaseRow>& rows) {
  std::vector<Cells> all = {case_titles()};
  for (const CaseRow& row : rows) all.push_back(case_cells(row));
  std::vector<Cells> families = {family_titles()};
  for (const Accuracy& family : accuracy_by_family(rows))
    families.push_back(family_cells(family, family.family));
  families.push_back(family_cells(accuracy_of(rows), "overall"));
  const std::string below = reasons(rows, "");
  return aligned(all, 2) + "\n" + aligned(families, 1) +
         (below.empty() ? "" : "\nnot predicted:\n" + below) + guesses(rows);
}

std::string case_csv(const std::vector<CaseRow>& rows) {
  std::string text =
      "id,family,measured_s,predicted_s,error,low_s,high_s,calibrated,compute_s,bubble_s,"
      "exposed_s,line,reason\n";
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

}  // namespace tandem
