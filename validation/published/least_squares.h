// LeastSquares: Huber's loss and the Cholesky solver for a step of Gauss-Newton.
#pragma once

#include <vector>

namespace tandem {

// huber() is Huber's loss of a residual in standard deviations: a square, which beyond a few of
// them grows linearly. huber_weight() is the weight with which the square has the same slope.
double huber(double x);
double huber_weight(double x);

using Matrix = std::vector<std::vector<double>>;

// Returns Cholesky's factor L with L L^T = matrix. REQUIRES: positive definite, as the identity
// plus a sum of squares is. (Boost's uBLAS of Debian 12 does not compile as C++20.)
Matrix factor_of(const Matrix& matrix);

// Returns x with L L^T x = right.
std::vector<double> solve(const Matrix& factor, std::vector<double> right);

}  // namespace tandem
