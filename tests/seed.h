// The seed of a test's random cases: the same in every run, so that a test passes or fails for what
// was changed.
#pragma once

#include <cstdlib>
#include <random>
#include <string_view>

namespace tandem {

// TANDEM_SEED where it is set ("random": drawn anew, to look for more), else 1. Tests print it.
inline unsigned test_seed() {
  const char* const text = std::getenv("TANDEM_SEED");
  if (text == nullptr) return 1;
  return text == std::string_view("random")
             ? std::random_device{}()
             : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

}  // namespace tandem
