// Writes the data of a report page as one JSON document, and finds the Pareto frontier of a table
// by one sweep over its rows, sorted by x.
#include "report/page/page_data.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/json_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using Better = PageColumn::Better;

Json json_of(const PageCell& cell) {
  if (const double* number = std::get_if<double>(&cell)) return *number;
  if (const std::string* text = std::get_if<std::string>(&cell)) return *text;
  return nullptr;
}

Json json_of(const std::optional<PageLimit>& limit) {
  if (!limit) return nullptr;
  return {{"column", limit->column}, {"most", limit->most}, {"as", limit->as}};
}

Json json_of(const PageTable& table) {
  Json columns = Json::array();
  for (const PageColumn& column : table.columns) {
    const Json better = column.better == Better::Less   ? Json("less")
                        : column.better == Better::More ? Json("more")
                                                        : Json();
    columns.push_back({{"name", column.name}, {"unit", column.unit}, {"better", better}});
  }
  Json rows = Json::array();
  for (const std::vector<PageCell>& row : table.rows) {
    CHECK(row.size() == table.columns.size());
    Json cells = Json::array();
    for (const PageCell& cell : row) cells.push_back(json_of(cell));
    rows.push_back(std::move(cells));
  }
  Json marks = Json::array();
  for (const PageMark& mark : table.marks) marks.push_back({{"row", mark.row}, {"as", mark.as}});
  return {{"title", table.title},
          {"columns", std::move(columns)},
          {"rows", std::move(rows)},
          {"x", table.x},
          {"y", table.y},
          {"frontier", table.frontier},
          {"marks", std::move(marks)},
          {"group", table.group ? Json(*table.group) : Json()},
          {"unfit", table.unfit},
          {"limit", json_of(table.limit)}};
}

// Returns a number that is larger the better a value is.
double goodness(const PageTable& table, std::size_t row, std::size_t column) {
  const double value = std::get<double>(table.rows[row][column]);
  return table.columns[column].better == Better::Less ? -value : value;
}

}  // namespace

PageRun page_run(const RunResult& result) { return {result.name, to_json(result), result.detail}; }

void limit_timelines(PageData* page) {
  constexpr std::size_t kMostBytes = 16'000'000;
  std::size_t bytes = page->runs.empty() ? 0 : page->runs[page->chosen].detail.size();
  for (std::size_t i = 0; i < page->runs.size(); ++i) {
    std::string& detail = page->runs[i].detail;
    if (i == page->chosen || detail.empty()) continue;
    if (bytes + detail.size() > kMostBytes) {
      Json numbers = Json::parse(detail);
      numbers["timeline"] = nullptr;
      detail = json_line(numbers);
    }
    bytes += detail.size();
  }
}

bool differ(const std::vector<PageCell>& cells) {
  return std::ranges::any_of(cells, [&](const PageCell& cell) { return cell != cells.front(); });
}

void add_column(PageTable* table, const PageColumn& column, const std::vector<PageCell>& cells) {
  if (table->columns.empty()) table->rows.resize(cells.size());
  CHECK(table->rows.size() == cells.size());
  table->columns.push_back(column);
  for (std::size_t row = 0; row < cells.size(); ++row) table->rows[row].push_back(cells[row]);
}

std::vector<std::size_t> frontier_of(const PageTable& table) {
  CHECK(table.columns[table.x].better != Better::Neither);
  CHECK(table.columns[table.y].better != Better::Neither);
  struct Candidate {
    double x = 0, y = 0;
    std::size_t row = 0;
  };
  std::vector<Candidate> candidates;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto has = [&](std::size_t column) {
      return std::holds_alternative<double>(table.rows[row][column]);
    };
    const bool fits = std::ranges::find(table.unfit, row) == table.unfit.end();
    if (fits && has(table.x) && has(table.y))
      candidates.push_back({goodness(table, row, table.x), goodness(table, row, table.y), row});
  }
  // Candidates are sorted by x, best first, and those of equal x by y. One is on the frontier if
  // its y is better than that of all before it, or if it equals the frontier's last in both.
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.x != b.x ? a.x > b.x : a.y > b.y;
  });
  std::vector<std::size_t> frontier;
  const Candidate* last = nullptr;
  for (const Candidate& next : candidates) {
    if (last != nullptr) {
      const bool is_equal = next.x == last->x && next.y == last->y;
      if (next.y <= last->y && !is_equal) continue;
    }
    frontier.push_back(next.row);
    last = &next;
  }
  if (table.columns[table.x].better == Better::Less) return frontier;
  return {frontier.rbegin(), frontier.rend()};
}

std::string to_text(const PageData& data) {
  std::string text =
      "{\"title\":" + json_line(Json(data.title)) +
      ",\n\"source\":" + json_line(Json(data.source)) +
      ",\n\"note\":" + (data.note.empty() ? "null" : json_line(Json(data.note))) +
      ",\n\"cluster\":" + (data.cluster.empty() ? "null" : json_line(Json(data.cluster))) +
      ",\n\"runs\":[";
  std::string_view comma = "";
  for (const PageRun& run : data.runs) {
    text += std::exchange(comma, ",");
    text += "\n{\"name\":" + json_line(Json(run.name)) + ",\"result\":" + json_line(run.result) +
            ",\n\"detail\":" + (run.detail.empty() ? "null" : run.detail) +
            ",\n\"inputs\":" + json_line(run.inputs) + "}";
  }
  text += "],\n\"chosen\":" + std::to_string(data.chosen) +
          ",\n\"comparison\":" + json_line(data.comparison) +
          ",\n\"explanation\":" + json_line(data.explanation) +
          ",\n\"table\":" + (data.table ? json_line(json_of(*data.table)) : "null") +
          ",\n\"purchase\":" + json_line(data.purchase) + ",\n\"starts\":" + json_line(data.starts);
  return text + "}";
}

}  // namespace tandem
