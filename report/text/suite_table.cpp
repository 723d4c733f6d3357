#include "report/text/suite_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "report/text/number_cells.h"

namespace tandem {
namespace {

std::string rounded_ms(double seconds) { return fmt::format("{:.1f}", 1e3 * seconds); }

std::string ratio(std::optional<double> value) {
  return value ? fmt::format("{:.3f}", *value) : "-";
}

// Returns the titles of the axes' columns. If an axis has several columns, the others are without a
// title, or `numbered`: "batch", "batch_2", "batch_3".
Cells axis_titles(const SuiteRow& row, bool numbered) {
  Cells titles = row.axes;
  for (std::size_t i = titles.size(); i-- > 1;) {
    if (titles[i] != titles[i - 1]) continue;
    const auto before = std::ranges::count(titles.begin(), titles.begin() + i, titles[i]);
    titles[i] = numbered ? fmt::format("{}_{}", titles[i], before + 1) : "";
  }
  return titles;
}

// Returns yes or NO; "-": no bound is claimed.
std::string ok_cell(const SuiteRow& row) {
  if (!row.is_bounded) return "-";
  return row.faults.empty() ? "yes" : "NO";
}

std::vector<Column<SuiteRow>> columns(const std::vector<SuiteRow>& rows) {
  using Row = const SuiteRow&;
  std::vector<Column<SuiteRow>> list;
  const Cells titles = axis_titles(rows.front(), false);
  for (std::size_t i = 0; i < titles.size(); ++i)
    list.push_back({titles[i], [i](Row row) { return row.points[i]; }, Place::Name});
  list.insert(
      list.end(),
      {{"sim. ms", [](Row row) { return rounded_ms(row.simulated_s); }, Place::First},
       {"meas. ms", [](Row row) { return rounded_ms(row.measured_s); }, Place::First},
       {"p5 ms", [](Row row) { return rounded_ms(row.measured_p5_s); }, Place::Second},
       {"p95 ms", [](Row row) { return rounded_ms(row.measured_p95_s); }, Place::Beside},
       {"error %", [](Row row) { return signed_percent(row.iteration_error()); }, Place::First},
       {"sim. bubble %", [](Row row) { return percent(row.simulated_bubble); }, Place::First},
       {"meas.", [](Row row) { return percent(row.measured_bubble); }, Place::Beside},
       {"diff.", [](Row row) { return signed_percent(row.simulated_bubble - row.measured_bubble); },
        Place::Beside},
       {"sim. overlap %", [](Row row) { return percent(row.simulated_overlap); }, Place::Second},
       {"meas.", [](Row row) { return percent(row.measured_overlap); }, Place::Beside},
       {"diff.", [](Row row) { return signed_percent(row.overlap_difference()); }, Place::Beside},
       {"sim. ratio", [](Row row) { return ratio(row.simulated_ratio); }, Place::Second},
       {"meas.", [](Row row) { return ratio(row.measured_ratio); }, Place::Beside},
       {"error %", [](Row row) { return signed_percent(row.ratio_error()); }, Place::Beside},
       {"own error %", [](Row row) { return signed_percent(row.own_iteration_error()); },
        Place::Second},
       {"own bubble", [](Row row) { return signed_percent(row.own_bubble_difference); },
        Place::Beside},
       {"own overlap", [](Row row) { return signed_percent(row.own_overlap_difference); },
        Place::Beside},
       {"ok", [](Row row) { return ok_cell(row); }, Place::First}});
  return list;
}

// Returns a line for each fault (a difference beyond its bound), behind the text `before`.
std::string faults(const std::vector<SuiteRow>& rows, const char* before) {
  std::string text;
  for (const SuiteRow& row : rows) {
    for (const std::string& fault : row.faults)
      text += fmt::format("{}{}: {}\n", before, fmt::join(row.points, ", "), fault);
  }
  return text;
}

}  // namespace

std::string suite_table(const std::vector<SuiteRow>& rows, int width) {
  const std::string below = faults(rows, "");
  return text_table(columns(rows), rows, width) +
         (below.empty() ? "" : "\n" + wrapped(below, width));
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
  text += markdown_table(columns(rows), rows);
  const std::string below = faults(rows, "- ");
  return text + (below.empty() ? "" : "\n" + below);
}

}  // namespace tandem
