// Least squares: what a step of Gauss-Newton needs.
#pragma once

#include <vector>

namespace tandem {

// Huber's function of a residual in standard deviations, which beyond a few of them pulls with
// constant force; and the weight that makes it a square.
double huber(double x);
double huber_weight(double x);

using Matrix = std::vector<std::vector<double>>;

// Cholesky's L with L L^T = matrix. REQUIRES: positive definite, as the identity and a sum of
// squares are. (Boost's uBLAS of Debian 12 does not compile as C++20.)
Matrix factor_of(const Matrix& matrix);

// x with L L^T x = right.
std::vector<double> solve(const Matrix& factor, std::vector<double> right);

}  // namespace tandem
