#include "report/text/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "base/units.h"
#include "interop/megatron/layout.h"
#include "report/text/memory_table.h"
#include "report/text/number_cells.h"

namespace tandem {
namespace {

using RunColumn = Column<RunResult>;

// Returns the columns that name a run: its point on every axis. A point with several names has a
// column for each, and only the first column has a title.
std::vector<RunColumn> names(const RunResult& result) {
  if (result.points.empty())
    return {{"run", [](const RunResult& o) { return o.name; }, Place::Name}};
  std::vector<RunColumn> list;
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const bool again = i > 0 && result.axes[i] == result.axes[i - 1];
    list.push_back({again ? "" : result.axes[i],
                    [i](const RunResult& o) { return i < o.points.size() ? o.points[i] : o.name; },
                    Place::Name});
  }
  return list;
}

double sum(const std::array<double, kGroupKinds>& by_group_kind) {
  return std::accumulate(by_group_kind.begin(), by_group_kind.end(), 0.0);
}

RunColumn size(const char* title, int ParallelSizes::*of, Place place = Place::Beside) {
  return {title, [of](const RunResult& o) { return o.plan ? fmt::format("{}", *o.plan.*of) : "-"; },
          place};
}

template <class Value>  // a function of a Training
RunColumn trained(const char* title, Value value, Place place = Place::First) {
  return {
      title,
      [value](const RunResult& o) { return o.training ? std::string(value(*o.training)) : "-"; },
      place};
}

RunColumn exposed(GroupKind group_kind) {
  return {fmt::format("{} %", group_kind_name(group_kind)), [group_kind](const RunResult& o) {
            return percent(o.exposed_s[static_cast<std::size_t>(group_kind)] / o.iteration_s);
          }};
}

bool is_measured(const RunResult& o) { return o.published_tflops_per_gpu && o.training; }

bool any(const std::vector<RunResult>& results,
         const std::function<bool(const RunResult&)>& holds) {
  return std::ranges::any_of(results, holds);
}

// Adds how the jobs are cut; contexts and experts only if there are some.
void add_sizes(const std::vector<RunResult>& results, std::vector<RunColumn>* list) {
  list->push_back(
      {"GPUs", [](const RunResult& o) { return fmt::format("{}", o.gpus); }, Place::First});
  list->push_back(size("TP", &ParallelSizes::tp, Place::Second));
  list->push_back(size("PP", &ParallelSizes::pp));
  list->push_back(size("VPP", &ParallelSizes::vpp));
  if (any(results, [](const RunResult& o) { return o.plan && o.plan->cp > 1; }))
    list->push_back(size("CP", &ParallelSizes::cp));
  if (any(results, [](const RunResult& o) { return o.plan && o.plan->ep > 1; }))
    list->push_back(size("EP", &ParallelSizes::ep));
  list->push_back(size("DP", &ParallelSizes::dp));
  list->push_back(size("microb.", &ParallelSizes::microbatches));
}

void add_shares(const std::vector<RunResult>& results, std::vector<RunColumn>* list) {
  list->push_back(
      {"bubble %", [](const RunResult& o) { return percent(o.bubble_fraction); }, Place::First});
  for (const GroupKind group_kind : {GroupKind::Tensor, GroupKind::Pipeline, GroupKind::Data})
    list->push_back(exposed(group_kind));
  for (const GroupKind group_kind : {GroupKind::Context, GroupKind::Expert}) {
    const auto communicates = [group_kind](const RunResult& o) {
      return o.comm_s[static_cast<std::size_t>(group_kind)] > 0;
    };
    if (any(results, communicates)) list->push_back(exposed(group_kind));
  }
}

bool is_guess(const RunResult& o) { return o.calibrated == false; }

void add_published(std::vector<RunColumn>* list) {
  list->push_back({"published", [](const RunResult& o) {
                     return is_measured(o) ? fmt::format("{:.0f}", *o.published_tflops_per_gpu)
                                           : "";
                   }});
  list->push_back({"diff %",
                   [](const RunResult& o) {
                     if (!is_measured(o)) return std::string();
                     const double ratio =
                         o.training->hardware_tflops_per_gpu / *o.published_tflops_per_gpu;
                     return fmt::format("{:+.1f}", 100 * (ratio - 1));
                   },
                   Place::Beside});
}

std::vector<RunColumn> columns(const std::vector<RunResult>& results, bool traffic) {
  std::vector<RunColumn> list = names(results.front());
  const auto rate = [](double value) { return fmt::format("{:.1f}", value); };
  add_sizes(results, &list);
  list.push_back({"iteration s",
                  [](const RunResult& o) { return fmt::format("{:.3f}", o.iteration_s); },
                  Place::First});
  if (any(results, [](const RunResult& o) { return o.interval_s.has_value(); }))
    list.push_back({"90 % s",
                    [](const RunResult& o) {
                      return o.interval_s
                                 ? fmt::format("{:.3g}-{:.3g}{}", o.interval_s->first,
                                               o.interval_s->second, is_guess(o) ? "*" : "")
                                 : "";
                    },
                    Place::Beside});
  list.push_back(trained("tokens/s/GPU", [](auto& t) { return tokens_rate(t); }));
  list.push_back(trained("MFU %", [](auto& t) { return percent(t.mfu); }));
  list.push_back(trained(
      "model TF/s", [=](auto& t) { return rate(t.model_tflops_per_gpu); }, Place::Second));
  list.push_back(trained(
      "hw TF/s", [=](auto& t) { return rate(t.hardware_tflops_per_gpu); }, Place::Second));
  list.push_back(trained(
      "% peak", [](auto& t) { return percent(t.hfu); }, Place::Second));
  add_shares(results, &list);
  list.push_back(trained("GiB", [=](auto& t) { return rate(t.memory.total / GiB); }));
  list.push_back(trained("fits", [](auto& t) { return verdict_cell(t); }));
  if (traffic) {
    list.push_back({"GB sent", [=](const RunResult& o) { return rate(sum(o.sent_bytes) / GB); }});
    list.push_back(
        {"exposed s", [](const RunResult& o) { return fmt::format("{:.3f}", sum(o.exposed_s)); }});
  }
  if (any(results, [](const RunResult& o) { return o.published_tflops_per_gpu.has_value(); }))
    add_published(&list);
  return list;
}

// A share of the iteration, and what it goes to.
struct Share {
  std::string what;
  double of_iteration = 0;
};

std::vector<Share> shares(const RunResult& o) {
  std::vector<Share> list = {{"compute", o.compute_s / o.iteration_s},
                             {"bubble", o.bubble_fraction}};
  for (int i = 0; i < kGroupKinds; ++i)
    list.push_back({fmt::format("{} communication", group_kind_name(static_cast<GroupKind>(i))),
                    o.exposed_s[i] / o.iteration_s});
  return list;
}

Share largest(std::vector<Share> list) {
  return *std::max_element(list.begin(), list.end(), [](const Share& a, const Share& b) {
    return a.of_iteration < b.of_iteration;
  });
}

// Returns the run's points after the first.
std::string last_points(const RunResult& o) {
  std::string text;
  for (std::size_t i = 1; i < o.points.size(); ++i) text += (i > 1 ? ", " : "") + o.points[i];
  return text.empty() ? o.name : text;
}

std::string bandwidth(const RunResult& o) {
  if (!o.least_internode_Gbitps) return "none is enough";
  if (*o.least_internode_Gbitps == 0) return "1 is enough";
  const double unit = *o.least_internode_Gbitps < 1000 ? 1 : 10;  // found to within 2 %
  return fmt::format("{:.0f}", std::round(*o.least_internode_Gbitps / unit) * unit);
}

// Says which two parts take most of each run's iteration.
std::string binds(std::span<const RunResult> group) {
  std::string text;
  for (const RunResult& o : group) {
    std::vector<Share> list = shares(o);
    const Share most = largest(list);
    list.erase(std::find_if(list.begin(), list.end(),
                            [&](const Share& s) { return s.what == most.what; }));
    const Share next = largest(list);
    if (group.size() > 1) text += fmt::format("{}{}: ", text.empty() ? "" : "; ", last_points(o));
    text += fmt::format("{} {:.0f} %, then {} {:.0f} %", most.what, 100 * most.of_iteration,
                        next.what, 100 * next.of_iteration);
  }
  return text;
}

bool has_orders(const RunResult& o) { return o.plan && o.plan->pp > 1 && above_bound(o); }

// Says how far orders are from the best possible. Without a pipeline there is only one order.
std::string bounds(std::span<const RunResult> group) {
  if (group.size() == 1 && has_orders(group[0]))
    return fmt::format(
        ". It is at most {} % above the best possible with this layout and memory: {:.3f} s, by {}",
        percent_above(group[0]), group[0].lower_bound->makespan, words_of(*group[0].lower_bound));
  std::string text;
  for (const RunResult& o : group) {
    if (has_orders(o))
      text += fmt::format("{}{} {} %", text.empty() ? "" : ", ", last_points(o), percent_above(o));
  }
  return text.empty()
             ? ""
             : ". Above the best possible with their layouts and memory by at most: " + text;
}

// Says by how much the run is slower than the other, and what grew most.
std::string slower(const RunResult& run, const RunResult& other) {
  const double lost_s = run.iteration_s - other.iteration_s;
  if (lost_s < 0.001 * other.iteration_s)
    return fmt::format(". {} takes {:.3f} times as long as {}", last_points(run),
                       run.iteration_s / other.iteration_s, last_points(other));
  const std::vector<Share> before = shares(other), after = shares(run);
  Share grown;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double more_s =
        after[i].of_iteration * run.iteration_s - before[i].of_iteration * other.iteration_s;
    if (more_s > grown.of_iteration) grown = {after[i].what, more_s};
  }
  const std::string times =
      fmt::format(". {} takes {:.2f} times as long as {}: {}", last_points(run),
                  run.iteration_s / other.iteration_s, last_points(other), grown.what);
  if (grown.of_iteration > lost_s)  // something else has shrunk
    return fmt::format("{} takes {:.3g} s more", times, grown.of_iteration);
  return fmt::format("{} accounts for {:.0f} % of the {:.3g} s lost", times,
                     100 * grown.of_iteration / lost_s, lost_s);
}

