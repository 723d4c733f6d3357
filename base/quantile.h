// Medians, and values by nearest rank.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tandem {

// Returns the value in the middle; of an even number of values the mean of the two there.
// REQUIRES: at least one value.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// Returns the value in the middle; of an even number of values the lower of the two there, so that
// it is one of them. REQUIRES: at least one value.
template <class Value>
Value lower_median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns the smallest value that `share` of all values do not exceed. REQUIRES: sorted, at least
// one value.
template <class Value>
Value nearest_rank(const std::vector<Value>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace tandem
