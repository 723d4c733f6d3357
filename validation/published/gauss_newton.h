// GaussNewton: a damped least-squares fit with Huber's loss.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"

namespace tandem {

// A value that a fit moves between its bounds. `prior` is the value expected before the fit; `step`
// is the natural scale of changes, such as the prior's standard deviation.
struct FitVariable {
  double step = 0, least = 0, most = 0;
  std::optional<double> prior = {};
};

using Matrix = std::vector<std::vector<double>>;

// The fit minimizes the sum of Huber's loss over the residuals, plus ((value - prior) / step)^2 of
// each variable with a prior. Huber's loss is a square that grows linearly beyond 1.5.
struct LeastSquares {
  std::vector<FitVariable> variables;
  // Returns the residual of each row, in standard deviations.
  std::function<Result<std::vector<double>>(const std::vector<double>& values)> residuals;
  // Returns the residuals' derivatives by the variables, times their steps: a line for each row.
  // They are computed anew in every `steps_of_slopes`-th step.
  std::function<Result<Matrix>(const std::vector<double>& values)> slopes;
  int steps_of_slopes = 1;
  int steps = 0;     // at most
  int halvings = 0;  // of a step that does not lower the cost, at most
  double gain = 0;   // the fit ends when a step lowers the cost by no more than this share
};

struct LeastSquaresFit {
  std::vector<double> values;
  double cost = 0;  // the sum that is minimized
  // The last step's equations; empty after no step.
  std::vector<double> sigma;  // uncertainty that rows and priors leave, in variables' steps
  std::vector<std::vector<double>> information;  // of each row on each variable; 1: the prior's
};

// Fits by Gauss-Newton from `start`. on_step is called with 0 at the start, and after each step.
// Errors are those of residuals() and slopes().
Result<LeastSquaresFit> fit_least_squares(
    const LeastSquares& problem, std::vector<double> start,
    const std::function<void(int step, double cost)>& on_step = {});

// Returns `value` moved by a share of the variable's step: up, or down if the upper bound is in the
// way. Numerical derivatives are taken there.
double probed(const FitVariable& variable, double value, double share);

}  // namespace tandem
