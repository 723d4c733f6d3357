// Damped Gauss-Newton. With residuals r, their derivatives J by the variables (in units of each
// variable's step), Huber's weights W and distances d from the priors, a step s solves
//   (J^T W J + I) s = -(J^T W r + d)
// The identity I is the priors' part, and only damps variables without a prior. The step is halved
// until it lowers the cost.
#include "validation/published/gauss_newton.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace tandem {
namespace {

// Beyond so many standard deviations Huber's loss grows linearly.
constexpr double kHuber = 1.5;

// A step has to lower the cost by this share at least.
constexpr double kLeastGain = 1e-6;

double huber(double x) {
  return std::abs(x) <= kHuber ? x * x : kHuber * (2 * std::abs(x) - kHuber);
}

// Returns the weight w for which w x^2 has the slope of Huber's loss at x.
double huber_weight(double x) { return std::abs(x) <= kHuber ? 1 : kHuber / std::abs(x); }

// Returns Cholesky's factor L with L L^T = matrix. REQUIRES: positive definite, as the identity
// plus a sum of squares is. (Boost's uBLAS of Debian 12 does not compile as C++20.)
Matrix factor_of(const Matrix& matrix) {
  const std::size_t n = matrix.size();
  Matrix factor(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= factor[i][k] * factor[j][k];
      factor[i][j] = i == j ? std::sqrt(sum) : sum / factor[j][j];
    }
    CHECK(factor[i][i] > 0);
  }
  return factor;
}

// Returns x with L L^T x = right.
std::vector<double> solve(const Matrix& factor, std::vector<double> right) {
  const std::size_t n = right.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) right[i] -= factor[i][k] * right[k];
    right[i] /= factor[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) right[i] -= factor[k][i] * right[k];
    right[i] /= factor[i][i];
  }
  return right;
}

// Returns the distance from the prior, in the variable's steps.
double from_prior(const FitVariable& variable, double value) {
  return variable.prior ? (value - *variable.prior) / variable.step : 0;
}

double cost_of(const LeastSquares& problem, const std::vector<double>& residuals,
               const std::vector<double>& values) {
  double cost = 0;
  for (const double r : residuals) cost += huber(r);
  for (std::size_t k = 0; k < values.size(); ++k)
    cost += std::pow(from_prior(problem.variables[k], values[k]), 2);
  return cost;
}

// Returns the step from fit->values, in units of the variables' steps. Sets the fit's sigma, the
// roots of the diagonal of (J^T W J + I)^-1, and its information, each row's part of J^T W J's
// diagonal.
std::vector<double> step_from(const LeastSquares& problem, const std::vector<double>& residuals,
                              const Matrix& slopes, LeastSquaresFit* fit) {
  const std::size_t n = fit->values.size();
  Matrix matrix(n, std::vector<double>(n));
  std::vector<double> right(n);
  for (std::size_t k = 0; k < n; ++k) {
    matrix[k][k] = 1;
    right[k] = -from_prior(problem.variables[k], fit->values[k]);
  }
  fit->information.assign(residuals.size(), std::vector<double>(n));
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    const std::vector<double>& slope = slopes[i];
    CHECK(slope.size() == n);
    const double weight = huber_weight(residuals[i]);
    for (std::size_t k = 0; k < n; ++k) {
      if (slope[k] == 0) continue;
      right[k] -= weight * slope[k] * residuals[i];
      for (std::size_t j = 0; j < n; ++j) matrix[k][j] += weight * slope[k] * slope[j];
      fit->information[i][k] = weight * slope[k] * slope[k];
    }
  }
  const Matrix factor = factor_of(matrix);
  fit->sigma.clear();
  for (std::size_t k = 0; k < n; ++k) {
    std::vector<double> unit(n);
    unit[k] = 1;
    fit->sigma.push_back(std::sqrt(solve(factor, unit)[k]));
  }
  return solve(factor, right);
}

// Returns the values moved by a share of the step, inside their bounds.
std::vector<double> moved(const std::vector<FitVariable>& variables, std::vector<double> values,
                          const std::vector<double>& step, double share) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    const FitVariable& own = variables[k];
    values[k] = std::clamp(values[k] + share * step[k] * own.step, own.least, own.most);
  }
  return values;
}

}  // namespace

Result<LeastSquaresFit> fit_least_squares(
    const LeastSquares& problem, std::vector<double> start,
    const std::function<void(int step, double cost)>& on_step) {
  LeastSquaresFit best{.values = std::move(start)};
  ASSIGN_OR_RETURN(std::vector<double> residuals, problem.residuals(best.values));
  best.cost = cost_of(problem, residuals, best.values);
  if (on_step) on_step(0, best.cost);
  Matrix slopes;
  for (int step = 0; step < problem.steps; ++step) {
    if (step % problem.steps_of_slopes == 0) {
      ASSIGN_OR_RETURN(slopes, problem.slopes(best.values));
    }
    const std::vector<double> direction = step_from(problem, residuals, slopes, &best);
    const double before = best.cost;
    double share = 1;
    for (int halving = 0; halving <= problem.halvings; ++halving, share /= 2) {
      std::vector<double> there = moved(problem.variables, best.values, direction, share);
      ASSIGN_OR_RETURN(std::vector<double> then, problem.residuals(there));
      const double cost = cost_of(problem, then, there);
      if (cost >= before * (1 - kLeastGain)) continue;
      best.values = std::move(there);
      best.cost = cost;
      residuals = std::move(then);
      break;
    }
    if (on_step) on_step(step + 1, best.cost);
    if (best.cost >= before * (1 - problem.gain)) break;
  }
  return best;
}

double probed(const FitVariable& variable, double value, double share) {
  const double delta = share * variable.step;
  return value + delta <= variable.most ? value + delta : value - delta;
}

}  // namespace tandem
