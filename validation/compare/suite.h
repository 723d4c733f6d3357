// Suite: the runs of a scenario file, each simulated and measured, and held against each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/run_result.h"
#include "validation/compare/measure.h"

namespace tandem {

// A run both ways. Measured: the median of the iterations.
struct SuiteRow {
  std::vector<std::string> axes;    // of the file
  std::vector<std::string> points;  // one an axis
  double simulated_s = 0, measured_s = 0;
  double measured_p5_s = 0, measured_p95_s = 0;
  double simulated_bubble = 0, measured_bubble = 0;           // fractions of the iteration
  std::optional<double> simulated_overlap, measured_overlap;  // of report.kind
  std::optional<double> simulated_ratio, measured_ratio;      // to the baseline's iteration
  std::string engine;                                         // that simulated
  // Simulated with the measured op times (Measured::own): the iteration, and by how much bubble and
  // overlap differ from the median iteration's.
  double own_s = 0;
  double own_bubble_difference = 0;
  std::optional<double> own_overlap_difference;
  bool communicates = false;  // exposed communication takes longer than compute
  bool is_bounded = true;     // else the run shared hardware queues: its bounds are not claimed
  std::vector<std::string> faults;  // what differs by more than it may; empty: nothing

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

// Simulates all, with SimGrid where this build has it and links are shared, then measures one after
// the other; on_done after each measurement. An Error of a run has its name.
Result<std::vector<SuiteRow>> run_suite(
    const std::vector<Scenario>& scenarios, const MeasureOptions& options,
    const std::function<void()>& on_done = [] {});

// Of one run. The ratios are those of the results' savings.
SuiteRow suite_row(const Scenario& scenario, const RunResult& simulated, const Measured& measured);

nlohmann::ordered_json to_json(const SuiteRow& row);

}  // namespace tandem
