// The median of some values: of an even number the lower one, so that it is one of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tandem {

// At least one value.
template <class Value>
Value lower_median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tandem
