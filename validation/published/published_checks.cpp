#include "validation/published/published_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/check.h"

namespace tandem {
namespace {

// Of Gauss-Newton, from a fit that has a part of the rows more.
constexpr int kRefitSteps = 2;

// Shares of rows below and above a 90 % interval.
constexpr double kTail = 0.05;

// All of a run but how many microbatches it has and when it was measured.
std::string configuration(const Case& run) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}", run.family, run.layers, run.hidden,
                     run.heads, run.seq, run.vocab, run.tp, run.pp, run.vpp, run.dp,
                     run.micro_batch, run.schedule, run.recompute);
}

// FNV-1a (Fowler, Noll, Vo): shuffles texts, everywhere alike.
std::uint64_t shuffled(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

// Which half each row is in: of what one family measured of one profile, every other configuration
// in a shuffled order (in the files' order the halves would be of other models, not of other runs).
// Nothing: there is but one, so it stays in both fits.
using Halves = std::vector<std::optional<bool>>;
Halves halves_of(const FitData& data) {
  const auto stratum = [&](std::size_t row) {
    return data.cases[row].family + ' ' + data.scenarios[row].costs.profile.name;
  };
  std::map<std::string, std::map<std::uint64_t, bool>> strata;
  for (std::size_t row = 0; row < data.cases.size(); ++row)
    strata[stratum(row)][shuffled(configuration(data.cases[row]))] = false;
  for (auto& [name, configurations] : strata) {
    bool second = false;
    for (auto& [hash, half] : configurations) {
      half = second;
      second = !second;
    }
  }
  Halves halves;
  for (std::size_t row = 0; row < data.cases.size(); ++row) {
    const auto& configurations = strata[stratum(row)];
    halves.emplace_back();
    if (configurations.size() > 1)
      halves.back() = configurations.at(shuffled(configuration(data.cases[row])));
  }
  return halves;
}

template <class Keep>
Rows filtered(const Rows& rows, const Keep& keep) {
  Rows kept;
  std::ranges::copy_if(rows, std::back_inserter(kept), keep);
  return kept;
}

// Residuals, by row.
using ByRow = std::map<int, double>;

Result<ByRow> predicted(const FitData& data, const Rows& rows, const Values& values) {
  ASSIGN_OR_RETURN(const std::vector<double> found, residuals(data, rows, values));
  ByRow all;
  for (std::size_t i = 0; i < rows.size(); ++i) all[rows[i]] = found[i];
  return all;
}

template <class Keep>
std::vector<double> values_of(const ByRow& residuals, const Keep& keep) {
  std::vector<double> found;
  for (const auto& [row, value] : residuals) {
    if (keep(row)) found.push_back(value);
  }
  return found;
}

// The value that a new one exceeds with probability `tail`, as far as so many can tell: the
// ceil((n + 1) (1 - tail))-th smallest (split conformal prediction, Lei et al. 2018), at most the
// largest.
double upper(std::vector<double> values, double tail) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  const auto place = static_cast<std::size_t>(std::ceil((n + 1) * (1 - tail)));
  return values[std::min(place, values.size()) - 1];
}

struct Bounds {
  double low = 0, high = 0;  // of log(measured / predicted)
};
Bounds bounds_of(const std::vector<double>& residuals) {
  std::vector<double> minus;
  for (const double r : residuals) minus.push_back(-r);
  return {.low = -upper(residuals, kTail), .high = upper(minus, kTail)};
}

double share_within(const std::vector<double>& residuals, const Bounds& bounds) {
  const auto inside = [&](double r) { return bounds.low <= -r && -r <= bounds.high; };
  return static_cast<double>(std::ranges::count_if(residuals, inside)) /
         static_cast<double>(residuals.size());
}

// What the halves' and the left out families' residuals say of one profile, or of all.
Interval interval_of(const FitData& data, const Halves& half_of, const ByRow& halves,
                     const ByRow& families, const std::string& profile) {
  const auto is_its = [&](int row) {
    return profile == "all" || data.scenarios[row].costs.profile.name == profile;
  };
  const auto half = [&](bool which) {
    return values_of(halves, [&](int row) { return is_its(row) && half_of[row] == which; });
  };
  std::vector<double> all = values_of(halves, is_its);
  Interval interval{.profile = profile, .n = static_cast<int>(all.size())};
  for (const auto& [row, residual] : halves) {
    const Scenario& run = data.scenarios[row];
    if (is_its(row))
      ++interval.measured_on[run.cluster.spec.device.name + ' ' + run.job.plan.precision];
  }
  const std::vector<double> a = half(false), b = half(true);
  if (!a.empty() && !b.empty())
    interval.coverage = (share_within(b, bounds_of(a)) * static_cast<double>(b.size()) +
                         share_within(a, bounds_of(b)) * static_cast<double>(a.size())) /
                        static_cast<double>(all.size());
  std::ranges::copy(values_of(families, is_its), std::back_inserter(all));
  if (all.empty()) return interval;
  const Bounds bounds = bounds_of(all);
  interval.low = std::exp(bounds.low);
  interval.high = std::exp(bounds.high);
  return interval;
}

}  // namespace

