// BF16 for the mocks: the upper half of a float, rounded to the nearest, ties to even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    constexpr std::uint32_t kQuietNaN = 0x7fff;
    bits_ = static_cast<std::uint16_t>(
        std::isnan(value) ? kQuietNaN : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  explicit operator float() const {
    const std::uint32_t bits = std::uint32_t{bits_} << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  std::uint16_t bits_ = 0;
};
