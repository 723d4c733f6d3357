// tandem run: what it prints, the files it leaves, its exit statuses.
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

std::string one_line(const Ran& ran) {
  CHECK(ran.out.empty());
  CHECK(std::ranges::count(ran.err, '\n') == 1);
  return ran.err;
}

}  // namespace

TEST_CASE("run plays a scenario, says what was real, and leaves the median iteration's trace") {
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  const Ran ran = sandbox.tandem("run two.toml --iterations 3 --trace t.csv --perfetto t.json");
  CHECK(ran.err.empty());
  CHECK(ran.status == 0);
  for (const char* text : {"iteration s", "host: measured: ", "emulated-compute: ",
                           "emulated-link: ", "Of 3 iterations (p5, p50, p95): ",
                           // 8 receives, 3 iterations and a warm-up
                           "32 payloads checked"})
    CHECK(ran.out.find(text) != std::string::npos);
  // 8 + 8 computes and 4 + 4 transfers, 3 iterations.
  const std::regex host(
      "\\d+ cores?, a load of \\d+\\.\\d\\d before; 95 % of 72 wake-ups were at most "
      "\\d+\\.\\d{3} ms late, all together \\d+\\.\\d\\d %"
      "(: unreliable, times may be too long by as much)?\\.\n");
  CHECK(std::regex_search(ran.out, host));
  CHECK(sandbox.files() == Names{"t.csv", "t.json", "two.toml"});
  const std::string trace = sandbox.read("t.csv");
  CHECK(trace.starts_with("# program: "));
  for (const char* line : {"# backend: host\n", "# real: measured: ", "# complete: yes\n",
                           "# ranks: 2 of 2\n", " of 3\n"})
    CHECK(trace.find(line) != std::string::npos);
  // What was run, a split a rank, the columns; two ranks of four forwards and four backwards, and
  // sixteen ends of transfers.
  CHECK(std::ranges::count(trace, '\n') == 7 + 2 + 1 + 2 * 8 + 16);
}

TEST_CASE("run's JSON is simulate's object with what was real and the spread") {
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  const Json real = Json::parse(sandbox.tandem("run two.toml --iterations 3 --json").out);
  const Json simulated = Json::parse(sandbox.tandem("simulate two.toml --engine ideal --json").out);
  REQUIRE(real.size() == 1);
  for (const auto& [key, value] : simulated[0].items()) {
    INFO(key);
    CHECK(real[0].contains(key));
  }
  const Json& run = real[0];
  CHECK(run["engine"] == "host");
  CHECK(run["backend"] == "host");
  CHECK(run["real"].get<std::string>().starts_with("measured: "));
  CHECK(run["iterations"] == 3);
  CHECK(run["payloads_checked"] == 32);
  CHECK(run["op_times"].empty());
  const Json& host = run["host"];
  CHECK(host["cores"] >= 1);
  CHECK(host["load"] >= 0);
  CHECK(host["late_p95_s"] >= 0);
  CHECK(host["unreliable"] == (host["late_share"] > 0.01));
  CHECK(run["ops"] == simulated[0]["ops"]);
  CHECK(run["iteration_s"] >= simulated[0]["iteration_s"]);
  const Json& spread = run["spread"]["iteration_s"];
  CHECK(spread["p5"] <= spread["p50"]);
  CHECK(spread["p50"] <= spread["p95"]);
  CHECK(spread["p50"] == run["iteration_s"]);
  CHECK(run["spread"]["bubble_fraction"].contains("p95"));
}

TEST_CASE("run plays a Program file, and draws it") {
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  sandbox.file("two.csv", sandbox.tandem("schedule two.toml --format program").out);
  const Ran ran = sandbox.tandem("run two.csv --iterations 1 --warmup 0 --plot t.svg --json");
  CHECK(ran.status == 0);
  CHECK(Json::parse(ran.out)[0]["cluster"] == "as priced");
  CHECK(sandbox.read("t.svg").find("<svg") != std::string::npos);
}