// Compares each run with the one before it. Says nothing if runs have a baseline, as the table of
// savings compares them.
std::string comparisons(std::span<const RunResult> group) {
  std::string text;
  if (std::ranges::any_of(group, [](const RunResult& o) { return o.saving.has_value(); }))
    return "";
  for (std::size_t i = 1; i < group.size(); ++i) text += slower(group[i], group[i - 1]);
  return text;
}

// Writes how many layers each stage of a run has, if they differ, and Megatron-LM's arguments for
// that.
std::string layout_line(const RunResult& result) {
  const auto stages = layout_stages(result.layout);
  if (result.layout.empty() || !stages) return "";
  std::vector<int> layers;
  for (const LayoutStage& stage : *stages) layers.push_back(stage.layers);
  std::string arguments;
  if (!has_mtp_before_loss(*stages))
    arguments = layout_arguments(layers, result.plan ? result.plan->vpp : 1);
  if (arguments.empty())
    arguments = fmt::format("--pipeline-model-parallel-layout \"{}\"", result.layout);
  return fmt::format("{}: its stages have {} layers: {}.\n", result.name, fmt::join(layers, ", "),
                     arguments);
}

// Says which order was found, and what it is worth.
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
  if (found.named.empty()) return made + "; no named order takes these sizes.\n";
  return fmt::format("{}, {:.2g} % less than the best named order ({} with {} a rank, {:.4g} s).\n",
                     made, 100 * found.gain(), found.named, found.named_vpp, found.named_s);
}

