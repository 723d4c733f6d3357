#include "report/text/variability_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tandem {
namespace {

std::string four_digits(double value) { return fmt::format("{:.4f}", value); }

// Returns the replica that was last most often, the lowest of equals, and in how many runs: "412 in
// 3".
std::string most_often_last(const Repeats& repeats) {
  std::map<int, int> times;
  for (const RepeatedRun& run : repeats.each) {
    if (run.last) ++times[run.last->replica];
  }
  const auto most = std::ranges::max_element(times, {}, &std::pair<const int, int>::second);
  return most == times.end() ? "" : fmt::format("{} in {}", most->first, most->second);
}

// Counts the runs whose last replica has a slow node.
std::string behind_slow_nodes(const Repeats& repeats) {
  const auto is_behind = [](const RepeatedRun& run) {
    return run.last && !run.last->slow_nodes.empty();
  };
  return most_often_last(repeats).empty()
             ? ""
             : fmt::format("{}", std::ranges::count_if(repeats.each, is_behind));
}

struct PartOfRun {
  std::string run;
  Sensitivity part;
};

}  // namespace

std::string repeats_table(const std::vector<RunResult>& results, int width) {
  const auto repeated = [](const RunResult& run) { return run.repeats.has_value(); };
  if (std::ranges::none_of(results, repeated)) return "";
  std::vector<Column<RunResult>> columns = {
      {"run", [](const RunResult& run) { return run.name; }, Place::Name},
      {"runs", [](const RunResult& run) { return fmt::format("{}", run.repeats->runs); }},
      {"seeds",
       [](const RunResult& run) {
         const std::uint64_t first = run.repeats->first_seed;
         return fmt::format("{}-{}", first,
                            first + static_cast<std::uint64_t>(run.repeats->runs) - 1);
       }},
      {"p5 s", [](const RunResult& run) { return four_digits(run.repeats->iteration_s.p5); },
       Place::First},
      {"p50 s", [](const RunResult& run) { return four_digits(run.repeats->iteration_s.p50); },
       Place::Beside},
      {"p95 s", [](const RunResult& run) { return four_digits(run.repeats->iteration_s.p95); },
       Place::Beside}};
  if (std::ranges::any_of(results, [&](const RunResult& run) {
        return repeated(run) && !most_often_last(*run.repeats).empty();
      })) {
    columns.push_back(
        {"last replica", [](const RunResult& run) { return most_often_last(*run.repeats); }});
    columns.push_back(
        {"slow node there", [](const RunResult& run) { return behind_slow_nodes(*run.repeats); }});
  }
  return text_table(columns, rows_where(results, repeated), width);
}

std::string sensitivity_table(const std::vector<RunResult>& results, int width) {
  std::vector<PartOfRun> rows;
  for (const RunResult& result : results) {
    std::vector<Sensitivity> parts = result.sensitivity;
    std::ranges::stable_sort(parts, std::ranges::greater{}, &Sensitivity::seconds);
    for (Sensitivity& part : parts) rows.push_back({result.name, std::move(part)});
  }
  if (rows.empty()) return "";
  using Row = PartOfRun;
  const std::vector<Column<Row>> columns = {
      {"run", [](const Row& r) { return r.run; }, Place::Name},
      {"10 % slower", [](const Row& r) { return r.part.part; }, Place::Name},
      {"iteration +ms", [](const Row& r) { return fmt::format("{:+.3f}", 1e3 * r.part.seconds); }},
      {"iteration +%",
       [](const Row& r) { return fmt::format("{:+.2f}", 100 * r.part.of_iteration); }}};
  return text_table(columns, rows, width);
}

}  // namespace tandem
