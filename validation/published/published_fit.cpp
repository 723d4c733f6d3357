// Damped Gauss-Newton with Huber's loss and Gaussian priors. Minimizes the sum over rows of Huber's
// function of log(predicted / measured) over the family's noise, plus the squared distances of the
// constants from their priors. A step is halved until it lowers that cost.
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
#include "validation/published/least_squares.h"

namespace tandem {
namespace {

// The step of a numerical derivative, in a constant's sigma.
constexpr double kSlopeStep = 0.2;

// Derivatives take most of the time and are computed only in every third step.
constexpr int kStepsOfSlopes = 3;

// A step that does not help is halved at most so often; then the fit ends.
constexpr int kHalvings = 3;

// A constant moves only if all rows together have at least this share of the prior's information.
constexpr double kLeastInformation = 0.25;

// The families that are named have at least this share of the rows' information.
constexpr double kNamedInformation = 0.1;

// The fit ends when a step lowers the cost by less than this share.
constexpr double kGain = 1e-3;

const FamilyWeight* weight_of(const FitPlan& plan, const std::string& family) {
  const auto found = std::ranges::find(plan.weights, family, &FamilyWeight::family);
  return found == plan.weights.end() ? nullptr : &*found;
}

// Returns the device's member of a key that can be fitted; nullptr: there is none.
double* device_constant(const std::string& key, DeviceSpec* device) {
  if (key == "training_clock") return &device->training_clock;
  constexpr std::string_view kShare = "_gemm_efficiency";
  if (!key.ends_with(kShare)) return nullptr;
  const auto own = device->own_gemm_efficiency.find(key.substr(0, key.size() - kShare.size()));
  return own == device->own_gemm_efficiency.end() ? nullptr : &own->second;
}

// Returns the row's scenario with these values in its FrameworkProfile and GPU. The profile is
// loaded by its file's name.
Result<Scenario> with(const FitData& data, int row, const ProfileValues& values) {
  Scenario scenario = data.scenarios[row];
  ASSIGN_OR_RETURN(scenario.costs.profile,
                   load_framework_profile(scenario.costs.profile.name, values));
  DeviceSpec& device = scenario.cluster.spec.device;
  for (const Constant& constant : data.plan.constants) {
    if (!is_of_devices(constant)) continue;
    for (const std::string& file : split(constant.profile, " ")) {
      ASSIGN_OR_RETURN(const DeviceSpec known, load_device(file));
      if (known.name != device.name) continue;
      double* value = device_constant(constant.key, &device);
      CHECK(value != nullptr);
      *value = values.at({constant.profile, constant.key});
    }
  }
  return scenario;
}

bool priced_alike(const Scenario& a, const Scenario& b) {
  const DeviceSpec &one = a.cluster.spec.device, &other = b.cluster.spec.device;
  return a.costs.profile == b.costs.profile && one.training_clock == other.training_clock &&
         one.own_gemm_efficiency == other.own_gemm_efficiency;
}

Result<double> residual(const Scenario& scenario, const Case& run) {
  ASSIGN_OR_RETURN(const RunResult result, simulate(scenario, Engine::Ideal));
  return std::log(result.iteration_s / run.measured_s);
}

// Computes a list of numbers for each row, each in a process of its own.
Result<std::vector<std::vector<double>>> for_each_row(
    const FitData& data, const Rows& rows,
    const std::function<Result<std::vector<double>>(int row)>& numbers) {
  const int count = static_cast<int>(rows.size());
  int done = 0;
  const auto texts = fork_map(
      count, data.jobs,
      [&](int i) -> Result<std::string> {
        ASSIGN_OR_RETURN(const std::vector<double> found, numbers(rows[i]));
        return nlohmann::json(found).dump();
      },
      [&](int) {
        if (data.on_row) data.on_row(++done, count);
      });
  std::vector<std::vector<double>> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].ok()) return Error::at(data.cases[rows[i]].place(), texts[i].error().text());
    all.push_back(nlohmann::json::parse(*texts[i]).get<std::vector<double>>());
  }
  return all;
}

double noise_of(const FitData& data, int row) {
  return weight_of(data.plan, data.cases[row].family)->noise;
}

double cost_of(const FitData& data, const Rows& rows, const std::vector<double>& found,
               const Values& values) {
  double cost = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) cost += huber(found[i] / noise_of(data, rows[i]));
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Constant& constant = data.plan.constants[k];
    cost += std::pow((values[k] - constant.prior) / constant.sigma, 2);
  }
  return cost;
}

// The normal equations of a step, in units of sigma.
struct Equations {
  Matrix matrix;
  std::vector<double> right;
};

Equations equations_of(const FitData& data, const Rows& rows, const std::vector<double>& found,
                       const Slopes& slopes, const Values& values) {
  const std::size_t n = values.size();
  Equations e{Matrix(n, std::vector<double>(n)), std::vector<double>(n)};
  for (std::size_t k = 0; k < n; ++k) {
    const Constant& constant = data.plan.constants[k];
    e.matrix[k][k] = 1;
    e.right[k] = (constant.prior - values[k]) / constant.sigma;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double noise = noise_of(data, rows[i]);
    const std::vector<double>& slope = slopes.rows[rows[i]];
    CHECK(slope.size() == n);
    const double weight = huber_weight(found[i] / noise) / (noise * noise);
    for (std::size_t k = 0; k < n; ++k) {
      if (slope[k] == 0) continue;
      e.right[k] -= weight * slope[k] * found[i];
      for (std::size_t j = 0; j < n; ++j) e.matrix[k][j] += weight * slope[k] * slope[j];
    }
  }
  return e;
}

