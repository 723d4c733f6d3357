// CalibrateRun: finds constants of a framework profile from one run of a scenario: from the times
// of its ops, from its iteration's time, or from both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/simulate/simulate.h"
#include "scenarios/scenario.h"
#include "traces/profile/profile.h"
#include "validation/calibrate/class_times.h"

namespace tandem {

struct RunEvidence {
  std::optional<Profile> profile;  // of the scenario's own run
  double iteration_s = 0;          // measured, of the usual iteration; 0: not known
  Engine engine = Engine::Ideal;   // simulates the iteration before and after
  // The constants are found on the ideal engine. Its iterations take this many times as long on
  // `engine`.
  double engine_ratio = 1;
  std::vector<std::string> left_out;  // of a log
};

// A constant that the evidence moves.
struct ToldConstant {
  std::string key;
  double before = 0, after = 0;  // in the key's unit
  // The standard deviation after the fit: as a share of the spread before it, and of `after`.
  double spread_left = 1, sigma = 1;

  // Says whether the run fixes the value; else the uncertainty is named beside it.
  bool is_determined() const { return sigma <= kDetermined; }
  static constexpr double kDetermined = 0.015;
};

struct RunCalibration {
  FrameworkProfile profile;  // the scenario's with moved constants; its name and evidence stay
  std::vector<ToldConstant> told;
  std::vector<std::string> left;  // keys that keep their values: the evidence says too little
  // Iterations simulated on `engine`: with the constants before, and with the moved ones, rounded
  // as in a file.
  double before_s = 0, after_s = 0;
  double measured_s = 0;                                 // given, or the profile's; 0: not known
  std::vector<ClassTime> classes_before, classes_after;  // without a profile: empty
  bool is_far = false;  // the run differs by more than sites do: it is no evidence for others
  std::vector<std::string> notes;
};

// Finds the constants by least squares: residuals are log(simulated / measured) of each class of
// ops and of the iteration; priors hold each constant at its value, give or take its spread. An
// iteration that is farther from its simulation than 1.5 times what spreads and noise allow counts
// as no farther. Error(BadInput): a scenario whose prices are not a model's, no evidence, or times
// that no run of the scenario can have.
Result<RunCalibration> calibrate_run(const Scenario& scenario, const RunEvidence& evidence);

// Returns the moved profile as a file for costs.software that names its base. `base`: that file's
// name or path; `source`: where the run's times come from. If the run is_far, the file has moved
// constants alone. Else it also has
// - measured_on and measured_gpus, with the run's own kind added to its base's;
// - an interval of dense models, or of experts if the run has them: the overlap of the base's with
//   that of calibrated runs (workload/calibrated_run.toml). If the run lies outside the base's, or
//   the two overlap by less than half of the narrower, that of calibrated runs counts alone. The
//   interval is widened to hold the run.
Result<std::string> calibrated_text(const Scenario& scenario, const RunCalibration& calibration,
                                    const std::string& base, const std::string& source);

}  // namespace tandem
