// How tables write shares.
#pragma once

#include <optional>
#include <string>

namespace tandem {

// A share in percent: "12.3"; of nothing "-".
std::string percent(double share);
std::string percent(const std::optional<double>& share);
// The same with its sign, and never "-0.0".
std::string signed_percent(double share);
std::string signed_percent(const std::optional<double>& share);

}  // namespace tandem
