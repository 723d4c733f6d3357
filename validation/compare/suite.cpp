#include "validation/compare/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "planning/choose/resolve.h"
#include "planning/simulate/simulate.h"
#include "planning/what_if/savings.h"
#include "results/field_table.h"
#include "sim/engines.h"

namespace tandem {
namespace {

// Returns the iteration over the baseline's, if there is one. The baseline takes the run's seconds
// and those that the run saves.
std::optional<double> ratio(const RunResult& result) {
  if (!result.saving) return std::nullopt;
  return result.iteration_s / (result.iteration_s + result.saving->seconds);
}

// Adds a fault to the row for each figure that differs by more than the scenario allows.
void check(const Scenario& scenario, SuiteRow* row) {
  const MeasurementSettings& may = scenario.measurement;
  const double percent = row->communicates ? may.communicating_percent : may.iteration_percent;
  const auto check = [row](const char* what, std::optional<double> differs,
                           std::optional<double> most, const char* unit) {
    if (differs && most && !(std::abs(1e2 * *differs) <= *most))
      row->faults.push_back(fmt::format("{} differs by {:+.2f} {}, expected at most {:g}", what,
                                        1e2 * *differs, unit, *most));
  };
  check("iteration", row->iteration_error(), percent, "%");
  check("ratio", row->ratio_error(), percent, "%");
  check("bubble", row->simulated_bubble - row->measured_bubble, may.bubble_points, "points");
  check("overlap", row->overlap_difference(), may.overlap_points, "points");
  check("iteration with its own op times", row->own_iteration_error(), may.own_iteration_percent,
        "%");
  check("bubble with its own op times", row->own_bubble_difference, may.own_bubble_points,
        "points");
  check("overlap with its own op times", row->own_overlap_difference, may.own_overlap_points,
        "points");
}

// Chooses SimGrid if it is there and some run uses links: it differs from the ideal engine only in
// how transfers share them. Ranks that share a GPU use none.
Engine engine_for(const std::vector<Scenario>& scenarios) {
  const bool links = !std::ranges::all_of(
      scenarios, [](const Scenario& scenario) { return scenario.measurement.share_gpu; });
  return links && simgrid_available().ok() ? Engine::SimGrid : Engine::Ideal;
}

}  // namespace

SuiteRow suite_row(const Scenario& scenario, const RunResult& simulated, const Measured& measured) {
  const RealRunResult& real = measured.real;
  const RunResult& own = measured.own;
  const auto kind = static_cast<std::size_t>(scenario.report.kind.value_or(GroupKind::Pipeline));
  SuiteRow row;
  row.axes = scenario.axes.empty() ? std::vector<std::string>{"run"} : scenario.axes;
  row.points = scenario.points.empty() ? std::vector{scenario.name} : scenario.points;
  row.simulated_s = simulated.iteration_s;
  row.measured_s = real.spread.iteration_s.p50;
  row.measured_p5_s = real.spread.iteration_s.p5;
  row.measured_p95_s = real.spread.iteration_s.p95;
  row.simulated_bubble = simulated.bubble_fraction;
  row.measured_bubble = real.spread.bubble_fraction.p50;
  row.simulated_overlap = simulated.overlap_fraction[kind];
  row.measured_overlap = real.result.overlap_fraction[kind];
  row.simulated_ratio = ratio(simulated);
  row.measured_ratio = ratio(real.result);
  row.engine = simulated.engine;
  row.own_s = own.iteration_s;
  // `own` was simulated with the op times of the median iteration, so compare it with that one.
  row.own_bubble_difference = own.bubble_fraction - real.result.bubble_fraction;
  if (own.overlap_fraction[kind] && row.measured_overlap)
    row.own_overlap_difference = *own.overlap_fraction[kind] - *row.measured_overlap;
  double exposed_s = 0;
  for (const double seconds : simulated.exposed_s) exposed_s += seconds;
  row.communicates = exposed_s > simulated.compute_s;
  row.is_bounded = !real.shares_queues;
  if (row.is_bounded) check(scenario, &row);
  return row;
}

Result<std::vector<SuiteRow>> run_suite(const std::vector<Scenario>& given,
                                        const MeasureOptions& options,
                                        const std::function<void()>& on_done) {
  std::vector<Scenario> scenarios;
  for (const Scenario& scenario : given) {
    ASSIGN_OR_RETURN(scenarios.emplace_back(), resolved(scenario));
  }
  const Engine engine = engine_for(scenarios);
  std::vector<Result<RunResult>> simulated = simulate_all(scenarios, engine, 1);
  std::vector<Measured> measured;
  std::vector<Result<RunResult>> results;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    const auto named = [&](const Error& error) {
      return Error{fmt::format("{}: {}", scenarios[i].name, error.text()), error.kind};
    };
    if (!simulated[i].ok()) return named(simulated[i].error());
    const auto job = compile(scenarios[i]);
    if (!job.ok()) return named(job.error());
    auto one = measure(scenarios[i], *job, options);
    if (!one.ok()) return named(one.error());
    results.emplace_back(one->real.result);
    measured.push_back(*std::move(one));
    on_done();
  }
  add_savings(scenarios, &results);
  std::vector<SuiteRow> rows;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    measured[i].real.result = *results[i];
    rows.push_back(suite_row(scenarios[i], *simulated[i], measured[i]));
  }
  return rows;
}

nlohmann::ordered_json to_json(const SuiteRow& row) {
  return {{"axes", row.axes},
          {"points", row.points},
          {"simulated_s", row.simulated_s},
          {"measured_s", row.measured_s},
          {"measured_p5_s", row.measured_p5_s},
          {"measured_p95_s", row.measured_p95_s},
          {"iteration_error", row.iteration_error()},
          {"simulated_bubble", row.simulated_bubble},
          {"measured_bubble", row.measured_bubble},
          {"bubble_difference", row.simulated_bubble - row.measured_bubble},
          {"simulated_overlap", row.simulated_overlap},
          {"measured_overlap", row.measured_overlap},
          {"overlap_difference", row.overlap_difference()},
          {"simulated_ratio", row.simulated_ratio},
          {"measured_ratio", row.measured_ratio},
          {"ratio_error", row.ratio_error()},
          {"own_s", row.own_s},
          {"own_iteration_error", row.own_iteration_error()},
          {"own_bubble_difference", row.own_bubble_difference},
          {"own_overlap_difference", row.own_overlap_difference},
          {"communication_dominates", row.communicates},
          {"engine", row.engine},
          {"is_bounded", row.is_bounded},
          {"faults", row.faults}};
}

}  // namespace tandem