TEST_CASE("run multiplies the matrices of a model, and tells each kind's times") {
  const Sandbox sandbox;
  sandbox.file("small.toml", kTinyModel);
  const std::string command = "run small.toml --compute gemm --gemm-scale 0.5 --iterations 2";
  const Ran ran = sandbox.tandem(command);
  if (ran.status == 3) {
    WARN("skipped: " << ran.err);
    return;
  }
  CHECK(ran.status == 0);
  static const std::regex kHead("kind +stage +count +p5 ms +p50 ms +p95 ms\n");
  CHECK(std::regex_search(ran.out, kHead));
  CHECK(ran.out.find("matrix products of 0.5 times the sizes") != std::string::npos);
  const Json run = Json::parse(sandbox.tandem(command + " --json").out)[0];
  REQUIRE(!run["op_times"].empty());
  for (const Json& times : run["op_times"]) {
    CHECK(times["count"] > 0);
    CHECK(times["p5_s"] > 0);
    CHECK(times["p5_s"] <= times["p95_s"]);
  }
}

TEST_CASE("a run that fails says why in one line, with status 1, and leaves its partial trace") {
  const Sandbox sandbox;
  sandbox.file("small.toml", kTinyModel);
  const Ran ran = sandbox.tandem(
      "run small.toml --compute gemm --gemm-scale 4 --set model.seq=512 --timeout 1e-6 "
      "--trace t.csv");
  if (ran.status == 3) {
    WARN("skipped: " << ran.err);
    return;
  }
  CHECK(ran.status == 1);
  CHECK(one_line(ran).starts_with("no op ended within 1e-06 s: rank "));
  CHECK(sandbox.read("t.csv").find("# complete: no\n") != std::string::npos);
}

TEST_CASE("what run cannot do is one line: 2 for bad input, 3 for what is missing") {
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  sandbox.file("many.toml", kTwoStages + "[matrix]\n\"parallel.global_batch\" = [4, 8]\n");
  const auto fails = [&](const std::string& arguments, int status, const std::string& message) {
    INFO(arguments);
    const Ran ran = sandbox.tandem("run " + arguments);
    CHECK(ran.status == status);
    const std::string error = one_line(ran);
    INFO(error);
    CHECK(error.find(message) != std::string::npos);
  };
  fails("two.toml --compute gemm", 2,
        "two.toml:5: found forward 0 of stage 0 (lane compute) without a kernel");
  fails("many.toml", 2, "many.toml: found 2 runs such as ");
  fails("many.toml --only nothing", 2, "nothing");
  fails("none.toml", 2, "none.toml");
  fails("none.csv", 2, "none.csv");
  fails("two.toml --iterations 0", 2, "--iterations");
  fails("two.toml --timeout 0", 2, "--timeout");
  fails("two.toml --backend tpu", 2, "--backend");
  fails("two.toml --set train.nothing=1", 2, "train.nothing");
  fails("two.toml --trace no/where.csv", 2, "no/where.csv");
  CHECK(sandbox.files() == Names{"many.toml", "two.toml"});
}

TEST_CASE("what is asked for in vain is refused before anything runs") {
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  check_done(sandbox.tandem("schedule two.toml --format program"));
  sandbox.file("two.csv", sandbox.tandem("schedule two.toml --format program").out);
  check_refused(sandbox.tandem("run two.csv --set parallel.pp=4"),
                "two.csv: found --set, expected it with a SCENARIO.toml only");
  check_refused(sandbox.tandem("simulate two.csv --only 1f1b"),
                "two.csv: found --only, expected it with a SCENARIO.toml only");
  check_refused(sandbox.tandem("run two.toml --gemm-scale 0.5"),
                "found --gemm-scale, expected --compute gemm with it");
  check_refused(sandbox.tandem("run two.toml --timeout nan"), "--timeout");
  check_refused(sandbox.tandem("run two.toml --trace nowhere/t.csv"), "nowhere/t.csv");
  CHECK(sandbox.files() == Names{"two.csv", "two.toml"});
}
