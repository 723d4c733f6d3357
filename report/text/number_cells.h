// Cells that hold shares, in percent.
#pragma once

#include <optional>
#include <string>

namespace tandem {

// Returns a share in percent: "12.3"; of nothing "-".
std::string percent(double share);
std::string percent(const std::optional<double>& share);
// Return it with its sign, and never as "-0.0".
std::string signed_percent(double share);
std::string signed_percent(const std::optional<double>& share);

}  // namespace tandem
