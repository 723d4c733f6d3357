#include "report/text/case_cells.h"

#include <fmt/format.h>

namespace tandem {
namespace {

std::string seconds(double value) { return fmt::format("{:.4g}", value); }

template <class Value>  // a function of a CaseRow and its Prediction
Column<CaseRow> predicted(const char* title, Value value, Place place) {
  return {title,
          [value](const CaseRow& row) {
            return row.prediction ? std::string(value(row, *row.prediction)) : "-";
          },
          place};
}

template <class Value>  // a function of an Accuracy
Column<Accuracy> judged(const char* title, Value value, Place place) {
  return {title, [value](const Accuracy& row) { return row.n > 0 ? std::string(value(row)) : "-"; },
          place};
}

}  // namespace

std::vector<Column<CaseRow>> case_columns() {
  using Row = const CaseRow&;
  using P = const Prediction&;
  return {{"id", [](Row row) { return row.run.id; }, Place::Name},
          {"family", [](Row row) { return row.run.family; }, Place::Name},
          {"measured s", [](Row row) { return seconds(row.run.measured_s); }, Place::First},
          predicted(
              "predicted s", [](Row, P p) { return seconds(p.predicted_s); }, Place::First),
          predicted(
              "error %", [](Row row, P) { return signed_percent(row.error()); }, Place::First),
          predicted(
              "compute s", [](Row, P p) { return seconds(p.compute_s); }, Place::Second),
          predicted(
              "bubble s", [](Row, P p) { return seconds(p.bubble_s); }, Place::Beside),
          predicted(
              "exposed s", [](Row, P p) { return seconds(p.exposed_s); }, Place::Beside)};
}

std::vector<Column<Accuracy>> family_columns() {
  using Row = const Accuracy&;
  return {{"family", [](Row row) { return row.family; }, Place::Name},
          {"rows", [](Row row) { return std::to_string(row.n); }, Place::First},
          {"not predicted", [](Row row) { return std::to_string(row.without); }, Place::Second},
          judged(
              "mean absolute %", [](Row row) { return percent(row.mape); }, Place::First),
          judged(
              "median %", [](Row row) { return percent(row.median); }, Place::First),
          judged(
              "bias %", [](Row row) { return signed_percent(row.bias); }, Place::First),
          judged(
              "worst %", [](Row row) { return signed_percent(row.worst); }, Place::First),
          judged(
              "worst row", [](Row row) { return row.worst_id; }, Place::Second)};
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
