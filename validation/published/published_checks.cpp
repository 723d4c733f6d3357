// Cross-validation: the fit is repeated without some of the rows, which it then predicts. To save
// time, such a refit takes a few steps of Gauss-Newton from the fit to all rows, with the
// derivatives of that one. Intervals are quantiles of the left-out rows' residuals (split conformal
// prediction).
#include "validation/published/published_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// Steps of Gauss-Newton for a refit, which starts from the fit to all rows.
constexpr int kRefitSteps = 2;

// A 90 % interval has this share of the rows below it, and the same above it.
constexpr double kTail = 0.05;

// Describes all of a run but its number of microbatches and its date.
std::string configuration(const Case& run) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}", run.family, run.layers, run.hidden,
                     run.heads, run.seq, run.vocab, run.tp, run.pp, run.vpp, run.dp,
                     run.micro_batch, run.schedule, run.recompute);
}

// FNV-1a (Fowler, Noll, Vo): a hash that shuffles texts the same way on every machine.
std::uint64_t shuffled(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

// The half of each row, false or true. Configurations of the same family and framework profile go
// to the halves in turn, in a shuffled order: in the files' order, which is often by model, the
// halves would have different models. Nothing: the row's configuration is the only one, and the
// fits of both halves have it.
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

// Residuals by row.
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

// Returns the value that a new one exceeds with at most the probability `tail`. It is the
// ceil((n + 1) (1 - tail))-th smallest of n values (split conformal prediction, Lei et al. 2018),
// or the largest if n is too small for that. Example: of 99 values, the 95th for a tail of 0.05.
double upper(std::vector<double> values, double tail) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  const auto place = static_cast<std::size_t>(std::ceil((n + 1) * (1 - tail)));
  return values[std::min(place, values.size()) - 1];
}

struct Bounds {
  double low = 0, high = 0;  // of log(measured / predicted)
};
// Residuals are log(predicted / measured), so that the signs change.
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

// Returns the interval of one framework profile, or of "all". `halves` and `families` are the
// residuals of rows that were left out as part of a half, or with their family.
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
    if (!is_its(row)) continue;
    interval.most_gpus = std::max(interval.most_gpus, run.job.plan.gpus());
    ++interval.measured_on[kind_of_run(run.cluster.spec.device.name, run.job.plan.precision,
                                       run.job.model.is_moe())];
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
  std::vector<double> errors;
  for (const double r : residuals) errors.push_back(std::expm1(r));
  return error_statistics(errors);
}

namespace {

// Repeats a fit without some of its rows, and predicts others with it.
class Refits {
 public:
  Refits(const FitData& data, const PublishedFit& whole, Rows fitted, Slopes nearby)
      : data_(data), whole_(whole), fitted_(std::move(fitted)), nearby_(std::move(nearby)) {}

  Result<ByRow> predict(const Rows& seen, const Rows& unseen) const {
    ASSIGN_OR_RETURN(const PublishedFit refit,
                     fit(data_, seen, whole_.values, kRefitSteps, &nearby_));
    return predicted(data_, unseen, refit.values);
  }

  // Leaves out all rows for which `leaves` is true and predicts them. Returns nothing if no rows
  // are left on either side.
  template <class Leaves>
  Result<ByRow> without(const Leaves& leaves) const {
    const Rows rest = filtered(fitted_, [&](int row) { return !leaves(row); });
    const Rows left = filtered(fitted_, leaves);
    if (rest.empty() || left.empty()) return ByRow{};
    return predict(rest, left);
  }

  const Rows& fitted() const { return fitted_; }

