// PublishedChecks: tests how a fit to published runs predicts runs that it has not seen, and
// derives the intervals of predictions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "validation/published/published_fit.h"

namespace tandem {

// Returns how well rows with these log(predicted / measured) are predicted.
Errors errors_of(const std::vector<double>& residuals);

// The same rows predicted by a fit to all rows, and by a fit without them.
struct LeftOut {
  std::string family;
  Errors seen, unseen;
};

// A software (framework profile) with fewer rows has the interval of all software: its own 5 % and
// 95 % quantiles would lie beyond its smallest and largest row.
constexpr int kLeastRows = 20;

// A software's 90 % interval of measured over predicted: the 5 % and 95 % quantiles of rows that a
// fit had left out.
struct Interval {
  std::string profile;
  int n = 0;
  double low = 0, high = 0;
  // Share of each half's rows inside the interval that the other half's rows give.
  double coverage = 0;
  int most_gpus = 0;                       // most GPUs of one of its rows
  std::map<std::string, int> measured_on;  // its n rows by kind_of_run()
};

// The runs that support a prediction, and its interval. They have the same software (framework
// profile), GPU and parallelism; their errors are those of fits that had left them out.
struct Ground {
  std::string gpu, software, parallelism;  // "data", "tensor, data", "pipeline, experts, data"
  Errors unseen;
  double low = 0, high = 0;  // measured over predicted; 0: that of a guess
};

struct Checks {
  std::vector<LeftOut> halves;      // by family, both halves together
  std::vector<LeftOut> families;    // each left out as a whole
  std::vector<LeftOut> gpus;        // each left out as a whole, by name
  std::vector<Ground> grounds;      // by GPU, software and parallelism
  Interval of_gpus;                 // of the rows of `gpus`: for a GPU without rows of its own
  std::vector<Interval> intervals;  // by software, then "all"
};

// Refits without some rows, starting near `whole`, the fit of thinned(all rows).
//
// Halves: the configurations of a family's runs with one software are dealt to two halves, in a
// shuffled order. A fit to each half predicts the other. A configuration is all of a run but the
// size of its batch. If there is only one, both fits have it, and it is not predicted. Grounds: the
// halves' errors by GPU, software and parallelism. Families: each is left out, and also each group
// of families in `pairs`. GPUs: the rows of each are left out.
Result<Checks> check_fit(const FitData& data, const PublishedFit& whole,
                         const std::vector<std::vector<std::string>>& pairs);

}  // namespace tandem
