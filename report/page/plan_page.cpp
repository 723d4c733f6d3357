// Makes the tables of tune's page (a row for each plan) and of size's page (a row for each
// candidate): one column after another, then the frontier and marks.
#include "report/page/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/csv.h"
#include "planning/size/answer_text.h"
#include "report/page/purchase_page.h"
#include "report/text/table.h"

namespace tandem {
namespace {

using Better = PageColumn::Better;
using PlanWords = std::vector<std::pair<std::string, std::string>>;

// Returns a cell for every one of `all`.
template <typename T>
std::vector<PageCell> cells_of(const std::vector<T>& all,
                               const std::function<PageCell(const T&)>& get) {
  std::vector<PageCell> cells;
  std::ranges::transform(all, std::back_inserter(cells), get);
  return cells;
}

PageCell value_cell(const std::string& text) {
  if (const auto number = parse_number(text); number.ok()) return *number;
  return text;
}

// Shortens "parallel.tp" to "tp", as a chart has little room. Keys of overlap keep their names.
std::string short_key(const std::string& key) {
  return key.starts_with("overlap.") ? key : key.substr(key.find('.') + 1);
}

double exposed_fraction(const RunResult& result) {
  return std::accumulate(result.exposed_s.begin(), result.exposed_s.end(), 0.0) /
         result.iteration_s;
}

// Adds a column for each key in which the finalists' plans differ.
void add_plan_columns(const std::vector<Finalist>& finalists, PageTable* table) {
  std::vector<PlanWords> plans;
  std::vector<std::string> keys;
  for (const Finalist& finalist : finalists) {
    plans.push_back(plan_settings(finalist.candidate, finalist.refinement));
    for (const auto& [key, value] : plans.back()) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    const std::vector<PageCell> cells = cells_of<PlanWords>(plans, [&](const PlanWords& plan) {
      const auto at = std::ranges::find(plan, key, &PlanWords::value_type::first);
      return at == plan.end() ? PageCell() : value_cell(at->second);
    });
    if (differ(cells)) add_column(table, {short_key(key)}, cells);
  }
}

// A column of results, for finalists and candidates that have them.
struct ResultColumn {
  PageColumn as;
  PageCell (*of)(const RunResult&);
};
constexpr auto kIteration = "iteration", kMemory = "memory", kTokens = "tokens a GPU";

PageCell tokens_cell(const RunResult& run) { return run.training->tokens_per_s_per_gpu; }

std::vector<ResultColumn> tune_results() {
  return {{{kIteration, "s", Better::Less},
           [](const RunResult& run) -> PageCell { return run.iteration_s; }},
          {{kTokens, "1/s", Better::More}, tokens_cell},
          {{"MFU", "share", Better::More},
           [](const RunResult& run) -> PageCell { return run.training->mfu; }},
          {{"bubble", "share", Better::Less},
           [](const RunResult& run) -> PageCell { return run.bubble_fraction; }},
          {{"exposed", "share", Better::Less},
           [](const RunResult& run) -> PageCell { return exposed_fraction(run); }},
          {{"above its bound", "share", Better::Less},
           [](const RunResult& run) -> PageCell {
             const std::optional<double> above = above_bound(run);
             return above ? PageCell(*above) : PageCell();
           }},
          {{kMemory, "bytes", Better::Less},
           [](const RunResult& run) -> PageCell { return run.training->memory.total; }}};
}

// Adds a column that says which rows come from an uncalibrated cost model, if any do.
void add_calibrated(const std::vector<PageCell>& cells, PageTable* table) {
  if (std::ranges::any_of(cells, [](const PageCell& cell) { return cell.index() != 0; }))
    add_column(table, {"calibrated"}, cells);
}
PageCell calibrated_cell(const RunResult& result) {
  return is_guess(result.calibrated) ? PageCell("no: a guess") : PageCell();
}

std::size_t column_number(const PageTable& table, std::string_view name) {
  const auto at = std::ranges::find(table.columns, name, &PageColumn::name);
  return static_cast<std::size_t>(at - table.columns.begin());
}

PageTable tune_table(const Tuned& tuned) {
  const std::vector<Finalist>& all = tuned.finalists;
  const auto fits = [&](std::size_t row) {
    return all[row].result.ok() && all[row].result->training->fits;
  };
  PageTable table{.title = "Plans"};
  add_column(&table, {"plan"}, cells_of<Finalist>(all, [](const Finalist& f) { return f.label; }));
  add_plan_columns(all, &table);
  for (const ResultColumn& shown : tune_results())
    add_column(&table, shown.as, cells_of<Finalist>(all, [&](const Finalist& f) {
      return f.result.ok() ? shown.of(*f.result) : PageCell();
    }));
  add_calibrated(cells_of<Finalist>(all,
                                    [](const Finalist& f) {
                                      return f.result.ok() ? calibrated_cell(*f.result)
                                                           : PageCell();
                                    }),
                 &table);
  const std::vector<PageCell> out = cells_of<Finalist>(all, [](const Finalist& f) {
    if (!f.result.ok()) return PageCell(f.result.error().text());
    return f.result->training->fits ? PageCell() : PageCell("does not fit into memory");
  });
  if (std::ranges::any_of(out, [](const PageCell& cell) { return cell.index() != 0; }))
    add_column(&table, {"out"}, out);
  table.x = column_number(table, kMemory);
  table.y = column_number(table, kIteration);
  for (std::size_t row = 0; row < all.size(); ++row) {
    if (!fits(row)) table.unfit.push_back(row);
    if (!all[row].result.ok() || table.limit) continue;
    const Training& training = *all[row].result->training;
    table.limit = {table.x, training.memory.capacity - training.memory.outside,
                   "capacity less CUDA and NCCL"};
  }
  table.frontier = frontier_of(table);
  for (std::size_t row = 0; row < all.size(); ++row) {
    if (all[row].label == "1" && fits(row)) table.marks.push_back({row, "fastest"});
    if (all[row].label == "own") table.marks.push_back({row, "the scenario's own"});
  }
  return table;
}

std::vector<ResultColumn> size_results() {
  return {{{kIteration, "s", Better::Less},
           [](const RunResult& run) -> PageCell { return run.iteration_s; }},
          {{kTokens, "1/s", Better::More}, tokens_cell},
          {{"MFU", "share", Better::More},
           [](const RunResult& run) -> PageCell { return run.training->mfu; }}};
}

struct SummedColumn {
  PageColumn as;
  std::function<double(const Economics&)> of;
};

std::vector<SummedColumn> size_sums(const std::string& late) {
  return {
      {{"nodes"}, [](const Economics& e) { return static_cast<double>(e.nodes); }},
      {{"goodput", "", Better::More}, [](const Economics& e) { return e.goodput; }},
      {{"days per T tokens", "d", Better::Less}, [](const Economics& e) { return e.days_per_T; }},
      {{"days p50", "d", Better::Less}, &Economics::days_p50},
      {{"days " + late, "d", Better::Less}, &Economics::days_late},
      {{"cost " + late, "", Better::Less}, [](const Economics& e) { return e.cost; }},
      {{"cost per T tokens", "", Better::Less}, [](const Economics& e) { return e.cost_per_T; }},
      {{"energy", "MWh", Better::Less}, [](const Economics& e) { return e.energy_MWh; }}};
}

}  // namespace

PageData tune_page(const std::string& title, const Tuned& tuned) {
  PageData page{.title = title, .runs = {}, .comparison = {}, .table = tune_table(tuned)};
  for (const Finalist& finalist : tuned.finalists) {
    if (!finalist.result.ok()) continue;
    page.runs.push_back(page_run(*finalist.result));
    page.runs.back().name = finalist.label;
  }
  limit_timelines(&page);
  return page;
}

PageData size_page(const std::string& title, const SizeResult& result) {
  const std::vector<SizedJob>& all = result.sized;
  const auto cells = [&](const std::function<PageCell(const SizedJob&)>& get) {
    return cells_of<SizedJob>(all, get);
  };
  PageTable table{.title = "Candidates"};
  const std::vector<PageCell> jobs = cells([](const SizedJob& one) { return one.job; });
  if (differ(jobs)) {
    add_column(&table, {"job"}, jobs);
    table.group = 0;
  }
  add_column(&table, {"candidate"}, cells([](const SizedJob& one) { return one.offer; }));
  add_column(&table, {"GPUs", "", Better::Less},
             cells([](const SizedJob& one) { return static_cast<double>(one.gpus); }));
  for (const ResultColumn& shown : size_results())
    add_column(&table, shown.as, cells([&](const SizedJob& one) {
      return one.result ? shown.of(*one.result) : PageCell();
    }));
  const std::string late = late_word(result.asked.front().certainty);
  for (const SummedColumn& sum : size_sums(late)) {
    const auto is_known = [&](const SizedJob& one) { return sum.of(one.economics) > 0; };
    if (std::ranges::none_of(all, is_known)) continue;
    add_column(&table, sum.as, cells([&](const SizedJob& one) {
      return one.result ? PageCell(sum.of(one.economics)) : PageCell();
    }));
  }
  add_calibrated(cells([](const SizedJob& one) {
                   return one.result ? calibrated_cell(*one.result) : PageCell();
                 }),
                 &table);
  std::vector<PageCell> out(all.size());
  for (const Machine& machine : result.machines) {
    for (const std::size_t job : machine.jobs) {
      if (!machine.reason.empty()) out[job] = machine.reason;
      if (machine.recommended) table.marks.push_back({job, "recommended"});
    }
  }
  if (differ(out) || out.front().index() != 0) add_column(&table, {"out"}, out);
  table.x = column_number(table, "days " + late);
  table.y = column_number(table, "cost " + late);
  for (std::size_t row = 0; row < all.size(); ++row) {
    if (all[row].on_frontier) table.frontier.push_back(row);
  }
  std::ranges::stable_sort(table.frontier, {},
                           [&](std::size_t row) { return all[row].economics.days_late(); });
  return {.title = title,
          .runs = {},
          .comparison = {},
          .table = std::move(table),
          .purchase = purchase_json(result)};
}

PageRun size_run(const SizedJob& one, const std::string& detail) {
  PageRun run = page_run(*one.result);
  run.name = one.job.empty() ? one.offer : one.job + ": " + one.offer;
  run.name += fmt::format(", {} GPUs", one.gpus);
  run.detail = detail;
  return run;
}

}  // namespace tandem
