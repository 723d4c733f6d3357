// Counter-based random numbers, and a hash of texts. A draw depends on its key alone, so every
// engine draws the same.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "base/units.h"

namespace tandem {

// SplitMix64's finaliser (Steele, Lea and Flood 2014): a bijection that maps neighbours far apart.
constexpr std::uint64_t scatter(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Hashes by FNV-1a (Fowler, Noll, Vo): a change of any one byte changes the hash. With the hash of
// another text as `before`, returns the hash of that text followed by this one.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t before = 0xcbf29ce484222325u) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return before;
}

// Draws uniformly from (0, 1).
constexpr double uniform(std::uint64_t key) {
  return (static_cast<double>(scatter(key) >> 11) + 0.5) * 0x1p-53;
}

// Draws from the normal distribution of mean 0 and standard deviation 1 (Box and Muller 1958).
inline double normal(std::uint64_t key) {
  return std::sqrt(-2 * std::log(uniform(key))) *
         std::cos(2 * std::numbers::pi * uniform(scatter(key) + 1));
}

// Multiplies durations by log-normal factors of mean 1; sigma is the logarithm's standard
// deviation.
struct Jitter {
  double sigma = 0;
  std::uint64_t seed = 1;

  std::uint64_t key(int rank, std::uint32_t op) const {
    return scatter(scatter(seed) + static_cast<std::uint64_t>(rank)) + op;
  }

  Nanoseconds apply(Nanoseconds duration_ns, int rank, std::uint32_t op) const {
    if (sigma == 0 || duration_ns == 0) return duration_ns;
    return std::llround(static_cast<double>(duration_ns) *
                        std::exp(sigma * normal(key(rank, op)) - sigma * sigma / 2));
  }
};

}  // namespace tandem
