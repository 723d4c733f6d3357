// Damped Gauss-Newton with Huber's loss and Gaussian priors. A row is a run that others measured.
// Its residual is log(predicted / measured); the fit divides it by its family's noise. Derivatives
// are numerical: a row is simulated again for each constant that its run has.
#include "validation/published/published_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/csv.h"
#include "base/parallel/parallel.h"
#include "base/random.h"
#include "base/split.h"
#include "topology/preset.h"
#include "validation/published/gauss_newton.h"

namespace tandem {
namespace {

// The step of a numerical derivative, as a multiple of the constant's sigma.
constexpr double kSlopeStep = 0.2;

// Derivatives take most of the time and are computed only in every third step.
constexpr int kStepsOfSlopes = 3;

// A step that does not help is halved at most so often; then the fit ends.
constexpr int kHalvings = 3;

// A constant moves from its prior only if all rows together have at least this much information on
// it, where the prior has 1.
constexpr double kLeastInformation = 0.25;

// A family is named as a constant's source if it has at least this share of the rows' information.
constexpr double kNamedInformation = 0.1;

// The most steps of a refit, which simulates nothing.
constexpr int kRefitSteps = 20;

// The fit ends when a step lowers the cost by less than this share.
constexpr double kGain = 1e-3;

const FamilyWeight* weight_of(const FitPlan& plan, const std::string& family) {
  const auto found = std::ranges::find(plan.weights, family, &FamilyWeight::family);
  return found == plan.weights.end() ? nullptr : &*found;
}

// Returns the device's member of a key that can be fitted: "training_clock", or
// "fp8_training_clock" where fp8 has GEMMs of its own. nullptr: there is none.
double* device_constant(const std::string& key, DeviceSpec* device) {
  if (key == "training_clock") return &device->training_clock;
  constexpr std::string_view kClock = "_training_clock";
  if (!key.ends_with(kClock)) return nullptr;
  const auto own = device->own_gemms.find(key.substr(0, key.size() - kClock.size()));
  return own == device->own_gemms.end() ? nullptr : &own->second.training_clock;
}

// Values of all constants, and the framework profiles of all scenarios with them.
struct PricedProfiles {
  ProfileValues values;
  std::map<std::string, FrameworkProfile> profiles;  // by the file's name
};
Result<PricedProfiles> prices_at(const FitData& data, ProfileValues values) {
  PricedProfiles found{std::move(values), {}};
  for (const Scenario& scenario : data.scenarios) {
    const std::string& name = scenario.costs.profile.name;
    if (found.profiles.contains(name)) continue;
    ASSIGN_OR_RETURN(found.profiles[name], load_framework_profile(name, found.values));
  }
  return found;
}

// The names of the GPUs of each constant of GPUs, by the constant's place in the plan.
using DeviceNames = std::map<std::size_t, std::vector<std::string>>;
Result<DeviceNames> device_names_of(const FitPlan& plan) {
  DeviceNames names;
  for (std::size_t k = 0; k < plan.constants.size(); ++k) {
    if (!is_of_devices(plan.constants[k])) continue;
    for (const std::string& file : split(plan.constants[k].profile, " ")) {
      ASSIGN_OR_RETURN(const DeviceSpec device, load_device(file));
      names[k].push_back(device.name);
    }
  }
  return names;
}

// Returns the row's scenario with these values in its FrameworkProfile and GPU.
Scenario priced_scenario(const FitData& data, int row, const DeviceNames& names,
                         const PricedProfiles& prices) {
  Scenario scenario = data.scenarios[row];
  scenario.costs.profile = prices.profiles.at(scenario.costs.profile.name);
  DeviceSpec& device = scenario.cluster.spec.device;
  for (const auto& [k, gpus] : names) {
    if (std::ranges::find(gpus, device.name) == gpus.end()) continue;
    const Constant& constant = data.plan.constants[k];
    double* value = device_constant(constant.key, &device);
    CHECK(value != nullptr);
    *value = prices.values.at({constant.profile, constant.key});
  }
  return scenario;
}

// Says whether both scenarios have the same values of all constants, and so the same prediction.
bool priced_alike(const Scenario& a, const Scenario& b) {
  const DeviceSpec &one = a.cluster.spec.device, &other = b.cluster.spec.device;
  return a.costs.profile == b.costs.profile && one.training_clock == other.training_clock &&
         one.own_gemms == other.own_gemms;
}

Result<double> residual(const Scenario& scenario, const Case& run) {
  ASSIGN_OR_RETURN(const RunResult result, simulate(scenario, Engine::Ideal));
  return std::log(result.iteration_s / run.measured_s);
}

double noise_of(const FitData& data, int row) {
  return weight_of(data.plan, data.cases[row].family)->noise;
}

FitVariable variable_of(const Constant& constant) {
  return {constant.sigma, constant.least, constant.most, constant.prior};
}

// Give the residuals of all rows of a fit, and their derivatives, at some values.
using ResidualsAt = std::function<Result<std::vector<double>>(const Values&)>;
using SlopesAt = std::function<Result<Slopes>(const Values&)>;

// Returns the least squares of these rows. REQUIRES: data and rows outlive it.
LeastSquares least_squares_of(const FitData& data, const Rows& rows, ResidualsAt residuals,
                              SlopesAt slopes) {
  LeastSquares problem{.steps_of_slopes = kStepsOfSlopes, .halvings = kHalvings, .gain = kGain};
  for (const Constant& constant : data.plan.constants)
    problem.variables.push_back(variable_of(constant));
  problem.residuals = [&data, &rows, residuals = std::move(residuals)](
                          const Values& values) -> Result<std::vector<double>> {
    ASSIGN_OR_RETURN(std::vector<double> found, residuals(values));
    for (std::size_t i = 0; i < found.size(); ++i) found[i] /= noise_of(data, rows[i]);
    return found;
  };
  problem.slopes = [&data, &rows,
                    slopes = std::move(slopes)](const Values& values) -> Result<Matrix> {
    ASSIGN_OR_RETURN(const Slopes found, slopes(values));
    Matrix matrix;
    for (const int row : rows) {
      matrix.push_back(found.at(row));
      for (double& slope : matrix.back()) slope /= noise_of(data, row);
    }
    return matrix;
  };
  return problem;
}

Result<Constant> read_constant(const CsvTable& table, int row) {
  Constant constant;
  constant.profile = table.text(row, "software");
  constant.key = table.text(row, "key");
  ASSIGN_OR_RETURN(constant.prior, table.number(row, "prior"));
  ASSIGN_OR_RETURN(constant.sigma, table.number(row, "sigma"));
  ASSIGN_OR_RETURN(constant.least, table.number(row, "least"));
  ASSIGN_OR_RETURN(constant.most, table.number(row, "most"));
  if (!(constant.sigma > 0 && constant.least <= constant.prior && constant.prior <= constant.most))
    return table.error(row, "expected a sigma above 0, and least <= prior <= most");
  if (is_of_devices(constant)) {
    for (const std::string& file : split(constant.profile, " ")) {
      auto device = load_device(file);
      if (!device.ok()) return table.error(row, device.error().text());
      if (device_constant(constant.key, &*device) == nullptr)
        return table.error(
            row, fmt::format("found key '{}', expected training_clock, or that of a precision with "
                             "GEMMs of its own",
                             constant.key));
    }
    return constant;
  }
  if (const auto profile = load_framework_profile(constant.profile); !profile.ok())
    return table.error(row, profile.error().text());
  const auto fields = profile_fields();
  if (std::ranges::find(fields, constant.key, &ProfileField::key) == fields.end())
    return table.error(row,
                       fmt::format("found key '{}', expected one of a software's", constant.key));
  return constant;
}

Result<FamilyWeight> read_weight(const CsvTable& table, int row) {
  FamilyWeight weight;
  weight.family = table.text(row, "family");
  ASSIGN_OR_RETURN(const double percent, table.number(row, "noise_percent"));
  ASSIGN_OR_RETURN(const std::int64_t most, table.integer(row, "most_rows"));
  if (!(percent > 0 && percent <= 100) || most < 1 || most > 1'000'000)
    return table.error(row, "expected a noise of above 0 to 100 %, and 1 to 1000000 rows");
  weight.noise = percent / 100;
  weight.most_rows = static_cast<int>(most);
  return weight;
}

template <class T>
Result<std::vector<T>> read_rows(const std::string& path,
                                 Result<T> (*read)(const CsvTable& table, int row)) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  std::vector<T> rows;
  for (int row = 0; row < table.size(); ++row) {
    ASSIGN_OR_RETURN(T value, read(table, row));
    rows.push_back(std::move(value));
  }
  if (rows.empty())
    return Error::at(fmt::format("{}:1", path), "found a header alone, expected rows");
  return rows;
}

}  // namespace

