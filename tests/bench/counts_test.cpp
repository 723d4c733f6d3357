// What docs/bench.md times, counted: ops played, allocations made and instructions executed, which
// nothing else on the machine changes, held against bench/counts.csv.
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/csv.h"
#include "tests/needs.h"
#include "tests/sandbox.h"

using namespace tandem;

namespace {

struct Counts {
  std::int64_t ops = 0;
  std::int64_t allocations = 0;
};

// A command of ./dev bench's folder, the source's; `under`: what counts.
Ran run(const Sandbox& sandbox, const std::string& command, const std::string& under) {
  const std::string in_source =
      std::regex_replace(command, std::regex(" (bench|scenarios)/"), " " TANDEM_SOURCE_DIR "/$1/");
  const Ran ran = sandbox.tandem(in_source, under);
  INFO(command << "\n" << ran.err);
  REQUIRE(ran.status == 0);
  return ran;
}

Counts counted(const std::string& command) {
  const Sandbox sandbox;
  sandbox.file("allocations", std::string(sizeof(std::int64_t), '\0'));
  const Ran ran = run(
      sandbox, command,
      "LD_PRELOAD=" TANDEM_COUNT_ALLOCATIONS " TANDEM_ALLOCATIONS=" + sandbox.path("allocations"));
  Counts counts;
  for (const auto& run : nlohmann::json::parse(ran.out))
    counts.ops += run["ops"].get<std::int64_t>();
  const std::string bytes = sandbox.read("allocations");
  REQUIRE(bytes.size() == sizeof counts.allocations);
  std::memcpy(&counts.allocations, bytes.data(), bytes.size());
  return counts;
}

// By cachegrind, which writes "==PID== I refs: 136,425,229".
double instructions_M(const std::string& command) {
  const Sandbox sandbox;
  run(sandbox, command,
      "valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file=" +
          sandbox.path("log"));
  const std::string log = sandbox.read("log");
  std::smatch found;
  INFO(log);
  REQUIRE(std::regex_search(log, found, std::regex("I +refs: +([0-9,]+)")));
  std::string digits = found[1];
  std::erase(digits, ',');
  return std::stod(digits) / 1e6;
}

// Other compilers and flags make other instructions of the same work.
void need_stored_compiler() {
  const std::string flags = TANDEM_CXX_FLAGS;
  if (flags != "-O3 -DNDEBUG" || __GNUC__ != 12)
    FAIL("skipped: instructions are stored for g++ 12 and -O3 -DNDEBUG, not " << flags);
}

}  // namespace

TEST_CASE("work is what bench/counts.csv has: ops as they are, allocations within a tenth") {
  const auto stored = CsvTable::read(TANDEM_SOURCE_DIR "/bench/counts.csv");
  REQUIRE(stored.ok());
  REQUIRE(stored->size() > 3);
  for (int row = 0; row < stored->size(); ++row) {
    const std::string command(stored->text(row, "command"));
    const Counts counts = counted(command);
    const auto allocations = stored->integer(row, "allocations").value();
    INFO(command << ": " << counts.ops << " ops, " << counts.allocations << " allocations; where "
                 << "that is meant, write it into bench/counts.csv");
    CHECK(counts.ops == stored->integer(row, "ops").value());
    CHECK(counts.allocations > 0);
    CHECK(std::abs(counts.allocations - allocations) * 10 <= allocations);
  }
}

TEST_CASE("instructions are what bench/counts.csv has, within a tenth") {
  need_stored_compiler();
  need_program("valgrind");
  const auto stored = CsvTable::read(TANDEM_SOURCE_DIR "/bench/counts.csv");
  REQUIRE(stored.ok());
  int counted = 0;
  for (int row = 0; row < stored->size(); ++row) {
    const std::string command(stored->text(row, "command"));
    const double instructions = stored->number(row, "instructions_M").value();
    if (instructions == 0) continue;  // it would take minutes
    const double found = instructions_M(command);
    INFO(command << ": " << found << " million instructions; where that is meant, write it into "
                 << "bench/counts.csv");
    CHECK(std::abs(found - instructions) * 10 <= instructions);
    ++counted;
  }
  CHECK(counted > 2);
}
