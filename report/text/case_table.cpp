#include "report/text/case_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "report/text/case_cells.h"

namespace tandem {
namespace {

std::string guesses_text(const std::vector<CaseRow>& rows) {
  const auto count = std::ranges::count_if(rows, [](const CaseRow& row) {
    return row.prediction && row.prediction->calibrated == false;
  });
  if (count == 0) return "";
  return fmt::format(
      "\n{} of {} rows are not calibrated: no other measured run stands behind them.\n", count,
      rows.size());
}

std::string memory_line(const std::vector<CaseRow>& rows) {
  const Errors all = accuracy_of(rows).memory;
  if (all.n == 0) return "";
  return fmt::format(
      "\nmemory of {} rows: mean absolute error {:.1f} %, median {:.1f} %, bias {:+.1f} %\n", all.n,
      100 * all.mape, 100 * all.median, 100 * all.bias);
}

}  // namespace

std::string case_table(const std::vector<CaseRow>& rows, int width) {
  const std::string below = reasons(rows, "");
  return text_table(case_columns(), rows, width) + "\n" +
         text_table(family_columns(), families_and_all(rows), width) + memory_line(rows) +
         (below.empty() ? "" : "\nnot predicted:\n" + wrapped(below, width)) +
         wrapped(guesses_text(rows), width);
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
