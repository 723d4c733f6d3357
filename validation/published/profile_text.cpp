// Edits the files line by line: the line of a key is replaced, and all others stay. Each new line
// has the form
//   key = {value = 0.62, source = "fit to ..., +- 0.01; before 0.6 +- 0.1; by ..."}
#include "validation/published/profile_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/split.h"
#include "topology/preset.h"

namespace tandem {
namespace {

// Returns the text with the key's line replaced, or added. `value` is TOML.
std::string with_line(std::string text, const std::string& key, const std::string& value,
                      const std::string& source) {
  const std::string line = fmt::format("{} = {{value = {}, source = \"{}\"}}", key, value, source);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (text.compare(at, key.size() + 1, key + " ") == 0) return text.replace(at, end - at, line);
    at = end + 1;
  }
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text + line + '\n';
}

constexpr const char* kUncalibrated = "uncalibrated";

// Returns the path of the file of a GPU, of a framework profile, or of the interval that runs have
// to which nothing was fitted ("uncalibrated").
std::string path_of(const std::string& name) {
  if (name == kUncalibrated) return uncalibrated_path();
  const std::vector<std::string> devices = device_names();
  const bool device = std::ranges::find(devices, name) != devices.end();
  return device ? device_path(name) : framework_profile_path(name);
}

}  // namespace

std::string with_value(std::string text, const std::string& key, double value,
                       const std::string& source) {
  return with_line(std::move(text), key, fmt::format("{:.4g}", value), source);
}

std::string with_measured_on(std::string text, const MeasuredOn& measured,
                             const std::string& origin) {
  std::vector<std::string> where;
  std::vector<int> rows;
  for (const auto& [place, count] : measured.kinds) {
    where.push_back(place);
    rows.push_back(count);
  }
  if (rows.empty()) rows.push_back(0);
  return with_line(std::move(text), "measured_on", fmt::format("\"{}\"", fmt::join(where, ", ")),
                   fmt::format("{} rows that a fit to {} left out", fmt::join(rows, ", "), origin));
}

double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

namespace {

using FileTexts = std::map<std::string, std::string>;  // by the file's name

// Reads the file, unless it has been read.
Status read_text(const std::string& name, FileTexts* texts) {
  if (!texts->contains(name)) {
    ASSIGN_OR_RETURN((*texts)[name], read_file(path_of(name)));
  }
  return Done{};
}

Status set_value(const std::string& name, const std::string& key, double value,
                 const std::string& source, FileTexts* texts) {
  RETURN_IF_ERROR(read_text(name, texts));
  (*texts)[name] = with_value((*texts)[name], key, value, source);
  return Done{};
}

// Returns where the value of constant `k` is from. A fit that took no step has no uncertainty and
// no information, so nothing is said of them.
std::string source_of(const Constant& constant, const PublishedFit& fit, std::size_t k,
                      const std::string& origin) {
  std::string uncertainty, by;
  if (!fit.sigma.empty()) uncertainty = fmt::format(", +- {:.2g}", fit.sigma[k]);
  if (!fit.information.empty()) {
    const std::vector<std::string> families = determined_by(fit, k);
    if (families.empty())
      return fmt::format("believed, +- {:g}: no row of {} tells", constant.sigma, origin);
    by = fmt::format("; by {}", fmt::join(families, ", "));
  }
  return fmt::format("fit to {}{}; before {:g} +- {:g}{}", origin, uncertainty, constant.prior,
                     constant.sigma, by);
}

Status set_constants(const FitPlan& plan, const PublishedFit& fit, const std::string& origin,
                     FileTexts* texts) {
  for (std::size_t k = 0; k < plan.constants.size(); ++k) {
    const Constant& constant = plan.constants[k];
    const std::string source = source_of(constant, fit, k, origin);
    std::vector<std::string> files = {constant.profile};
    if (is_of_devices(constant)) files = split(constant.profile, " ");
    for (const std::string& file : files)
      RETURN_IF_ERROR(set_value(file, constant.key, fit.values[k], source, texts));
  }
  return Done{};
}

// Sets the runs that a framework profile is measured on, and its intervals.
Status set_profile(const MeasuredOn& measured, const std::vector<Interval>& intervals,
                   const std::string& origin, FileTexts* texts) {
  const std::string& name = measured.profile;
  RETURN_IF_ERROR(read_text(name, texts));
  if (!measured.kinds.empty()) {  // else no row was left out, and the file keeps its line
    (*texts)[name] = with_measured_on((*texts)[name], measured, origin);
    RETURN_IF_ERROR(set_value(name, "measured_gpus", measured.most_gpus,
                              fmt::format("of the largest of those, of {}", origin), texts));
  }
  for (const bool experts : {false, true}) {
    const Interval& taken = interval_for(intervals, name, experts);
    if (taken.n == 0) continue;
    const std::string key = experts ? "experts" : "interval";
    const auto source = [&](int percent) {
      return fmt::format("{} % of {} rows {}that a fit to {} left out", percent, taken.n,
                         taken.profile == "all" ? "of all software " : "", origin);
    };
    RETURN_IF_ERROR(set_value(name, key + "_low", taken.low, source(5), texts));
    RETURN_IF_ERROR(set_value(name, key + "_high", taken.high, source(95), texts));
  }
  return Done{};
}

}  // namespace

Status write_fit(const FitPlan& plan, const PublishedFit& fit, const Checks& checks,
                 const std::string& origin) {
  FileTexts texts;
  RETURN_IF_ERROR(set_constants(plan, fit, origin, &texts));
  for (const MeasuredOn& measured : checks.measured)
    RETURN_IF_ERROR(set_profile(measured, checks.intervals, origin, &texts));
  for (const Unmeasured& one : checks.unmeasured) {
    const auto source = [&](int percent) {
      return fmt::format("{} % of {} rows of {}, each predicted by a fit without its {}", percent,
                         one.n, origin, one.key);
    };
    RETURN_IF_ERROR(set_value(kUncalibrated, one.key + "_low", one.low, source(5), &texts));
    RETURN_IF_ERROR(set_value(kUncalibrated, one.key + "_high", one.high, source(95), &texts));
  }
  for (const auto& [name, text] : texts) RETURN_IF_ERROR(write_file(path_of(name), text));
  return Done{};
}

}  // namespace tandem
