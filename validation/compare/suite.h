// Suite: simulates and measures each run of a scenario file, and compares the two.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"
#include "validation/compare/measure.h"

namespace tandem {

// One run, simulated and measured. Measured figures are the median of the iterations.
struct SuiteRow {
  std::vector<std::string> axes;    // the file's axes
  std::vector<std::string> points;  // its point on each axis
  double simulated_s = 0, measured_s = 0;
  double measured_p5_s = 0, measured_p95_s = 0;
  double simulated_bubble = 0, measured_bubble = 0;           // fractions of the iteration
  std::optional<double> simulated_overlap, measured_overlap;  // of communication of report.kind
  std::optional<double> simulated_ratio, measured_ratio;      // to the baseline's iteration
  std::string engine;                                         // the engine that simulated
  // The simulation with the measured op times (Measured::own): its iteration, and the difference of
  // its bubble and overlap from the median iteration's.
  double own_s = 0;
  double own_bubble_difference = 0;
  std::optional<double> own_overlap_difference;
  bool communicates = false;  // exposed communication takes longer than compute
  bool is_bounded = true;  // false: the run shared hardware queues, and its bounds are not checked
  std::vector<std::string> faults;  // figures that differ by more than allowed

  double iteration_error() const { return simulated_s / measured_s - 1; }
  double own_iteration_error() const { return own_s / measured_s - 1; }
  std::optional<double> overlap_difference() const {
    if (!simulated_overlap || !measured_overlap) return std::nullopt;
    return *simulated_overlap - *measured_overlap;
  }
  std::optional<double> ratio_error() const {
    if (!simulated_ratio || !measured_ratio) return std::nullopt;
    return *simulated_ratio / *measured_ratio - 1;
  }
};

// Simulates all scenarios, then measures them one after another, and calls on_done after each
// measurement. The engine is SimGrid if this build has it and links are shared. Errors begin with
// the run's name.
Result<std::vector<SuiteRow>> run_suite(
    const std::vector<Scenario>& scenarios, const MeasureOptions& options,
    const std::function<void()>& on_done = [] {});

// Returns the row of one run. Its ratios come from the results' savings.
SuiteRow suite_row(const Scenario& scenario, const RunResult& simulated, const Measured& measured);

nlohmann::ordered_json to_json(const SuiteRow& row);

}  // namespace tandem
