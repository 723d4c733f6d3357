// Random Programs, one after the other, until something is wrong with one: that is shrunk and kept.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "base/file.h"
#include "base/random.h"
#include "schedule/program/program_text.h"
#include "tests/seed.h"
#include "tests/sim/random_programs.h"

namespace tandem {

// TANDEM_RANDOM_PROGRAMS where it is set, else so many.
inline int random_programs_or(int count) {
  const char* const text = std::getenv("TANDEM_RANDOM_PROGRAMS");
  return text == nullptr ? count : std::atoi(text);
}

// What is wrong with a job's Program; empty: nothing.
using FaultOf = std::function<std::string(const RandomJob&)>;
// `fault` has the case's own seed as well, to draw what else it needs.
using SeededFaultOf = std::function<std::string(const RandomJob&, std::uint64_t)>;

inline void check_random_programs(int count, const SeededFaultOf& fault) {
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = (std::uint64_t{test_seed()} << 32) + static_cast<std::uint64_t>(i);
    const RandomJob job = random_job(seed);
    if (fault(job, seed).empty()) continue;
    const RandomJob small =
        shrunk(job, [&](const RandomJob& each) { return !fault(each, seed).empty(); });
    const std::string path =
        (std::filesystem::temp_directory_path() / "tandem-random-program.csv").string();
    REQUIRE(write_file(path, to_text(program_of(small))).ok());
    FAIL("TANDEM_SEED=" << test_seed() << ", Program " << i << " " << fault(small, seed)
                        << "; shrunk, it is " << path);
  }
}

// The Program, its messages of sizes up to `most`: those that meet have one size.
inline Program with_bytes(Program program, std::uint64_t seed, Bytes most) {
  for (Body& body : program.bodies) {
    std::vector<std::uint64_t> numbers(body.slots.size());
    for (Op& op : body.ops) {
      if (op.slot < 0) continue;
      const std::uint64_t key = scatter(seed + ++numbers[static_cast<std::size_t>(op.slot)]);
      op.bytes = 1 + static_cast<Bytes>(key % static_cast<std::uint64_t>(most));
    }
  }
  return program;
}

inline Program times_as_long(Program program, Nanoseconds times) {
  for (Body& body : program.bodies)
    for (Op& op : body.ops) op.duration_ns *= times;
  return program;
}

}  // namespace tandem
