// Cells that hold shares, in percent, and seconds.
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

// Rounds a share up to a tenth of a percent, for what is said to be so "at most".
double rounded_up(double share);

// Returns simulated / measured - 1; nothing if a side has no value or nothing was measured.
std::optional<double> relative_error(const std::optional<double>& simulated,
                                     const std::optional<double>& measured);

// Returns a difference in milliseconds with its sign: "+1.234". What rounds to zero is "0.000".
std::string ms_difference(double seconds);

// Returns seconds to the millisecond: "1.234"; less than 0.01 s, and not 0, to three digits:
// "0.00123", "1.23e-05".
std::string seconds_text(double seconds);

}  // namespace tandem
