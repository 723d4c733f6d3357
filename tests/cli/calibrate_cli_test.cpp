// tandem calibrate device, simulate --costs and --op-times: from a Program to its simulation by
// what was measured.
#include <nlohmann/json.hpp>

#include "schedule/program/program_text.h"
#include "tests/made_program.h"
#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

// Writes tiny.toml and tiny.csv.
void make_program(const Sandbox& sandbox) {
  sandbox.file("tiny.toml", kTinyModel + "[train]\nprecision = \"fp32\"\n");
  const Ran ran = sandbox.tandem("schedule tiny.toml --format program");
  REQUIRE(ran.status == 0);
  sandbox.file("tiny.csv", ran.out);
}

}  // namespace

TEST_CASE("a host's calibration of a Program gives a table that its simulation takes") {
  const Sandbox sandbox;
  make_program(sandbox);
  const Ran ran = sandbox.tandem("calibrate device tiny.csv --iterations 2 -o costs.csv --json");
  if (ran.status == 3) {
    WARN("skipped: " << ran.err);
    return;
  }
  check_done(ran);
  const Json table = Json::parse(ran.out);
  CHECK(table["meta"]["backend"] == "host");
  CHECK(table["meta"]["precision"] == "fp32");
  CHECK(table["meta"]["gemm_scale"] == "1");
  CHECK(table["meta"]["iterations"] == "2");
  std::map<std::string, int> rows;
  for (const Json& row : table["rows"]) {
    ++rows[row["what"]];
    // Two ranks, three repeats, two iterations.
    if (row["what"] == "gemm") CHECK(row["count"] == 12);
    CHECK(row["p50_ns"] > 0);
  }
  for (const char* what : {"gemm", "memory", "kernel", "send"}) CHECK(rows[what] > 0);
  CHECK(sandbox.read("costs.csv").starts_with("# program: 1f1b "));

  const Ran program = sandbox.tandem("simulate tiny.csv --costs costs.csv --json --trace t.csv");
  check_done(program);
  CHECK(Json::parse(program.out)[0]["costs"] == "table costs.csv");
  CHECK(sandbox.read("t.csv").find("\n# costs: table costs.csv\n") != std::string::npos);
  const Ran scenario = sandbox.tandem("simulate tiny.toml --engine ideal --costs costs.csv --json");
  check_done(scenario);
  // Both by the same table: they differ by their transfers alone, which the cluster prices here.
  CHECK(Json::parse(scenario.out)[0]["compute_s"] == Json::parse(program.out)[0]["compute_s"]);
  // In a scenario the path is its own.
  const Ran key = sandbox.tandem(
      "simulate tiny.toml --engine ideal --json --set costs.source=table --set "
      "costs.table=costs.csv");
  check_done(key);
  CHECK(Json::parse(key.out)[0]["iteration_s"] == Json::parse(scenario.out)[0]["iteration_s"]);
}

TEST_CASE("a table of scaled matrices is written, and refused by the simulator") {
  const Sandbox sandbox;
  make_program(sandbox);
  const Ran ran =
      sandbox.tandem("calibrate device tiny.csv --iterations 1 --gemm-scale 0.5 -o c.csv");
  if (ran.status == 3) {
    WARN("skipped: " << ran.err);
    return;
  }
  check_done(ran);
  CHECK(ran.out.starts_with("# program: 1f1b "));
  CHECK(ran.out.find("\nwhat ") != std::string::npos);
  check_refused(sandbox.tandem("simulate tiny.csv --costs c.csv"),
                "c.csv: found '# gemm_scale: 0.5', expected 1");
}

TEST_CASE("simulated with a run's own op times, a trace can be compared with the run's") {
  const Sandbox sandbox;
  make_program(sandbox);
  check_done(sandbox.tandem("run tiny.csv --iterations 1 --trace real.csv"));
  const Ran ran =
      sandbox.tandem("simulate tiny.csv --op-times real.csv --unfolded --trace own.csv --json");
  check_done(ran);
  CHECK(Json::parse(ran.out)[0]["costs"] == "op times of real.csv");
  const Ran compared = sandbox.tandem("compare own.csv real.csv --json");
  check_done(compared);
  // Every op took what it took, and one rank is alone in its class: no op differs.
  CHECK(Json::parse(compared.out)["kinds"]["forward"]["worst_error"] == 0);
}

TEST_CASE("what calibrate and repricing cannot do is one line, and status 2 or 3") {
  const Sandbox sandbox;
  make_program(sandbox);
  const auto refused = [&](const std::string& arguments, const std::string& begin) {
    INFO(arguments);
    check_refused(sandbox.tandem(arguments), begin);
  };
  refused("calibrate", "A subcommand is required");
  refused("calibrate device", "program is required");
  refused("calibrate device none.csv", "none.csv: no such file");
  refused("calibrate device tiny.toml", "tiny.toml: found a scenario, expected a Program: ");
  refused("calibrate device tiny.csv --backend tpu", "--backend: tpu not in ");
  refused("calibrate device tiny.csv --precision int8", "--precision: int8 not in ");
  refused("calibrate device tiny.csv -o no/where.csv", "no/where.csv");
  refused("simulate tiny.csv --costs none.csv", "none.csv: no such file");
  refused("simulate tiny.csv --costs a.csv --op-times b.csv", "--costs excludes --op-times");
  refused("simulate tiny.toml --op-times b.csv",
          "tiny.toml: found --op-times, expected it with a PROGRAM.csv only");
  refused("simulate tiny.toml --costs none.csv", "--set: found costs.table = ");
  check_done(sandbox.tandem("calibrate device tiny.csv --iterations 1 -o costs.csv"));
  refused(
      "simulate tiny.toml --costs costs.csv --set train.precision=fp8 "
      "--set train.flash_attention=true --set train.fp8_attention=true",
      "--set: found train.fp8_attention with costs.source = table, expected one of them");
  sandbox.file("u.csv", to_text(made_program("rank 0: F0 10ns", "u")));
  refused("calibrate device u.csv", "u.csv: found Program u without kernels");
  const Ran cuda =
      sandbox.tandem("calibrate device tiny.csv --backend cuda --share-gpu --iterations 1");
  if (cuda.status != 0) {
    CHECK(cuda.status == 3);
    CHECK(cuda.err.starts_with("cuda backend unavailable: "));
  }
}
