// FP8 (E4M3, no infinity) for the mocks, to read.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

struct __nv_fp8_e4m3 {
  explicit operator float() const {
    const int exponent = bits_ >> 3 & 15, fraction = bits_ & 7;
    if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
    const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                     : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
    return (bits_ & 0x80) != 0 ? -size : size;
  }

 private:
  std::uint8_t bits_ = 0;
};
