// PublishedFit: fits the constants of FrameworkProfile to runs that others measured.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "validation/published/cases.h"
#include "workload/frameworks/framework_profile.h"

namespace tandem {

// A constant to be fitted. Before the fit it is expected at `prior`, give or take `sigma` (one
// standard deviation), in the key's units. `profile` is a framework profile, or the files of GPUs
// with one chip, separated by spaces.
struct Constant {
  std::string profile, key;
  double prior = 0, sigma = 0;
  double least = 0, most = 0;
};

// The weight of a family: the noise of its rows, as a standard deviation and a share, and the most
// rows that are taken of it.
struct FamilyWeight {
  std::string family;
  double noise = 0;
  int most_rows = 0;
};

struct FitPlan {
  std::vector<Constant> constants;
  std::vector<FamilyWeight> weights;
};

// Reads the plan from a folder: constants.csv (software, key, prior, sigma, least, most) and
// weights.csv (family, noise_percent, most_rows). Errors name file and line.
Result<FitPlan> read_fit_plan(const std::string& folder);

// The cases as scenarios, which are made once, and the number of processes that predict. on_row is
// called after each prediction in a pass over some rows.
struct FitData {
  FitPlan plan;
  std::vector<Case> cases;  // those of families with a weight that a scenario can express
  std::vector<Scenario> scenarios;
  int jobs = 1;
  std::function<void(int done, int of)> on_row = {};
};
Result<FitData> fit_data(const std::vector<Case>& cases, FitPlan plan, int jobs);

// Some of the cases, by index.
using Rows = std::vector<int>;
Rows all_rows(const FitData& data);
// Returns the cases' families, in the order in which they first appear.
std::vector<std::string> families_of(const FitData& data);
// Returns the part of `rows` that counts: no family has more rows than its weight allows.
Rows thinned(const FitData& data, const Rows& rows);

// A value for each constant.
using Values = std::vector<double>;
Result<Values> current_values(const FitPlan& plan);
// Says whether it is a constant of GPUs; else it is one of a framework profile.
bool is_of_devices(const Constant& constant);
ProfileValues profile_values(const FitPlan& plan, const Values& values);

// Returns the rows' scenarios, priced with these values.
Result<std::vector<Scenario>> scenarios_at(const FitData& data, const Rows& rows,
                                           const Values& values);

// Computes a list of numbers for each row, each in a process of its own. numbers(i) is for rows[i].
using NumbersOfRow = std::function<Result<std::vector<double>>(std::size_t i)>;
Result<std::vector<std::vector<double>>> for_each_row(
    const FitData& data, const Rows& rows, const NumbersOfRow& numbers,
    const std::function<void(int done, int of)>& on_row);

// Returns log(predicted / measured) for each row.
Result<std::vector<double>> residuals(const FitData& data, const Rows& rows, const Values& values);

// Derivatives of the residuals by the constants, times their sigma: by row, one for each constant.
using Slopes = std::map<int, std::vector<double>>;
Result<Slopes> slopes(const FitData& data, const Rows& rows, const Values& values);

// The rows' residuals near `values`, as a linear function of the constants. Refits without some of
// the rows stay near enough to use it, and so simulate nothing.
struct Linearized {
  Values values;
  std::map<int, double> residuals;  // by row
  Slopes slopes;
};
Result<Linearized> linearized(const FitData& data, const Rows& rows, const Values& values);

struct PublishedFit {
  Values values;
  Values sigma;     // uncertainty that rows and priors leave
  double cost = 0;  // the quantity that is minimized
  // The information that the rows of each family have on each constant. 1 is as much as the prior
  // has.
  std::vector<std::map<std::string, double>> information;
};

// Returns the families that have most of the information on a constant. None: all rows together
// have too little to move it, so that it stays at its prior.
std::vector<std::string> determined_by(const PublishedFit& fit, std::size_t constant);

// Fits the constants by Gauss-Newton. Minimizes the sum of Huber's loss of residual / noise over
// the rows, plus the squares of the constants' distances from their priors over sigma. Derivatives
// are computed in every third step.
Result<PublishedFit> fit(const FitData& data, const Rows& rows, Values start, int steps,
                         const std::function<void(int step, double cost)>& on_step = {});

// Fits to some of the rows of `around`, from its values.
Result<PublishedFit> refit(const FitData& data, const Rows& rows, const Linearized& around);

}  // namespace tandem
