// Published checks: how a fit to published runs does on runs that it has not seen, and what a
// prediction is worth because of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "validation/published/published_fit.h"

namespace tandem {

// How well rows are predicted. Errors are shares: predicted over measured, less 1.
struct Errors {
  int n = 0;
  double mape = 0, median = 0, bias = 0, worst = 0;
};
Errors errors_of(const std::vector<double>& residuals);

// The same rows of a family, predicted by a fit of all families' rows and by one that did not have
// them.
struct LeftOut {
  std::string family;
  Errors seen, unseen;
};

// With fewer rows the 5 and 95 % are beyond the smallest and largest of them: a software has the
// interval of all then.
constexpr int kLeastRows = 20;

// A software's 90 % interval: measured over predicted, the 5 % and 95 % quantiles of rows that a
// fit had left out.
struct Interval {
  std::string profile;
  int n = 0;
  double low = 0, high = 0;
  // Of one half's rows, the share that lies in the interval which the other half's give.
  double coverage = 0;
  int most_gpus = 0;                       // of its rows
  std::map<std::string, int> measured_on;  // its n rows by kind_of_run()
};

// What stands behind a prediction of such a job: runs of that software on that GPU in parallel that
// way, left out of a half's fit; and the interval that a prediction has there.
struct Ground {
  std::string gpu, software, parallelism;  // "data", "tensor, data", "pipeline, experts, data"
  Errors unseen;
  double low = 0, high = 0;  // measured over predicted; 0: that of a guess
};

struct Checks {
  std::vector<LeftOut> halves;      // by family, both halves together
  std::vector<LeftOut> families;    // each left out whole
  std::vector<LeftOut> gpus;        // all rows of each, by its name
  std::vector<Ground> grounds;      // by GPU, software and parallelism
  Interval of_gpus;                 // of those rows: what a GPU without rows is predicted within
  std::vector<Interval> intervals;  // by software, then "all"
};

// Refits without some rows, near `whole`, the fit of thinned(all rows).
//
// Grounds: the halves' errors by GPU, software and parallelism. GPUs: each one's rows left out.
// Halves: every other configuration (all but the batch's size) of a family's runs of a software in
// either, in a shuffled order; each half's fit predicts the other half. A configuration that is the
// only one stays in both, and is not counted. Families: each one left out, and `pairs` of them
// together.
Result<Checks> check_fit(const FitData& data, const PublishedFit& whole,
                         const std::vector<std::vector<std::string>>& pairs);

}  // namespace tandem
