#include "report/text/fit_table.h"

#include <fmt/format.h>

#include <numeric>

#include "report/text/case_cells.h"

namespace tandem {

std::string moved_table(const FitPlan& plan, const Values& before, const PublishedFit& after,
                        int width) {
  const auto constant = [&plan](std::size_t k) -> const Constant& { return plan.constants[k]; };
  const std::vector<Column<std::size_t>> columns = {
      {"software", [&](std::size_t k) { return constant(k).profile; }, Place::Name},
      {"constant", [&](std::size_t k) { return constant(k).key; }, Place::Name},
      {"was", [&](std::size_t k) { return fmt::format("{:.4g}", before[k]); }, Place::First},
      {"now", [&](std::size_t k) { return fmt::format("{:.4g}", after.values[k]); }, Place::First},
      {"+-",
       [&](std::size_t k) {
         return after.sigma.empty() ? "" : fmt::format("{:.2g}", after.sigma[k]);
       },
       Place::Beside},
      {"believed", [&](std::size_t k) {
         return fmt::format("{:g} +- {:g}", constant(k).prior, constant(k).sigma);
       }}};
  std::vector<std::size_t> all(before.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return text_table(columns, all, width);
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
    text += i.n == 0 ? fmt::format("| {} | 0 | | |\n", i.profile)
                     : fmt::format("| {} | {} | {:.3f} to {:.3f} | {} |\n", i.profile, i.n, i.low,
                                   i.high, percent(i.coverage));
  return text;
}

}  // namespace tandem
