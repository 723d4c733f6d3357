// Reads and writes CSV; no other file does. fast-cpp-csv-parser's LineReader reads the lines. The
// cells are split here, because rows of orders have no fixed columns. A cell may be quoted, and ""
// in quotes is one quote. Blanks around a cell do not count, except inside quotes. Text from users
// is made safe: control characters that a terminal would obey are escaped (printable() of
// base/xml.h), and a cell that a spreadsheet would run as a formula is written with a ' before it.
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

  // Returns the Error "path:line: message".
  Error error(int line, std::string_view message) const;
  // An Error if the first row, a header, names a column twice. REQUIRES: there is a row.
  Status check_columns() const;
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
  // Returns the cell, or "" if the file has no such column.
  std::string_view text(int row, std::string_view column) const;
  // The Errors name file, line and column. An empty cell is an Error.
  Result<double> number(int row, std::string_view column) const;
  Result<std::int64_t> integer(int row, std::string_view column) const;
  Error error(int row, std::string_view message) const;

 private:
  int find(std::string_view column) const;

  CsvFile file_;  // without the header row
  std::vector<std::string> columns_;
};

// Returns the text as a cell of a file. It is quoted if it would otherwise be read differently.
// Line ends become blanks, since a row is one line. A text that begins with = + - or @ and is no
// number gets a ' before it, which reading drops.
std::string csv_cell(std::string_view text);

// Parses the whole text as an integer, or as a finite number. The Error says what was found and
// expected.
Result<std::int64_t> parse_integer(std::string_view text);
Result<double> parse_number(std::string_view text);

}  // namespace tandem
