// Splits lines into cells, and makes cells safe for spreadsheets and terminals. The line `3, "a,
// b"` has two cells, `3` and `a, b`. The text =1+1 is written as '=1+1, which a spreadsheet does
// not compute, and is read back as =1+1.
#include "base/csv.h"

#define CSV_IO_NO_THREAD
#include <libfccp/csv.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <new>
#include <set>
#include <system_error>

#include "base/file.h"
#include "base/xml.h"

namespace tandem {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Marks a cell as text: a spreadsheet computes =1+1, but shows '=1+1 as it is.
constexpr char kTextMark = '\'';

// Returns whether a spreadsheet would take the cell for a formula, were the marks and blanks before
// it removed.
bool is_formula(std::string_view cell) {
  const auto begin = cell.find_first_not_of("' \t");
  return begin != std::string_view::npos &&
         std::string_view("=+-@").find(cell[begin]) != std::string_view::npos;
}

// Returns whether the cell is a number: -1, or +1, whose sign parse_number() refuses. Numbers need
// no mark, though these begin as a formula does.
bool is_number(std::string_view cell) {
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  return parse_number(cell).ok();
}

// Escapes the characters that a terminal would obey, except tabs.
std::string harmless(std::string_view text) {
  std::string cell;
  for (std::size_t at = 0;; ++at) {
    const std::size_t end = std::min(text.find('\t', at), text.size());
    cell += printable(text.substr(at, end - at));
    if (end == text.size()) return cell;
    cell += '\t';
    at = end;
  }
}

// Turns a cell of a file into text. Drops the mark that csv_cell() sets before a formula, and
// escapes what a terminal would obey, as another program may have written the file.
std::string text_of_cell(std::string_view cell) {
  if (cell.starts_with(kTextMark) && is_formula(cell)) cell.remove_prefix(1);
  return harmless(cell);
}

// Splits a line into its cells and drops the blanks around them, except in quotes. Returns false if
// a quote is never closed.
bool split_cells(std::string_view line, std::vector<std::string>* cells) {
  std::string cell;
  bool quoted = false;
  bool was_quoted = false;
  const auto end_cell = [&] {
    cells->push_back(text_of_cell(was_quoted ? std::string_view(cell) : trimmed(cell)));
    cell.clear();
    was_quoted = false;
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c != '"') {
        cell += c;
      } else if (i + 1 < line.size() && line[i + 1] == '"') {
        cell += '"';
        ++i;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      if (!was_quoted && trimmed(cell).empty()) cell.clear();  // blanks before the quote
      quoted = was_quoted = true;
    } else if (c == ',') {
      end_cell();
    } else {
      const bool is_blank_behind_quote = was_quoted && is_blank(c);
      if (!is_blank_behind_quote) cell += c;
    }
  }
  end_cell();
  return !quoted;
}

// Thrown at a byte 0, which would end the line for LineReader.
struct NulByte {
  int line = 0;
};

// Gives LineReader the bytes of a file, and adds the line end if the last line has none. Without
// it, LineReader would read beyond the last line, into bytes of an earlier block.
class WholeLines final : public io::ByteSourceBase {
 public:
  explicit WholeLines(const std::string& path) : file_(std::fopen(path.c_str(), "rb")) {
    if (file_ == nullptr) throw std::system_error(errno, std::generic_category());
  }

  // Returns fewer than `size` bytes only at the end of the file, as LineReader requires. Throws
  // NulByte.
  int read(char* buffer, int size) override {
    auto got = std::fread(buffer, 1, static_cast<std::size_t>(size), file_.get());
    if (std::ferror(file_.get()) != 0) throw std::system_error(errno, std::generic_category());
    char* const nul = std::find(buffer, buffer + got, '\0');
    lines_ += static_cast<int>(std::count(buffer, nul, '\n'));
    if (nul != buffer + got) throw NulByte{lines_ + 1};
    if (got > 0) last_ = buffer[got - 1];
    if (got < static_cast<std::size_t>(size) && last_ != '\n') buffer[got++] = last_ = '\n';
    return static_cast<int>(got);
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  char last_ = '\n';
  int lines_ = 0;  // that have been given
};

}  // namespace

