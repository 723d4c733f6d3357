// CalibrateRun: the constants of a framework profile that a run of a scenario tells, by its ops,
// its iteration's time, or both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/scenario.h"
#include "traces/profile/profile.h"
#include "validation/calibrate/class_times.h"

namespace tandem {

// `iteration_s`: the usual iteration, 0: not known. `engine_ratio`: an iteration by the engine that
// is asked over one by the ideal engine, on which the constants are found.
struct RunEvidence {
  std::optional<Profile> profile;  // of the scenario's own run
  double iteration_s = 0;
  double engine_ratio = 1;
};

// A constant that moved. `spread_left`: the share of its spread that the evidence left open.
// `sigma`: that as a share of its value, one standard deviation.
struct MovedConstant {
  std::string key;
  double before = 0, after = 0;  // in the key's unit
  double spread_left = 1, sigma = 1;

  bool is_determined() const { return sigma <= kDetermined; }
  static constexpr double kDetermined = 0.015;
};

struct RunCalibration {
  FrameworkProfile profile;  // with moved constants, name and evidence of the one before
  std::vector<MovedConstant> moved;
  std::vector<std::string> left;     // keys of which the evidence says next to nothing
  double before_s = 0, after_s = 0;  // simulated iterations, by the engine that is asked
  std::vector<ClassTime> classes_before, classes_after;  // without a profile: empty
  std::vector<std::string> notes;
};

// Finds the constants by least squares: residuals are log(simulated / measured) of each class of
// ops and of the iteration; priors hold each constant at its value, give or take its spread. An
// iteration that is farther from its simulation than 1.5 times what spreads and noise allow counts
// as no farther. Error(BadInput): a scenario whose prices are not a model's, or no evidence.
Result<RunCalibration> calibrate_run(const Scenario& scenario, const RunEvidence& evidence);

// Returns the moved profile as a file for costs.software that names its base. `base`: that file's
// name or path; `source`: where the run's times come from. Sets the interval of predictions to the
// narrower one of the base's and that of runs that were calibrated so (docs/explain.md).
Result<std::string> calibrated_text(const Scenario& scenario, const RunCalibration& calibration,
                                    const std::string& base, const std::string& source);

}  // namespace tandem
