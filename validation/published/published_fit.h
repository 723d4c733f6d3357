// Published fit: the constants of FrameworkProfile from runs that others measured.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "validation/published/cases.h"
#include "workload/frameworks/framework_profile.h"

namespace tandem {

// A constant that is fitted: where it stands, and what is believed of it before: `prior` +-
// `sigma`, one standard deviation. All in the key's units. It stands in a framework profile, or in
// the files of GPUs with one chip, which are named with spaces between.
struct Constant {
  std::string profile, key;
  double prior = 0, sigma = 0;
  double least = 0, most = 0;
};

// What a family counts: its own noise, a standard deviation, as a share; and as how many rows it
// counts at most (of more, every so many is taken).
struct FamilyWeight {
  std::string family;
  double noise = 0;
  int most_rows = 0;
};

struct FitPlan {
  std::vector<Constant> constants;
  std::vector<FamilyWeight> weights;
};

// Of a folder: constants.csv (software, key, prior, sigma, least, most) and weights.csv (family,
// noise_percent, most_rows). Errors name file and line.
Result<FitPlan> read_fit_plan(const std::string& folder);

// The cases as scenarios, made once; how many processes predict; and who is told of each prediction
// of a pass over some rows.
struct FitData {
  FitPlan plan;
  std::vector<Case> cases;  // those that a scenario can express, of families with a weight
  std::vector<Scenario> scenarios;
  int jobs = 1;
  std::function<void(int done, int of)> on_row = {};
};
Result<FitData> fit_data(const std::vector<Case>& cases, FitPlan plan, int jobs);

// Some of the cases, by index.
using Rows = std::vector<int>;
Rows all_rows(const FitData& data);
// Of the cases, in the order in which they first appear.
std::vector<std::string> families_of(const FitData& data);
// Of `rows`, those that count: no family has more than its weight says.
Rows thinned(const FitData& data, const Rows& rows);

// One value a constant.
using Values = std::vector<double>;
Result<Values> current_values(const FitPlan& plan);
// Of a framework profile, or else of GPUs.
bool is_of_devices(const Constant& constant);
ProfileValues profile_values(const FitPlan& plan, const Values& values);

// log(predicted / measured), a row each.
Result<std::vector<double>> residuals(const FitData& data, const Rows& rows, const Values& values);

// Derivatives of the residuals by the constants, over sigma: a row a case, a column a constant.
struct Slopes {
  Values at;
  std::vector<std::vector<double>> rows;  // by the case's index; empty: not asked for
};
Result<Slopes> slopes(const FitData& data, const Rows& rows, const Values& values);

struct PublishedFit {
  Values values;
  Values sigma;     // what rows and priors leave open
  double cost = 0;  // what is made small
  // What the rows of each family say of each constant: 1 is as much as was believed before.
  std::vector<std::map<std::string, double>> information;
};

// The families that say most of a constant; none where all rows together say too little to move it,
// so that it stays where it was believed to be.
std::vector<std::string> determined_by(const PublishedFit& fit, std::size_t constant);

// Gauss-Newton: makes small the sum of Huber's function of residual / noise over the rows, and of
// the constants' distances from their priors over sigma, squared. The derivatives are taken anew in
// every third step, or, where there are some of a fit nearby, once and for all.
Result<PublishedFit> fit(const FitData& data, const Rows& rows, Values start, int steps,
                         const Slopes* nearby = nullptr,
                         const std::function<void(int, const PublishedFit&)>& on_step = {});

}  // namespace tandem
