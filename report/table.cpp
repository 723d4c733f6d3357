#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/units.h"

namespace tandem {
namespace {

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string exposed(const Outcome& outcome, Scope scope) {
  return percent(outcome.exposed_s[static_cast<std::size_t>(scope)] / outcome.iteration_s);
}

std::vector<std::string> row(const Outcome& o, bool published) {
  std::vector<std::string> cells = o.points.empty() ? std::vector<std::string>{o.name} : o.points;
  const auto add = [&](std::string cell) { cells.push_back(std::move(cell)); };
  add(fmt::format("{}", o.gpus));
  if (o.plan) {
    for (const int number : {o.plan->tp, o.plan->pp, o.plan->vpp, o.plan->dp, o.plan->microbatches})
      add(fmt::format("{}", number));
  } else {
    for (int i = 0; i < 5; ++i) add("-");
  }
  add(fmt::format("{:.3f}", o.iteration_s));
  if (o.training) {
    add(fmt::format("{:.1f}", o.training->model_tflops_per_gpu));
    add(fmt::format("{:.1f}", o.training->hardware_tflops_per_gpu));
    add(percent(o.training->hfu));
  } else {
    for (int i = 0; i < 3; ++i) add("-");
  }
  add(percent(o.bubble_fraction));
  for (const Scope scope : {Scope::Tensor, Scope::Pipeline, Scope::Data}) add(exposed(o, scope));
  add(o.training ? fmt::format("{:.1f}", o.training->total / GiB) : "-");
  add(!o.training ? "-" : o.training->fits ? "yes" : "NO");
  if (published && o.published_tflops_per_gpu && o.training) {
    const double measured = *o.published_tflops_per_gpu;
    add(fmt::format("{:.0f}", measured));
    add(fmt::format("{:+.1f}", 100 * (o.training->hardware_tflops_per_gpu / measured - 1)));
  } else if (published) {
    add("");
    add("");
  }
  return cells;
}

// A share of the iteration, by what it goes to.
struct Share {
  std::string what;
  double of_iteration = 0;
};

std::vector<Share> shares(const Outcome& o) {
  std::vector<Share> list = {{"compute", o.compute_s / o.iteration_s},
                             {"bubble", o.bubble_fraction}};
  for (int i = 0; i < kScopes; ++i)
    list.push_back({fmt::format("{} communication", name(static_cast<Scope>(i))),
                    o.exposed_s[i] / o.iteration_s});
  return list;
}

Share largest(std::vector<Share> list) {
  return *std::max_element(list.begin(), list.end(), [](const Share& a, const Share& b) {
    return a.of_iteration < b.of_iteration;
  });
}

// The points after the first.
std::string last_points(const Outcome& o) {
  std::string text;
  for (std::size_t i = 1; i < o.points.size(); ++i) text += (i > 1 ? ", " : "") + o.points[i];
  return text.empty() ? o.name : text;
}

std::string bandwidth(const Outcome& o) {
  if (!o.least_internode_Gbitps) return "none is enough";
  if (*o.least_internode_Gbitps == 0) return "1 is enough";
  const double unit = *o.least_internode_Gbitps < 1000 ? 1 : 10;  // found to within 2 %
  return fmt::format("{:.0f}", std::round(*o.least_internode_Gbitps / unit) * unit);
}

std::string binds(std::span<const Outcome> group) {
  std::string text;
  for (const Outcome& o : group) {
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

// By how much the run is slower than the other, and what grew most.
std::string slower(const Outcome& run, const Outcome& other) {
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
  return fmt::format(
      ". {} takes {:.2f} times as long as {}: {} accounts for {:.0f} % of the {:.3g} s lost",
      last_points(run), run.iteration_s / other.iteration_s, last_points(other), grown.what,
      100 * grown.of_iteration / lost_s, lost_s);
}

// Each run against the one before it.
std::string comparisons(std::span<const Outcome> group) {
  std::string text;
  for (std::size_t i = 1; i < group.size(); ++i) text += slower(group[i], group[i - 1]);
  return text;
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t left) {
  std::vector<std::size_t> widths;
  for (const auto& cells : rows) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text;
  for (const auto& cells : rows) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i)
      line += i < left ? fmt::format("{:<{}}  ", cells[i], widths[i])
                       : fmt::format("{:>{}}  ", cells[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string outcome_table(const std::vector<Outcome>& outcomes) {
  if (outcomes.empty()) return "";
  const bool published = std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) {
    return o.published_tflops_per_gpu.has_value();
  });
  std::vector<std::vector<std::string>> rows(1, outcomes.front().axes);
  if (rows.front().empty()) rows.front().push_back("run");
  for (std::size_t i = rows.front().size(); --i > 0;) {
    if (rows.front()[i] == rows.front()[i - 1])
      rows.front()[i].clear();  // several names of one point
  }
  const std::size_t left = rows.front().size();
  for (const char* title :
       {"GPUs", "TP", "PP", "VPP", "DP", "microb.", "iteration s", "model TF/s", "hw TF/s",
        "% peak", "bubble %", "tensor %", "pipeline %", "data %", "GiB", "fits"})
    rows.front().push_back(title);
  if (published) {
    rows.front().push_back("published");
    rows.front().push_back("diff %");
  }
  for (const Outcome& outcome : outcomes) rows.push_back(row(outcome, published));
  return aligned(rows, left);
}

std::string conclusions(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (std::size_t begin = 0; begin < outcomes.size();) {
    std::size_t end = begin + 1;
    while (end < outcomes.size() && !outcomes[begin].points.empty() &&
           outcomes[end].points.front() == outcomes[begin].points.front())
      ++end;
    const std::span<const Outcome> group{outcomes.data() + begin, end - begin};
    const std::string title = group[0].points.empty() ? group[0].name : group[0].points.front();
    text += fmt::format("{}: {}{}", title, binds(group), comparisons(group));
    if (group[0].looked_for_bandwidth) {
      text += ". Least Gbit/s a node between nodes: ";
      for (const Outcome& o : group)
        text += fmt::format("{}{}{}", &o == group.data() ? "" : ", ",
                            group.size() > 1 ? last_points(o) + " " : "", bandwidth(o));
    }
    text += ".\n";
    begin = end;
  }
  return text;
}

}  // namespace tandem