// Returns the step. Sets `sigma` to the uncertainty of each constant: the square roots of the
// inverse's diagonal.
std::vector<double> step_of(const Equations& e, std::vector<double>* sigma) {
  const Matrix factor = factor_of(e.matrix);
  sigma->clear();
  for (std::size_t k = 0; k < e.right.size(); ++k) {
    std::vector<double> unit(e.right.size());
    unit[k] = 1;
    sigma->push_back(std::sqrt(solve(factor, unit)[k]));
  }
  return solve(factor, e.right);
}

// Returns, for each constant, the information of each family: the weighted squares of the
// derivatives.
std::vector<std::map<std::string, double>> information_of(const FitData& data, const Rows& rows,
                                                          const std::vector<double>& found,
                                                          const Slopes& slopes) {
  std::vector<std::map<std::string, double>> all(data.plan.constants.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double noise = noise_of(data, rows[i]);
    const double weight = huber_weight(found[i] / noise) / (noise * noise);
    const std::vector<double>& slope = slopes.rows[rows[i]];
    for (std::size_t k = 0; k < all.size(); ++k)
      if (slope[k] != 0) all[k][data.cases[rows[i]].family] += weight * slope[k] * slope[k];
  }
  return all;
}

Values moved(const FitPlan& plan, const Values& values, const std::vector<double>& step,
             double share) {
  Values result = values;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Constant& constant = plan.constants[k];
    result[k] =
        std::clamp(values[k] + share * step[k] * constant.sigma, constant.least, constant.most);
  }
  return result;
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
            row, fmt::format("found key '{}', expected training_clock, or the GEMM efficiency of a "
                             "precision with one of its own",
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

Result<std::vector<double>> residuals(const FitData& data, const Rows& rows, const Values& values) {
  const ProfileValues given = profile_values(data.plan, values);
  ASSIGN_OR_RETURN(const auto lists,
                   for_each_row(data, rows, [&](int row) -> Result<std::vector<double>> {
                     ASSIGN_OR_RETURN(const Scenario scenario, with(data, row, given));
                     ASSIGN_OR_RETURN(const double found, residual(scenario, data.cases[row]));
                     return std::vector{found};
                   }));
  std::vector<double> all;
  for (const std::vector<double>& list : lists) all.push_back(list.front());
  return all;
}

Result<Slopes> slopes(const FitData& data, const Rows& rows, const Values& values) {
  const auto row_slopes = [&](int row) -> Result<std::vector<double>> {
    const ProfileValues given = profile_values(data.plan, values);
    ASSIGN_OR_RETURN(const Scenario scenario, with(data, row, given));
    ASSIGN_OR_RETURN(const double here, residual(scenario, data.cases[row]));
    std::vector<double> found;
    for (const Constant& constant : data.plan.constants) {
      ProfileValues stepped = given;
      double& value = stepped[{constant.profile, constant.key}];
      const double direction = value + kSlopeStep * constant.sigma <= constant.most ? 1 : -1;
      value += direction * kSlopeStep * constant.sigma;
      ASSIGN_OR_RETURN(const Scenario other, with(data, row, stepped));
      double there = here;
      if (!priced_alike(other, scenario)) {
        ASSIGN_OR_RETURN(there, residual(other, data.cases[row]));
      }
      found.push_back((there - here) / (direction * kSlopeStep));
    }
    return found;
  };
  ASSIGN_OR_RETURN(auto lists, for_each_row(data, rows, row_slopes));
  Slopes all{values, std::vector<std::vector<double>>(data.cases.size())};
  for (std::size_t i = 0; i < rows.size(); ++i) all.rows[rows[i]] = std::move(lists[i]);
  return all;
}

Result<PublishedFit> fit(const FitData& data, const Rows& rows, Values start, int steps,
                         const Slopes* nearby,
                         const std::function<void(int, const PublishedFit&)>& on_step) {
  PublishedFit best{std::move(start), {}, 0};
  ASSIGN_OR_RETURN(std::vector<double> found, residuals(data, rows, best.values));
  best.cost = cost_of(data, rows, found, best.values);
  if (on_step) on_step(0, best);
  Slopes own;
  for (int step = 1; step <= steps; ++step) {
    if (nearby == nullptr && step % kStepsOfSlopes == 1) {
      ASSIGN_OR_RETURN(own, slopes(data, rows, best.values));
    }
    const Slopes& here = nearby != nullptr ? *nearby : own;
    const Equations equations = equations_of(data, rows, found, here, best.values);
    best.information = information_of(data, rows, found, here);
    const std::vector<double> direction = step_of(equations, &best.sigma);
    const double before = best.cost;
    double share = 1;
    for (int halving = 0; halving <= kHalvings; ++halving, share /= 2) {
      Values there = moved(data.plan, best.values, direction, share);
      ASSIGN_OR_RETURN(std::vector<double> then, residuals(data, rows, there));
      const double cost = cost_of(data, rows, then, there);
      if (cost >= before) continue;
      best.values = std::move(there);
      best.cost = cost;
      found = std::move(then);
      break;
    }
    if (on_step) on_step(step, best);
    if (best.cost > before * (1 - kGain)) break;
  }
  for (std::size_t k = 0; k < best.sigma.size(); ++k) best.sigma[k] *= data.plan.constants[k].sigma;
  for (std::size_t k = 0; k < best.information.size(); ++k)
    if (determined_by(best, k).empty()) best.values[k] = data.plan.constants[k].prior;
  return best;
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
