#include "report/suite_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "report/table.h"

namespace tandem {
namespace {

using Cells = std::vector<std::string>;

std::string ms(double seconds) { return fmt::format("{:.1f}", 1e3 * seconds); }

std::string percent(std::optional<double> share) {
  return share ? fmt::format("{:.1f}", 1e2 * *share) : "-";
}

// Signed; never "-0.0".
std::string difference(std::optional<double> share) {
  if (!share) return "-";
  return std::abs(*share) < 0.0005 ? "0.0" : fmt::format("{:+.1f}", 1e2 * *share);
}

std::string ratio(std::optional<double> value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

struct Column {
  const char* title;
  std::string (*cell)(const SuiteRow& row);
};

using Row = const SuiteRow&;
constexpr Column kColumns[] = {
    {"sim. ms", [](Row row) { return ms(row.simulated_s); }},
    {"meas. ms", [](Row row) { return ms(row.measured_s); }},
    {"p5 ms", [](Row row) { return ms(row.measured_p5_s); }},
    {"p95 ms", [](Row row) { return ms(row.measured_p95_s); }},
    {"error %", [](Row row) { return difference(row.iteration_error()); }},
    {"sim. bubble %", [](Row row) { return percent(row.simulated_bubble); }},
    {"meas.", [](Row row) { return percent(row.measured_bubble); }},
    {"diff.", [](Row row) { return difference(row.simulated_bubble - row.measured_bubble); }},
    {"sim. overlap %", [](Row row) { return percent(row.simulated_overlap); }},
    {"meas.", [](Row row) { return percent(row.measured_overlap); }},
    {"diff.", [](Row row) { return difference(row.overlap_difference()); }},
    {"sim. ratio", [](Row row) { return ratio(row.simulated_ratio); }},
    {"meas.", [](Row row) { return ratio(row.measured_ratio); }},
    {"error %", [](Row row) { return difference(row.ratio_error()); }},
    {"own error %", [](Row row) { return difference(row.own_iteration_error()); }},
    {"own bubble", [](Row row) { return difference(row.own_bubble_difference); }},
    {"own overlap", [](Row row) { return difference(row.own_overlap_difference); }},
    {"ok", [](Row row) { return std::string(row.faults.empty() ? "yes" : "NO"); }}};

// An axis of several columns: only the first has its name; in a CSV the others have a number, too.
Cells axis_titles(const SuiteRow& row, bool numbered) {
  Cells titles = row.axes;
  for (std::size_t i = titles.size(); i-- > 1;) {
    if (titles[i] != titles[i - 1]) continue;
    const auto before = std::ranges::count(titles.begin(), titles.begin() + i, titles[i]);
    titles[i] = numbered ? fmt::format("{}_{}", titles[i], before + 1) : "";
  }
  return titles;
}

std::vector<Cells> cells(const std::vector<SuiteRow>& rows) {
  std::vector<Cells> all = {axis_titles(rows.front(), false)};
  for (const Column& column : kColumns) all.front().emplace_back(column.title);
  for (const SuiteRow& row : rows) {
    all.push_back(row.points);
    for (const Column& column : kColumns) all.back().push_back(column.cell(row));
  }
  return all;
}

std::string faults(const std::vector<SuiteRow>& rows, const char* before) {
  std::string text;
  for (const SuiteRow& row : rows) {
    for (const std::string& fault : row.faults)
      text += fmt::format("{}{}: {}\n", before, fmt::join(row.points, ", "), fault);
  }
  return text;
}

}  // namespace

std::string suite_table(const std::vector<SuiteRow>& rows) {
  const std::string below = faults(rows, "");
  return aligned(cells(rows), rows.front().axes.size()) + (below.empty() ? "" : "\n" + below);
}

std::string suite_csv(const std::vector<SuiteRow>& rows) {
  std::string text;
  for (const SuiteRow& row : rows) {
    Cells titles = axis_titles(row, true), values = row.points;
    const nlohmann::ordered_json json = to_json(row);
    for (const auto& [key, value] : json.items()) {
      if (value.is_array()) continue;
      titles.push_back(key);
      values.push_back(value.is_null() ? "" : value.dump());
    }
    for (std::string& value : values) value = csv_cell(value);
    if (text.empty()) text += fmt::format("{}\n", fmt::join(titles, ","));
    text += fmt::format("{}\n", fmt::join(values, ","));
  }
  return text;
}

std::string suite_page(const std::vector<SuiteRow>& rows, const std::string& title,
                       const std::string& note) {
  std::string text = fmt::format("# {}\n\n{}{}", title, note, note.empty() ? "" : "\n\n");
  bool is_first = true;
  for (const Cells& row : cells(rows)) {
    text += fmt::format("| {} |\n", fmt::join(row, " | "));
    if (is_first) {
      for (std::size_t i = 0; i < row.size(); ++i)
        text += i < rows.front().axes.size() ? "|---" : "|---:";
      text += "|\n";
    }
    is_first = false;
  }
  const std::string below = faults(rows, "- ");
  return text + (below.empty() ? "" : "\n" + below);
}

}  // namespace tandem
