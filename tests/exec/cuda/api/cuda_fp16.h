// FP16 (IEEE binary16) for the mocks, rounded to the nearest, ties to even.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

struct __half {
  __half() = default;
  explicit __half(float value) : bits_(size_bits(std::abs(value))) {
    if (std::signbit(value)) bits_ |= 0x8000;
  }
  explicit operator float() const {
    const int exponent = bits_ >> 10 & 31, fraction = bits_ & 1023;
    float size = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    if (exponent == 0) size = std::ldexp(static_cast<float>(fraction), -24);
    if (exponent == 31)
      size = fraction == 0 ? std::numeric_limits<float>::infinity()
                           : std::numeric_limits<float>::quiet_NaN();
    return (bits_ & 0x8000) != 0 ? -size : size;
  }

 private:
  static std::uint16_t size_bits(float size) {
    constexpr float kRoundsToInfinity = 65520;
    if (std::isnan(size)) return 0x7e00;
    if (size >= kRoundsToInfinity) return 0x7c00;
    const int exponent = size == 0 ? -14 : std::max(std::ilogb(size), -14);
    const auto fraction = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
    return static_cast<std::uint16_t>(((exponent + 14) << 10) + fraction);
  }

  std::uint16_t bits_ = 0;
};
