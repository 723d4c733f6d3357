// Fits moves of constants by damped Gauss-Newton (gauss_newton.h). Each evaluation simulates the
// scenario again with moved constants. A move is the logarithm of a factor, or a sum in the key's
// unit; 0: unmoved. Standard deviations:
//   noise                of a residual, by what constants do not explain: 0.01 is 1 % of the time
//   spread               of a move before the fit (run_constants.h): 200 us
//   sigma of the fit     of a move after the fit, as a share of its spread: 0.3 is 60 us
//   ToldConstant::sigma  the same as a share of the constant's value: of 400 us, 60 us are 0.15
#include "validation/calibrate/calibrate_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/data_dir.h"
#include "base/toml/sourced_file.h"
#include "planning/play/play_job.h"
#include "planning/simulate/simulate.h"
#include "scenarios/costs.h"
#include "scenarios/evidence.h"
#include "traces/profile/profile_notes.h"
#include "validation/calibrate/run_constants.h"
#include "validation/published/gauss_newton.h"
#include "validation/published/profile_text.h"

namespace tandem {
namespace {

// Noise of a class of ops, and of an iteration.
constexpr double kClassNoise = 0.01, kIterationNoise = 0.08;
// The noise of a class is kClassNoise x (1 + kSmallShare / its share of the time): classes with
// little time count little.
constexpr double kSmallShare = 0.01;

// An iteration farther than this from its simulation, in standard deviations, counts as no farther.
constexpr double kMostDeviation = 1.5;

// A constant stays as it is if the fit leaves more than this share of its spread open.
constexpr double kLeftOpen = 0.95;

constexpr double kMostFactor = 8;       // of a constant that is a factor, either way
constexpr double kMostRatio = 5;        // of a run's iteration and its simulation, either way
constexpr double kMostSpreads = 4;      // that a constant moves, unless the run is far
constexpr double kIterationOff = 0.03;  // an iteration that is farther off after the fit is named
constexpr double kClassOff = 0.03;      // a class that is farther off after the fit is named
constexpr std::size_t kMostNamed = 5;
constexpr double kRounding = 0.002;  // that written constants move an iteration by, at most
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
    const Program& program = played.job.program;
    const OpDurations durations = durations_of(program, played.trace);
    ASSIGN_OR_RETURN(run_, profiled_run(program, durations, *evidence_.profile));
    measured_ = measured_classes(program, run_);
    uncalibrated_ = simulated_classes(program, durations, run_);
    return Done{};
  }

  // Returns the scenario with moved constants. If ops count, an iteration's overhead is at least 10
  // us: the Program then has the same ops for all values.
  Scenario moved(std::span<const double> values) const {
    Scenario scenario = scenario_;
    FrameworkProfile& profile = scenario.costs.profile;
    profile = moved_profile(scenario_.costs.profile, constants_, values);
    if (evidence_.profile)
      profile.iteration_overhead_s = std::max(profile.iteration_overhead_s, 1e-5);
    return scenario;
  }

  // Returns the iteration of the engine that was asked: the ideal engine's, times their ratio.
  Result<double> iteration_s(std::span<const double> values) const {
    ASSIGN_OR_RETURN(const RunResult result, simulate(moved(values), Engine::Ideal));
    return result.iteration_s * evidence_.engine_ratio;
  }

  Result<std::vector<ClassTime>> classes(std::span<const double> values) const {
    if (!evidence_.profile) return std::vector<ClassTime>();
    ASSIGN_OR_RETURN(const PlayedJob played, play_once(moved(values), Engine::Ideal));
    const OpDurations durations = durations_of(played.job.program, played.trace);
    return class_times(measured_, uncalibrated_,
                       simulated_classes(played.job.program, durations, run_));
  }

  // Gives log(simulated / measured) over its noise: of the classes, then of the iteration.
  Result<std::vector<double>> residuals(std::span<const double> values) const {
    std::vector<double> found;
    ASSIGN_OR_RETURN(const std::vector<ClassTime> all, classes(values));
    for (const ClassTime& each : all)
      found.push_back(-std::log(each.ratio) / (kClassNoise * (1 + kSmallShare / each.share)));
    if (evidence_.iteration_s > 0) {
      ASSIGN_OR_RETURN(const double s, iteration_s(values));
      found.push_back((std::log(s / evidence_.iteration_s) + nearer_) / kIterationNoise);
    }
    return found;
  }

