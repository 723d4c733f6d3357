// Text tables that fit a width.
//
// A table is a list of columns, each with a title, a function that takes the cell from a row, and a
// place. If all columns fit into the width, they stand side by side, as listed. If not, those of
// Place::First fill the first block, and those of Place::Second the room that is left in it. The
// others follow in blocks below, each of which begins with the rows' names. No column is left out
// and no number is cut. Cells that are aligned to the left are text: they may wrap at blanks. Where
// there is little room, titles of numbers wrap too, and words in columns are cut.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tandem {

// The width that puts a table into one block and wraps no line, for files, pipes and --wide.
inline constexpr int kAnyWidth = 1'000'000;

enum class Place {
  Name,    // says what the row is: to the left, in every block
  First,   // stays in the first block for as long as there is room
  Second,  // comes after those of First
  Beside,  // stays beside the column before it, as a part of it
};

enum class Align { Auto, Left, Right };  // Auto: names to the left, others to the right

using Cells = std::vector<std::string>;

// A column without its rows.
struct Heading {
  std::string title;
  Place place = Place::Second;
  Align align = Align::Auto;
};

template <class Row>
struct Column {
  std::string title;
  std::function<std::string(const Row&)> cell;
  Place place = Place::Second;
  Align align = Align::Auto;
};

// Returns the table's blocks, with an empty line between them. A row may have fewer cells than
// there are headings. If no heading has a title, there is no line of titles.
std::string laid_out(const std::vector<Heading>& headings, const std::vector<Cells>& rows,
                     int width);

template <class Row>
Cells cells_of(const std::vector<Column<Row>>& columns, const Row& row) {
  Cells cells;
  for (const Column<Row>& column : columns) cells.push_back(column.cell(row));
  return cells;
}

template <class Row, class Holds>  // whether a Row is kept
std::vector<Row> rows_where(const std::vector<Row>& rows, Holds holds) {
  std::vector<Row> kept;
  for (const Row& row : rows) {
    if (holds(row)) kept.push_back(row);
  }
  return kept;
}

// Adds columns with the cell `none` in rows for which has(row) does not hold.
template <class Row, class Has>
void add_where(Has has, const std::string& none, const std::vector<Column<Row>>& more,
               std::vector<Column<Row>>* columns) {
  for (Column<Row> column : more) {
    column.cell = [cell = column.cell, has, none](const Row& row) {
      return has(row) ? cell(row) : none;
    };
    columns->push_back(std::move(column));
  }
}

template <class Row>
std::vector<Heading> headings_of(const std::vector<Column<Row>>& columns) {
  std::vector<Heading> headings;
  for (const Column<Row>& column : columns)
    headings.push_back({column.title, column.place, column.align});
  return headings;
}

template <class Row, class Rows>
std::vector<Cells> all_cells(const std::vector<Column<Row>>& columns, const Rows& rows) {
  std::vector<Cells> cells;
  for (const Row& row : rows) cells.push_back(cells_of(columns, row));
  return cells;
}

template <class Row, class Rows>
std::string text_table(const std::vector<Column<Row>>& columns, const Rows& rows, int width) {
  return laid_out(headings_of(columns), all_cells(columns, rows), width);
}

// Returns the same columns and rows as Markdown, whatever their width; a '|' in a cell is escaped.
std::string markdown(const std::vector<Heading>& headings, const std::vector<Cells>& rows);

template <class Row, class Rows>
std::string markdown_table(const std::vector<Column<Row>>& columns, const Rows& rows) {
  return markdown(headings_of(columns), all_cells(columns, rows));
}

// Breaks each line at blanks, so that none is longer than `width` unless a single word is. The
// further lines are indented.
std::string wrapped(const std::string& text, int width);

// Breaks a shell command before its options. Each line but the last ends with a backslash, so that
// the command can be pasted as it is.
std::string wrapped_command(const std::string& command, int width);

}  // namespace tandem
