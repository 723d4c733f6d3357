#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <span>

#include "base/units.h"

namespace tandem {
namespace {

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

using Cells = std::vector<std::string>;

// The first columns' titles; several names of one point have one.
Cells axes(const Outcome& outcome) {
  Cells titles = outcome.axes.empty() ? Cells{"run"} : outcome.axes;
  for (std::size_t i = titles.size(); --i > 0;) {
    if (titles[i] == titles[i - 1]) titles[i].clear();
  }
  return titles;
}

Cells points(const Outcome& outcome) {
  return outcome.points.empty() ? Cells{outcome.name} : outcome.points;
}

double sum(const std::array<double, kScopes>& by_scope) {
  return std::accumulate(by_scope.begin(), by_scope.end(), 0.0);
}

struct Column {
  std::string title;
  std::function<std::string(const Outcome&)> cell;
};

Column size(const char* title, int Cut::*of) {
  return {title, [of](const Outcome& o) { return o.plan ? fmt::format("{}", *o.plan.*of) : "-"; }};
}

template <class Value>  // std::string of a Training
Column trained(const char* title, Value value) {
  return {title,
          [value](const Outcome& o) { return o.training ? std::string(value(*o.training)) : "-"; }};
}

Column exposed(Scope scope) {
  return {fmt::format("{} %", name(scope)), [scope](const Outcome& o) {
            return percent(o.exposed_s[static_cast<std::size_t>(scope)] / o.iteration_s);
          }};
}

bool is_measured(const Outcome& o) { return o.published_tflops_per_gpu && o.training; }

bool any(const std::vector<Outcome>& outcomes, const std::function<bool(const Outcome&)>& holds) {
  return std::ranges::any_of(outcomes, holds);
}

// How the jobs are cut; contexts and experts only where there are some.
void add_sizes(const std::vector<Outcome>& outcomes, std::vector<Column>* list) {
  list->push_back({"GPUs", [](const Outcome& o) { return fmt::format("{}", o.gpus); }});
  list->push_back(size("TP", &Cut::tp));
  list->push_back(size("PP", &Cut::pp));
  list->push_back(size("VPP", &Cut::vpp));
  if (any(outcomes, [](const Outcome& o) { return o.plan && o.plan->cp > 1; }))
    list->push_back(size("CP", &Cut::cp));
  if (any(outcomes, [](const Outcome& o) { return o.plan && o.plan->ep > 1; }))
    list->push_back(size("EP", &Cut::ep));
  list->push_back(size("DP", &Cut::dp));
  list->push_back(size("microb.", &Cut::microbatches));
}

void add_shares(const std::vector<Outcome>& outcomes, std::vector<Column>* list) {
  list->push_back({"bubble %", [](const Outcome& o) { return percent(o.bubble_fraction); }});
  for (const Scope scope : {Scope::Tensor, Scope::Pipeline, Scope::Data})
    list->push_back(exposed(scope));
  for (const Scope scope : {Scope::Context, Scope::Expert}) {
    const auto communicates = [scope](const Outcome& o) {
      return o.comm_s[static_cast<std::size_t>(scope)] > 0;
    };
    if (any(outcomes, communicates)) list->push_back(exposed(scope));
  }
}

bool is_guess(const Outcome& o) { return o.calibrated == false; }

void add_published(std::vector<Column>* list) {
  list->push_back({"published", [](const Outcome& o) {
                     return is_measured(o) ? fmt::format("{:.0f}", *o.published_tflops_per_gpu)
                                           : "";
                   }});
  list->push_back({"diff %", [](const Outcome& o) {
                     if (!is_measured(o)) return std::string();
                     const double ratio =
                         o.training->hardware_tflops_per_gpu / *o.published_tflops_per_gpu;
                     return fmt::format("{:+.1f}", 100 * (ratio - 1));
                   }});
}

std::vector<Column> columns(const std::vector<Outcome>& outcomes, bool traffic) {
  std::vector<Column> list;
  const auto rate = [](double value) { return fmt::format("{:.1f}", value); };
  add_sizes(outcomes, &list);
  list.push_back(
      {"iteration s", [](const Outcome& o) { return fmt::format("{:.3f}", o.iteration_s); }});
  if (any(outcomes, [](const Outcome& o) { return o.interval_s.has_value(); }))
    list.push_back({"90 % s", [](const Outcome& o) {
                      return o.interval_s
                                 ? fmt::format("{:.3g}-{:.3g}{}", o.interval_s->first,
                                               o.interval_s->second, is_guess(o) ? "*" : "")
                                 : "";
                    }});
  list.push_back(trained("model TF/s", [=](auto& t) { return rate(t.model_tflops_per_gpu); }));
  list.push_back(trained("hw TF/s", [=](auto& t) { return rate(t.hardware_tflops_per_gpu); }));
  list.push_back(trained("% peak", [](auto& t) { return percent(t.hfu); }));
  add_shares(outcomes, &list);
  list.push_back(trained("GiB", [=](auto& t) { return rate(t.total / GiB); }));
  list.push_back(trained("fits", [](auto& t) { return t.fits ? "yes" : "NO"; }));
  if (traffic) {
    list.push_back({"GB sent", [=](const Outcome& o) { return rate(sum(o.sent_bytes) / GB); }});
    list.push_back(
        {"exposed s", [](const Outcome& o) { return fmt::format("{:.3f}", sum(o.exposed_s)); }});
  }
  if (any(outcomes, [](const Outcome& o) { return o.published_tflops_per_gpu.has_value(); }))
    add_published(&list);
  return list;
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
  const std::string times =
      fmt::format(". {} takes {:.2f} times as long as {}: {}", last_points(run),
                  run.iteration_s / other.iteration_s, last_points(other), grown.what);
  if (grown.of_iteration > lost_s)  // something else has shrunk
    return fmt::format("{} takes {:.3g} s more", times, grown.of_iteration);
  return fmt::format("{} accounts for {:.0f} % of the {:.3g} s lost", times,
                     100 * grown.of_iteration / lost_s, lost_s);
}

// Each run against the one before it; with a baseline, the savings tell that.
std::string comparisons(std::span<const Outcome> group) {
  std::string text;
  if (std::ranges::any_of(group, [](const Outcome& o) { return o.saving.has_value(); })) return "";
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

std::string outcome_table(const std::vector<Outcome>& outcomes, bool traffic) {
  if (outcomes.empty()) return "";
  const std::vector<Column> list = columns(outcomes, traffic);
  std::vector<Cells> rows = {axes(outcomes.front())};
  const std::size_t left = rows.front().size();
  for (const Column& column : list) rows.front().push_back(column.title);
  for (const Outcome& outcome : outcomes) {
    rows.push_back(points(outcome));
    for (const Column& column : list) rows.back().push_back(column.cell(outcome));
  }
  return aligned(rows, left);
}

std::string uncalibrated_line(const std::string& cost_model) {
  return fmt::format("* not calibrated: no measured run stands behind {}: a guess.\n", cost_model);
}

std::string uncalibrated_text(const std::vector<const Outcome*>& outcomes) {
  std::set<std::string> guesses;
  for (const Outcome* outcome : outcomes) {
    if (is_guess(*outcome)) guesses.insert(outcome->cost_model);
  }
  std::string text;
  for (const std::string& guess : guesses) text += uncalibrated_line(guess);
  return text;
}

std::string savings_table(const std::vector<Outcome>& outcomes) {
  std::vector<Cells> rows;
  for (const Outcome& o : outcomes) {
    if (!o.saving) continue;
    if (rows.empty()) {
      rows.push_back(axes(o));
      rows[0].insert(rows[0].end(), {"against", "saved s", "% of iteration", "communication",
                                     "takes s", "saved % of it"});
    }
    Cells cells = points(o);
    cells.insert(cells.end(),
                 {o.saving->baseline, fmt::format("{:.3f}", o.saving->seconds),
                  percent(o.saving->of_iteration), o.saving->kind,
                  fmt::format("{:.3f}", o.saving->communication_s),
                  o.saving->of_communication ? percent(*o.saving->of_communication) : "-"});
    rows.push_back(std::move(cells));
  }
  return rows.empty() ? "" : aligned(rows, axes(outcomes.front()).size() + 1);
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
