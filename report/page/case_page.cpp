#include "report/page/case_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "report/page/page_parts.h"
#include "report/text/case_cells.h"

namespace tandem {
namespace {

constexpr std::size_t kFarthest = 20;
constexpr int kOfOneFamily = 3;

// A bar would begin a cell of its own.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

// The first `left` columns and the last `tail` to the left, the others to the right.
std::string markdown(const std::vector<Cells>& rows, std::size_t left, std::size_t tail = 0) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const std::string& each : rows[i]) text += fmt::format("| {} ", cell(each));
    text += "|\n";
    if (i > 0) continue;
    for (std::size_t column = 0; column < rows[i].size(); ++column)
      text += column < left || column + tail >= rows[i].size() ? "|---" : "|---:";
    text += "|\n";
  }
  return text;
}

const char* kind_of(const BaselineTool& tool) {
  return tool.reproduced ? "reproduced" : "published";
}

// "Calculon 3.65 on 8 rows (published)"; the rows where they are others than ours.
std::string tool_cell(const std::vector<BaselineTool>& tools, const Accuracy& ours) {
  std::string text;
  for (const BaselineTool& tool : tools) {
    if (tool.family != ours.family) continue;
    const std::string rows = tool.rows > 0 && tool.rows != ours.n + ours.without
                                 ? fmt::format(" on {} rows", tool.rows)
                                 : "";
    text += fmt::format("{}{} {:g}{} ({})", text.empty() ? "" : ", ", tool.tool,
                        tool.mean_absolute_percent, rows, kind_of(tool));
  }
  return text;
}

std::string families_part(const std::vector<CaseRow>& rows,
                          const std::vector<BaselineTool>& tools) {
  const std::vector<Column<Accuracy>> columns = family_columns();
  std::vector<Cells> all = {titles_of(columns)};
  const bool has_rivals = !tools.empty();
  if (has_rivals) all[0].emplace_back("others, mean absolute %");
  for (const Accuracy& family : families_and_all(rows)) {
    all.push_back(cells_of(columns, family));
    if (has_rivals)
      all.back().push_back(family.family == "overall" ? "" : tool_cell(tools, family));
  }
  return markdown(all, 1, has_rivals ? 2 : 1);
}

// Each tool beside us, on the families that are here.
std::string rivals_part(const std::vector<CaseRow>& rows, const std::vector<BaselineTool>& tools) {
  std::vector<Cells> all = {{"family", "tool", "kind", "rows", "mean absolute %", "bias %",
                             "our rows", "our mean absolute %", "our bias %", "source"}};
  for (const Accuracy& family : accuracy_by_family(rows)) {
    for (const BaselineTool& tool : tools) {
      if (tool.family != family.family) continue;
      const bool is_predicted = family.n > 0;
      all.push_back({family.family, tool.tool, kind_of(tool),
                     tool.rows > 0 ? std::to_string(tool.rows) : "not said",
                     fmt::format("{:g}", tool.mean_absolute_percent),
                     tool.bias_percent ? fmt::format("{:+g}", *tool.bias_percent) : "not said",
                     std::to_string(family.n), is_predicted ? percent(family.mape) : "-",
                     is_predicted ? signed_percent(family.bias) : "-", tool.source});
    }
  }
  return all.size() > 1 ? markdown(all, 3, 1) : "No other tool's figures.\n";
}

// Each family's worst row, then the worst of all; few of one family, or one would fill the table.
std::vector<const CaseRow*> farthest_rows(const std::vector<CaseRow>& rows) {
  std::vector<const CaseRow*> sorted;
  for (const CaseRow& row : rows) {
    if (row.prediction) sorted.push_back(&row);
  }
  const auto size = [](const CaseRow* row) { return std::abs(row->error()); };
  std::ranges::stable_sort(sorted, std::ranges::greater{}, size);
  std::map<std::string, int> of_family;
  std::vector<const CaseRow*> first, more;
  for (const CaseRow* row : sorted) {
    const int seen = of_family[row->run.family]++;
    if (seen == 0) {
      first.push_back(row);
    } else if (seen < kOfOneFamily) {
      more.push_back(row);
    }
  }
  const std::size_t room = kFarthest - std::min(kFarthest, first.size());
  more.resize(std::min(more.size(), room));
  first.insert(first.end(), more.begin(), more.end());
  std::ranges::stable_sort(first, std::ranges::greater{}, size);
  return first;
}

// "GPT 22B, tp 8, pp 2, dp 4": what the file says of it.
std::string plan_cell(const Case& run) {
  std::string text = run.model;
  const std::pair<const char*, int> sizes[] = {
      {"GPUs", run.gpus}, {"tp", run.tp}, {"pp", run.pp}, {"vpp", run.vpp},
      {"cp", run.cp},     {"ep", run.ep}, {"dp", run.dp}, {"b", run.micro_batch}};
  for (const auto& [name, size] : sizes) {
    if (size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size);
  }
  return text;
}

std::string farthest_part(const std::vector<CaseRow>& rows) {
  const std::vector<Column<CaseRow>> columns = case_columns();
  std::vector<Cells> all = {titles_of(columns)};
  all[0].emplace_back("run");
  for (const CaseRow* row : farthest_rows(rows)) {
    all.push_back(cells_of(columns, *row));
    all.back().push_back(plan_cell(row->run));
  }
  return markdown(all, 2, 1);
}

std::string unpredicted_part(const std::vector<CaseRow>& rows) {
  const std::string text = reasons(rows, "- ");
  return text.empty() ? "All rows are predicted.\n" : text;
}

std::vector<PagePart> parts_of(const std::vector<CaseRow>& rows,
                               const std::vector<BaselineTool>& tools) {
  return {{"families", families_part(rows, tools)},
          {"rivals", rivals_part(rows, tools)},
          {"farthest", farthest_part(rows)},
          {"not predicted", unpredicted_part(rows)}};
}

}  // namespace

std::string case_page(const std::vector<CaseRow>& rows, const std::vector<BaselineTool>& tools,
                      const std::string& title) {
  std::string text = fmt::format("# {}\n\n{}", title, families_part(rows, tools));
  if (!tools.empty()) text += "\n## Other tools\n\n" + rivals_part(rows, tools);
  text += "\n## Farthest off\n\n" + farthest_part(rows);
  const std::string below = reasons(rows, "- ");
  return text + (below.empty() ? "" : "\n## Not predicted\n\n" + below);
}

Result<std::string> updated_page(const std::string& page, const std::string& path,
                                 const std::vector<CaseRow>& rows,
                                 const std::vector<BaselineTool>& tools, const std::string& maker) {
  return with_parts(page, path, maker, parts_of(rows, tools));
}

std::string maker_of(const std::string& page, const std::string& stem) {
  const std::string own = "./dev accuracy of " + stem;
  return page.find("<!-- made by " + own + ": ") == std::string::npos ? "./dev accuracy" : own;
}

}  // namespace tandem