  // Returns the residuals' numerical derivatives, by residual and constant: how much each grows if
  // a constant moves by its spread.
  Result<Matrix> slopes(const std::vector<double>& values) const {
    ASSIGN_OR_RETURN(const std::vector<double> here, residuals(values));
    Matrix matrix(here.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      std::vector<double> other = values;
      other[k] = probed(variables()[k], values[k], kSlopeShare);
      ASSIGN_OR_RETURN(const std::vector<double> there, residuals(other));
      for (std::size_t i = 0; i < here.size(); ++i)
        matrix[i].push_back((there[i] - here[i]) * constants_[k].spread / (other[k] - values[k]));
    }
    return matrix;
  }

  // Sets `nearer_` so that a measured iteration that is too far from its simulation, for the
  // spreads and the noise, counts as just near enough. Returns whether it was too far. The
  // residual, in noises, has a variance of 1, and the square of its slope for each constant, which
  // may be off by one spread. Example with one slope of 2: sqrt(1 + 4) x 1.5 = 3.35, so a residual
  // of 5 counts as 3.35.
  Result<bool> bring_far_iteration_nearer() {
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
      // A sum lowers its key to 0 at most.
      if (each.is_sum) least = -value_of(scenario_.costs.profile, each.keys.front());
      all.push_back({.step = each.spread, .least = least, .most = most, .prior = 0});
    }
    return all;
  }

  const std::vector<RunConstant>& constants() const { return constants_; }
  void keep(std::vector<RunConstant> constants) { constants_ = std::move(constants); }
  double profiled_s() const { return 1e-9 * run_.iteration_ns; }
  const std::string& unmatched() const { return run_.unmatched; }

 private:
  Scenario scenario_;
  const RunEvidence& evidence_;
  std::vector<RunConstant> constants_;
  ProfiledRun run_;
  ClassMap measured_, uncalibrated_;  // the latter simulated with unmoved constants
  double nearer_ = 0;                 // added to the logarithm of simulated over measured iteration
};

// Finds the moves of the constants. `by_ops`: a profile's ops tell them, so that more steps pay
// off.
Result<LeastSquaresFit> least_squares(const RunFit& fit, bool by_ops) {
  LeastSquares problem{
      .variables = fit.variables(),
      .residuals = [&](const std::vector<double>& values) { return fit.residuals(values); },
      .slopes = [&](const std::vector<double>& values) { return fit.slopes(values); },
      .steps_of_slopes = by_ops ? 1 : 2,
      .steps = by_ops ? 12 : 2,
      .halvings = 10,
      .gain = 1e-4};
  ASSIGN_OR_RETURN(LeastSquaresFit done,
                   fit_least_squares(problem, std::vector<double>(fit.constants().size())));
  problem.steps = 1;  // once more, so that uncertainties are those where the fit ended
  return fit_least_squares(problem, std::move(done.values));
}

// Fits, drops the constants of which more than kLeftOpen stays open (sigma is a share of the
// spread), and fits the others again.
Result<LeastSquaresFit> fit_told(RunFit* fit, bool by_ops) {
  ASSIGN_OR_RETURN(LeastSquaresFit done, least_squares(*fit, by_ops));
  std::vector<RunConstant> told;
  for (std::size_t k = 0; k < done.values.size(); ++k) {
    if (done.sigma[k] <= kLeftOpen) told.push_back(fit->constants()[k]);
  }
  if (told.size() == fit->constants().size()) return done;
  fit->keep(std::move(told));
  if (fit->constants().empty()) return LeastSquaresFit{};
  return least_squares(*fit, by_ops);
}

