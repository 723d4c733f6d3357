// The one place that reads and writes CSV. Reading is by fast-cpp-csv-parser's LineReader (rows of
// orders have no fixed columns), cells are split here: a cell may be quoted, "" is a quote. Blanks
// around a cell do not count, but for those in quotes. Texts of users are harmless both ways: what
// a terminal would obey is escaped (printable() in base/xml.h), and what a spreadsheet would run
// has a ' before it in the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// One data line of a file, with its 1-based line number for error messages.
struct CsvRow {
  int line = 0;
  std::vector<std::string> cells;
};

// A CSV file: its leading comments `# ...` (without the `# `) and its rows, blank lines skipped.
struct CsvFile {
  std::string path;
  std::vector<std::string> comments;
  std::vector<CsvRow> rows;

  // The Error "path:line: message".
  Error error(int line, std::string_view message) const;
};

Result<CsvFile> read_csv(const std::string& path);

// A CSV file whose first row names the columns: cells by name, numbers checked.
class CsvTable {
 public:
  static Result<CsvTable> read(const std::string& path);

  int size() const { return static_cast<int>(file_.rows.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  bool has(std::string_view column) const { return find(column) >= 0; }
  int line(int row) const { return file_.rows[row].line; }
  // The cell, or "" where the file has no such column.
  std::string_view text(int row, std::string_view column) const;
  // Errors name file, line and column. An empty cell is an error.
  Result<double> number(int row, std::string_view column) const;
  Result<std::int64_t> integer(int row, std::string_view column) const;
  Error error(int row, std::string_view message) const;

 private:
  int find(std::string_view column) const;

  CsvFile file_;  // without the header row
  std::vector<std::string> columns_;
};

// The cell as it stands in a file: quoted where it would read as something else. A row is a line,
// so line ends become blanks. A text that begins with = + - or @ and is no number gets a ' before
// it, which reading drops.
std::string csv_cell(std::string_view text);

// The whole text must be an integer (a finite number); "expected" goes into the error message.
Result<std::int64_t> parse_integer(std::string_view text);
Result<double> parse_number(std::string_view text);

}  // namespace tandem
