// Units. Code and files hold integer nanoseconds and bytes; doubles of seconds occur only at
// interfaces. GB = 1e9 bytes, GiB = 2^30 bytes. Bandwidth is per direction, in bytes a second.
#pragma once

#include <cmath>
#include <cstdint>

namespace tandem {

using Nanoseconds = std::int64_t;
using Bytes = std::int64_t;

constexpr double MB = 1e6;
constexpr double GB = 1e9;
constexpr double GiB = 1024.0 * 1024.0 * 1024.0;
constexpr double Gbit = 1e9 / 8;  // bytes
constexpr double hour_s = 3600, day_s = 24 * hour_s;
constexpr double trillion = 1e12;

constexpr double to_seconds(Nanoseconds ns) { return static_cast<double>(ns) * 1e-9; }
// Saturates at 146 years, which checks of durations refuse.
inline Nanoseconds to_ns(double seconds) {
  constexpr double kMost = 0x1p62;
  return std::llround(std::fmin(std::fmax(seconds * 1e9, -kMost), kMost));
}

}  // namespace tandem
