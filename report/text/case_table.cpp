#include "report/text/case_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/units.h"
#include "report/text/case_cells.h"
#include "report/text/table.h"

namespace tandem {
namespace {

std::string guesses_text(const std::vector<CaseRow>& rows) {
  const auto count = std::ranges::count_if(rows, [](const CaseRow& row) {
    return row.prediction && is_guess(row.prediction->calibrated);
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

// Lists the runs that took place although their plan does not fit by the model, the worst first.
std::string unfit_cases(const std::vector<CaseRow>& rows) {
  std::vector<const CaseRow*> unfit;
  std::size_t known = 0;
  for (const CaseRow& row : rows) {
    if (!row.prediction || !row.prediction->verdict) continue;
    ++known;
    if (*row.prediction->verdict == Verdict::No) unfit.push_back(&row);
  }
  if (unfit.empty()) return "";
  std::ranges::stable_sort(unfit, {}, [](const CaseRow* r) { return r->prediction->spare_bytes; });
  std::string text =
      fmt::format("\n{} of {} runs took place, and do not fit by the model (docs/memory.md):\n",
                  unfit.size(), known);
  for (const CaseRow* row : unfit)
    text += fmt::format("  {}: over by {:.1f} GiB, {:.1f} GiB of tensors\n", row->run.id,
                        -row->prediction->spare_bytes / GiB, row->prediction->memory_bytes / GiB);
  return text;
}

// Names the runs that took some 1000 times their prediction: their file probably has milliseconds
// where seconds are expected.
std::string unit_doubts(const std::vector<CaseRow>& rows) {
  std::string text;
  for (const CaseRow& row : rows) {
    if (!row.prediction) continue;
    const double ratio = row.run.measured_s / row.prediction->predicted_s;
    if (ratio > 200 && ratio < 5000)
      text += fmt::format("  {}: measured {:.0f} times the prediction: iteration_s is in seconds\n",
                          row.run.id, ratio);
  }
  return text.empty() ? "" : "\nmilliseconds?\n" + text;
}

// Returns the names of the CSV's columns: fields of to_json(row), and the reason. The three columns
// on memory are left out if no run's memory was measured.
std::vector<std::string> csv_columns(const std::vector<CaseRow>& rows) {
  std::vector<std::string> columns = {
      "id",         "family",    "measured_s", "predicted_s", "error",   "low_s",       "high_s",
      "calibrated", "compute_s", "bubble_s",   "exposed_s",   "verdict", "spare_bytes", "line"};
  const auto has_memory = [](const CaseRow& row) { return row.run.measured_memory_bytes > 0; };
  if (std::ranges::any_of(rows, has_memory))
    columns.insert(columns.end(),
                   {"measured_memory_bytes", "predicted_memory_bytes", "memory_error"});
  columns.emplace_back("reason");
  return columns;
}

}  // namespace

std::string case_table(const std::vector<CaseRow>& rows, int width) {
  const std::string below = reasons(rows, "");
  return text_table(case_columns(), rows, width) + "\n" +
         text_table(family_columns(), families_and_all(rows), width) +
         wrapped(memory_line(rows) + unfit_cases(rows) + unit_doubts(rows), width) +
         (below.empty() ? "" : "\nnot predicted:\n" + wrapped(below, width)) +
         wrapped(guesses_text(rows), width);
}

std::string case_csv(const std::vector<CaseRow>& rows) {
  const std::vector<std::string> columns = csv_columns(rows);
  std::string text = fmt::format("{}\n", fmt::join(columns, ","));
  for (const CaseRow& row : rows) {
    nlohmann::ordered_json json = to_json(row);
    json["reason"] = row.reason;
    Cells cells;
    for (const std::string& column : columns) {
      const nlohmann::ordered_json value = json.value(column, nlohmann::ordered_json());
      cells.push_back(value.is_string() ? csv_cell(value.get<std::string>())
                      : value.is_null() ? ""
                                        : value.dump());
    }
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

}  // namespace tandem
