// KeyValue: the value of a key in a file, of any type that a file may have.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tandem {

using KeyValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                              std::vector<std::string>>;

// Returns an integer, or a number without a fraction, as generated files have: 64.0, 1e9. Returns
// nothing for other values.
inline std::optional<std::int64_t> whole_number(const KeyValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  const auto* number = std::get_if<double>(&value);
  constexpr double kMostExact = 9'007'199'254'740'992;  // 2^53
  if (number == nullptr || !(std::abs(*number) <= kMostExact) || *number != std::trunc(*number))
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

}  // namespace tandem
