#include "report/text/kernel_table.h"

#include <fmt/format.h>

#include "report/text/case_cells.h"

namespace tandem {

std::string kernel_table(const std::vector<KernelErrors>& lines) {
  using Of = const KernelErrors&;
  const std::vector<Column<KernelErrors>> columns = {
      {"GPU or preset", [](Of line) { return line.name; }, Place::Name},
      {"what", [](Of line) { return line.what; }, Place::Name},
      {"rows", [](Of line) { return std::to_string(line.errors.n); }},
      {"median %", [](Of line) { return percent(line.errors.median); }},
      {"mean absolute %", [](Of line) { return percent(line.errors.mape); }},
      {"bias %", [](Of line) { return signed_percent(line.errors.bias); }}};
  return markdown_table(columns, lines);
}

}  // namespace tandem
