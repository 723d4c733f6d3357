// ConstantFit: fits constants of the cost model to timed operations, by damped Gauss-Newton. A
// residual is log(predicted / measured) of one operation.
#pragma once

#include <functional>
#include <vector>

#include "validation/published/gauss_newton.h"

namespace tandem {

// A constant in a GPU's, a preset's or a profile's file that a table determines: where a fit
// starts, the size of a step, and the bounds, in the key's units.
template <class Spec>
struct FittedConstant {
  const char* key;
  std::function<double&(Spec&)> place;
  double unit, start, step, least, most;
};

// Returns `spec` with the constants that fit the rows best. residuals_of(spec, rows) returns
// log(predicted / measured) of each row.
template <class Spec, class Rows, class ResidualsOf>
Spec fit_to(const Spec& spec, const Rows& rows, const std::vector<FittedConstant<Spec>>& constants,
            const ResidualsOf& residuals_of) {
  constexpr double kNoise = 0.05;      // the usual error of a predicted time
  constexpr double kSlopeStep = 1e-2;  // step of a numerical derivative, in a constant's own steps
  const auto spec_at = [&](const std::vector<double>& values) {
    Spec there = spec;
    for (std::size_t k = 0; k < values.size(); ++k)
      constants[k].place(there) = values[k] * constants[k].unit;
    return there;
  };
  LeastSquares problem{.steps = 40, .halvings = 6, .gain = 1e-9};
  std::vector<double> start;
  for (const auto& c : constants) {
    problem.variables.push_back({.step = c.step, .least = c.least, .most = c.most});
    start.push_back(c.start);
  }
  const auto residuals_at = [&](const std::vector<double>& values) {
    std::vector<double> residuals = residuals_of(spec_at(values), rows);
    for (double& r : residuals) r /= kNoise;
    return residuals;
  };
  problem.residuals = residuals_at;
  problem.slopes = [&](const std::vector<double>& values) -> Result<Matrix> {
    const std::vector<double> here = residuals_at(values);
    Matrix slopes(here.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      std::vector<double> stepped = values;
      stepped[k] = probed(problem.variables[k], values[k], kSlopeStep);
      const double share = (stepped[k] - values[k]) / constants[k].step;
      const std::vector<double> there = residuals_at(stepped);
      for (std::size_t i = 0; i < here.size(); ++i)
        slopes[i].push_back((there[i] - here[i]) / share);
    }
    return slopes;
  };
  return spec_at(fit_least_squares(problem, start).value().values);
}

}  // namespace tandem
