#include "report/text/fit_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "report/text/case_cells.h"

namespace tandem {

std::string moved_table(const FitPlan& plan, const Values& before, const PublishedFit& after,
                        int width) {
  const auto constant = [&plan](std::size_t k) -> const Constant& { return plan.constants[k]; };
  const std::vector<Column<std::size_t>> columns = {
      // a row is the index of a constant
      {"software", [&](std::size_t k) { return constant(k).profile; }, Place::Name},
      {"constant", [&](std::size_t k) { return constant(k).key; }, Place::Name},
      {"was", [&](std::size_t k) { return fmt::format("{:.4g}", before[k]); }, Place::First},
      {"now", [&](std::size_t k) { return fmt::format("{:.4g}", after.values[k]); }, Place::First},
      {"+-",
       [&](std::size_t k) {
         return after.sigma.empty() ? "" : fmt::format("{:.2g}", after.sigma[k]);
       },
       Place::Beside},
      {"believed",
       [&](std::size_t k) {
         return fmt::format("{:g} +- {:g}", constant(k).prior, constant(k).sigma);
       }},
      {"determined by", [&](std::size_t k) {
         if (after.information.empty()) return std::string();
         const std::vector<std::string> families = determined_by(after, k);
         return families.empty() ? std::string("no row: as believed")
                                 : fmt::format("{}", fmt::join(families, ", "));
       }}};
  std::vector<std::size_t> all(before.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return text_table(columns, all, width);
}

std::string left_out_table(const std::vector<LeftOut>& rows, const std::string& unseen) {
  using Row = const LeftOut&;
  const std::vector<Column<LeftOut>> columns = {
      {"family", [](Row row) { return row.name; }, Place::Name},
      {"rows", [](Row row) { return std::to_string(row.unseen.n); }},
      {"mean absolute %, fitted with", [](Row row) { return percent(row.seen.mape); }},
      {unseen, [](Row row) { return percent(row.unseen.mape); }},
      {"bias %, with", [](Row row) { return signed_percent(row.seen.bias); }},
      {unseen, [](Row row) { return signed_percent(row.unseen.bias); }},
      {"worst %, " + unseen, [](Row row) { return signed_percent(row.unseen.worst); }}};
  return markdown_table(columns, rows);
}

std::string ground_table(const std::vector<Ground>& grounds) {
  using Row = const Ground&;
  const std::vector<Column<Ground>> columns = {
      {"GPU", [](Row g) { return g.gpu; }, Place::Name},
      {"software", [](Row g) { return g.software; }, Place::Name},
      {"parallelism", [](Row g) { return g.parallelism; }, Place::Name},
      {"runs", [](Row g) { return std::to_string(g.unseen.n); }},
      {"error of runs left out, mean %", [](Row g) { return percent(g.unseen.mape); }},
      {"bias %", [](Row g) { return signed_percent(g.unseen.bias); }},
      {"90 % of runs take, over the prediction", [](Row g) {
         return g.low == 0 ? std::string() : fmt::format("{:.2f} to {:.2f}", g.low, g.high);
       }}};
  return markdown_table(columns, grounds);
}

std::string unmeasured_table(const std::vector<Unmeasured>& unmeasured) {
  using Row = const Unmeasured&;
  const std::vector<Column<Unmeasured>> columns = {
      {"left out with all of their", [](Row u) { return u.key; }, Place::Name},
      {"rows", [](Row u) { return std::to_string(u.n); }},
      {"measured over predicted, 5 to 95 %",
       [](Row u) { return fmt::format("{:.3f} to {:.3f}", u.low, u.high); }}};
  return markdown_table(columns, unmeasured);
}

std::string interval_table(const std::vector<Interval>& intervals) {
  using Row = const Interval&;
  const std::vector<Column<Interval>> columns = {
      {"software", [](Row i) { return i.profile; }, Place::Name},
      {"models", [](Row i) { return i.experts ? "experts" : "dense"; }, Place::Name},
      {"rows left out", [](Row i) { return std::to_string(i.n); }},
      {"measured over predicted, 5 to 95 %",
       [](Row i) { return fmt::format("{:.3f} to {:.3f}", i.low, i.high); }},
      {"of the other half's rows, in the interval of one half, %",
       [](Row i) { return percent(i.coverage); }}};
  return markdown_table(columns, rows_where(intervals, [](Row i) { return i.n > 0; }));
}

std::string kernel_table(const std::vector<KernelErrors>& lines) {
  using Row = const KernelErrors&;
  const std::vector<Column<KernelErrors>> columns = {
      {"GPU or preset", [](Row line) { return line.name; }, Place::Name},
      {"what", [](Row line) { return line.operation; }, Place::Name},
      {"rows", [](Row line) { return std::to_string(line.errors.n); }},
      {"median %", [](Row line) { return percent(line.errors.median); }},
      {"mean absolute %", [](Row line) { return percent(line.errors.mape); }},
      {"bias %", [](Row line) { return signed_percent(line.errors.bias); }}};
  return markdown_table(columns, lines);
}

}  // namespace tandem
