// Cells that hold shares, in percent.
#pragma once

#include <optional>
#include <string>

namespace tandem {

// Return a share in percent: "12.3", or "-" for nothing.
std::string percent(double share);
std::string percent(const std::optional<double>& share);
// Return a share in percent with its sign: "+12.3". What rounds to zero is "0.0", without a sign.
std::string signed_percent(double share);
std::string signed_percent(const std::optional<double>& share);

}  // namespace tandem
