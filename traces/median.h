// The lower median: of an even number of values the lower of the two in the middle, so that it is
// one of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tandem {

// REQUIRES: at least one value.
template <class Value>
Value lower_median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tandem
