// Lays out a table whose columns may be wider in sum than the terminal. In: headings, rows, and the
// terminal's width. Out: lines of text. The columns are cut into blocks, one below the other, by
// first fit: a column goes into the first block with room. Each block repeats the rows' names:
//
//   run  GPUs  iteration s
//   a      64        1.234
//
//   run  MFU %   GiB
//   a     41.2  63.1
//
// A column of "text" is aligned to the left, and its cells may wrap. Widths are in characters.
#include "report/text/text_table.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/split.h"
#include "base/xml.h"

namespace tandem {
namespace {

bool is_left(Place place, Align align) {
  return align == Align::Left || (align == Align::Auto && place == Place::Name);
}

constexpr int kGap = 2;             // blanks between columns
constexpr std::size_t kIndent = 2;  // blanks before the continuation of a wrapped line

// Makes text of users or their files printable, and cuts it if it is very long.
std::string shown(const std::string& text) { return printable(kept_short(text)); }

// Counts characters, not bytes: all but UTF-8's continuation bytes.
int columns_of(const std::string& text) {
  return static_cast<int>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

int longest_word(const std::string& text) {
  int most = 0;
  for (const std::string& word : split_words(text)) most = std::max(most, columns_of(word));
  return most;
}

// Returns how many bytes of a word to put on a line of `width` characters. The word is cut after
// the last '-', '/', ',', '_' or '=' that fits, or else where the line is full.
std::size_t first_part_size(const std::string& word, int width) {
  std::size_t end = 0, after_sign = 0;
  for (int columns = 0; end < word.size(); ++end) {
    if (columns_of(word.substr(end, 1)) == 1 && ++columns > width) break;
    if (end > 0 && std::string_view("-/,_=").find(word[end - 1]) != std::string_view::npos)
      after_sign = end;
  }
  return after_sign > 0 ? after_sign : end;
}

// Cuts the words of a line that are wider than `width`.
std::string with_narrow_words(const std::string& line, int width) {
  if (longest_word(line) <= width) return line;
  std::string narrow;
  for (std::string word : split_words(line)) {
    for (; columns_of(word) > width; word.erase(0, first_part_size(word, width)))
      narrow += word.substr(0, first_part_size(word, width)) + ' ';
    narrow += word + ' ';
  }
  return narrow.erase(narrow.find_last_not_of(' ') + 1);
}

// Breaks one line at blanks; blanks at its beginning stay.
std::vector<std::string> broken(const std::string& line, int width) {
  if (columns_of(line) <= width) return {line};
  std::vector<std::string> lines;
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string::npos) return {""};
  std::string current(first, ' ');
  bool empty = true;
  for (const std::string& word : split(line.substr(first), " ")) {
    if (!empty && columns_of(current) + 1 + columns_of(word) > width) {
      lines.push_back(std::move(current));
      current.assign(first + kIndent, ' ');
      empty = true;
    }
    current += (empty ? "" : " ") + word;
    empty = false;
  }
  lines.push_back(std::move(current));
  return lines;
}

// Returns a row's cell. A row that ends early has empty cells there.
std::string cell_of(const Cells& cells, std::size_t i) { return i < cells.size() ? cells[i] : ""; }

// The columns of one table in blocks. A group of columns that stay together (one and those of
// Place::Beside that follow it) goes into the first block with room, groups of Place::First before
// the others. Columns of text are narrowed to make room; columns of numbers never are.
class ColumnBlocks {
 public:
  ColumnBlocks(const std::vector<Heading>& headings, const std::vector<Cells>& rows, int width)
      : headings_(headings), rows_(rows), width_(width), widths_(headings.size()) {
    for (std::size_t i = 0; i < headings.size(); ++i) {
      widths_[i] = std::max(columns_of(headings[i].title), widest_cell(i));
      if (headings[i].place == Place::Name) names_.push_back(i);
    }
    wrap_titles();
    narrow_names();
    for (const Group& group : groups()) put(group);
    for (const Group& block : blocks_) narrow(block, width_of(block) - room());
    if (blocks_.empty()) blocks_.emplace_back();
  }

  std::string text() const {
    std::string all;
    for (const Group& block : blocks_) {
      if (!all.empty()) all += '\n';
      Group columns = names_;
      columns.insert(columns.end(), block.begin(), block.end());
      if (std::ranges::any_of(headings_, [](const Heading& h) { return !h.title.empty(); })) {
        Cells titles;
        for (const Heading& heading : headings_) titles.push_back(heading.title);
        all += line(columns, titles);
      }
      for (const Cells& cells : rows_) all += line(columns, cells);
    }
    return all;
  }

 private:
  using Group = std::vector<std::size_t>;  // indices of columns, ascending

