#include "report/text/fit_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
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

// Compares the error of a family's rows when the fit had them (`seen`) and when it had left them
// out
// (`unseen`).
std::string left_out_table(const std::vector<LeftOut>& rows, const std::string& unseen) {
  using Of = const LeftOut&;
  const std::vector<Column<LeftOut>> columns = {
      {"family", [](Of row) { return row.name; }, Place::Name},
      {"rows", [](Of row) { return std::to_string(row.unseen.n); }},
      {"mean absolute %, fitted with", [](Of row) { return percent(row.seen.mape); }},
      {unseen, [](Of row) { return percent(row.unseen.mape); }},
      {"bias %, with", [](Of row) { return signed_percent(row.seen.bias); }},
      {unseen, [](Of row) { return signed_percent(row.unseen.bias); }},
      {"worst %, " + unseen, [](Of row) { return signed_percent(row.unseen.worst); }}};
  return markdown_table(columns, rows);
}

std::string ground_table(const std::vector<Ground>& grounds) {
  using Of = const Ground&;
  const std::vector<Column<Ground>> columns = {
      {"GPU", [](Of g) { return g.gpu; }, Place::Name},
      {"software", [](Of g) { return g.software; }, Place::Name},
      {"parallelism", [](Of g) { return g.parallelism; }, Place::Name},
      {"runs", [](Of g) { return std::to_string(g.unseen.n); }},
      {"error of runs left out, mean %", [](Of g) { return percent(g.unseen.mape); }},
      {"bias %", [](Of g) { return signed_percent(g.unseen.bias); }},
      {"90 % of runs take, over the prediction", [](Of g) {
         return g.low == 0 ? std::string() : fmt::format("{:.2f} to {:.2f}", g.low, g.high);
       }}};
  return markdown_table(columns, grounds);
}

std::string unmeasured_table(const std::vector<Unmeasured>& unmeasured) {
  using Of = const Unmeasured&;
  const std::vector<Column<Unmeasured>> columns = {
      {"left out with all of their", [](Of u) { return u.key; }, Place::Name},
      {"rows", [](Of u) { return std::to_string(u.n); }},
      {"measured over predicted, 5 to 95 %",
       [](Of u) { return fmt::format("{:.3f} to {:.3f}", u.low, u.high); }}};
  return markdown_table(columns, unmeasured);
}

std::string interval_table(const std::vector<Interval>& intervals) {
  using Of = const Interval&;
  const std::vector<Column<Interval>> columns = {
      {"software", [](Of i) { return i.profile; }, Place::Name},
      {"models", [](Of i) { return i.experts ? "experts" : "dense"; }, Place::Name},
      {"rows left out", [](Of i) { return std::to_string(i.n); }},
      {"measured over predicted, 5 to 95 %",
       [](Of i) { return i.n == 0 ? "" : fmt::format("{:.3f} to {:.3f}", i.low, i.high); }},
      {"of the other half's rows, in the interval of one half, %",
       [](Of i) { return i.n == 0 ? "" : percent(i.coverage); }}};
  std::vector<Interval> there;
  std::ranges::copy_if(intervals, std::back_inserter(there), [](Of i) { return i.n > 0; });
  return markdown_table(columns, there);
}

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
