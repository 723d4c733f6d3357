// Readers keep their promises for the repository's own files, and for what mutations make of
// them: a small, fixed part of what the fuzzer (cmake --preset fuzz) goes on to look for.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <exception>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/targets.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

// TANDEM_FUZZ_INPUTS: how many of each target.
int inputs() {
  const char* const text = std::getenv("TANDEM_FUZZ_INPUTS");
  return text == nullptr ? 2000 : std::atoi(text);
}

// TANDEM_FUZZ: one target by itself, as for the fuzzer.
bool chosen(const FuzzTarget& target) {
  const char* const name = std::getenv("TANDEM_FUZZ");
  return name == nullptr || target.name == name;
}

void run_all(const FuzzTarget& target) {
  if (!chosen(target)) return;
  const std::vector<std::string> seeds = target.seeds();
  REQUIRE(!seeds.empty());
  for (const std::string& seed : seeds) {
    INFO(target.name << ": one of its seeds");
    CHECK_NOTHROW(run_target(target, seed));
  }
  for (int i = 0; i < inputs(); ++i) {
    const std::string text = mutated(seeds, (std::uint64_t{test_seed()} << 32) + i);
    try {
      run_target(target, text);
    } catch (const std::exception& error) {
      FAIL_CHECK(target.name << ", TANDEM_SEED=" << test_seed() << ", input " << i << ": "
                             << error.what() << "\n"
                             << text);
      return;
    }
  }
}

}  // namespace

TEST_CASE("readers of tables keep their promises whatever is in the file") {
  for (const FuzzTarget& target : table_targets()) run_all(target);
}

TEST_CASE("readers of scenarios keep their promises whatever is in the file") {
  for (const FuzzTarget& target : scenario_targets()) run_all(target);
}

TEST_CASE("readers of other tools' files keep their promises whatever is in the file") {
  for (const FuzzTarget& target : import_targets()) run_all(target);
}