 private:
  const FitData& data_;
  const PublishedFit& whole_;
  Rows fitted_;
  Slopes nearby_;
};

// Predicts each half's rows by a fit to the other half. Rows without a half are in both fits and
// are not predicted.
Result<ByRow> halves_left_out(const Refits& refits, const Halves& half_of) {
  ByRow all;
  for (const bool half : {false, true}) {
    const Rows own =
        filtered(refits.fitted(), [&](int row) { return half_of[row].value_or(half) == half; });
    const Rows other =
        filtered(refits.fitted(), [&](int row) { return half_of[row].value_or(half) != half; });
    ASSIGN_OR_RETURN(const ByRow found, refits.predict(own, other));
    all.insert(found.begin(), found.end());
  }
  return all;
}

// Returns the name under which a row is left out: its family's, or its GPU's.
using NameOf = std::function<std::string(int row)>;

template <class Keep>
LeftOut left_out(const std::string& name, const ByRow& seen, const ByRow& unseen,
                 const Keep& keep) {
  const auto in = [&](int row) { return unseen.contains(row) && keep(row); };
  return {name, errors_of(values_of(seen, in)), errors_of(values_of(unseen, in))};
}

std::vector<std::string> names_in(const Rows& rows, const NameOf& name_of) {
  std::vector<std::string> names;
  for (const int row : rows)
    if (std::ranges::find(names, name_of(row)) == names.end()) names.push_back(name_of(row));
  return names;
}

// Leaves out each group of names and adds a line for each name. Returns the residuals of groups
// with one name.
Result<ByRow> names_left_out(const Refits& refits, const NameOf& name_of, const ByRow& seen,
                             const std::vector<std::vector<std::string>>& groups,
                             std::vector<LeftOut>* lines) {
  ByRow all;
  for (const std::vector<std::string>& group : groups) {
    const auto in = [&](int row) { return std::ranges::find(group, name_of(row)) != group.end(); };
    ASSIGN_OR_RETURN(const ByRow found, refits.without(in));
    if (found.empty()) continue;
    if (group.size() == 1) all.insert(found.begin(), found.end());
    for (const std::string& name : group) {
      const std::string title =
          group.size() == 1 ? name : fmt::format("{}, without {}", name, fmt::join(group, ", "));
      lines->push_back(left_out(title, seen, found, [&](int row) { return name_of(row) == name; }));
    }
  }
  return all;
}

std::vector<std::vector<std::string>> one_by_one(const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> groups;
  for (const std::string& name : names) groups.push_back({name});
  return groups;
}

// Returns the kinds of parallelism of a plan in words.
std::string parallelism_of(const Plan& plan) {
  std::string text;
  for (const auto& [size, word] : {std::pair{plan.tp, "tensor, "},
                                   {plan.pp, "pipeline, "},
                                   {plan.cp, "context, "},
                                   {plan.ep, "experts, "}})
    if (size > 1) text += word;
  if (plan.gathers_each_microbatch()) return text + "ZeRO 3";
  return plan.dp > 1 || text.empty() ? text + "data" : text.substr(0, text.size() - 2);
}

// Groups the residuals of left-out rows by GPU, software and parallelism.
std::vector<Ground> grounds_of(const FitData& data, const ByRow& unseen,
                               const std::vector<Interval>& intervals) {
  std::map<std::array<std::string, 3>, std::vector<double>> residuals;
  for (const auto& [row, residual] : unseen) {
    const Scenario& run = data.scenarios[row];
    residuals[{run.cluster.spec.device.name, run.costs.profile.name, parallelism_of(run.job.plan)}]
        .push_back(residual);
  }
  std::vector<Ground> grounds;
  for (const auto& [names, values] : residuals) {
    grounds.push_back({names[0], names[1], names[2], errors_of(values)});
    Ground& ground = grounds.back();
    const auto own = std::ranges::find(intervals, ground.software, &Interval::profile);
    if (own == intervals.end() || own->n == 0) continue;
    const Interval& taken = own->n < kLeastRows ? intervals.back() : *own;
    ground.low = taken.low;
    ground.high = taken.high;
  }
  return grounds;
}

}  // namespace

Result<Checks> check_fit(const FitData& data, const PublishedFit& whole,
                         const std::vector<std::vector<std::string>>& pairs) {
  const Rows fitted = thinned(data, all_rows(data));
  ASSIGN_OR_RETURN(Slopes nearby, slopes(data, fitted, whole.values));
  const Refits refits(data, whole, fitted, std::move(nearby));
  ASSIGN_OR_RETURN(const ByRow seen, predicted(data, fitted, whole.values));
  const NameOf family_of = [&](int row) { return data.cases[row].family; };
  const NameOf gpu_of = [&](int row) { return data.scenarios[row].cluster.spec.device.name; };
  const NameOf profile_of = [&](int row) { return data.scenarios[row].costs.profile.name; };

  Checks checks;
  const Halves half_of = halves_of(data);
  ASSIGN_OR_RETURN(const ByRow of_halves, halves_left_out(refits, half_of));
  for (const std::string& family : families_of(data)) {
    const LeftOut line =
        left_out(family, seen, of_halves, [&](int row) { return family_of(row) == family; });
    if (line.unseen.n > 0) checks.halves.push_back(line);
  }
  auto groups = one_by_one(families_of(data));
  groups.insert(groups.end(), pairs.begin(), pairs.end());
  ASSIGN_OR_RETURN(const ByRow of_families,
                   names_left_out(refits, family_of, seen, groups, &checks.families));
  ASSIGN_OR_RETURN(
      const ByRow of_gpus,
      names_left_out(refits, gpu_of, seen, one_by_one(names_in(fitted, gpu_of)), &checks.gpus));
  std::vector<std::string> profiles = names_in(fitted, profile_of);
  std::ranges::sort(profiles);
  profiles.emplace_back("all");
  for (const std::string& name : profiles)
    checks.intervals.push_back(interval_of(data, half_of, of_halves, of_families, name));
  checks.grounds = grounds_of(data, of_halves, checks.intervals);
  checks.of_gpus = interval_of(data, half_of, {}, of_gpus, "all");
  checks.of_gpus.n = static_cast<int>(of_gpus.size());
  return checks;
}

}  // namespace tandem