  int widest_cell(std::size_t i) const {
    int widest = 0;
    for (const Cells& cells : rows_) widest = std::max(widest, columns_of(cell_of(cells, i)));
    return widest;
  }

  // Returns the width of these columns, with a gap before each, the first included.
  int width_of(const Group& group) const {
    return std::accumulate(group.begin(), group.end(), 0,
                           [this](int sum, std::size_t i) { return sum + kGap + widths_[i]; });
  }

  // Returns the width below which no column of text is narrowed: a quarter of the terminal's, from
  // 6 to 16 characters.
  int least_text() const { return std::clamp(width_ / 4, 6, 16); }

  // Wraps the title of a number that has no room beside the narrowest names.
  void wrap_titles() {
    int names = 0;
    for (const std::size_t i : names_)
      names += kGap + (is_text(i) ? std::min(widths_[i], least_text()) : widths_[i]);
    for (std::size_t i = 0; i < headings_.size(); ++i) {
      if (is_text(i) || names + widths_[i] <= width_) continue;
      widths_[i] = std::max(longest_word(headings_[i].title), widest_cell(i));
    }
  }

  // Narrows the names until all of them together take at most half of the width and leave room for
  // the widest column of numbers. If the table has nothing but names, they keep their widths.
  void narrow_names() {
    if (headings_.size() == names_.size()) return;
    int widest_number = 0;
    for (std::size_t i = 0; i < headings_.size(); ++i) {
      if (!is_text(i)) widest_number = std::max(widest_number, kGap + widths_[i]);
    }
    const int most = std::min(width_ / 2, width_ - widest_number);
    narrow(names_, width_of(names_) - kGap - most);
  }

  // Returns the groups in the order in which they are put into blocks.
  std::vector<Group> groups() const {
    std::vector<Group> first, others;
    for (std::size_t i = 0; i < headings_.size(); ++i) {
      if (headings_[i].place == Place::Name) continue;
      std::vector<Group>& list = place_of_group(i) == Place::First ? first : others;
      if (headings_[i].place != Place::Beside) list.emplace_back();
      CHECK(!list.empty());
      list.back().push_back(i);
    }
    first.insert(first.end(), others.begin(), others.end());
    return first;
  }

  // Returns the place of the first column of the column's group.
  Place place_of_group(std::size_t i) const {
    while (i > 0 && headings_[i].place == Place::Beside) --i;
    return headings_[i].place;
  }

  // Returns the least width of a group: its text may shrink to two thirds, but not below
  // least_text().
  int least_of(const Group& group) const {
    int sum = 0;
    for (const std::size_t i : group)
      sum += kGap + (is_text(i) ? std::min(widths_[i], std::max(least_text(), 2 * widths_[i] / 3))
                                : widths_[i]);
    return sum;
  }

  // Returns the most that width_of() may be for a block: the width that the names leave, and the
  // gap that is counted before the line's first column, which has none.
  int room() const { return width_ - width_of(names_) + kGap; }

  // Puts a group into the first block with room, or into a new one. A group too wide for any block
  // is taken apart, and its columns are put one by one. Text is narrowed to make room, but in the
  // first block only for groups of Place::First.
  void put(const Group& group) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      Group both = blocks_[b];
      both.insert(both.end(), group.begin(), group.end());
      const bool narrows_text = b > 0 || headings_[group.front()].place == Place::First;
      if ((narrows_text ? least_of(both) : width_of(both)) > room()) continue;
      std::ranges::sort(both);
      blocks_[b] = std::move(both);
      return;
    }
    if (group.size() == 1 || least_of(group) <= room()) {
      blocks_.push_back(group);
      return;
    }
    for (const std::size_t i : group) put({i});
  }

  // Narrows the text among these columns by `over` characters in sum, the widest first, but none to
  // less than least_text().
  void narrow(const Group& columns, int over) {
    Group texts;
    std::ranges::copy_if(columns, std::back_inserter(texts), [this](auto i) { return is_text(i); });
    if (texts.empty()) return;
    for (; over > 0; --over) {
      int& widest =
          widths_[*std::ranges::max_element(texts, {}, [this](auto i) { return widths_[i]; })];
      if (widest <= least_text()) return;
      --widest;
    }
  }

  bool is_text(std::size_t i) const { return is_left(headings_[i].place, headings_[i].align); }