Result<FitPlan> read_fit_plan(const std::string& folder) {
  FitPlan plan;
  ASSIGN_OR_RETURN(plan.constants, read_rows(folder + "/constants.csv", read_constant));
  ASSIGN_OR_RETURN(plan.weights, read_rows(folder + "/weights.csv", read_weight));
  return plan;
}

Result<FitData> fit_data(const std::vector<Case>& cases, FitPlan plan, int jobs) {
  FitData data{std::move(plan), {}, {}, jobs};
  for (const Case& run : cases) {
    if (weight_of(data.plan, run.family) == nullptr) continue;
    auto scenario = scenario_of(run);
    if (!scenario.ok()) continue;
    data.cases.push_back(run);
    data.scenarios.push_back(*std::move(scenario));
  }
  if (data.cases.empty())
    return Error{
        "found no run to fit to: expected a family that weights.csv names, and runs that "
        "a scenario can express"};
  return data;
}

Rows all_rows(const FitData& data) {
  Rows rows(data.cases.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
  return rows;
}

std::vector<std::string> families_of(const FitData& data) {
  std::vector<std::string> families;
  for (const Case& run : data.cases) {
    if (std::ranges::find(families, run.family) == families.end()) families.push_back(run.family);
  }
  return families;
}

Rows thinned(const FitData& data, const Rows& rows) {
  std::map<std::string, Rows> families;
  for (const int row : rows) families[data.cases[row].family].push_back(row);
  Rows kept;
  for (auto& [family, own] : families) {
    const auto most = static_cast<std::size_t>(weight_of(data.plan, family)->most_rows);
    std::ranges::sort(own, {}, [](int row) { return scatter(static_cast<std::uint64_t>(row)); });
    own.resize(std::min(own.size(), most));
    kept.insert(kept.end(), own.begin(), own.end());
  }
  std::ranges::sort(kept);
  return kept;
}

Result<Values> current_values(const FitPlan& plan) {
  Values values;
  for (const Constant& constant : plan.constants) {
    if (is_of_devices(constant)) {
      ASSIGN_OR_RETURN(DeviceSpec device, load_device(split(constant.profile, " ").front()));
      values.push_back(
          std::clamp(*device_constant(constant.key, &device), constant.least, constant.most));
      continue;
    }
    ASSIGN_OR_RETURN(const FrameworkProfile profile, load_framework_profile(constant.profile));
    const auto fields = profile_fields();
    const auto field = std::ranges::find(fields, constant.key, &ProfileField::key);
    CHECK(field != fields.end());
    values.push_back(
        std::clamp(profile.*field->place / field->unit, constant.least, constant.most));
  }
  return values;
}

bool is_of_devices(const Constant& constant) {
  const std::vector<std::string> known = device_names();
  return std::ranges::find(known, split(constant.profile, " ").front()) != known.end();
}

ProfileValues profile_values(const FitPlan& plan, const Values& values) {
  CHECK(values.size() == plan.constants.size());
  ProfileValues all;
  for (std::size_t k = 0; k < values.size(); ++k)
    all[{plan.constants[k].profile, plan.constants[k].key}] = values[k];
  return all;
}

Result<std::vector<Scenario>> scenarios_at(const FitData& data, const Rows& rows,
                                           const Values& values) {
  ASSIGN_OR_RETURN(const DeviceNames names, device_names_of(data.plan));
  ASSIGN_OR_RETURN(const PricedProfiles prices, prices_at(data, profile_values(data.plan, values)));
  std::vector<Scenario> all;
  for (const int row : rows) all.push_back(priced_scenario(data, row, names, prices));
  return all;
}

Result<std::vector<std::vector<double>>> for_each_row(
    const FitData& data, const Rows& rows, const NumbersOfRow& numbers,
    const std::function<void(int done, int of)>& on_row) {
  const int count = static_cast<int>(rows.size());
  int done = 0;
  const auto texts = fork_map(
      count, data.jobs,
      [&](int i) -> Result<std::string> {
        ASSIGN_OR_RETURN(const std::vector<double> found, numbers(static_cast<std::size_t>(i)));
        return nlohmann::json(found).dump();
      },
      [&](int) {
        if (on_row) on_row(++done, count);
      });
  std::vector<std::vector<double>> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].ok()) return Error::at(data.cases[rows[i]].place(), texts[i].error().text());
    all.push_back(nlohmann::json::parse(*texts[i]).get<std::vector<double>>());
  }
  return all;
}

