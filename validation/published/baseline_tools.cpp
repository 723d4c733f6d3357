#include "validation/published/baseline_tools.h"

#include <fmt/format.h>

#include <cmath>

#include "base/csv.h"

namespace tandem {
namespace {

constexpr const char* kRequired[] = {"tool", "family", "mean_absolute_percent", "kind", "source"};
constexpr int kMostRows = 1'000'000'000;

Result<BaselineTool> read_baseline_tool(const CsvTable& table, int row) {
  for (const char* column : kRequired) {
    if (table.text(row, column).empty())
      return table.error(row, fmt::format("column '{}': found nothing, expected a text", column));
  }
  BaselineTool tool{.tool = std::string(table.text(row, "tool")),
                    .family = std::string(table.text(row, "family")),
                    .source = std::string(table.text(row, "source"))};
  const std::string_view kind = table.text(row, "kind");
  if (kind != "published" && kind != "reproduced")
    return table.error(
        row, fmt::format("column 'kind': found {}, expected published or reproduced", kind));
  tool.reproduced = kind == "reproduced";
  ASSIGN_OR_RETURN(tool.mean_absolute_percent, table.number(row, "mean_absolute_percent"));
  if (tool.mean_absolute_percent < 0)
    return table.error(row,
                       fmt::format("column 'mean_absolute_percent': found {:g}, expected 0 or more",
                                   tool.mean_absolute_percent));
  if (!table.text(row, "rows").empty()) {
    ASSIGN_OR_RETURN(const std::int64_t rows, table.integer(row, "rows"));
    if (rows < 1 || rows > kMostRows)
      return table.error(row,
                         fmt::format("column 'rows': found {}, expected 1 to {}", rows, kMostRows));
    tool.rows = static_cast<int>(rows);
  }
  if (!table.text(row, "bias_percent").empty()) {
    ASSIGN_OR_RETURN(const double bias, table.number(row, "bias_percent"));
    if (std::abs(bias) > tool.mean_absolute_percent)
      return table.error(row, fmt::format("column 'bias_percent': found {:g}, expected at most the "
                                          "mean absolute {:g} on either side",
                                          bias, tool.mean_absolute_percent));
    tool.bias_percent = bias;
  }
  return tool;
}

}  // namespace

Result<std::vector<BaselineTool>> read_rivals(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  for (const char* column : kRequired) {
    if (!table.has(column))
      return Error::at(fmt::format("{}:1", path),
                       fmt::format("found no column '{}', expected the columns {}", column,
                                   fmt::join(kRequired, ", ")));
  }
  std::vector<BaselineTool> tools;
  for (int row = 0; row < table.size(); ++row) {
    ASSIGN_OR_RETURN(BaselineTool tool, read_baseline_tool(table, row));
    tools.push_back(std::move(tool));
  }
  return tools;
}

}  // namespace tandem
