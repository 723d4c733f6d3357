// Makes a page's table from a sweep's CSV: the columns in which runs differ, the axes that its
// chart shows first, and the rows that do not fit into memory.
#include "report/page/sweep_page.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include "base/csv.h"
#include "planning/sweep/results.h"

namespace tandem {
namespace {

using Better = PageColumn::Better;

// A result that the page shows.
struct ShownColumn {
  std::string_view csv_column;
  PageColumn column;
};
const std::array<ShownColumn, 9> kShownColumns = {
    {{"gpus", {"GPUs", "", Better::Less}},
     {"iteration_s", {"iteration", "s", Better::Less}},
     {"tokens_per_s", {"tokens", "1/s", Better::More}},
     {"tokens_per_s_per_gpu", {"tokens a GPU", "1/s", Better::More}},
     {"mfu", {"MFU", "share", Better::More}},
     {"bubble_fraction", {"bubble", "share", Better::Less}},
     {"memory_bytes.total", {"memory", "bytes", Better::Less}},
     {"verdict", {"fits", "", Better::Neither}},
     {"error", {"error", "", Better::Neither}}}};

// Returns the column's numbers and texts; an empty cell has no value. "007" is no number in a
// column of texts.
std::vector<PageCell> cells_of(const CsvTable& csv, std::string_view column) {
  const bool is_text = holds_texts(std::string(column));
  std::vector<PageCell> cells;
  for (int row = 0; row < csv.size(); ++row) {
    const std::string text(csv.text(row, column));
    const auto number = parse_number(text);
    cells.push_back(text.empty()              ? PageCell()
                    : is_text || !number.ok() ? PageCell(text)
                                              : PageCell(*number));
  }
  return cells;
}

// Returns the verdicts on memory as printed tables have them.
std::vector<PageCell> verdicts_of(const CsvTable& csv) {
  std::vector<PageCell> verdicts = cells_of(csv, "verdict");
  std::ranges::replace(verdicts, PageCell("no"), PageCell("NO"));
  return verdicts;
}

// Returns whether a result is worth a column: runs differ in it, or all fail or are not sure to
// fit.
bool is_news(const std::vector<PageCell>& cells) {
  return differ(cells) ||
         (std::holds_alternative<std::string>(cells.front()) && cells.front() != PageCell("yes"));
}

// Returns whether some of the column's numbers differ; failed runs have none.
bool varies(const PageTable& table, std::size_t column) {
  std::set<double> numbers;
  for (const std::vector<PageCell>& row : table.rows) {
    if (const double* number = std::get_if<double>(&row[column])) numbers.insert(*number);
  }
  return numbers.size() > 1;
}

// Returns the bytes that tensors may fill on a GPU of the row's run: capacity less memory outside
// tensors.
std::optional<double> usable_bytes(const CsvTable& csv, int row) {
  if (!csv.has("memory_bytes.capacity") || !csv.has("memory_bytes.outside")) return std::nullopt;
  const auto capacity = parse_number(csv.text(row, "memory_bytes.capacity"));
  const auto outside = parse_number(csv.text(row, "memory_bytes.outside"));
  if (!capacity.ok() || !outside.ok()) return std::nullopt;
  return *capacity - *outside;
}

// Sets the rows that do not fit, and the limit of memory if it is the same for all runs.
void add_memory(const CsvTable& csv, PageTable* table) {
  const auto memory = std::ranges::find(table->columns, "memory", &PageColumn::name);
  std::set<double> usable;
  for (int row = 0; row < csv.size(); ++row) {
    if (csv.has("fits") && csv.text(row, "fits") == "false")
      table->unfit.push_back(static_cast<std::size_t>(row));
    if (const auto bytes = usable_bytes(csv, row)) usable.insert(*bytes);
  }
  if (memory != table->columns.end() && usable.size() == 1)
    table->limit = {static_cast<std::size_t>(memory - table->columns.begin()), *usable.begin(),
                    "capacity less CUDA and NCCL"};
}

// Returns the keys that runs set. Their columns are between "engine" and the first result, "axes".
std::vector<std::string> set_columns(const CsvTable& csv) {
  const std::vector<std::string>& names = csv.columns();
  const auto engine = std::ranges::find(names, "engine");
  const auto results = std::find(engine, names.end(), "axes");
  return engine == results ? std::vector<std::string>()
                           : std::vector<std::string>(engine + 1, results);
}

// Adds a column that marks the runs whose cost model no measured run supports, if there are some.
void add_guesses(const CsvTable& csv, PageTable* table) {
  std::vector<PageCell> marks;
  bool has_guess = false;
  for (int row = 0; row < csv.size(); ++row) {
    const bool is_guess = csv.text(row, "calibrated") == "false";
    marks.push_back(is_guess ? PageCell("no: a guess") : PageCell());
    has_guess |= is_guess;
  }
  if (has_guess) add_column(table, {"calibrated"}, marks);
}

// Sets the columns that the chart shows first, and its frontier. A column that is missing is 0, the
// run's name.
void set_axes(PageTable* table) {
  const auto index_of = [&](std::string_view name) -> std::optional<std::size_t> {
    const auto column = std::ranges::find(table->columns, name, &PageColumn::name);
    if (column == table->columns.end()) return std::nullopt;
    return static_cast<std::size_t>(column - table->columns.begin());
  };
  const auto gpus = index_of("GPUs"), iteration = index_of("iteration");
  const auto y = index_of("tokens") ? index_of("tokens") : iteration;
  auto x = gpus && varies(*table, *gpus) ? gpus : index_of("memory");
  if (!x) x = iteration;
  table->x = x.value_or(0);
  table->y = y.value_or(0);
  if (x && y) table->frontier = frontier_of(*table);
}

}  // namespace

Result<PageTable> sweep_table(const std::string& results_csv) {
  ASSIGN_OR_RETURN(const CsvTable csv, CsvTable::read(results_csv));
  PageTable table{.title = std::filesystem::path(results_csv).filename().string()};
  if (csv.size() == 0) return table;
  add_column(&table, {"run"}, cells_of(csv, "name"));
  for (const std::string& column : set_columns(csv)) {
    const std::vector<PageCell> cells = cells_of(csv, column);
    if (differ(cells)) add_column(&table, {column}, cells);
  }
  for (const auto& [csv_column, column] : kShownColumns) {
    if (!csv.has(csv_column)) continue;
    const std::vector<PageCell> cells =
        csv_column == "verdict" ? verdicts_of(csv) : cells_of(csv, csv_column);
    if (is_news(cells)) add_column(&table, column, cells);
  }
  add_guesses(csv, &table);
  add_memory(csv, &table);
  set_axes(&table);  // its frontier leaves out the rows that add_memory found unfit
  return table;
}

}  // namespace tandem
