#include "report/text/number_cells.h"

#include <fmt/format.h>

#include <cmath>

namespace tandem {

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string percent(const std::optional<double>& share) { return share ? percent(*share) : "-"; }

std::string signed_percent(double share) {
  return std::abs(share) < 0.0005 ? "0.0" : fmt::format("{:+.1f}", 100 * share);
}

std::string signed_percent(const std::optional<double>& share) {
  return share ? signed_percent(*share) : "-";
}

// Adding 0.0 turns -0 into 0.
double rounded_up(double share) { return std::ceil(1000 * share - 1e-6) / 1000 + 0.0; }

std::optional<double> relative_error(const std::optional<double>& simulated,
                                     const std::optional<double>& measured) {
  if (!simulated || !measured || *measured <= 0) return std::nullopt;
  return *simulated / *measured - 1;
}

std::string ms_difference(double seconds) {
  return std::abs(seconds) < 0.5e-6 ? "0.000" : fmt::format("{:+.3f}", 1e3 * seconds);
}

std::string seconds_text(double seconds) {
  const bool is_short = seconds != 0 && std::abs(seconds) < 0.01;
  return is_short ? fmt::format("{:.3g}", seconds) : fmt::format("{:.3f}", seconds);
}

}  // namespace tandem