Result<std::vector<double>> residuals(const FitData& data, const Rows& rows, const Values& values) {
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios, scenarios_at(data, rows, values));
  const auto residual_of = [&](std::size_t i) -> Result<std::vector<double>> {
    ASSIGN_OR_RETURN(const double found, residual(scenarios[i], data.cases[rows[i]]));
    return std::vector{found};
  };
  ASSIGN_OR_RETURN(const auto lists, for_each_row(data, rows, residual_of, data.on_row));
  std::vector<double> all;
  for (const std::vector<double>& list : lists) all.push_back(list.front());
  return all;
}

namespace {

// The prices after one constant has moved by `sigmas` of its sigma; the others keep their values.
struct PriceStep {
  PricedProfiles prices;
  double sigmas = 0;
};

// Returns a step for each constant.
Result<std::vector<PriceStep>> price_steps(const FitData& data, const ProfileValues& values) {
  std::vector<PriceStep> steps;
  for (const Constant& constant : data.plan.constants) {
    ProfileValues other = values;
    double& value = other[{constant.profile, constant.key}];
    const double before = value;
    value = probed(variable_of(constant), before, kSlopeStep);
    const double sigmas = (value - before) / constant.sigma;
    ASSIGN_OR_RETURN(PricedProfiles prices, prices_at(data, std::move(other)));
    steps.push_back({std::move(prices), sigmas});
  }
  return steps;
}

}  // namespace

