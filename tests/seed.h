// The seed of a test's random cases. It is the same in every run, so that a test that begins to
// fail does so because of a change.
#pragma once

#include <cstdlib>
#include <random>
#include <string_view>

namespace tandem {

// Gives TANDEM_SEED where it is set ("random": a new seed each time, to search for faults), else 1.
// Tests print it.
inline unsigned test_seed() {
  const char* const text = std::getenv("TANDEM_SEED");
  if (text == nullptr) return 1;
  return text == std::string_view("random")
             ? std::random_device{}()
             : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

}  // namespace tandem
