// Draw: a random number generator for tests. The seed fixes all its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace tandem {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : key_(scatter(seed)) {}

  std::uint64_t bits() { return scatter(key_++); }
  int below(int most) { return static_cast<int>(bits() % static_cast<std::uint64_t>(most)); }
  template <class T>
  const T& among(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }

 private:
  std::uint64_t key_;
};

}  // namespace tandem
