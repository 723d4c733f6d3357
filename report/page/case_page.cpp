// Writes Markdown about the accuracy on published runs. A row is one measured run with our
// prediction of it; rows are grouped into families. The page compares each family's errors with
// those of other tools, and lists the rows that are farthest off or have no prediction.
#include "report/page/case_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/page/page_parts.h"
#include "report/text/case_cells.h"

namespace tandem {
namespace {

constexpr std::size_t kFarthest = 20;  // rows of the table of those farthest off
constexpr int kOfOneFamily = 3;        // of these rows, the most of one family

// Returns how a tool's figures were found: by running the tool again, or from its authors. The word
// goes into Markdown cells, so it has no "|", which would begin a new cell.
const char* kind_of(const BaselineTool& tool) {
  return tool.reproduced ? "reproduced" : "published";
}

// Returns "Calculon 3.65 on 8 rows (published)": mean absolute error in per cent. The number of
// rows is left out if our prediction has as many.
std::string tool_cell(const std::vector<BaselineTool>& tools, const Accuracy& ours) {
  std::string text;
  for (const BaselineTool& tool : tools) {
    if (tool.family != ours.family) continue;
    const bool says_rows = tool.rows > 0, has_our_rows = tool.rows == ours.n + ours.without;
    const std::string rows =
        says_rows && !has_our_rows ? fmt::format(" on {} rows", tool.rows) : "";
    text += fmt::format("{}{} {:g}{} ({})", text.empty() ? "" : ", ", tool.tool,
                        tool.mean_absolute_percent, rows, kind_of(tool));
  }
  return text;
}

std::string families_part(const std::vector<CaseRow>& rows,
                          const std::vector<BaselineTool>& tools) {
  std::vector<Column<Accuracy>> columns = family_columns();
  columns.back().align = Align::Left;
  if (!tools.empty())
    columns.push_back({"others, mean absolute %",
                       [&](const Accuracy& family) {
                         return family.family == "overall" ? "" : tool_cell(tools, family);
                       },
                       Place::Second, Align::Left});
  return markdown_table(columns, families_and_all(rows));
}

// A tool's figures beside ours, on one family.
struct ToolBesideUs {
  Accuracy ours;
  BaselineTool tool;
};

std::string rivals_part(const std::vector<CaseRow>& rows, const std::vector<BaselineTool>& tools) {
  std::vector<ToolBesideUs> all;
  for (const Accuracy& family : accuracy_by_family(rows)) {
    for (const BaselineTool& tool : tools) {
      if (tool.family == family.family) all.push_back({family, tool});
    }
  }
  if (all.empty()) return "No other tool's figures.\n";
  using Row = const ToolBesideUs&;
  const std::vector<Column<ToolBesideUs>> columns = {
      {"family", [](Row r) { return r.ours.family; }, Place::Name},
      {"tool", [](Row r) { return r.tool.tool; }, Place::Name},
      {"kind", [](Row r) { return kind_of(r.tool); }, Place::Name},
      {"rows", [](Row r) { return r.tool.rows > 0 ? std::to_string(r.tool.rows) : "not said"; }},
      {"mean absolute %", [](Row r) { return fmt::format("{:g}", r.tool.mean_absolute_percent); }},
      {"bias %",
       [](Row r) {
         return r.tool.bias_percent ? fmt::format("{:+g}", *r.tool.bias_percent) : "not said";
       }},
      {"our rows", [](Row r) { return std::to_string(r.ours.n); }},
      {"our mean absolute %", [](Row r) { return r.ours.n > 0 ? percent(r.ours.mape) : "-"; }},
      {"our bias %", [](Row r) { return r.ours.n > 0 ? signed_percent(r.ours.bias) : "-"; }},
      {"source", [](Row r) { return r.tool.source; }, Place::Second, Align::Left}};
  return markdown_table(columns, all);
}

// Returns each family's worst row and the worst of the others, sorted by error. The rows of one
// family are limited, as they might fill the table otherwise.
std::vector<CaseRow> farthest_rows(const std::vector<CaseRow>& rows) {
  std::vector<const CaseRow*> sorted;
  for (const CaseRow& row : rows) {
    if (row.prediction) sorted.push_back(&row);
  }
  const auto error_size = [](const CaseRow* row) { return std::abs(row->error()); };
  std::ranges::stable_sort(sorted, std::ranges::greater{}, error_size);
  std::map<std::string, int> rows_of_family;
  std::vector<const CaseRow*> chosen, others;
  for (const CaseRow* row : sorted) {
    const int earlier = rows_of_family[row->run.family]++;
    if (earlier == 0) {
      chosen.push_back(row);
    } else if (earlier < kOfOneFamily) {
      others.push_back(row);
    }
  }
  const std::size_t room = kFarthest - std::min(kFarthest, chosen.size());
  others.resize(std::min(others.size(), room));
  chosen.insert(chosen.end(), others.begin(), others.end());
  std::ranges::stable_sort(chosen, std::ranges::greater{}, error_size);
  std::vector<CaseRow> farthest;
  for (const CaseRow* row : chosen) farthest.push_back(*row);
  return farthest;
}

// Returns "GPT 22B, tp 8, pp 2, dp 4": the model and sizes that the file states.
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
  std::vector<Column<CaseRow>> columns = case_columns();
  columns.push_back(
      {"run", [](const CaseRow& row) { return plan_cell(row.run); }, Place::Second, Align::Left});
  return markdown_table(columns, farthest_rows(rows));
}

std::string unpredicted_part(const std::vector<CaseRow>& rows) {
  const std::string text = reasons(rows, "- ");
  return text.empty() ? "All rows are predicted.\n" : text;
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
  return with_parts(page, path, maker,
                    {{"families", families_part(rows, tools)},
                     {"rivals", rivals_part(rows, tools)},
                     {"farthest", farthest_part(rows)},
                     {"not predicted", unpredicted_part(rows)}});
}

std::string maker_of(const std::string& page, const std::string& stem) {
  const std::string own = "./dev accuracy of " + stem;
  return page.find("<!-- made by " + own + ": ") == std::string::npos ? "./dev accuracy" : own;
}

}  // namespace tandem