bool has_times_of_fixes(const RunResult* o) {
  return o->memory_fixes && std::ranges::any_of(*o->memory_fixes, [](const MemoryFix& fix) {
           return fix.of_iteration.has_value();
         });
}

}  // namespace

std::string verdict_cell(const Training& training) {
  const std::string text =
      training.verdict == Verdict::No ? "NO" : std::string(verdict_text(training.verdict));
  return fmt::format("{} {:+.1f}", text, training.spare_bytes / GiB);
}

std::string tokens_rate(const Training& training) {
  const double rate = training.tokens_per_s_per_gpu;
  return fmt::format("{:.{}f}", rate, rate < 100 ? 1 : 0);
}

std::string iteration_text(const RunResult& result) {
  return fmt::format("{:.3f}{}", result.iteration_s, is_guess(result) ? "*" : "");
}

std::string percent_above(const RunResult& result) {
  // Rounds up to a tenth of a percent, as texts say "at most". Adding 0.0 turns -0 into 0.
  return fmt::format("{:.1f}", std::ceil(1000 * *above_bound(result) - 1e-6) / 10 + 0.0);
}

std::string uncalibrated_line(const std::string& cost_model) {
  return fmt::format("* not calibrated: no measured run stands behind {}: a guess.\n", cost_model);
}

