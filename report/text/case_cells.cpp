#include "report/text/case_cells.h"

#include <fmt/format.h>

namespace tandem {
namespace {

std::string seconds(double value) { return fmt::format("{:.4g}", value); }

}  // namespace

std::vector<Column<CaseRow>> case_columns() {
  using Row = const CaseRow&;
  std::vector<Column<CaseRow>> columns = {
      {"id", [](Row row) { return row.run.id; }, Place::Name},
      {"family", [](Row row) { return row.run.family; }, Place::Name},
      {"measured s", [](Row row) { return seconds(row.run.measured_s); }, Place::First}};
  const auto is_predicted = [](Row row) { return row.prediction.has_value(); };
  add_where(
      is_predicted, "-",
      {{"predicted s", [](Row row) { return seconds(row.prediction->predicted_s); }, Place::First},
       {"error %", [](Row row) { return signed_percent(row.error()); }, Place::First},
       {"compute s", [](Row row) { return seconds(row.prediction->compute_s); }, Place::Second},
       {"bubble s", [](Row row) { return seconds(row.prediction->bubble_s); }, Place::Beside},
       {"exposed s", [](Row row) { return seconds(row.prediction->exposed_s); }, Place::Beside}},
      &columns);
  return columns;
}

std::vector<Column<Accuracy>> family_columns() {
  using Row = const Accuracy&;
  std::vector<Column<Accuracy>> columns = {
      {"family", [](Row row) { return row.family; }, Place::Name},
      {"rows", [](Row row) { return std::to_string(row.n); }, Place::First},
      {"not predicted", [](Row row) { return std::to_string(row.without); }, Place::Second}};
  add_where([](Row row) { return row.n > 0; }, "-",
            {{"mean absolute %", [](Row row) { return percent(row.mape); }, Place::First},
             {"median %", [](Row row) { return percent(row.median); }, Place::First},
             {"bias %", [](Row row) { return signed_percent(row.bias); }, Place::First},
             {"worst %", [](Row row) { return signed_percent(row.worst); }, Place::First},
             {"worst row", [](Row row) { return row.worst_id; }, Place::Second}},
            &columns);
  return columns;
}

std::vector<Accuracy> families_and_all(const std::vector<CaseRow>& rows) {
  std::vector<Accuracy> all = accuracy_by_family(rows);
  all.push_back(accuracy_of(rows));
  all.back().family = "overall";
  return all;
}

std::string reasons(const std::vector<CaseRow>& rows, const char* before) {
  std::string text;
  for (const CaseRow& row : rows) {
    if (!row.prediction) text += fmt::format("{}{}: {}\n", before, row.run.id, row.reason);
  }
  return text;
}

}  // namespace tandem
