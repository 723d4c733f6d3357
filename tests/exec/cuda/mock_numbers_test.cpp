// The 16-bit numbers that the mocks compute with.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>

TEST_CASE("16-bit numbers of the mocks keep every value and round to the nearest even") {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto word = static_cast<std::uint16_t>(bits);
    const auto kept = [word]<class Number>(Number) {
      const auto value = static_cast<float>(std::bit_cast<Number>(word));
      return std::isnan(value) || std::bit_cast<std::uint16_t>(Number(value)) == word;
    };
    if (!kept(__half()) || !kept(__nv_bfloat16())) FAIL(bits);
  }
  const auto half = [](float value) { return static_cast<float>(__half(value)); };
  CHECK(half(2049) == 2048);
  CHECK(half(2051) == 2052);
  CHECK(half(65519) == 65504);
  CHECK(std::isinf(half(65520)));
  CHECK(half(0x1p-25f) == 0);
  CHECK(half(0x1.8p-25f) == 0x1p-24f);
  const auto bf16 = [](float value) { return static_cast<float>(__nv_bfloat16(value)); };
  CHECK(bf16(257) == 256);
  CHECK(bf16(259) == 260);
  CHECK(std::isnan(bf16(std::nanf(""))));
}