// Says of each GPU and precision whether a run's MFU is beyond that of all published runs.
std::string beyond_published_lines(const std::vector<const RunResult*>& results) {
  std::map<std::string, double> most;  // MFU, by what it is beyond
  for (const RunResult* result : results) {
    const auto& best = result->best_published_mfu;
    if (!best || !result->training || result->training->mfu <= best->mfu) continue;
    double& mfu =
        most[fmt::format("the {:.1f} % of the best published run on {} in cases.csv ({}, {})",
                         100 * best->mfu, best->on, best->run, best->source)];
    mfu = std::max(mfu, result->training->mfu);
  }
  std::string text;
  for (const auto& [best, mfu] : most)
    text += fmt::format("MFU {}{:.1f} % is beyond {}.\n", results.size() > 1 ? "up to " : "",
                        100 * mfu, best);
  return text;
}

// Says what the routing of experts costs each run; in one line for all whose loads are equal.
std::string routing_lines(const std::vector<const RunResult*>& results) {
  std::string text;
  bool has_equal = false;
  for (const RunResult* result : results) {
    if (!result->routing) continue;
    const auto& [equal, cost, waiting] = *result->routing;
    has_equal |= equal;
    if (equal) continue;
    if (cost < 0) {
      text += fmt::format(
          "{}: routing saves {:.1f} % of the iteration, as experts drop what is "
          "beyond their capacity.\n",
          result->name, -100 * cost);
      continue;
    }
    text += fmt::format(
        "{}: routing costs {:.1f} % of the iteration: {:.1f} % are waiting for the busiest rank's "
        "experts, {:.1f} % longer exchanges.\n",
        result->name, 100 * cost, 100 * waiting, 100 * (cost - waiting));
  }
  if (!has_equal) return text;
  return text + fmt::format(
                    "{}xperts get equal loads (model.routing = forced); a learned router's "
                    "are not, and take longer.\n",
                    text.empty() ? "E" : "In the other runs e");
}

