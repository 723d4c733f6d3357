#include "validation/calibrate/calibrate_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/data_dir.h"
#include "base/toml/sourced_file.h"
#include "planning/play/play_job.h"
#include "planning/simulate/simulate.h"
#include "scenarios/costs.h"
#include "scenarios/evidence.h"
#include "validation/calibrate/run_constants.h"
#include "validation/published/gauss_newton.h"
#include "validation/published/profile_text.h"

namespace tandem {
namespace {

// Noise of a class of ops, and of an iteration: what its simulation is off beyond the constants.
constexpr double kClassNoise = 0.01, kIterationNoise = 0.08;

// An iteration farther than this from its simulation, in standard deviations, counts as no farther.
constexpr double kMostDeviation = 1.5;

// A constant of which the evidence leaves more of its spread stays as it is.
constexpr double kLeftOpen = 0.95;

constexpr double kMostFactor = 3;   // of a constant that is a factor, either way
constexpr double kClassOff = 0.03;  // a class that is farther off after the fit is named
constexpr std::size_t kMostNamed = 5;
constexpr double kSlopeShare = 0.2;  // of a spread, for a numerical derivative

// Evaluates a scenario with moved constants against what was measured.
class RunFit {
 public:
  RunFit(const Scenario& scenario, const RunEvidence& evidence, std::vector<RunConstant> constants)
      : scenario_(scenario), evidence_(evidence), constants_(std::move(constants)) {}

  // Reads the profile's steps. Call it first.
  Status read() {
    if (!evidence_.profile) return Done{};
    ASSIGN_OR_RETURN(const PlayedJob played,
                     play_once(moved(std::vector<double>(constants_.size())), Engine::Ideal));
    ASSIGN_OR_RETURN(
        run_, profiled_run(played.job.program, durations_of(played.job.program, played.trace),
                           *evidence_.profile));
    return Done{};
  }

  // Sets an iteration's overhead to at least 10 us where ops count, so that all values have the
  // same ones.
  Scenario moved(std::span<const double> values) const {
    Scenario scenario = scenario_;
    FrameworkProfile& profile = scenario.costs.profile;
    profile = moved_profile(scenario_.costs.profile, constants_, values);
    if (evidence_.profile)
      profile.iteration_overhead_s = std::max(profile.iteration_overhead_s, 1e-5);
    return scenario;
  }

  // Simulates the iteration by the engine that was asked.
  Result<double> iteration_s(std::span<const double> values) const {
    ASSIGN_OR_RETURN(const RunResult result, simulate(moved(values), Engine::Ideal));
    return result.iteration_s * evidence_.engine_ratio;
  }

  Result<std::vector<ClassTime>> classes(std::span<const double> values) const {
    if (!evidence_.profile) return std::vector<ClassTime>();
    ASSIGN_OR_RETURN(const PlayedJob played, play_once(moved(values), Engine::Ideal));
    return class_times(played.job.program, durations_of(played.job.program, played.trace), run_);
  }

  // Gives log(simulated / measured) over its noise: of the classes, then of the iteration.
  Result<std::vector<double>> residuals(std::span<const double> values) const {
    std::vector<double> found;
    ASSIGN_OR_RETURN(const std::vector<ClassTime> all, classes(values));
    for (const ClassTime& each : all) found.push_back(-std::log(each.ratio) / kClassNoise);
    if (evidence_.iteration_s > 0) {
      ASSIGN_OR_RETURN(const double s, iteration_s(values));
      found.push_back((std::log(s / evidence_.iteration_s) + nearer_) / kIterationNoise);
    }
    return found;
  }

  Result<Matrix> slopes(const std::vector<double>& values) const {
    ASSIGN_OR_RETURN(const std::vector<double> here, residuals(values));
    Matrix matrix(here.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      std::vector<double> other = values;
      other[k] = probed(variables()[k], values[k], kSlopeShare);
      ASSIGN_OR_RETURN(const std::vector<double> there, residuals(other));
      if (there.size() != here.size())
        return Error{"found other ops with other constants, expected the same Program",
                     Error::Failed};
      for (std::size_t i = 0; i < here.size(); ++i)
        matrix[i].push_back((there[i] - here[i]) * constants_[k].spread / (other[k] - values[k]));
    }
    return matrix;
  }

