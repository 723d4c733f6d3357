#include "scenarios/run/repeat.h"

#include <fmt/format.h>

#include <optional>

#include "base/csv.h"
#include "base/fork_map.h"
#include "base/progress.h"
#include "scenarios/run/doubts.h"

namespace tandem {

Result<std::vector<double>> iterations_s(const std::vector<Scenario>& scenarios, Engine engine,
                                         bool progress, int jobs) {
  std::optional<Progress> bar;
  if (progress) bar.emplace("runs", static_cast<std::int64_t>(scenarios.size()));
  const auto texts = fork_map(
      static_cast<int>(scenarios.size()), jobs,
      [&](int i) -> Result<std::string> {
        Scenario once = scenarios[i];
        once.variability.repeats = 1;
        once.report.least_bandwidth = false;
        ASSIGN_OR_RETURN(const RunResult result, simulate(once, engine));
        return fmt::format("{}", result.iteration_s);
      },
      [&](int) {
        if (bar) bar->advance();
      });
  std::vector<double> seconds;
  for (const Result<std::string>& text : texts) {
    if (!text.ok()) return text.error();
    ASSIGN_OR_RETURN(seconds.emplace_back(), parse_number(*text));
  }
  return seconds;
}

Result<RunResult> simulate_repeated(const Scenario& scenario, Engine engine,
                                    const OutputFiles& files, bool progress, int jobs) {
  std::vector<Scenario> runs(scenario.variability.repeats, scenario);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].variability.seed += i;
  ASSIGN_OR_RETURN(const std::vector<double> seconds, iterations_s(runs, engine, progress, jobs));
  Scenario median = runs[median_of(seconds)];
  median.variability.repeats = 1;
  ASSIGN_OR_RETURN(RunResult result, simulate(median, engine, files));
  result.repeats =
      Repeats{scenario.variability.repeats, scenario.variability.seed, spread_of(seconds)};
  if (!varies_by_seed(scenario))
    result.warnings.push_back(fmt::format(
        "{}: {}: found variability.runs = {} of a run that no seed changes, expected "
        "variability.jitter or variability.straggler_share: all of them are alike",
        scenario.name, scenario.place_of({"variability.runs"}), scenario.variability.repeats));
  return result;
}

}  // namespace tandem
