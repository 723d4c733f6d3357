// Writes the table of runs, a column at a time, and the notes below it. A column that no run needs
// (context parallelism, published rates, ...) is left out.
#include "report/text/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "base/units.h"
#include "interop/megatron/layout.h"
#include "report/text/memory_table.h"
#include "report/text/number_cells.h"

namespace tandem {
namespace {

using RunColumn = Column<RunResult>;

// Returns the columns that name a run: its point on every axis. An axis that names several things
// has a column for each; the first bears the title.
std::vector<RunColumn> name_columns(const RunResult& result) {
  if (result.points.empty())
    return {{"run", [](const RunResult& run) { return run.name; }, Place::Name}};
  std::vector<RunColumn> list;
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const bool again = i > 0 && result.axes[i] == result.axes[i - 1];
    list.push_back(
        {again ? "" : result.axes[i],
         [i](const RunResult& run) { return i < run.points.size() ? run.points[i] : run.name; },
         Place::Name});
  }
  return list;
}

double sum(const std::array<double, kGroupKinds>& by_group_kind) {
  return std::accumulate(by_group_kind.begin(), by_group_kind.end(), 0.0);
}

RunColumn size_column(const char* title, int ParallelSizes::*size, Place place = Place::Beside) {
  return {
      title,
      [size](const RunResult& run) { return run.plan ? fmt::format("{}", *run.plan.*size) : "-"; },
      place};
}

RunColumn exposed_column(GroupKind group_kind) {
  return {fmt::format("{} %", group_kind_name(group_kind)), [group_kind](const RunResult& run) {
            return percent(run.exposed_s[static_cast<std::size_t>(group_kind)] / run.iteration_s);
          }};
}

bool any_run(const std::vector<RunResult>& results,
             const std::function<bool(const RunResult&)>& holds) {
  return std::ranges::any_of(results, holds);
}

// Adds the parallel sizes; those of contexts and experts only if some run has such parallelism.
void add_sizes(const std::vector<RunResult>& results, std::vector<RunColumn>* list) {
  list->push_back(
      {"GPUs", [](const RunResult& run) { return fmt::format("{}", run.gpus); }, Place::First});
  list->push_back(size_column("TP", &ParallelSizes::tp, Place::Second));
  list->push_back(size_column("PP", &ParallelSizes::pp));
  list->push_back(size_column("VPP", &ParallelSizes::vpp));
  if (any_run(results, [](const RunResult& run) { return run.plan && run.plan->cp > 1; }))
    list->push_back(size_column("CP", &ParallelSizes::cp));
  if (any_run(results, [](const RunResult& run) { return run.plan && run.plan->ep > 1; }))
    list->push_back(size_column("EP", &ParallelSizes::ep));
  list->push_back(size_column("DP", &ParallelSizes::dp));
  list->push_back(size_column("microb.", &ParallelSizes::microbatches));
}

// Adds the shares of the iteration that are bubble and exposed communication.
void add_shares(const std::vector<RunResult>& results, std::vector<RunColumn>* list) {
  list->push_back({"bubble %", [](const RunResult& run) { return percent(run.bubble_fraction); },
                   Place::First});
  for (const GroupKind group_kind : {GroupKind::Tensor, GroupKind::Pipeline, GroupKind::Data})
    list->push_back(exposed_column(group_kind));
  for (const GroupKind group_kind : {GroupKind::Context, GroupKind::Expert}) {
    const auto communicates = [group_kind](const RunResult& run) {
      return run.comm_s[static_cast<std::size_t>(group_kind)] > 0;
    };
    if (any_run(results, communicates)) list->push_back(exposed_column(group_kind));
  }
}

void add_published(std::vector<RunColumn>* list) {
  using Run = const RunResult&;
  const auto ratio = [](Run run) {
    return run.training->hardware_tflops_per_gpu / *run.published_tflops_per_gpu;
  };
  add_where(
      [](Run run) { return run.published_tflops_per_gpu && run.training; }, "",
      {{"published", [](Run run) { return fmt::format("{:.0f}", *run.published_tflops_per_gpu); }},
       {"diff %", [=](Run run) { return fmt::format("{:+.1f}", 100 * (ratio(run) - 1)); },
        Place::Beside}},
      list);
}

std::vector<RunColumn> run_columns(const std::vector<RunResult>& results, bool traffic) {
  std::vector<RunColumn> list = name_columns(results.front());
  const auto rate = [](double value) { return fmt::format("{:.1f}", value); };
  add_sizes(results, &list);
  list.push_back({"iteration s", [](const RunResult& run) { return seconds_text(run.iteration_s); },
                  Place::First});
  const auto has_interval = [](const RunResult& run) { return run.interval_s.has_value(); };
  if (any_run(results, has_interval))
    add_where(has_interval, "",
              {{"90 % s",
                [](const RunResult& run) {
                  const auto& [low, high] = *run.interval_s;
                  return fmt::format("{:.3g}-{:.3g}{}", low, high,
                                     is_guess(run.calibrated) ? "*" : "");
                },
                Place::Beside}},
              &list);
  using Run = const RunResult&;
  const auto trains = [](Run run) { return run.training.has_value(); };
  add_where(trains, "-",
            {{"tokens/s/GPU", [](Run run) { return tokens_rate(*run.training); }, Place::First},
             {"MFU %", [](Run run) { return percent(run.training->mfu); }, Place::First},
             {"model TF/s", [=](Run run) { return rate(run.training->model_tflops_per_gpu); }},
             {"hw TF/s", [=](Run run) { return rate(run.training->hardware_tflops_per_gpu); }},
             {"% peak", [](Run run) { return percent(run.training->hfu); }}},
            &list);
  add_shares(results, &list);
  add_where(trains, "-",
            {{"GiB", [=](Run run) { return rate(run.training->memory.total / GiB); }, Place::First},
             {"fits", [](Run run) { return verdict_cell(*run.training); }, Place::First}},
            &list);
  if (traffic) {
    list.push_back(
        {"GB sent", [=](const RunResult& run) { return rate(sum(run.sent_bytes) / GB); }});
    list.push_back(
        {"exposed s", [](const RunResult& run) { return seconds_text(sum(run.exposed_s)); }});
  }
  if (any_run(results,
              [](const RunResult& run) { return run.published_tflops_per_gpu.has_value(); }))
    add_published(&list);
  return list;
}

// Writes how many layers each stage of a run has, and Megatron-LM's arguments for it. Empty: the
// layers are cut evenly.
std::string layout_line(const RunResult& result) {
  const auto stages = layout_stages(result.layout);
  if (result.layout.empty() || !stages) return "";
  std::vector<int> layers;
  for (const LayoutStage& stage : *stages) layers.push_back(stage.layers);
  // Multi-token prediction on a stage of its own has no other argument than the whole layout.
  std::string arguments;
  if (!has_mtp_before_loss(*stages))
    arguments = layout_arguments(layers, result.plan ? result.plan->vpp : 1);
  if (arguments.empty())
    arguments = fmt::format("--pipeline-model-parallel-layout \"{}\"", result.layout);
  return fmt::format("{}: its stages have {} layers: {}.\n", result.name, fmt::join(layers, ", "),
                     arguments);
}

// Says which order the search found, and how much faster it is than the best named one.
std::string order_line(const RunResult& result) {
  if (!result.found_order) return "";
  const OrderFinding& found = *result.found_order;
  if (!found.name.empty())
    return fmt::format("{}: its order is {}: none that was found is faster.\n", result.name,
                       found.name);
  const int vpp = result.plan ? result.plan->vpp : 1;
  const std::string made =
      fmt::format("{}: its order is made for its stages, {} a rank{}: {:.4g} s", result.name, vpp,
                  found.in_a_v ? " in a V" : "", found.iteration_s);
  if (found.named.empty()) return made + "; no named order of these sizes fits.\n";
  return fmt::format("{}, {:.2g} % less than the best named order ({} with {} a rank, {:.4g} s).\n",
                     made, 100 * found.gain(), found.named, found.named_vpp, found.named_s);
}

// Writes a line for each GPU and precision on which some run's MFU is higher than that of every
// published run.
std::string beyond_published_lines(const std::vector<const RunResult*>& results) {
  struct Beyond {
    double most_mfu = 0;
    int runs = 0;
  };
  std::map<std::string, Beyond> beyond;  // by the published run
  // Returns an MFU in tenths of a percent, as it is written.
  const auto tenths = [](double mfu) { return std::lround(1000 * mfu); };
  for (const RunResult* result : results) {
    const auto& best = result->best_published_mfu;
    if (!best || !result->training || tenths(result->training->mfu) <= tenths(best->mfu)) continue;
    Beyond& found =
        beyond[fmt::format("the {:.1f} % of the best published run on {} in cases.csv ({}, {})",
                           100 * best->mfu, best->on, best->run, best->source)];
    found.most_mfu = std::max(found.most_mfu, result->training->mfu);
    ++found.runs;
  }
  std::string text;
  for (const auto& [best, found] : beyond)
    text += fmt::format("MFU {}{:.1f} % is beyond {}.\n", found.runs > 1 ? "up to " : "",
                        100 * found.most_mfu, best);
  return text;
}

// Says what unequal loads of experts cost each run. Runs with equal loads share one line.
std::string routing_lines(const std::vector<const RunResult*>& results) {
  std::string text;
  bool has_equal = false;
  for (const RunResult* result : results) {
    if (!result->routing) continue;
    const RoutingCost& cost = *result->routing;
    has_equal |= cost.equal_loads;
    if (cost.equal_loads) continue;
    if (cost.of_iteration < 0) {
      text += fmt::format(
          "{}: routing saves {:.1f} % of the iteration, as experts drop what is "
          "beyond their capacity.\n",
          result->name, -100 * cost.of_iteration);
      continue;
    }
    text += fmt::format(
        "{}: routing costs {:.1f} % of the iteration: {:.1f} % are waiting for the busiest rank's "
        "experts, {:.1f} % longer exchanges.\n",
        result->name, 100 * cost.of_iteration, 100 * cost.waiting,
        100 * (cost.of_iteration - cost.waiting));
  }
  if (!has_equal) return text;
  return text + fmt::format(
                    "{}ll ranks' experts get equal loads, as with model.routing = forced; where "
                    "parallel.ep is above 1, a learned router's are not, and take longer unless "
                    "padded (model.pad_to_capacity).\n",
                    text.empty() ? "A" : "In the other runs a");
}

// Says which of attention's FLOPs the runs count. `causal_flops`: that setting in all runs.
const char* flops_text(const std::set<bool>& causal_flops) {
  if (causal_flops.size() > 1)
    return "all of attention's products, or the causal half, as each run's "
           "report.causal_flops says";
  if (causal_flops.contains(true))
    return "the half of attention's products that a causal mask leaves "
           "(report.causal_flops)";
  return "all of attention's products, as Megatron-LM and PaLM do "
         "(report.causal_flops: the half that a causal mask leaves)";
}

bool has_timed_fix(const RunResult* run) {
  return run->memory_fixes && std::ranges::any_of(*run->memory_fixes, [](const MemoryFix& fix) {
           return fix.of_iteration.has_value();
         });
}

}  // namespace

