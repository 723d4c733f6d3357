// Writes the conclusions of a scenario's runs as sentences. The runs are grouped by their point on
// the first axis, and a group's line compares those runs:
//   39B: selene: compute 74 %, then tensor communication 12 %; DGX-2-style: compute 70 %, then ...
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "report/text/table.h"

namespace tandem {
namespace {

// A part of the iteration, such as the bubble, and its share of the time.
struct Share {
  std::string part;
  double of_iteration = 0;
};

std::vector<Share> shares(const RunResult& run) {
  std::vector<Share> list = {{"compute", run.compute_s / run.iteration_s},
                             {"bubble", run.bubble_fraction}};
  for (int i = 0; i < kGroupKinds; ++i)
    list.push_back({fmt::format("{} communication", group_kind_name(static_cast<GroupKind>(i))),
                    run.exposed_s[i] / run.iteration_s});
  return list;
}

// Returns the run's point on the first axis.
const std::string& first_point(const RunResult& run) {
  return run.points.empty() ? run.name : run.points.front();
}

// Returns the run's points on the other axes.
std::string other_points(const RunResult& run) {
  if (run.points.size() < 2) return run.name;
  return fmt::format("{}", fmt::join(run.points.begin() + 1, run.points.end(), ", "));
}

// Returns the least bandwidth between nodes that is enough, in Gbit/s a node. In a result it is 0
// if even 1, the least that is tried, is enough.
std::string least_bandwidth(const RunResult& run) {
  if (!run.least_internode_Gbitps) return "none is enough";
  if (*run.least_internode_Gbitps == 0) return "1 is enough";
  const double unit = *run.least_internode_Gbitps < 1000 ? 1 : 10;  // found to within 2 %
  return fmt::format("{:.0f}", std::round(*run.least_internode_Gbitps / unit) * unit);
}

// Says which two parts take most of each run's iteration.
std::string longest_parts(std::span<const RunResult> group) {
  std::string text;
  for (const RunResult& run : group) {
    std::vector<Share> list = shares(run);
    std::ranges::stable_sort(list, std::greater(), &Share::of_iteration);
    if (group.size() > 1)
      text += fmt::format("{}{}: ", text.empty() ? "" : "; ", other_points(run));
    text += fmt::format("{} {:.0f} %, then {} {:.0f} %", list[0].part, 100 * list[0].of_iteration,
                        list[1].part, 100 * list[1].of_iteration);
  }
  return text;
}

bool has_orders(const RunResult& run) { return run.plan && run.plan->pp > 1 && above_bound(run); }

// Says how far at most each run is above its lower bound, which is over all orders. Runs without a
// pipeline are left out: they have only one order.
std::string bounds(std::span<const RunResult> group) {
  if (group.size() == 1 && has_orders(group[0]))
    return fmt::format(
        ". It is at most {} % above the best possible with this layout and memory: {:.3f} s, by {}",
        percent_above(group[0]), group[0].lower_bound->makespan, words_of(*group[0].lower_bound));
  std::string text;
  for (const RunResult& run : group) {
    if (has_orders(run))
      text +=
          fmt::format("{}{} {} %", text.empty() ? "" : ", ", other_points(run), percent_above(run));
  }
  return text.empty()
             ? ""
             : ". Above the best possible with their layouts and memory by at most: " + text;
}

// Says by how much the run is slower than the other, and which part grew most.
std::string slower(const RunResult& run, const RunResult& other) {
  const double lost_s = run.iteration_s - other.iteration_s;
  if (lost_s < 0.001 * other.iteration_s)
    return fmt::format(". {} takes {:.3f} times as long as {}", other_points(run),
                       run.iteration_s / other.iteration_s, other_points(other));
  const std::vector<Share> before = shares(other), after = shares(run);
  std::string grown;
  double grown_s = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double more_s =
        after[i].of_iteration * run.iteration_s - before[i].of_iteration * other.iteration_s;
    if (more_s <= grown_s) continue;
    grown = after[i].part;
    grown_s = more_s;
  }
  const std::string times =
      fmt::format(". {} takes {:.2f} times as long as {}: {}", other_points(run),
                  run.iteration_s / other.iteration_s, other_points(other), grown);
  if (grown_s > lost_s)  // something else has shrunk
    return fmt::format("{} takes {:.3g} s more", times, grown_s);
  return fmt::format("{} accounts for {:.0f} % of the {:.3g} s lost", times, 100 * grown_s / lost_s,
                     lost_s);
}

// Compares each run with the one before it. Says nothing if runs have a baseline, as the table of
// savings compares them.
std::string comparisons(std::span<const RunResult> group) {
  std::string text;
  if (std::ranges::any_of(group, [](const RunResult& run) { return run.saving.has_value(); }))
    return "";
  for (std::size_t i = 1; i < group.size(); ++i) text += slower(group[i], group[i - 1]);
  return text;
}

// Says how much bandwidth between nodes each run needs, if that was looked for.
std::string least_bandwidths(std::span<const RunResult> group) {
  if (!group[0].looked_for_bandwidth) return "";
  std::string text;
  for (const RunResult& run : group)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ",
                        group.size() > 1 ? other_points(run) + " " : "", least_bandwidth(run));
  return ". Least Gbit/s a node between nodes: " + text;
}

// Counts the runs of the first group: neighbours with the same point on the first axis, or a single
// run without axes.
std::size_t size_of_first_group(std::span<const RunResult> runs) {
  if (runs[0].points.empty()) return 1;
  std::size_t size = 1;
  while (size < runs.size() && first_point(runs[size]) == first_point(runs[0])) ++size;
  return size;
}

}  // namespace

std::string conclusions(const std::vector<RunResult>& results) {
  std::string text;
  for (std::span<const RunResult> rest(results); !rest.empty();) {
    const std::span<const RunResult> group = rest.first(size_of_first_group(rest));
    text += fmt::format("{}: {}{}{}{}.\n", first_point(group[0]), longest_parts(group),
                        comparisons(group), bounds(group), least_bandwidths(group));
    rest = rest.subspan(group.size());
  }
  return text;
}

}  // namespace tandem
