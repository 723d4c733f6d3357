#include "validation/published/least_squares.h"

#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace tandem {
namespace {

// Beyond so many standard deviations Huber's loss grows linearly.
constexpr double kHuber = 1.5;

}  // namespace

double huber(double x) {
  return std::abs(x) <= kHuber ? x * x : kHuber * (2 * std::abs(x) - kHuber);
}
double huber_weight(double x) { return std::abs(x) <= kHuber ? 1 : kHuber / std::abs(x); }

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

}  // namespace tandem
