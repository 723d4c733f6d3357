// PageData: what a report page shows, and its one JSON document (docs/formats.md).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "results/run_result.h"

namespace tandem {

// One run: what `--json` prints of it, null where that is nothing, and its detail (run_detail.h).
struct PageRun {
  std::string name;
  nlohmann::ordered_json result;
  std::string detail;  // a JSON object; empty: none
};

// A column of a table of runs. What is better in it is what the charts call the good end.
struct PageColumn {
  enum class Better { Neither, Less, More };

  std::string name;
  std::string unit;  // "s", "bytes", "$"; empty: none
  Better better = Better::Neither;
};

using PageCell = std::variant<std::monostate, double, std::string>;

// A row that is to be found at once.
struct PageMark {
  std::size_t row = 0;
  std::string as;  // "recommended"
};

// What the values of a column may be at most: of memory what a GPU has.
struct PageLimit {
  std::size_t column = 0;
  double most = 0;
  std::string as;  // "capacity"
};

// Many runs, a row each, for the charts of a sweep, of plans or of a purchase.
struct PageTable {
  std::string title;
  std::vector<PageColumn> columns;
  std::vector<std::vector<PageCell>> rows;  // as many cells each as there are columns
  std::size_t x = 0, y = 0;                 // the columns that the frontier is of
  std::vector<std::size_t> frontier;        // rows that no other one beats in both
  std::vector<PageMark> marks = {};
  // A column of texts: rows are compared within one of them, and each has a frontier of its own.
  std::optional<std::size_t> group = {};
  std::vector<std::size_t> unfit = {};  // rows that do not fit into memory: on no frontier
  std::optional<PageLimit> limit = {};
};

struct PageData {
  std::string title;
  std::vector<PageRun> runs;
  nlohmann::ordered_json comparison;  // `compare --json`'s object, of runs[0] against runs[1]
  std::optional<PageTable> table;
  std::string note = {};     // the scenario's
  std::string cluster = {};  // a picture of it (SVG), where its links are listed; empty: none
};

// A run as `simulate` gives it.
PageRun page_run(const RunResult& result);

bool differ(const std::vector<PageCell>& cells);

// Another column, a cell a row. REQUIRES: as many rows as the table has, where it has columns.
void add_column(PageTable* table, const PageColumn& column, const std::vector<PageCell>& cells);

// The rows that fit, among those with numbers in both of the table's columns x and y, that no other
// one beats: one that is as good in both and better in one. In the order of x's values.
// REQUIRES: both columns have a better end.
std::vector<std::size_t> frontier_of(const PageTable& table);

// The document. What is no UTF-8 in a name is replaced.
std::string to_text(const PageData& data);

}  // namespace tandem