Result<Slopes> slopes(const FitData& data, const Rows& rows, const Values& values) {
  ASSIGN_OR_RETURN(const DeviceNames names, device_names_of(data.plan));
  const ProfileValues given = profile_values(data.plan, values);
  ASSIGN_OR_RETURN(const PricedProfiles prices, prices_at(data, given));
  ASSIGN_OR_RETURN(const std::vector<PriceStep> steps, price_steps(data, given));
  const auto row_slopes = [&](std::size_t i) -> Result<std::vector<double>> {
    const int row = rows[i];
    const Scenario scenario = priced_scenario(data, row, names, prices);
    ASSIGN_OR_RETURN(const double before, residual(scenario, data.cases[row]));
    std::vector<double> found;
    for (const PriceStep& step : steps) {
      const Scenario other = priced_scenario(data, row, names, step.prices);
      double after = before;
      if (!priced_alike(other, scenario)) {
        ASSIGN_OR_RETURN(after, residual(other, data.cases[row]));
      }
      found.push_back((after - before) / step.sigmas);
    }
    return found;
  };
  ASSIGN_OR_RETURN(auto lists, for_each_row(data, rows, row_slopes, data.on_row));
  Slopes all;
  for (std::size_t i = 0; i < rows.size(); ++i) all[rows[i]] = std::move(lists[i]);
  return all;
}

Result<Linearized> linearized(const FitData& data, const Rows& rows, const Values& values) {
  Linearized around{.values = values};
  ASSIGN_OR_RETURN(around.slopes, slopes(data, rows, values));
  ASSIGN_OR_RETURN(const std::vector<double> found, residuals(data, rows, values));
  for (std::size_t i = 0; i < rows.size(); ++i) around.residuals[rows[i]] = found[i];
  return around;
}

namespace {

// Solves the problem of these rows. A constant that they do not determine goes back to its prior.
Result<PublishedFit> fitted(const FitData& data, const Rows& rows, const LeastSquares& problem,
                            Values start, const std::function<void(int, double)>& on_step) {
  ASSIGN_OR_RETURN(LeastSquaresFit found, fit_least_squares(problem, std::move(start), on_step));
  PublishedFit best{std::move(found.values), std::move(found.sigma), found.cost};
  for (std::size_t k = 0; k < best.sigma.size(); ++k) {
    best.sigma[k] *= data.plan.constants[k].sigma;  // from steps to the key's unit
    auto& families = best.information.emplace_back();
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (const double own = found.information[i][k]; own != 0)
        families[data.cases[rows[i]].family] += own;
    if (determined_by(best, k).empty()) best.values[k] = data.plan.constants[k].prior;
  }
  return best;
}

}  // namespace

Result<PublishedFit> fit(const FitData& data, const Rows& rows, Values start, int steps,
                         const std::function<void(int step, double cost)>& on_step) {
  LeastSquares problem = least_squares_of(
      data, rows, [&](const Values& values) { return residuals(data, rows, values); },
      [&](const Values& values) { return slopes(data, rows, values); });
  problem.steps = steps;
  return fitted(data, rows, problem, std::move(start), on_step);
}

Result<PublishedFit> refit(const FitData& data, const Rows& rows, const Linearized& around) {
  const auto residuals_at = [&](const Values& values) -> Result<std::vector<double>> {
    std::vector<double> found;
    for (const int row : rows) {  // residual there + the sum of slope x move of each constant
      double sum = around.residuals.at(row);
      for (std::size_t k = 0; k < values.size(); ++k)
        sum += around.slopes.at(row)[k] * (values[k] - around.values[k]) /
               data.plan.constants[k].sigma;
      found.push_back(sum);
    }
    return found;
  };
  LeastSquares problem = least_squares_of(
      data, rows, residuals_at, [&](const Values&) -> Result<Slopes> { return around.slopes; });
  problem.steps = kRefitSteps;
  return fitted(data, rows, problem, around.values, {});
}

std::vector<std::string> determined_by(const PublishedFit& fit, std::size_t constant) {
  double sum = 0;
  for (const auto& [family, own] : fit.information[constant]) sum += own;
  std::vector<std::string> families;
  if (sum < kLeastInformation) return families;
  for (const auto& [family, own] : fit.information[constant])
    if (own >= kNamedInformation * sum) families.push_back(family);
  return families;
}

}  // namespace tandem
