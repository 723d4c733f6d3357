// Checks calibration on runs that took no part in the fit: a group of families is left out, the
// constants are fitted to the other families, the software is calibrated on one run of the group,
// and the group's other runs on the same site (family, GPU, software) are predicted. A residual is
// log(predicted / measured).
#include "validation/calibrate/calibration_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/quantile.h"
#include "base/random.h"
#include "validation/calibrate/calibrate_run.h"
#include "validation/published/published_checks.h"

namespace tandem {
namespace {

constexpr std::size_t kMostCalibrations = 8;  // of a group of runs
constexpr double kTail = 0.05;                // of the interval, on either side

// Runs of one family on one GPU by one software: by place in a list of rows.
using Site = std::vector<std::size_t>;

std::vector<Site> sites_of(const FitData& data, const Rows& rows) {
  std::map<std::tuple<std::string, std::string, std::string>, Site> by_key;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Scenario& run = data.scenarios[rows[i]];
    by_key[{data.cases[rows[i]].family, run.cluster.spec.device.name, run.costs.profile.name}]
        .push_back(i);
  }
  std::vector<Site> sites;
  for (auto& [key, site] : by_key) {
    if (site.size() > 1) sites.push_back(std::move(site));
  }
  return sites;
}

// A run to calibrate on, and the site whose other runs are then predicted.
struct OneCalibration {
  std::size_t on = 0;  // the run's place in the list of rows
  const Site* site = nullptr;
};

// Gives log(predicted / measured) of the site's other runs, by the software as calibrated on one.
Result<std::vector<double>> predicted_after(const FitData& data, const Rows& rows,
                                            const std::vector<Scenario>& scenarios,
                                            const OneCalibration& one) {
  ASSIGN_OR_RETURN(
      const RunCalibration found,
      calibrate_run(scenarios[one.on],
                    {.profile = {}, .iteration_s = data.cases[rows[one.on]].measured_s}));
  std::vector<double> residuals;
  for (const std::size_t i : *one.site) {
    if (i == one.on) continue;
    Scenario other = scenarios[i];
    other.costs.profile = found.profile;
    ASSIGN_OR_RETURN(const RunResult result, simulate(other, Engine::Ideal));
    residuals.push_back(std::log(result.iteration_s / data.cases[rows[i]].measured_s));
  }
  return residuals;
}

// Returns up to kMostCalibrations runs of each site, picked in a shuffled order.
std::vector<OneCalibration> calibrations_of(const std::vector<Site>& sites) {
  std::vector<OneCalibration> all;
  for (const Site& site : sites) {
    Site shuffled = site;
    std::ranges::sort(shuffled, {}, [](std::size_t i) { return scatter(i); });
    shuffled.resize(std::min(shuffled.size(), kMostCalibrations));
    for (const std::size_t on : shuffled) all.push_back({on, &site});
  }
  return all;
}

// Measured over predicted, as logarithms, of all of a family's calibrated predictions.
using Logs = std::vector<double>;

// Returns the 90 % interval of the families' logarithms.
std::pair<double, double> interval_of(const std::vector<Logs>& families) {
  Logs all;
  for (const Logs& own : families) all.insert(all.end(), own.begin(), own.end());
  std::ranges::sort(all);
  return {nearest_rank(all, kTail), nearest_rank(all, 1 - kTail)};
}

double share_inside(const Logs& logs, const std::pair<double, double>& bounds) {
  const auto count = std::ranges::count_if(
      logs, [&](double log) { return log >= bounds.first && log <= bounds.second; });
  return static_cast<double>(count) / static_cast<double>(logs.size());
}

// Refits without the families whose names begin with `prefix`, then calibrates on their runs one by
// one. `around` is the fit to all families: the refit begins there. Appends log(measured /
// predicted) of the calibrated predictions to *logs.
Result<CalibratedFamilies> check_families(const FitData& data, const Linearized& around,
                                          const std::string& prefix, Logs* logs,
                                          const std::function<void(int done, int of)>& on_run) {
  Rows rest, own;
  for (const auto& [row, residual] : around.residuals)
    (data.cases[row].family.starts_with(prefix) ? own : rest).push_back(row);
  const std::vector<Site> sites = sites_of(data, own);  // by place in `own`
  if (sites.empty() || rest.empty())
    return Error{
        fmt::format("found no two runs of families '{}...' on one GPU by one software, "
                    "expected some beside others",
                    prefix)};
  ASSIGN_OR_RETURN(const PublishedFit left_out, refit(data, rest, around));
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios, scenarios_at(data, own, left_out.values));
  ASSIGN_OR_RETURN(const std::vector<double> before, residuals(data, own, left_out.values));
  std::vector<double> by_left_out, by_whole;  // residuals of the sites' runs, by two fits
  for (const Site& site : sites) {
    for (const std::size_t i : site) {
      by_left_out.push_back(before[i]);
      by_whole.push_back(around.residuals.at(own[i]));
    }
  }
  const std::vector<OneCalibration> calibrations = calibrations_of(sites);
  Rows calibrated_on;
  for (const OneCalibration& one : calibrations) calibrated_on.push_back(own[one.on]);
  const auto after = [&](std::size_t i) {
    return predicted_after(data, own, scenarios, calibrations[i]);
  };
  ASSIGN_OR_RETURN(const auto lists, for_each_row(data, calibrated_on, after, on_run));
  std::vector<double> by_calibrated;
  for (const std::vector<double>& list : lists)
    by_calibrated.insert(by_calibrated.end(), list.begin(), list.end());
  for (const double r : by_calibrated) logs->push_back(-r);
  return CalibratedFamilies{.name = prefix,
                            .runs = static_cast<int>(by_whole.size()),
                            .calibrations = static_cast<int>(calibrations.size()),
                            .before = errors_of(by_left_out).mape,
                            .after = errors_of(by_calibrated).mape,
                            .fitted = errors_of(by_whole).mape};
}

}  // namespace

