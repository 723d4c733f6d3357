#include "report/fit_table.h"

#include <fmt/format.h>

#include "report/case_cells.h"
#include "report/table.h"

namespace tandem {

std::string moved_table(const FitPlan& plan, const Values& before, const PublishedFit& after) {
  std::vector<Cells> rows = {{"software", "constant", "was", "now", "+-", "believed"}};
  for (std::size_t k = 0; k < before.size(); ++k) {
    const Constant& c = plan.constants[k];
    rows.push_back({c.software, c.key, fmt::format("{:.4g}", before[k]),
                    fmt::format("{:.4g}", after.values[k]),
                    after.sigma.empty() ? "" : fmt::format("{:.2g}", after.sigma[k]),
                    fmt::format("{:g} +- {:g}", c.prior, c.sigma)});
  }
  return aligned(rows, 2);
}

std::string left_out_table(const std::vector<LeftOut>& rows, const std::string& unseen) {
  std::string text = fmt::format(
      "| family | rows | mean absolute %, fitted with | {} | bias %, with | {} | worst %, {} |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n",
      unseen, unseen, unseen);
  for (const LeftOut& row : rows)
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", row.family, row.unseen.n,
                    percent(row.seen.mape), percent(row.unseen.mape), signed_percent(row.seen.bias),
                    signed_percent(row.unseen.bias), signed_percent(row.unseen.worst));
  return text;
}

std::string interval_table(const std::vector<Interval>& intervals) {
  std::string text =
      "| software | rows left out | measured over predicted, 5 to 95 % | of the other half's rows, "
      "in the interval of one half, % |\n|---|---:|---:|---:|\n";
  for (const Interval& i : intervals)
    text += i.n == 0 ? fmt::format("| {} | 0 | | |\n", i.software)
                     : fmt::format("| {} | {} | {:.3f} to {:.3f} | {} |\n", i.software, i.n, i.low,
                                   i.high, percent(i.coverage));
  return text;
}

}  // namespace tandem