// Sets the moved profile, the constants that moved with their uncertainty, and the keys that did
// not. The run is far if a constant moved by more than kMostSpreads.
void take_constants(const RunFit& fit, const FrameworkProfile& before, const LeastSquaresFit& done,
                    RunCalibration* found) {
  found->profile =
      rounded_profile(moved_profile(before, fit.constants(), done.values), fit.constants());
  found->left = run_constant_keys();
  for (std::size_t k = 0; k < done.values.size(); ++k) {
    const RunConstant& constant = fit.constants()[k];
    found->is_far |= std::abs(done.values[k]) > kMostSpreads * constant.spread;
    const double off = done.sigma[k] * constant.spread;  // of the move
    for (const char* key : constant.keys) {
      std::erase(found->left, key);
      const double after = value_of(found->profile, key);
      // The move of a factor's logarithm is a share of the value already. That of a sum is divided
      // by the value, but by a tenth of the spread at least, as the value may be near 0.
      const double whole = constant.is_sum ? std::max(after, constant.spread / 10) : 1;
      found->told.push_back({.key = key,
                             .before = value_of(before, key),
                             .after = after,
                             .spread_left = done.sigma[k],
                             .sigma = off / whole});
    }
  }
}

void add_notes(bool from_profile, RunCalibration* found) {
  if (found->is_far)
    found->notes.push_back(
        "The run differs from its simulation by more than sites with one software do. Is it this "
        "model, GPU and plan? It is no evidence: predictions by it are guesses. "
        "tandem explain says what else slows it down.");
  const double off = found->measured_s > 0 ? found->after_s / found->measured_s - 1 : 0;
  if (std::abs(off) > kIterationOff)
    found->notes.push_back(fmt::format(
        "The iteration is still {:.1f} % too {}. {}", 100 * std::abs(off),
        off < 0 ? "short" : "long",
        from_profile ? "Its ops do not say why: slow ranks, pauses and waits are no constants. "
                       "tandem explain names them."
                     : "An iteration's time moves the constants a part of the way: the rest may be "
                       "of this plan alone. Profiles tell more."));
  std::vector<ClassTime> off_classes;
  for (const ClassTime& each : found->classes_after) {
    if (std::abs(std::log(each.ratio)) > kClassOff) off_classes.push_back(each);
  }
  std::ranges::stable_sort(off_classes, std::greater(), &ClassTime::share);
  for (std::size_t i = 0; i < std::min(off_classes.size(), kMostNamed); ++i)
    found->notes.push_back(fmt::format(
        "{} ({:.1f} % of the time): {:.3g} times as long as simulated, and no constant that moved "
        "says why.",
        off_classes[i].name, 100 * off_classes[i].share, off_classes[i].ratio));
  if (off_classes.size() > kMostNamed)
    found->notes.push_back(
        fmt::format("{} more classes of ops differ by more than {:g} % (--json).",
                    off_classes.size() - kMostNamed, 100 * kClassOff));
}

}  // namespace

Result<RunCalibration> calibrate_run(const Scenario& scenario, const RunEvidence& evidence) {
  if (scenario.costs.uniform || scenario.costs.table)
    return Error::at(scenario.path,
                     fmt::format("found costs.source = {}, expected prices of a model, which a "
                                 "software has a part in",
                                 scenario.costs.source));
  const bool by_ops = evidence.profile.has_value();
  if (!by_ops && !(evidence.iteration_s > 0))
    return Error{"found no times of a run, expected profiles, a log, or seconds of an iteration"};
  RunFit fit(scenario, evidence,
             run_constants(scenario.job.plan, scenario.cluster.spec.gpus_per_node, by_ops));
  RETURN_IF_ERROR(fit.read());
  const std::vector<double> start(fit.constants().size());
  RunCalibration found;
  ASSIGN_OR_RETURN(found.before_s, fit.iteration_s(start));
  found.measured_s = evidence.iteration_s > 0 ? evidence.iteration_s : fit.profiled_s();
  const bool may_be_of_this_job = found.measured_s < kMostRatio * found.before_s &&
                                  found.measured_s > found.before_s / kMostRatio;
  if (!may_be_of_this_job)
    return Error::at(
        scenario.path,
        fmt::format("found an iteration of {:.4g} s, simulated with {:.4g} s, expected "
                    "seconds of this job, at most {:g} times more or less",
                    found.measured_s, found.before_s, kMostRatio));
  ASSIGN_OR_RETURN(found.classes_before, fit.classes(start));
  ASSIGN_OR_RETURN(found.is_far, fit.bring_far_iteration_nearer());
  ASSIGN_OR_RETURN(const LeastSquaresFit done, fit_told(&fit, by_ops));
  take_constants(fit, scenario.costs.profile, done, &found);
  Scenario after = scenario;
  after.costs.profile = found.profile;
  ASSIGN_OR_RETURN(const RunResult result,
                   run_in_own_process([&] { return simulate(after, evidence.engine); }));
  found.after_s = result.iteration_s;
  ASSIGN_OR_RETURN(found.classes_after, fit.classes(done.values));
  add_notes(by_ops, &found);
  if (!by_ops) return found;
  if (!fit.unmatched().empty()) found.notes.push_back(fit.unmatched());
  if (const std::string clocks = clocks_note(*evidence.profile); !clocks.empty())
    found.notes.push_back(clocks + " What they tell is left out.");
  for (std::string& note : notes_on_means(*evidence.profile, scenario.cluster.spec.device.name))
    found.notes.push_back(std::move(note));
  return found;
}