Error CsvFile::error(int line, std::string_view message) const {
  return Error::at(fmt::format("{}:{}", path, line), std::string(message));
}

Status CsvFile::check_columns() const {
  std::set<std::string_view> seen;
  for (const std::string& column : rows.front().cells) {
    if (!column.empty() && !seen.insert(column).second)
      return error(rows.front().line,
                   fmt::format("found the column {} twice, expected it once", column));
  }
  return Done{};
}

Result<CsvFile> read_csv(const std::string& path) {
  RETURN_IF_ERROR(check_readable(path, "a CSV file"));
  CsvFile file{path, {}, {}};
  int number = 0;
  try {
    io::LineReader reader(path, std::make_unique<WholeLines>(path));
    while (char* text = reader.next_line()) {
      ++number;
      const std::string_view line = trimmed(text);
      if (line.starts_with('#')) {
        file.comments.emplace_back(trimmed(line.substr(1)));
      } else if (!line.empty()) {
        CsvRow row{number, {}};
        if (!split_cells(text, &row.cells))
          return file.error(number, "found a quote that is never closed, expected a closing \"");
        file.rows.push_back(std::move(row));
      }
    }
  } catch (const std::bad_alloc&) {
    throw;  // the line is not at fault
  } catch (const NulByte& nul) {
    return file.error(nul.line, "found a byte 0, expected text");
  } catch (const std::exception& e) {
    return file.error(number + 1, fmt::format("the line cannot be read: {}", e.what()));
  }
  return file;
}

Result<CsvTable> CsvTable::read(const std::string& path) {
  CsvTable table;
  ASSIGN_OR_RETURN(table.file_, read_csv(path));
  if (table.file_.rows.empty())
    return table.file_.error(1, "found no rows, expected a header row of column names");
  RETURN_IF_ERROR(table.file_.check_columns());
  table.columns_ = table.file_.rows.front().cells;
  table.file_.rows.erase(table.file_.rows.begin());
  for (const CsvRow& row : table.file_.rows) {
    if (row.cells.size() != table.columns_.size())
      return table.file_.error(row.line, fmt::format("found {} cells, expected {} as in the header",
                                                     row.cells.size(), table.columns_.size()));
  }
  return table;
}

int CsvTable::find(std::string_view column) const {
  const auto it = std::find(columns_.begin(), columns_.end(), column);
  return it == columns_.end() ? -1 : static_cast<int>(it - columns_.begin());
}

std::string_view CsvTable::text(int row, std::string_view column) const {
  const int at = find(column);
  return at < 0 ? std::string_view{} : std::string_view(file_.rows[row].cells[at]);
}

Result<double> CsvTable::number(int row, std::string_view column) const {
  auto value = parse_number(text(row, column));
  if (!value.ok()) return error(row, fmt::format("column '{}': {}", column, value.error().text()));
  return value;
}

Result<std::int64_t> CsvTable::integer(int row, std::string_view column) const {
  auto value = parse_integer(text(row, column));
  if (!value.ok()) return error(row, fmt::format("column '{}': {}", column, value.error().text()));
  return value;
}

Error CsvTable::error(int row, std::string_view message) const {
  return file_.error(file_.rows[row].line, message);
}

std::string csv_cell(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  line = harmless(line);
  if (is_formula(line) && !is_number(line)) line.insert(0, 1, kTextMark);
  const bool has_separator = line.find_first_of(",\"") != std::string_view::npos;
  const bool loses_blanks = trimmed(line) != line, is_comment = line.starts_with('#');
  if (!has_separator && !loses_blanks && !is_comment) return line;
  std::string quoted = "\"";
  for (const char c : line) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

Result<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size() || text.empty())
    return Error{fmt::format("found '{}', expected an integer", text)};
  return value;
}

Result<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size() || text.empty() ||
      !std::isfinite(value))
    return Error{fmt::format("found '{}', expected a finite number", text)};
  return value;
}

}  // namespace tandem
