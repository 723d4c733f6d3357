// Makes a page's table from a sweep's CSV: the columns in which runs differ, the axes that its
// chart shows first, and the rows that do not fit into memory.
#include "report/page/sweep_page.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include "base/csv.h"

namespace tandem {
namespace {

using Better = PageColumn::Better;

// The results that the table has: `column` of the CSV, and how it is shown.
struct ShownColumn {
  std::string_view column;
  PageColumn as;
};
const std::array<ShownColumn, 9> kShownColumns = {
    {{"gpus", {"GPUs", "", Better::Less}},
     {"iteration_s", {"iteration", "s", Better::Less}},
     {"tokens_per_s", {"tokens", "1/s", Better::More}},
     {"tokens_per_s_per_gpu", {"tokens a GPU", "1/s", Better::More}},
     {"mfu", {"MFU", "share", Better::More}},
     {"bubble_fraction", {"bubble", "share", Better::Less}},
     {"memory_bytes.total", {"memory", "bytes", Better::Less}},
     {"fits", {"fits", "", Better::Neither}},
     {"error", {"error", "", Better::Neither}}}};

PageCell cell_of(std::string_view text) {
  if (text.empty()) return {};
  if (const auto number = parse_number(std::string(text)); number.ok()) return *number;
  return std::string(text);
}

std::vector<PageCell> cells_of(const CsvTable& csv, std::string_view column) {
  std::vector<PageCell> cells;
  for (int row = 0; row < csv.size(); ++row) cells.push_back(cell_of(csv.text(row, column)));
  return cells;
}

// Returns whether some of the column's numbers differ; failed runs have none.
bool varies(const PageTable& table, std::size_t column) {
  std::set<double> numbers;
  for (const std::vector<PageCell>& row : table.rows) {
    if (const double* number = std::get_if<double>(&row[column])) numbers.insert(*number);
  }
  return numbers.size() > 1;
}

// Returns the bytes of a GPU that the row's run may fill: capacity less what is no tensor.
std::optional<double> usable_bytes(const CsvTable& csv, int row) {
  if (!csv.has("memory_bytes.capacity") || !csv.has("memory_bytes.outside")) return std::nullopt;
  const PageCell capacity = cell_of(csv.text(row, "memory_bytes.capacity"));
  const PageCell outside = cell_of(csv.text(row, "memory_bytes.outside"));
  const auto *all = std::get_if<double>(&capacity), *kept = std::get_if<double>(&outside);
  if (all == nullptr || kept == nullptr) return std::nullopt;
  return *all - *kept;
}

// Notes the rows that do not fit, and the limit of memory if it is the same for all runs.
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
std::vector<std::string> set_columns(const std::string& path) {
  std::vector<std::string> columns;
  const auto file = read_csv(path);
  if (!file.ok() || file->rows.empty()) return columns;
  const std::vector<std::string>& names = file->rows.front().cells;
  const auto engine = std::ranges::find(names, "engine");
  const auto results = std::find(engine, names.end(), "axes");
  for (auto at = engine; at != results; ++at) {
    if (at != engine) columns.push_back(*at);
  }
  return columns;
}

}  // namespace

Result<PageTable> sweep_table(const std::string& results_csv) {
  ASSIGN_OR_RETURN(const CsvTable csv, CsvTable::read(results_csv));
  PageTable table{.title = std::filesystem::path(results_csv).filename().string()};
  if (csv.size() == 0) return table;
  add_column(&table, {"run"}, cells_of(csv, "name"));
  for (const std::string& column : set_columns(results_csv)) {
    const std::vector<PageCell> cells = cells_of(csv, column);
    if (differ(cells)) add_column(&table, {column}, cells);
  }
  for (const auto& [column, as] : kShownColumns) {
    const std::vector<PageCell> cells = cells_of(csv, column);
    if (csv.has(column) && differ(cells)) add_column(&table, as, cells);
  }
  std::vector<PageCell> guesses;
  for (int row = 0; row < csv.size(); ++row)
    guesses.push_back(csv.text(row, "calibrated") == "false" ? PageCell("no: a guess")
                                                             : PageCell());
  if (differ(guesses) || guesses.front().index() != 0) add_column(&table, {"calibrated"}, guesses);
  const auto place = [&](std::string_view name) {
    const auto at = std::ranges::find(table.columns, name, &PageColumn::name);
    return at == table.columns.end() ? 0 : static_cast<std::size_t>(at - table.columns.begin());
  };
  table.y = place("tokens") > 0 ? place("tokens") : place("iteration");
  table.x = varies(table, place("GPUs")) ? place("GPUs") : place("memory");
  if (table.x == 0) table.x = place("iteration");
  add_memory(csv, &table);
  if (table.x > 0 && table.y > 0) table.frontier = frontier_of(table);
  return table;
}

}  // namespace tandem