namespace {

// The least overlap of two intervals that both count, as a share of the narrower.
constexpr double kLeastOverlap = 0.5;

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

// Adds the overlap of the base's interval (a bound of 0: it has none) with that of calibrated runs.
// A run outside the base's speaks against it, and so does an overlap of less than half of the
// narrower of the two: the other counts alone. Then widens it to the run.
Result<std::string> with_interval(std::string text, const RunCalibration& run, bool experts) {
  ASSIGN_OR_RETURN(auto interval, calibrated_interval());
  auto& [low, high] = interval;
  const FrameworkProfile& base = run.profile;
  const double base_low = experts ? base.experts_low : base.interval_low;
  const double base_high = experts ? base.experts_high : base.interval_high;
  const double off_before = run.measured_s / run.before_s, off = run.measured_s / run.after_s;
  const bool is_in_base = off_before >= base_low && (base_high == 0 || off_before <= base_high);
  const double base_end = base_high == 0 ? std::numeric_limits<double>::infinity() : base_high;
  const double overlap = std::min(high, base_end) - std::max(low, base_low);
  const bool overlaps = overlap >= kLeastOverlap * std::min(high - low, base_end - base_low);
  const bool narrows = is_in_base && overlaps;
  if (narrows && base_low > 0) low = std::max(low, base_low);
  if (narrows && base_high > 0) high = std::min(high, base_high);
  low = std::min(low, off * (1 - kRounding));
  high = std::max(high, off * (1 + kRounding));
  const std::string why = fmt::format(
      "{} runs predicted by a software that was calibrated on one other run of their family "
      "(tandem-fit calibrated)",
      narrows      ? "the narrower of its base's and that of"
      : is_in_base ? "its base's overlaps it by less than half: that of"
                   : "its base's does not hold the run: that of");
  text = with_value(std::move(text), experts ? "experts_low" : "interval_low", low, why);
  return with_value(std::move(text), experts ? "experts_high" : "interval_high", high, why);
}

}  // namespace

Result<std::string> calibrated_text(const Scenario& scenario, const RunCalibration& calibration,
                                    const std::string& base, const std::string& source) {
  std::string text = fmt::format("# Calibrated on a run: tandem calibrate run.\nbase = {}\n",
                                 nlohmann::json(base).dump());
  for (const ToldConstant& each : calibration.told)
    text = with_value(text, each.key, each.after,
                      fmt::format("{}; before {:.4g}; {:.0f} % of its spread are left open", source,
                                  each.before, 100 * each.spread_left));
  if (calibration.is_far) return text;
  const FrameworkProfile& profile = calibration.profile;
  ASSIGN_OR_RETURN(text, with_interval(text, calibration, scenario.job.model.is_moe()));
  std::vector<std::string> kinds = profile.measured_on;
  const Plan& plan = scenario.job.plan;
  const std::string own =
      text_of(kind_of_run(scenario.cluster.spec.device.name, scenario.job.model, plan));
  const bool is_new = !has_own_gpu(scenario) && std::ranges::find(kinds, own) == kinds.end();
  if (is_new) kinds.push_back(own);
  text += fmt::format("measured_on = {{value = \"{}\", source = \"{}\"}}\n", fmt::join(kinds, ", "),
                      is_new ? "its base's, and this run" : "its base's");
  return with_value(text, "measured_gpus",
                    std::max(profile.measured_gpus, static_cast<double>(plan.gpus())),
                    "of the largest of those");
}

}  // namespace tandem