Errors errors_of(const std::vector<double>& residuals) {
  Errors errors{.n = static_cast<int>(residuals.size())};
  if (residuals.empty()) return errors;
  std::vector<double> sizes;
  for (const double r : residuals) {
    const double error = std::expm1(r);
    sizes.push_back(std::abs(error));
    errors.bias += error / errors.n;
    errors.mape += std::abs(error) / errors.n;
    if (std::abs(error) > std::abs(errors.worst)) errors.worst = error;
  }
  std::ranges::sort(sizes);
  const std::size_t middle = sizes.size() / 2;
  errors.median = sizes.size() % 2 == 1 ? sizes[middle] : (sizes[middle - 1] + sizes[middle]) / 2;
  return errors;
}

Result<Checks> check_fit(const FitData& data, const PublishedFit& whole,
                         const std::vector<std::vector<std::string>>& pairs) {
  const Rows fitted = thinned(data, all_rows(data));
  ASSIGN_OR_RETURN(const Slopes nearby, slopes(data, fitted, whole.values));
  ASSIGN_OR_RETURN(const ByRow seen, predicted(data, fitted, whole.values));
  const std::vector<std::string> families = families_of(data);
  const auto errors = [&](const ByRow& residuals, const auto& keep) {
    return errors_of(values_of(residuals, keep));
  };

  const Halves half_of = halves_of(data);
  ByRow of_halves;
  for (const bool half : {false, true}) {
    const Rows own = filtered(fitted, [&](int row) { return half_of[row].value_or(half) == half; });
    const Rows other =
        filtered(fitted, [&](int row) { return half_of[row].value_or(half) != half; });
    ASSIGN_OR_RETURN(const PublishedFit refit, fit(data, own, whole.values, kRefitSteps, &nearby));
    ASSIGN_OR_RETURN(const ByRow found, predicted(data, other, refit.values));
    of_halves.insert(found.begin(), found.end());
  }
  Checks checks;
  for (const std::string& family : families) {
    const auto in = [&](int row) {
      return data.cases[row].family == family && of_halves.contains(row);
    };
    const LeftOut row = {family, errors(seen, in), errors(of_halves, in)};
    if (row.unseen.n > 0) checks.halves.push_back(row);
  }

  std::vector<std::vector<std::string>> groups;
  for (const std::string& family : families) groups.push_back({family});
  groups.insert(groups.end(), pairs.begin(), pairs.end());
  ByRow of_families;
  for (const std::vector<std::string>& group : groups) {
    const auto in = [&](int row) {
      return std::ranges::find(group, data.cases[row].family) != group.end();
    };
    const Rows rest = filtered(fitted, [&](int row) { return !in(row); });
    const Rows left = filtered(fitted, in);
    if (rest.empty() || left.empty()) continue;
    ASSIGN_OR_RETURN(const PublishedFit refit, fit(data, rest, whole.values, kRefitSteps, &nearby));
    ASSIGN_OR_RETURN(const ByRow found, predicted(data, left, refit.values));
    if (group.size() == 1) of_families.insert(found.begin(), found.end());
    for (const std::string& family : group) {
      const auto here = [&](int row) { return data.cases[row].family == family; };
      checks.families.push_back(
          {group.size() == 1 ? family
                             : fmt::format("{}, without {}", family, fmt::join(group, ", ")),
           errors(seen, here), errors(found, here)});
    }
  }

  std::set<std::string> names;
  for (const int row : fitted) names.insert(data.scenarios[row].costs.profile.name);
  for (const std::string& name : names)
    checks.intervals.push_back(interval_of(data, half_of, of_halves, of_families, name));
  checks.intervals.push_back(interval_of(data, half_of, of_halves, of_families, "all"));
  return checks;
}

}  // namespace tandem