std::string verdict_word(const Training& training) {
  return training.verdict == Verdict::No ? "NO" : std::string(verdict_text(training.verdict));
}

std::string verdict_cell(const Training& training) {
  return fmt::format("{} {:+.1f}", verdict_word(training), training.spare_bytes / GiB);
}

std::string tokens_rate(const Training& training) {
  const double rate = training.tokens_per_s_per_gpu;
  return fmt::format("{:.{}f}", rate, rate < 100 ? 1 : 0);
}

std::string iteration_text(const RunResult& result) {
  return seconds_text(result.iteration_s) + (is_guess(result.calibrated) ? "*" : "");
}

std::string percent_above(const RunResult& result) {
  return percent(rounded_up(*above_bound(result)));
}

std::string uncalibrated_line(const std::string& cost_model) {
  return fmt::format("* not calibrated: no measured run stands behind {}: a guess.\n", cost_model);
}

std::string explanatory_notes(const std::vector<const RunResult*>& results) {
  std::set<std::string> guesses;
  std::set<Verdict> verdicts;
  std::set<bool> causal_flops;
  for (const RunResult* result : results) {
    if (is_guess(result->calibrated)) guesses.insert(uncalibrated_line(result->cost_model));
    if (!result->training) continue;
    const Training& training = *result->training;
    causal_flops.insert(training.causal_flops);
    verdicts.insert(training.verdict);
  }
  std::string text = fmt::format("{}", fmt::join(guesses, "")) + beyond_published_lines(results) +
                     routing_lines(results);
  for (const RunResult* result : results)
    text += layout_line(*result) + order_line(*result) + unfit_lines(*result);
  if (std::ranges::any_of(results, has_timed_fix))
    text += "Percent: how much longer the iteration then takes, on the ideal engine.\n";
  if (causal_flops.empty()) return text;
  text += fmt::format(
      "FLOPs, and with them MFU and TF/s, count {}.\n"
      "A plan fits if its tensors leave room for CUDA's context and NCCL's buffers; the GiB beside "
      "it are what is left then, or below 0 what is missing (docs/memory.md).\n",
      flops_text(causal_flops));
  if (verdicts.contains(Verdict::IfUnfragmented))
    text +=
        "If unfragmented: what is left is less than PyTorch's allocator may waste; "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True wastes the least.\n";
  return text;
}