std::string notes(const std::vector<const RunResult*>& results) {
  std::set<std::string> guesses;
  std::set<Verdict> verdicts;
  std::set<bool> causal;
  for (const RunResult* result : results) {
    if (is_guess(*result)) guesses.insert(uncalibrated_line(result->cost_model));
    if (!result->training) continue;
    const Training& training = *result->training;
    causal.insert(training.causal_flops);
    verdicts.insert(training.verdict);
  }
  std::string text = fmt::format("{}", fmt::join(guesses, "")) + beyond_published_lines(results) +
                     routing_lines(results);
  for (const RunResult* result : results)
    text += layout_line(*result) + order_line(*result) + unfit_lines(*result);
  if (std::ranges::any_of(results, has_times_of_fixes))
    text += "Percent: how much longer the iteration then takes, on the ideal engine.\n";
  if (causal.empty()) return text;
  const char* counted =
      causal.size() > 1 ? "all of attention's products, or the causal half, as each run's "
                          "report.causal_flops says"
      : *causal.begin() ? "the half of attention's products that a causal mask leaves "
                          "(report.causal_flops)"
                        : "all of attention's products, as Megatron-LM and PaLM do "
                          "(report.causal_flops: the half that a causal mask leaves)";
  text += fmt::format(
      "FLOPs, and with them MFU and TF/s, count {}.\n"
      "A plan fits if its tensors leave room for CUDA's context and NCCL's buffers; the GiB beside "
      "it are what is left then, or below 0 what is missing (docs/memory.md).\n",
      counted);
  if (verdicts.contains(Verdict::IfUnfragmented))
    text +=
        "If unfragmented: what is left is less than PyTorch's allocator may waste; "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True wastes the least.\n";
  return text;
}

std::string notes(const std::vector<RunResult>& results) {
  std::vector<const RunResult*> all;
  for (const RunResult& result : results) all.push_back(&result);
  return notes(all);
}

std::string run_table(const std::vector<RunResult>& results, bool traffic, int width) {
  if (results.empty()) return "";
  return text_table(columns(results, traffic), results, width);
}

std::string savings_table(const std::vector<RunResult>& results, int width) {
  const auto saves = [](const RunResult& o) { return o.saving.has_value(); };
  const auto first = std::ranges::find_if(results, saves);
  if (first == results.end()) return "";
  std::vector<RunColumn> list = names(*first);
  const auto add = [&list](const char* title, auto cell, Place place) {
    list.push_back(
        {title, [cell](const RunResult& o) { return std::string(cell(*o.saving)); }, place});
  };
  add(
      "against", [](const Saving& s) { return s.baseline; }, Place::Name);
  add(
      "saved s", [](const Saving& s) { return fmt::format("{:.3f}", s.seconds); }, Place::First);
  add(
      "% of iteration", [](const Saving& s) { return percent(s.of_iteration); }, Place::First);
  add(
      "communication", [](const Saving& s) { return s.kind; }, Place::Second);
  add(
      "takes s", [](const Saving& s) { return fmt::format("{:.3f}", s.communication_s); },
      Place::Beside);
  add(
      "saved % of it", [](const Saving& s) { return percent(s.of_communication); }, Place::Beside);
  return text_table(list, rows_where(results, saves), width);
}

std::string conclusions(const std::vector<RunResult>& results) {
  std::string text;
  // A group is neighbouring runs with the same point on the first axis.
  for (std::size_t begin = 0; begin < results.size();) {
    std::size_t end = begin + 1;
    while (end < results.size() && !results[begin].points.empty() &&
           results[end].points.front() == results[begin].points.front())
      ++end;
    const std::span<const RunResult> group{results.data() + begin, end - begin};
    const std::string title = group[0].points.empty() ? group[0].name : group[0].points.front();
    text += fmt::format("{}: {}{}", title, binds(group), comparisons(group));
    text += bounds(group);
    if (group[0].looked_for_bandwidth) {
      text += ". Least Gbit/s a node between nodes: ";
      for (const RunResult& o : group)
        text += fmt::format("{}{}{}", &o == group.data() ? "" : ", ",
                            group.size() > 1 ? last_points(o) + " " : "", bandwidth(o));
    }
    text += ".\n";
    begin = end;
  }
  return text;
}

}  // namespace tandem
