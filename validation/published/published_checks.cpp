// Cross-validation: the fit is repeated without some of the rows, and predicts them. To save time,
// a refit takes a few steps of Gauss-Newton from the fit to all rows, with the derivatives there.
// The intervals are quantiles of the left-out rows' residuals (split conformal prediction).
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
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "scenarios/evidence.h"

namespace tandem {
namespace {

// A 90 % interval has this share of the rows below it, and the same above it.
constexpr double kTail = 0.05;

// Returns a run's configuration. Runs that differ in anything else (batch, ZeRO stage, `set`, date)
// are one configuration.
std::string configuration(const Case& run) {
  return fmt::format(
      "{}", fmt::join(std::tie(run.family, run.system, run.precision, run.layers, run.hidden,
                               run.heads, run.seq, run.vocab, run.tp, run.pp, run.vpp, run.cp,
                               run.ep, run.dp, run.micro_batch, run.schedule, run.recompute),
                      " "));
}

// The half of each row, false or true. Nothing: the row's configuration is the only one of its
// family and framework profile, and the fits of both halves have it.
using HalfByRow = std::vector<std::optional<bool>>;

// Deals the rows to two halves. Configurations of the same family and framework profile go
// to the halves in turn, in a shuffled order: in the files' order, which is often by model, the
// halves would have different models.
HalfByRow halves_of(const FitData& data) {
  const auto stratum = [&](std::size_t row) {
    return data.cases[row].family + ' ' + data.scenarios[row].costs.profile.name;
  };
  // By stratum and configuration's hash, the half. The order of the hashes is the shuffled one.
  std::map<std::string, std::map<std::uint64_t, bool>> strata;
  for (std::size_t row = 0; row < data.cases.size(); ++row)
    strata[stratum(row)][fnv1a(configuration(data.cases[row]))] = false;
  for (auto& [name, configurations] : strata) {
    bool second = false;
    for (auto& [hash, half] : configurations) half = std::exchange(second, !second);
  }
  HalfByRow halves;
  for (std::size_t row = 0; row < data.cases.size(); ++row) {
    const auto& configurations = strata[stratum(row)];
    halves.emplace_back();
    if (configurations.size() > 1)
      halves.back() = configurations.at(fnv1a(configuration(data.cases[row])));
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

std::vector<double> values_of(const ByRow& residuals) {
  return values_of(residuals, [](int) { return true; });
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

// Returns Interval::coverage of two halves: the share of all residuals that lie in the interval
// which the other half gives; 0 if a half is empty.
double coverage_of(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty() || b.empty()) return 0;
  const auto count_a = static_cast<double>(a.size()), count_b = static_cast<double>(b.size());
  return (share_within(b, bounds_of(a)) * count_b + share_within(a, bounds_of(b)) * count_a) /
         (count_a + count_b);
}

// Returns the interval of dense models, or of experts, of one framework profile, or of "all".
// `of_halves` and `of_families` are the residuals of rows that were left out as part of a half, or
// with their family.
Interval interval_of(const FitData& data, const HalfByRow& half_of, const ByRow& of_halves,
                     const ByRow& of_families, const std::string& profile, bool experts) {
  const auto is_its = [&](int row) {
    const Scenario& run = data.scenarios[row];
    return run.job.model.is_moe() == experts &&
           (profile == "all" || run.costs.profile.name == profile);
  };
  const auto half = [&](bool which) {
    return values_of(of_halves, [&](int row) { return is_its(row) && half_of[row] == which; });
  };
  std::vector<double> all = values_of(of_halves, is_its);
  Interval interval{.profile = profile, .experts = experts, .n = static_cast<int>(all.size())};
  interval.coverage = coverage_of(half(false), half(true));
  std::ranges::copy(values_of(of_families, is_its), std::back_inserter(all));
  if (all.empty()) return interval;
  const Bounds bounds = bounds_of(all);
  interval.low = std::exp(bounds.low);
  interval.high = std::exp(bounds.high);
  return interval;
}

std::vector<Interval> intervals_of(const FitData& data, const HalfByRow& half_of,
                                   const ByRow& of_halves, const ByRow& of_families,
                                   std::vector<std::string> profiles) {
  profiles.emplace_back("all");
  std::vector<Interval> intervals;
  for (const std::string& profile : profiles)
    for (const bool experts : {false, true})
      intervals.push_back(interval_of(data, half_of, of_halves, of_families, profile, experts));
  return intervals;
}

// Adds the interval of rows that were left out, if any were.
void add_unmeasured(const std::string& key, const std::vector<double>& residuals, Checks* checks) {
  if (residuals.empty()) return;
  const Bounds bounds = bounds_of(residuals);
  checks->unmeasured.push_back(
      {key, static_cast<int>(residuals.size()), std::exp(bounds.low), std::exp(bounds.high)});
}

KindOfRun kind_of(const Scenario& run) {
  return kind_of_run(run.cluster.spec.device.name, run.job.model, run.job.plan);
}

MeasuredOn measured_on(const FitData& data, const ByRow& left_out, const std::string& profile) {
  MeasuredOn measured{.profile = profile};
  for (const auto& [row, residual] : left_out) {
    const Scenario& run = data.scenarios[row];
    if (run.costs.profile.name != profile) continue;
    measured.most_gpus = std::max(measured.most_gpus, run.job.plan.gpus());
    ++measured.kinds[text_of(kind_of(run))];
  }
  return measured;
}

// Repeats a fit without some of its rows, and predicts others with it.
class Refits {
 public:
  Refits(const FitData& data, Rows fitted, Linearized around)
      : data_(data), fitted_(std::move(fitted)), around_(std::move(around)) {}

  // Leaves out all rows for which `leaves` is true and predicts them. Returns nothing if no rows
  // are left on either side.
  template <class Leaves>
  Result<ByRow> without(const Leaves& leaves) const {
    const Rows rest = filtered(fitted_, [&](int row) { return !leaves(row); });
    const Rows left = filtered(fitted_, leaves);
    if (rest.empty() || left.empty()) return ByRow{};
    ASSIGN_OR_RETURN(const PublishedFit found, refit(data_, rest, around_));
    return predicted(data_, left, found.values);
  }

  const Rows& fitted() const { return fitted_; }

 private:
  const FitData& data_;
  Rows fitted_;
  Linearized around_;
};

// Predicts each half's rows by a fit to the other half. Rows without a half are in both fits and
// are not predicted.
Result<ByRow> halves_left_out(const Refits& refits, const HalfByRow& half_of) {
  ByRow all;
  for (const bool left : {true, false}) {
    ASSIGN_OR_RETURN(const ByRow found,
                     refits.without([&](int row) { return half_of[row] == left; }));
    all.insert(found.begin(), found.end());
  }
  return all;
}

// Names what a row is left out with: its family, its GPU or its precision.
using NameOf = std::function<std::string(int row)>;

// Returns the errors, by both fits, of the rows that `keep` picks and that were left out.
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

// Leaves out the rows of each group of names, and adds a line for each name. Returns the residuals
// of left-out rows, but only from groups of one name: a row would else come twice.
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

// Leaves out the rows of each precision, then those with each trait. Adds a line for each, and the
// intervals of precisions, of kinds of model and of parallelism.
Status kinds_left_out(const FitData& data, const Refits& refits, const ByRow& seen,
                      Checks* checks) {
  const NameOf precision_of = [&](int row) { return data.scenarios[row].job.plan.precision; };
  ASSIGN_OR_RETURN(
      const ByRow of_precisions,
      names_left_out(refits, precision_of, seen,
                     one_by_one(names_in(refits.fitted(), precision_of)), &checks->kinds));
  add_unmeasured("precision", values_of(of_precisions), checks);
  std::vector<double> of_parallelism;
  for (const std::string trait : {"experts", "tensor", "pipeline", "context", "ZeRO3"}) {
    const auto is_its = [&](int row) {
      const std::vector<std::string> traits = kind_of(data.scenarios[row]).traits;
      return std::ranges::find(traits, trait) != traits.end();
    };
    ASSIGN_OR_RETURN(const ByRow found, refits.without(is_its));
    if (found.empty()) continue;
    checks->kinds.push_back(left_out(trait, seen, found, is_its));
    if (trait == "experts")  // a kind of model; all other traits are kinds of parallelism
      add_unmeasured("model", values_of(found), checks);
    else
      std::ranges::copy(values_of(found), std::back_inserter(of_parallelism));
  }
  add_unmeasured("parallelism", of_parallelism, checks);
  return Done{};
}

// Returns in words what is parallel, and whether there are experts.
std::string parallelism_of(const JobSettings& job) {
  const Plan& plan = job.plan;
  std::string text;
  for (const auto& [is_there, word] : {std::pair{plan.tp > 1, "tensor, "},
                                       {plan.pp > 1, "pipeline, "},
                                       {plan.cp > 1, "context, "},
                                       {job.model.is_moe(), "experts, "}})
    if (is_there) text += word;
  if (plan.gathers_each_microbatch()) return text + "ZeRO 3";
  return plan.dp > 1 || text.empty() ? text + "data" : text.substr(0, text.size() - 2);
}

// Groups the residuals of left-out rows by GPU, software and parallelism.
std::vector<Ground> grounds_of(const FitData& data, const ByRow& unseen,
                               const std::vector<Interval>& intervals) {
  std::map<std::array<std::string, 3>, std::vector<double>> residuals;
  for (const auto& [row, residual] : unseen) {
    const Scenario& run = data.scenarios[row];
    residuals[{run.cluster.spec.device.name, run.costs.profile.name, parallelism_of(run.job)}]
        .push_back(residual);
  }
  std::vector<Ground> grounds;
  for (const auto& [names, values] : residuals) {
    const bool experts = names[2].find("experts") != std::string::npos;
    const Interval& taken = interval_for(intervals, names[1], experts);
    grounds.push_back({names[0], names[1], names[2], errors_of(values), taken.low, taken.high});
  }
  return grounds;
}

}  // namespace

const Interval& interval_for(const std::vector<Interval>& intervals, const std::string& profile,
                             bool experts) {
  const auto of = [&](const std::string& name) {
    return std::ranges::find_if(intervals, [&](const Interval& one) {
      return one.profile == name && one.experts == experts;
    });
  };
  const auto own = of(profile), all = of("all");
  CHECK(all != intervals.end());
  return own == intervals.end() || own->n < kLeastRows ? *all : *own;
}

Errors errors_of(const std::vector<double>& residuals) {
  std::vector<double> errors;
  for (const double r : residuals) errors.push_back(std::expm1(r));
  return error_statistics(errors);
}

Result<Checks> check_fit(const FitData& data, const PublishedFit& whole,
                         const std::vector<std::vector<std::string>>& groups) {
  const Rows fitted = thinned(data, all_rows(data));
  ASSIGN_OR_RETURN(Linearized around, linearized(data, fitted, whole.values));
  const ByRow seen = around.residuals;
  const Refits refits(data, fitted, std::move(around));
  const NameOf family_of = [&](int row) { return data.cases[row].family; };
  const NameOf gpu_of = [&](int row) { return data.scenarios[row].cluster.spec.device.name; };
  const NameOf profile_of = [&](int row) { return data.scenarios[row].costs.profile.name; };

  Checks checks;
  const HalfByRow half_of = halves_of(data);
  ASSIGN_OR_RETURN(const ByRow of_halves, halves_left_out(refits, half_of));
  for (const std::string& family : families_of(data)) {
    const LeftOut line =
        left_out(family, seen, of_halves, [&](int row) { return family_of(row) == family; });
    if (line.unseen.n > 0) checks.halves.push_back(line);
  }
  auto families = one_by_one(families_of(data));
  families.insert(families.end(), groups.begin(), groups.end());
  ASSIGN_OR_RETURN(const ByRow of_families,
                   names_left_out(refits, family_of, seen, families, &checks.families));
  ASSIGN_OR_RETURN(
      const ByRow of_gpus,
      names_left_out(refits, gpu_of, seen, one_by_one(names_in(fitted, gpu_of)), &checks.gpus));
  add_unmeasured("gpu", values_of(of_gpus), &checks);
  RETURN_IF_ERROR(kinds_left_out(data, refits, seen, &checks));
  std::vector<std::string> profiles = names_in(fitted, profile_of);
  std::ranges::sort(profiles);
  for (const std::string& name : profiles)
    checks.measured.push_back(measured_on(data, of_halves, name));
  checks.intervals = intervals_of(data, half_of, of_halves, of_families, profiles);
  checks.grounds = grounds_of(data, of_halves, checks.intervals);
  return checks;
}

}  // namespace tandem