  // Moves a measured iteration that no spread explains nearer to its simulation, where the fit
  // begins. Returns whether it did.
  Result<bool> bring_nearer() {
    if (evidence_.iteration_s <= 0) return false;
    const std::vector<double> start(constants_.size());
    ASSIGN_OR_RETURN(const Matrix matrix, slopes(start));
    ASSIGN_OR_RETURN(const std::vector<double> here, residuals(start));
    double variance = 1;
    for (const double slope : matrix.back()) variance += slope * slope;
    const double most = kMostDeviation * std::sqrt(variance);
    nearer_ = (std::clamp(here.back(), -most, most) - here.back()) * kIterationNoise;
    return nearer_ != 0;
  }

  std::vector<FitVariable> variables() const {
    std::vector<FitVariable> all;
    for (const RunConstant& each : constants_) {
      const double most = each.is_sum ? 10 * each.spread : std::log(kMostFactor);
      double least = -most;
      if (each.is_sum) least = -value_of(scenario_.costs.profile, each.keys.front());
      all.push_back({.step = each.spread, .least = least, .most = most, .prior = 0});
    }
    return all;
  }

  const std::vector<RunConstant>& constants() const { return constants_; }

 private:
  const Scenario& scenario_;
  const RunEvidence& evidence_;
  const std::vector<RunConstant> constants_;
  ProfiledRun run_;
  double nearer_ = 0;  // added to the logarithm of simulated over measured iteration
};

// Sets what moved, and puts back what the evidence leaves open.
void take_constants(const RunFit& fit, const FrameworkProfile& before,
                    const std::vector<double>& sigma, std::vector<double>* values,
                    RunCalibration* found) {
  for (std::size_t k = 0; k < values->size(); ++k) {
    if (sigma[k] > kLeftOpen) (*values)[k] = 0;
  }
  const FrameworkProfile after = moved_profile(before, fit.constants(), *values);
  for (std::size_t k = 0; k < values->size(); ++k) {
    for (const char* key : fit.constants()[k].keys) {
      const double was = value_of(before, key), is = value_of(after, key);
      if (sigma[k] > kLeftOpen || is == was) {
        found->left.emplace_back(key);
        continue;
      }
      const RunConstant& constant = fit.constants()[k];
      found->moved.push_back(
          {key, was, is, sigma[k], sigma[k] * constant.spread / (constant.is_sum ? is : 1)});
    }
  }
  found->profile = after;
}

void add_notes(const RunEvidence& evidence, bool was_far, RunCalibration* found) {
  if (was_far)
    found->notes.push_back(fmt::format(
        "The measured iteration ({:.4g} s) is farther from the simulated one ({:.4g} s) than sites "
        "with one software differ. It counts in part: tandem explain says what else slows it down.",
        evidence.iteration_s, found->before_s));
  std::vector<ClassTime> off;
  for (const ClassTime& each : found->classes_after) {
    if (std::abs(std::log(each.ratio)) > kClassOff) off.push_back(each);
  }
  std::ranges::stable_sort(off, std::greater(),
                           [](const ClassTime& each) { return std::abs(std::log(each.ratio)); });
  for (std::size_t i = 0; i < std::min(off.size(), kMostNamed); ++i)
    found->notes.push_back(
        fmt::format("{}: takes {:.3g} times as long as simulated, and no constant that moved says "
                    "why.",
                    off[i].name, off[i].ratio));
  if (off.size() > kMostNamed)
    found->notes.push_back(
        fmt::format("{} more classes of ops differ by more than {:g} % (--json).",
                    off.size() - kMostNamed, 100 * kClassOff));
}

}  // namespace

Result<RunCalibration> calibrate_run(const Scenario& scenario, const RunEvidence& evidence) {
  if (scenario.costs.uniform || scenario.costs.table)
    return Error::at(scenario.path,
                     fmt::format("found costs.source = {}, expected prices of a model, which a "
                                 "software has a part in",
                                 scenario.costs.source));
  const bool ops = evidence.profile.has_value();
  if (!ops && evidence.iteration_s <= 0)
    return Error{"found no times of a run, expected profiles, a log, or seconds of an iteration"};
  RunFit fit(scenario, evidence,
             run_constants(scenario.job.plan, scenario.cluster.spec.gpus_per_node, ops));
  RETURN_IF_ERROR(fit.read());
  const std::vector<double> start(fit.constants().size());
  RunCalibration found;
  ASSIGN_OR_RETURN(found.before_s, fit.iteration_s(start));
  ASSIGN_OR_RETURN(found.classes_before, fit.classes(start));
  ASSIGN_OR_RETURN(const bool was_far, fit.bring_nearer());
  LeastSquares problem{
      .variables = fit.variables(),
      .residuals = [&](const std::vector<double>& values) { return fit.residuals(values); },
      .slopes = [&](const std::vector<double>& values) { return fit.slopes(values); },
      .steps_of_slopes = ops ? 1 : 2,
      .steps = ops ? 12 : 2,
      .halvings = 10,
      .gain = 1e-4};
  ASSIGN_OR_RETURN(LeastSquaresFit done, fit_least_squares(problem, start));
  problem.steps = 1;  // once more, so that what stays open is told where the fit ended
  ASSIGN_OR_RETURN(done, fit_least_squares(problem, std::move(done.values)));
  take_constants(fit, scenario.costs.profile, done.sigma, &done.values, &found);
  ASSIGN_OR_RETURN(found.after_s, fit.iteration_s(done.values));
  ASSIGN_OR_RETURN(found.classes_after, fit.classes(done.values));
  add_notes(evidence, was_far, &found);
  return found;
}

namespace {

// Returns the interval of runs whose software was calibrated on one other run of their site.
Result<std::pair<double, double>> calibrated_interval() {
  ASSIGN_OR_RETURN(SourcedFile file,
                   SourcedFile::read(data_dir() + "/workload/calibrated_run.toml"));
  ASSIGN_OR_RETURN(const double low, file.number("low"));
  ASSIGN_OR_RETURN(const double high, file.number("high"));
  RETURN_IF_ERROR(file.finish());
  if (!(low > 0 && low <= high)) return file.expected("high", "0 < low <= high");
  return std::pair(low, high);
}

}  // namespace

Result<std::string> calibrated_text(const Scenario& scenario, const RunCalibration& calibration,
                                    const std::string& base, const std::string& source) {
  std::string text = fmt::format("# {} on one run: tandem calibrate run.\nbase = \"{}\"\n",
                                 std::filesystem::path(base).stem().string(), base);
  for (const MovedConstant& each : calibration.moved)
    text = with_value(text, each.key, each.after,
                      fmt::format("{}; before {:.4g}; {:.0f} % of its spread are left open", source,
                                  each.before, 100 * each.spread_left));
  const FrameworkProfile& profile = calibration.profile;
  ASSIGN_OR_RETURN(const auto site, calibrated_interval());
  const std::string why =
      "the narrower of its base's and that of runs predicted by a software that was calibrated on "
      "one other run of their family (tandem-fit calibrated)";
  const auto low = [&](double own) { return own > 0 ? std::max(own, site.first) : site.first; };
  const auto high = [&](double own) { return own > 0 ? std::min(own, site.second) : site.second; };
  text = with_value(text, "interval_low", low(profile.interval_low), why);
  text = with_value(text, "interval_high", high(profile.interval_high), why);
  text = with_value(text, "experts_low", low(profile.experts_low), why);
  text = with_value(text, "experts_high", high(profile.experts_high), why);
  std::vector<std::string> kinds = profile.measured_on;
  const Plan& plan = scenario.job.plan;
  const std::string own =
      text_of(kind_of_run(scenario.cluster.spec.device.name, scenario.job.model, plan));
  if (!has_own_gpu(scenario) && std::ranges::find(kinds, own) == kinds.end()) kinds.push_back(own);
  text += fmt::format("measured_on = {{value = \"{}\", source = \"its base's, and this run\"}}\n",
                      fmt::join(kinds, ", "));
  return with_value(text, "measured_gpus",
                    std::max(profile.measured_gpus, static_cast<double>(plan.gpus())),
                    "of the largest of those");
}

}  // namespace tandem
