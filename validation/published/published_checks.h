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
  std::string name;  // of the family, GPU, precision or trait
  Errors seen, unseen;
};

// A software (framework profile) with fewer rows of dense models, or of experts, takes the interval
// of all software: its own 5 % and 95 % quantiles would lie beyond its smallest and largest row.
constexpr int kLeastRows = 20;

// The 90 % interval of measured over predicted, for dense models or for mixtures of experts of a
// software, or of "all": the 5 % and 95 % quantiles of rows that a fit had left out. A row counts
// up to twice there: left out with its half, and with its family.
struct Interval {
  std::string profile;
  bool experts = false;
  int n = 0;  // rows that were left out with their half
  double low = 0, high = 0;
  // Share of each half's rows inside the interval that the other half's rows give.
  double coverage = 0;
};
// Returns the interval of a software, or of all software if it has too few rows of its own.
const Interval& interval_for(const std::vector<Interval>& intervals, const std::string& profile,
                             bool experts);

// The rows of a software that a fit has left out, by text_of(kind_of_run()).
struct MeasuredOn {
  std::string profile;
  int most_gpus = 0;  // of the largest of these runs
  std::map<std::string, int> kinds;
};

// The interval of rows that were predicted by a fit without any row of their GPU (or precision, or
// kind of model, or a kind of parallelism of theirs). `key`: gpu, precision, model or
// parallelism, as in workload/uncalibrated.toml.
struct Unmeasured {
  std::string key;
  int n = 0;
  double low = 0, high = 0;
};

// The runs that support a prediction: those with its software (framework profile), GPU and
// parallelism. Their errors are those of fits without them.
struct Ground {
  std::string gpu, software, parallelism;  // "data", "tensor, data", "pipeline, experts, data"
  Errors unseen;
  double low = 0, high = 0;  // the prediction's interval, measured over predicted; 0: a guess
};

struct Checks {
  std::vector<LeftOut> halves;    // by family, both halves together
  std::vector<LeftOut> families;  // each left out as a whole
  std::vector<LeftOut> gpus;      // each left out as a whole, by name
  std::vector<LeftOut> kinds;     // each precision and each trait (scenarios/evidence.h), likewise
  std::vector<Ground> grounds;    // by GPU, software and parallelism
  std::vector<Unmeasured> unmeasured;
  std::vector<Interval> intervals;   // by software, then "all"; dense, then experts
  std::vector<MeasuredOn> measured;  // by software
};

// Refits without some rows, starting near `whole`, the fit of thinned(all rows).
// - Halves: the configurations of a family's runs with one software are dealt to two halves, in a
//   shuffled order. A fit to each half predicts the other. If there is one configuration alone,
//   both fits have it, and it is not predicted. A configuration is a run's family, system,
//   precision, layers, hidden size, heads, sequence, vocabulary, parallel sizes, micro-batch,
//   schedule and recompute. Runs that differ in anything else (batch, ZeRO stage, `set`, date)
//   share one.
// - Grounds: the halves' errors by GPU, software and parallelism.
// - Families: each is left out, and also each group of families in `groups`.
// - GPUs: the rows of each are left out.
// - Kinds: the rows of each precision are left out, then those with each trait.
Result<Checks> check_fit(const FitData& data, const PublishedFit& whole,
                         const std::vector<std::vector<std::string>>& groups);

}  // namespace tandem