Result<CalibrationCheck> check_calibration(const FitData& data, const Values& whole,
                                           const std::vector<std::string>& prefixes,
                                           const std::function<void(int done, int of)>& on_run) {
  const Rows fitted = thinned(data, all_rows(data));  // as many of a family as its weight allows
  ASSIGN_OR_RETURN(const Linearized around, linearized(data, fitted, whole));
  CalibrationCheck check;
  std::vector<Logs> logs(prefixes.size());
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    ASSIGN_OR_RETURN(CalibratedFamilies one,
                     check_families(data, around, prefixes[i], &logs[i], on_run));
    check.families.push_back(std::move(one));
  }
  const auto families = static_cast<double>(prefixes.size());
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    CalibratedFamilies& own = check.families[i];
    std::vector<Logs> others = logs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (!others.empty()) own.inside = share_inside(logs[i], interval_of(others));
    check.before += own.before / families;
    check.after += own.after / families;
    check.inside += own.inside / families;
  }
  const auto [low, high] = interval_of(logs);
  check.interval = {std::exp(low), std::exp(high)};
  return check;
}

std::string calibration_table(const CalibrationCheck& check) {
  const bool has_others = check.families.size() > 1;
  std::string text =
      "| families left out | runs | calibrated on | off by %, as left out | calibrated on one | "
      "fitted to all | in the interval of the others, % |\n|---|---:|---:|---:|---:|---:|---:|\n";
  for (const CalibratedFamilies& one : check.families)
    text += fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {} |\n", one.name, one.runs,
                        one.calibrations, 100 * one.before, 100 * one.after, 100 * one.fitted,
                        has_others ? fmt::format("{:.0f}", 100 * one.inside) : "-");
  text += fmt::format(
      "\nOff by {:.1f} % before and {:.1f} % after, in the mean of the families. 90 % of the "
      "calibrated runs take {:.3f} to {:.3f} of what is predicted",
      100 * check.before, 100 * check.after, check.interval.first, check.interval.second);
  return text + (has_others ? fmt::format("; {:.0f} % lie in the interval of the other families.\n",
                                          100 * check.inside)
                            : ".\n");
}

}  // namespace tandem