std::string explanatory_notes(const std::vector<RunResult>& results) {
  std::vector<const RunResult*> all;
  for (const RunResult& result : results) all.push_back(&result);
  return explanatory_notes(all);
}

std::string run_table(const std::vector<RunResult>& results, bool traffic, int width) {
  if (results.empty()) return "";
  return text_table(run_columns(results, traffic), results, width);
}

std::string savings_table(const std::vector<RunResult>& results, int width) {
  using Run = const RunResult&;
  const auto saves = [](Run run) { return run.saving.has_value(); };
  const auto first = std::ranges::find_if(results, saves);
  if (first == results.end()) return "";
  std::vector<RunColumn> list = name_columns(*first);
  const auto seconds = [](double value) { return fmt::format("{:.3f}", value); };
  add_where(
      saves, "",
      {{"against", [](Run run) { return run.saving->baseline; }, Place::Name},
       {"saved s", [=](Run run) { return seconds(run.saving->seconds); }, Place::First},
       {"% of iteration", [](Run run) { return percent(run.saving->of_iteration); }, Place::First},
       {"communication", [](Run run) { return run.saving->kind; }, Place::Second},
       {"takes s", [=](Run run) { return seconds(run.saving->communication_s); }, Place::Beside},
       {"saved % of it", [](Run run) { return percent(run.saving->of_communication); },
        Place::Beside}},
      &list);
  return text_table(list, rows_where(results, saves), width);
}

}  // namespace tandem
