// tandem bench comm over MPI: two processes on this machine. Skipped, with the reason, where there
// is no MPI.
#include <nlohmann/json.hpp>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

const std::string kTwo =
    "bench comm --backend mpi --cluster shaped-dgx --ranks 2 -b 64K -e 16M -f 256 -n 5 -w 1 ";

}  // namespace

TEST_CASE("bench comm starts its ranks under mpirun, and all sizes and operations are one run") {
  const Sandbox sandbox;
  const Ran ran = sandbox.tandem(kTwo +
                                 "--op all_reduce --op all_gather --op reduce_scatter "
                                 "--op alltoall --op sendrecv --op p2p --pair 1,0 --json "
                                 "--fit F.toml");
  if (ran.status == 3) {
    WARN("skipped: " << ran.err);
    return;
  }
  check_done(ran);
  const Json tables = Json::parse(ran.out);
  REQUIRE(tables.size() == 6);
  for (const Json& table : tables) {
    CHECK(table["backend"] == "mpi");
    REQUIRE(table["rows"].size() == 2);
    for (const Json& row : table["rows"]) {
      CHECK(row["wrong"] == 0);
      CHECK(row["time_us"] > 0);
    }
  }
  CHECK(sandbox.read("F.toml").starts_with("# What operations take alone"));
}
