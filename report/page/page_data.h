// PageData: the contents of a report page, and its one JSON document (docs/formats.md).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "results/run_result.h"

namespace tandem {

// One run: the object that `--json` prints of it, null if there is none, its detail (run_detail.h),
// and in a live page what it is simulated again from (run_inputs.h).
struct PageRun {
  std::string name;
  nlohmann::ordered_json result;
  std::string detail;  // a JSON object; empty: none
  nlohmann::ordered_json inputs = {};
};

// A column of a table of runs. `better`: which values the charts call the good end.
struct PageColumn {
  enum class Better { Neither, Less, More };

  std::string name;
  std::string unit;  // "s", "bytes", "$", "share" (shown in per cent); empty: none
  Better better = Better::Neither;
};

using PageCell = std::variant<std::monostate, double, std::string>;

// A row that readers should find at once.
struct PageMark {
  std::size_t row = 0;
  std::string as;  // "recommended"
};

// The most that the values of a column may be: of memory what a GPU has.
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
  std::size_t x = 0, y = 0;                 // the columns that the frontier compares
  std::vector<std::size_t> frontier;        // rows that no other one beats in both
  std::vector<PageMark> marks = {};
  // A column of texts: rows are compared within one of them, and each has a frontier of its own.
  std::optional<std::size_t> group = {};
  std::vector<std::size_t> unfit = {};  // rows that do not fit into memory: on no frontier
  std::optional<PageLimit> limit = {};
};

struct PageData {
  std::string title;        // what was asked, in words
  std::string source = {};  // the name of the file that it is about
  std::vector<PageRun> runs;
  std::size_t chosen = 0;                   // the run that is shown first
  nlohmann::ordered_json comparison;        // `compare --json`'s object, of runs[0] against runs[1]
  nlohmann::ordered_json explanation = {};  // `explain --json`'s object
  std::optional<PageTable> table;
  std::string note = {};     // the scenario's note
  std::string cluster = {};  // a picture of it (SVG) if its links are listed; empty: none
  nlohmann::ordered_json purchase = {};  // of size what to buy (purchase_page.h)
  nlohmann::ordered_json starts = {};    // of explore [{file, runs}], each run its inputs
};

// Returns the title of a page that holds a simulated file against a measured one.
inline std::string compared_title(const std::string& simulated, const std::string& measured) {
  return "How far is " + simulated + " from " + measured + "?";
}

// Makes a run of a result of `simulate`.
PageRun page_run(const RunResult& result);

// Leaves out timelines beyond what a browser reads at once, 16 MB of details in all: that of the
// chosen run stands always, the others in their order.
void limit_timelines(PageData* page);

bool differ(const std::vector<PageCell>& cells);

// Adds a column, a cell a row. REQUIRES: as many cells as the table has rows, if it has columns.
void add_column(PageTable* table, const PageColumn& column, const std::vector<PageCell>& cells);

// Returns the rows that no other one beats, by being as good in both of the table's columns x and y
// and better in one. Only rows that fit and have numbers in both count. They are in the order of
// x's values. REQUIRES: both columns have a better end.
std::vector<std::size_t> frontier_of(const PageTable& table);

// Returns the document. Bytes of a name that are not UTF-8 are replaced.
std::string to_text(const PageData& data);

}  // namespace tandem