  // Writes a row's cells of these columns, on as many lines as its highest cell has.
  std::string line(const Group& columns, const Cells& cells) const {
    std::vector<std::vector<std::string>> parts;
    std::size_t height = 1;
    for (const std::size_t i : columns) {
      const std::string cell = cell_of(cells, i);
      const bool wraps = is_text(i) || columns_of(cell) > widths_[i];
      parts.push_back(wraps ? wrapped_cell(cell, widths_[i]) : Cells{cell});
      height = std::max(height, parts.back().size());
    }
    std::string text;
    for (std::size_t row = 0; row < height; ++row) {
      std::string out;
      for (std::size_t k = 0; k < columns.size(); ++k) {
        const std::string part = row < parts[k].size() ? parts[k][row] : "";
        const std::string blanks(
            static_cast<std::size_t>(std::max(0, widths_[columns[k]] - columns_of(part))), ' ');
        out += (k > 0 ? std::string(kGap, ' ') : "") +
               (is_text(columns[k]) ? part + blanks : blanks + part);
      }
      out.erase(out.find_last_not_of(' ') + 1);
      text += out + '\n';
    }
    return text;
  }

  // Wraps a cell. Its further lines are indented if there is room.
  static Cells wrapped_cell(const std::string& cell, int width) {
    const int indent = static_cast<int>(kIndent);
    if (longest_word(cell) <= width - indent) return broken(cell, width);
    Cells lines(1);
    for (const std::string& word : split_words(with_narrow_words(cell, width))) {
      if (!lines.back().empty() && columns_of(lines.back()) + 1 + columns_of(word) > width)
        lines.emplace_back();
      lines.back() += (lines.back().empty() ? "" : " ") + word;
    }
    return lines;
  }

  const std::vector<Heading>& headings_;
  const std::vector<Cells>& rows_;
  int width_;
  std::vector<int> widths_;
  Group names_;
  std::vector<Group> blocks_;
};

}  // namespace

std::string laid_out(const std::vector<Heading>& headings, const std::vector<Cells>& rows,
                     int width) {
  std::vector<Heading> titles = headings;
  for (Heading& heading : titles) heading.title = shown(heading.title);
  std::vector<Cells> all = rows;
  for (Cells& cells : all) {
    for (std::string& cell : cells) cell = shown(cell);
  }
  return ColumnBlocks(titles, all, width).text();
}

std::string markdown(const std::vector<Heading>& headings, const std::vector<Cells>& rows) {
  const auto line = [](const Cells& cells) {
    std::string text;
    for (const std::string& cell : cells) {
      text += "| ";
      for (const char c : shown(cell)) text += c == '|' ? std::string("\\|") : std::string(1, c);
      text += ' ';
    }
    return text + "|\n";
  };
  Cells titles;
  std::string rule;
  for (const Heading& heading : headings) {
    titles.push_back(heading.title);
    rule += is_left(heading.place, heading.align) ? "|---" : "|---:";
  }
  std::string text = line(titles) + rule + "|\n";
  for (const Cells& row : rows) text += line(row);
  return text;
}

namespace {

// Makes a line printable. Only its words are cut if they are very long, as notes may be long.
std::string shown_words(const std::string& line) {
  std::string all;
  for (const std::string& word : split(line, " ")) all += shown(word) + ' ';
  if (!all.empty()) all.pop_back();
  return all;
}

// Cuts a shell command before its options: the program, then each option together with its values.
std::vector<std::string> command_options(const std::string& command) {
  std::vector<std::string> options(1);
  bool quoted = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (!quoted && command.compare(i, 3, " --") == 0) options.emplace_back();
    const bool is_escaped = !quoted && i > 0 && command[i - 1] == '\\';
    if (command[i] == '\'' && !is_escaped) quoted = !quoted;
    options.back() += command[i];
  }
  return options;
}

}  // namespace

std::string wrapped(const std::string& text, int width) {
  std::string all;
  for (const std::string& line : split(text, "\n")) {
    for (const std::string& part : broken(shown_words(line), width)) all += part + '\n';
  }
  if (!text.ends_with('\n') && !all.empty()) all.pop_back();
  return all;
}

std::string wrapped_command(const std::string& command, int width) {
  std::vector<std::string> pieces;  // options, and parts of those that are too wide
  bool quoted = false;
  for (const std::string& option : command_options(command)) {
    if (columns_of(option) <= width - 3) {  // 3: the indent and " \"
      pieces.push_back(option);
      continue;
    }
    std::string piece;
    for (const char c : option) {
      const bool is_escaped = !quoted && piece.ends_with('\\');  // in 'it'\''s'
      if (c == '\'' && !is_escaped) quoted = !quoted;
      if (c == ' ' && !quoted && piece.find_first_not_of(' ') != std::string::npos)
        pieces.push_back(std::exchange(piece, ""));
      piece += c;
    }
    pieces.push_back(piece);
  }
  std::string all, line;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const int tail = i + 1 < pieces.size() ? 2 : 0;  // " \"
    if (!line.empty() && columns_of(line) + columns_of(pieces[i]) > width - tail) {
      all += line + " \\\n";
      line = std::string(kIndent - 1, ' ');
    }
    line += pieces[i];
  }
  return all + line;
}

}  // namespace tandem
