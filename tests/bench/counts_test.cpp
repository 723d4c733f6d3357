// What docs/bench.md times, counted: ops played and allocations made, which nothing else on the
// machine changes, held against bench/counts.csv.
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/csv.h"
#include "tests/sandbox.h"

using namespace tandem;

namespace {

struct Counts {
  std::int64_t ops = 0;
  std::int64_t allocations = 0;
};

// `command`: of ./dev bench's folder, the source's.
Counts counted(const std::string& command) {
  const Sandbox sandbox;
  sandbox.file("allocations", std::string(sizeof(std::int64_t), '\0'));
  const std::string in_source =
      std::regex_replace(command, std::regex(" (bench|scenarios)/"), " " TANDEM_SOURCE_DIR "/$1/");
  const Ran ran =
      sandbox.tandem(in_source, "LD_PRELOAD=" TANDEM_COUNT_ALLOCATIONS " TANDEM_ALLOCATIONS=" +
                                    sandbox.path("allocations"));
  INFO(command << "\n" << ran.err);
  REQUIRE(ran.status == 0);
  Counts counts;
  for (const auto& run : nlohmann::json::parse(ran.out))
    counts.ops += run["ops"].get<std::int64_t>();
  const std::string bytes = sandbox.read("allocations");
  REQUIRE(bytes.size() == sizeof counts.allocations);
  std::memcpy(&counts.allocations, bytes.data(), bytes.size());
  return counts;
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
