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
#include "report/text/number_cells.h"
#include "report/text/table.h"

namespace tandem {
namespace {

using Better = PageColumn::Better;
using PlanKeyValues = std::vector<std::pair<std::string, std::string>>;

// Returns a column's cells, one for each element of `all`.
template <typename T>
std::vector<PageCell> cells_of(const std::vector<T>& all,
                               const std::function<PageCell(const T&)>& cell_of) {
  std::vector<PageCell> cells;
  std::ranges::transform(all, std::back_inserter(cells), cell_of);
  return cells;
}

// Returns a number if the text is one.
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
  std::vector<PlanKeyValues> plans;
  std::vector<std::string> keys;
  for (const Finalist& finalist : finalists) {
    plans.push_back(plan_settings(finalist.candidate, finalist.refinement));
    for (const auto& [key, value] : plans.back()) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    const std::vector<PageCell> cells =
        cells_of<PlanKeyValues>(plans, [&](const PlanKeyValues& plan) {
          const auto setting = std::ranges::find(plan, key, &PlanKeyValues::value_type::first);
          return setting == plan.end() ? PageCell() : value_cell(setting->second);
        });
    if (differ(cells)) add_column(table, {short_key(key)}, cells);
  }
}

// A column of results, for finalists and candidates that have them.
struct ResultColumn {
  PageColumn column;
  std::function<PageCell(const RunResult&)> cell_of;
};
constexpr auto kIteration = "iteration", kMemory = "memory", kTokens = "tokens a GPU";

// Returns the columns of both tables.
std::vector<ResultColumn> speed_columns() {
  using Run = const RunResult&;
  return {
      {{kIteration, "s", Better::Less}, [](Run run) { return run.iteration_s; }},
      {{kTokens, "1/s", Better::More}, [](Run run) { return run.training->tokens_per_s_per_gpu; }},
      {{"MFU", "share", Better::More}, [](Run run) { return run.training->mfu; }}};
}

ResultColumn fits_column() {
  return {{"fits"}, [](const RunResult& run) { return verdict_word(*run.training); }};
}

// Returns the further columns of plans.
std::vector<ResultColumn> plan_columns() {
  using Run = const RunResult&;
  const auto above_bound_cell = [](Run run) {
    const std::optional<double> above = above_bound(run);
    return above ? PageCell(rounded_up(*above)) : PageCell();
  };
  return {{{"bubble", "share", Better::Less}, [](Run run) { return run.bubble_fraction; }},
          {{"exposed", "share", Better::Less}, exposed_fraction},
          {{"above its bound", "share", Better::Less}, above_bound_cell},
          {{kMemory, "bytes", Better::Less}, [](Run run) { return run.training->memory.total; }},
          fits_column()};
}

// Adds the column unless all of its cells are empty.
void add_if_any(const PageColumn& column, const std::vector<PageCell>& cells, PageTable* table) {
  if (std::ranges::any_of(cells, [](const PageCell& cell) { return cell != PageCell(); }))
    add_column(table, column, cells);
}

// Marks a run of an uncalibrated cost model.
PageCell calibrated_cell(const RunResult& result) {
  return is_guess(result.calibrated) ? PageCell("no: a guess") : PageCell();
}

std::size_t column_index(const PageTable& table, std::string_view name) {
  const auto column = std::ranges::find(table.columns, name, &PageColumn::name);
  return static_cast<std::size_t>(column - table.columns.begin());
}

// Returns why the plan is on no frontier; nothing: it fits.
PageCell out_cell(const Finalist& finalist) {
  if (!finalist.result.ok()) return finalist.result.error().text();
  return finalist.result->training->fits ? PageCell() : PageCell("does not fit into memory");
}

PageTable tune_table(const Tuned& tuned) {
  const std::vector<Finalist>& all = tuned.finalists;
  const auto result_cells = [&](const std::function<PageCell(const RunResult&)>& cell_of) {
    return cells_of<Finalist>(
        all, [&](const Finalist& f) { return f.result.ok() ? cell_of(*f.result) : PageCell(); });
  };
  PageTable table{.title = "Plans"};
  add_column(&table, {"plan"}, cells_of<Finalist>(all, [](const Finalist& f) { return f.label; }));
  add_plan_columns(all, &table);
  for (const auto& columns : {speed_columns(), plan_columns()}) {
    for (const auto& [column, cell_of] : columns) add_column(&table, column, result_cells(cell_of));
  }
  add_if_any({"calibrated"}, result_cells(calibrated_cell), &table);
  add_if_any({"out"}, cells_of<Finalist>(all, out_cell), &table);
  table.x = column_index(table, kMemory);
  table.y = column_index(table, kIteration);
  const auto played = std::ranges::find_if(all, [](const Finalist& f) { return f.result.ok(); });
  if (played != all.end()) {  // all plans are for the same GPUs
    const MemoryBytes& memory = played->result->training->memory;
    table.limit = {table.x, memory.capacity - memory.outside, "capacity less CUDA and NCCL"};
  }
  for (std::size_t row = 0; row < all.size(); ++row) {
    const bool fits = out_cell(all[row]) == PageCell();
    if (!fits) table.unfit.push_back(row);
    if (fits && all[row].label == "1") table.marks.push_back({row, "fastest"});
    if (all[row].label == "own") table.marks.push_back({row, "the scenario's own"});
  }
  table.frontier = frontier_of(table);
  return table;
}

// A column of a job's time and cost.
struct EconomicsColumn {
  PageColumn column;
  std::function<double(const Economics&)> value_of;
};

std::vector<EconomicsColumn> size_economics(const std::string& late, const std::string& currency) {
  return {
      {{"nodes"}, [](const Economics& e) { return static_cast<double>(e.nodes); }},
      {{"goodput", "", Better::More}, [](const Economics& e) { return e.goodput; }},
      {{"days per T tokens", "d", Better::Less}, [](const Economics& e) { return e.days_per_T; }},
      {{"days p50", "d", Better::Less}, &Economics::days_p50},
      {{"days " + late, "d", Better::Less}, &Economics::days_late},
      {{"cost " + late, currency, Better::Less}, [](const Economics& e) { return e.cost; }},
      {{"cost per T tokens", currency, Better::Less},
       [](const Economics& e) { return e.cost_per_T; }},
      {{"energy", "MWh", Better::Less}, [](const Economics& e) { return e.energy_MWh; }}};
}

// Returns a row for each job on each machine.
PageTable size_table(const SizeResult& result) {
  const std::vector<SizedJob>& all = result.sized;
  const auto cells = [&](const std::function<PageCell(const SizedJob&)>& cell_of) {
    return cells_of<SizedJob>(all, cell_of);
  };
  PageTable table{.title = "Candidates"};
  const std::vector<PageCell> jobs = cells([](const SizedJob& job) { return job.job; });
  if (differ(jobs)) {
    add_column(&table, {"job"}, jobs);
    table.group = 0;
  }
  add_column(&table, {"candidate"}, cells([](const SizedJob& job) { return job.offer; }));
  add_column(&table, {"GPUs", "", Better::Less},
             cells([](const SizedJob& job) { return static_cast<double>(job.gpus); }));
  std::vector<ResultColumn> results = speed_columns();
  results.push_back(fits_column());
  results.push_back({{"spare", "bytes", Better::More},
                     [](const RunResult& run) { return run.training->spare_bytes; }});
  for (const ResultColumn& shown : results)
    add_if_any(shown.column, cells([&](const SizedJob& job) {
                 return job.result ? shown.cell_of(*job.result) : PageCell();
               }),
               &table);
  const SizeInputs& asked = result.asked.front();
  const std::string late = late_word(asked.certainty);
  for (const EconomicsColumn& shown : size_economics(late, asked.price.currency)) {
    // A figure is 0 for jobs without a plan, and where the file states no price or power.
    const auto is_known = [&](const SizedJob& job) { return shown.value_of(job.economics) > 0; };
    if (std::ranges::none_of(all, is_known)) continue;
    add_column(&table, shown.column, cells([&](const SizedJob& job) {
      return job.result && is_known(job) ? PageCell(shown.value_of(job.economics)) : PageCell();
    }));
  }
  add_if_any({"calibrated"}, cells([](const SizedJob& job) {
               return job.result ? calibrated_cell(*job.result) : PageCell();
             }),
             &table);
  std::vector<PageCell> out(all.size());
  for (const Machine& machine : result.machines) {
    for (const std::size_t job : machine.jobs) {
      if (!machine.reason.empty()) out[job] = machine.reason;
      if (machine.recommended) table.marks.push_back({job, "recommended"});
    }
  }
  add_if_any({"out"}, out, &table);
  table.x = column_index(table, "days " + late);
  table.y = column_index(table, "cost " + late);
  for (std::size_t row = 0; row < all.size(); ++row) {
    if (all[row].on_frontier) table.frontier.push_back(row);
  }
  std::ranges::stable_sort(table.frontier, {},
                           [&](std::size_t row) { return all[row].economics.days_late(); });
  return table;
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
  return {.title = title,
          .runs = {},
          .comparison = {},
          .table = size_table(result),
          .purchase = purchase_json(result)};
}

PageRun size_run(const SizedJob& job, const std::string& detail) {
  PageRun run = page_run(*job.result);
  run.name = job.job.empty() ? job.offer : job.job + ": " + job.offer;
  run.name += fmt::format(", {} GPUs", job.gpus);
  run.detail = detail;
  return run;
}

}  // namespace tandem
