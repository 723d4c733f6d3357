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

// One run of a page.
struct PageRun {
  std::string name;
  nlohmann::ordered_json result;       // the object that `--json` prints of the run; null: none
  std::string detail;                  // a JSON object (run_detail.h); empty: none
  nlohmann::ordered_json inputs = {};  // to simulate it again in a live page (run_inputs.h)
};

// A column of a table of runs.
struct PageColumn {
  enum class Better { Neither, Less, More };

  std::string name;
  std::string unit;                 // "s", "bytes", "$", "share" (shown in per cent); empty: none
  Better better = Better::Neither;  // less or more is better
};

using PageCell = std::variant<std::monostate, double, std::string>;

// A row that the charts emphasize, with the reason.
struct PageMark {
  std::size_t row = 0;
  std::string as;  // "recommended"
};

// The most that the values of a column may be, for example the memory of a GPU.
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
  std::vector<std::size_t> frontier;        // the Pareto frontier: rows that none beats in both
  std::vector<PageMark> marks = {};
  // A column of texts (jobs). Only rows with the same text are compared: each has its own frontier.
  std::optional<std::size_t> group = {};
  std::vector<std::size_t> unfit = {};  // rows that do not fit into memory: on no frontier
  std::optional<PageLimit> limit = {};
};

struct PageData {
  std::string title;        // the user's question in words
  std::string source = {};  // the name of the scenario's, profile's or CSV file
  std::vector<PageRun> runs;
  std::size_t chosen = 0;                   // the run that is shown first
  nlohmann::ordered_json comparison;        // `compare --json`'s object, of runs[0] against runs[1]
  nlohmann::ordered_json explanation = {};  // `explain --json`'s object
  std::optional<PageTable> table;
  std::string note = {};     // the scenario's note
  std::string cluster = {};  // a picture of it (SVG) if its links are listed; empty: none
  nlohmann::ordered_json purchase = {};  // for `size`: the machines to buy (purchase_page.h)
  nlohmann::ordered_json starts = {};    // for `explore`: [{file, runs}], each run as its inputs
};

// Returns the title of a page that compares a simulated file with a measured one.
inline std::string compared_title(const std::string& simulated, const std::string& measured) {
  return "How far is " + simulated + " from " + measured + "?";
}

// Makes a run of a result of `simulate`.
PageRun page_run(const RunResult& result);

// Keeps the details of all runs below 16 MB, which a browser reads at once: the chosen run keeps
// its timeline, and the others, in their order, theirs as long as there is room.
void limit_timelines(PageData* page);

// Returns whether some cell differs from the others.
bool differ(const std::vector<PageCell>& cells);

// Adds a column, a cell a row. REQUIRES: as many cells as the table has rows, if it has columns.
void add_column(PageTable* table, const PageColumn& column, const std::vector<PageCell>& cells);

// Returns the Pareto frontier, sorted by x: the rows for which no other row is at least as good in
// both of the table's columns x and y, and better in one. Rows that do not fit or lack a number in
// either are left out. REQUIRES: neither column's `better` is Neither.
std::vector<std::size_t> frontier_of(const PageTable& table);

// Returns the document. Bytes of a name that are not UTF-8 are replaced.
std::string to_text(const PageData& data);

}  // namespace tandem
