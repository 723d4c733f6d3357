// tandem schedule: orders made for what a run's stages took (--op-times), and explained.
#include <nlohmann/json.hpp>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

// Four ranks of a stage each, eight microbatches.
const std::string kFour = R"([parallel]
pp = 4
vpp = 1
global_batch = 8
[costs]
source = "uniform"
forward_s = 2e-3
input_s = 2e-3
weight_s = 1e-3
p2p_s = 1e-4
[schedule]
budget = 300
)";
// Of a rank's activations, three.
const std::string kAuto = " --set schedule.order=auto --set schedule.memory_limit=3";
// A machine whose second stage takes twice as long as its price says.
const std::string kSlow =
    " --set variability.straggler_stages=[1] --set variability.straggler_factor=2";

double iteration_s(const Sandbox& sandbox, const std::string& order) {
  const Ran ran = sandbox.tandem("simulate four.toml --engine ideal --json" + kSlow +
                                 " --set schedule.order=" + order);
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  return Json::parse(ran.out).at(0)["iteration_s"];
}

}  // namespace

TEST_CASE("an order that is made for a run's times is faster there than one made for the prices") {
  const Sandbox sandbox;
  sandbox.file("four.toml", kFour);
  REQUIRE(sandbox
              .tandem("simulate four.toml --engine ideal --trace slow.csv --set "
                      "schedule.order=zb1p" +
                      kSlow)
              .status == 0);
  const std::string schedule = "schedule four.toml --format pytorch" + kAuto;
  const Ran measured = sandbox.tandem(schedule + " --op-times slow.csv");
  INFO(measured.err);
  REQUIRE(measured.status == 0);
  sandbox.file("measured.csv", measured.out);
  sandbox.file("priced.csv", sandbox.tandem(schedule).out);
  const double made = iteration_s(sandbox, "measured.csv");
  CHECK(made < 0.95 * iteration_s(sandbox, "priced.csv"));
  CHECK(made < iteration_s(sandbox, "zb1p --set schedule.memory_limit=3"));
  // The same trace gives the same order.
  CHECK(sandbox.tandem(schedule + " --op-times slow.csv").out == measured.out);
}

TEST_CASE("an order that is made for a run's times is explained by them") {
  // Stage 1 works 8 x 10 ms, the other three 8 x 5 ms: 50 ms in the mean.
  const Sandbox sandbox;
  sandbox.file("four.toml", kFour);
  // Of DualPipe the trace has two chains of the four stages.
  for (const char* order : {"1f1b", "dualpipe"}) {
    REQUIRE(sandbox
                .tandem(fmt::format("simulate four.toml --engine ideal --trace slow.csv --set "
                                    "schedule.order={}{}",
                                    order, kSlow))
                .status == 0);
    const Ran ran =
        sandbox.tandem("schedule four.toml --explain --wide --op-times slow.csv" + kAuto);
    INFO(order << ran.err << ran.out);
    REQUIRE(ran.status == 0);
    const auto has = [&](const char* text) { return ran.out.find(text) != std::string::npos; };
    CHECK(has("the mean rank works 0.05 s"));
    CHECK(has("rank 1 works 1.6 times as long as the mean rank"));
    CHECK(has("Its stages take what they took in slow.csv."));
    CHECK_FALSE(has("The whole iteration"));
  }
}

TEST_CASE("a real run's trace makes an order that plays") {
  const Sandbox sandbox;
  sandbox.file("four.toml", kFour);
  REQUIRE(sandbox.tandem("run four.toml --set schedule.order=zb1p --iterations 2 --trace real.csv")
              .status == 0);
  const Ran made =
      sandbox.tandem("schedule four.toml --format pytorch --op-times real.csv" + kAuto);
  REQUIRE(made.status == 0);
  sandbox.file("made.csv", made.out);
  CHECK(sandbox.tandem("schedule made.csv").status == 0);
  CHECK(iteration_s(sandbox, "made.csv") > 0);
}

TEST_CASE("an explained order says what the whole iteration takes, data parallelism included") {
  const Sandbox sandbox;
  sandbox.file("four.toml", kFour);
  sandbox.file("model.toml", kTinyModel);
  const std::string replicas = "model.toml --set parallel.dp=2 --set cluster.gpus=4";
  const Ran explained = sandbox.tandem("schedule " + replicas + " --explain --wide");
  INFO(explained.err);
  REQUIRE(explained.status == 0);
  const double seconds =
      Json::parse(sandbox.tandem("simulate " + replicas + " --engine ideal --json").out)
          .at(0)["iteration_s"];
  CHECK(explained.out.find(fmt::format("The whole iteration takes {:.4g} s", seconds)) !=
        std::string::npos);
  CHECK(explained.out.find("gradients and parameters that nothing hides 0 s") == std::string::npos);
}

TEST_CASE("an explained order of stated seconds says what transfers in line with compute add") {
  // Stated seconds have nothing but passes and transfers. 1F1B's are in line, where the parts of
  // the bubble take them beside compute. ZB-H1's are beside it, so nothing is left to say.
  const Sandbox sandbox;
  sandbox.file("four.toml", kFour);
  const std::string four = "four.toml --set schedule.order=";
  const auto explained = [&](const std::string& order) {
    const Ran ran = sandbox.tandem("schedule --explain --wide " + four + order);
    INFO(ran.err);
    CHECK(ran.status == 0);
    return ran.out;
  };
  const auto seconds = [&](const std::string& order) {
    const Ran ran = sandbox.tandem("simulate --engine ideal --json " + four + order);
    REQUIRE(ran.status == 0);
    const double simulated = Json::parse(ran.out).at(0)["iteration_s"];
    return fmt::format("The whole iteration takes {:.4g} s", simulated);
  };
  const std::string in_line = explained("1f1b"), beside = explained("zb1p");
  INFO(in_line << beside);
  CHECK(in_line.find(seconds("1f1b")) != std::string::npos);
  CHECK(in_line.find("+0 s beside") == std::string::npos);
  CHECK(in_line.find("Compute waits for transfers there (overlap.p2p = false)") !=
        std::string::npos);
  CHECK(beside.find(seconds("zb1p") + " on the ideal engine, +0 s beside") != std::string::npos);
  CHECK(beside.find("overlap.p2p") == std::string::npos);
}

TEST_CASE("op times that no order can be made for are refused in one line") {
  const Sandbox sandbox;
  sandbox.file("four.toml", kFour);
  sandbox.file("two.toml", kTwoStages);
  REQUIRE(sandbox.tandem("simulate two.toml --engine ideal --trace two.csv").status == 0);
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    INFO(arguments);
    const Ran ran = sandbox.tandem("schedule " + arguments);
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    CHECK(std::ranges::count(ran.err, '\n') == 1);
    INFO(ran.err);
    CHECK(ran.err.find(message) != std::string::npos);
  };
  refused("four.toml --op-times two.csv" + kAuto,
          "two.csv: found a trace of 2 stages, expected pp x vpp = 4");
  REQUIRE(sandbox
              .tandem("simulate four.toml --engine ideal --trace dual.csv --set "
                      "schedule.order=dualpipe")
              .status == 0);
  refused("four.toml --set parallel.vpp=2 --op-times dual.csv" + kAuto,
          "dual.csv: found a trace of 8 stages in two chains, expected pp x vpp = 8 a chain");
  refused("four.toml --op-times none.csv" + kAuto, "none.csv");
  sandbox.file("part.csv", "# complete: no\n" + sandbox.read("two.csv"));
  refused("four.toml --op-times part.csv" + kAuto,
          "part.csv: found '# complete: no', expected a complete trace");
  refused("four.toml --set schedule.order=zb1p --op-times two.csv",
          "found --op-times with an order that is given");
  refused("--order zb1p --pp 4 --op-times two.csv",
          "found --op-times, expected it with a SCENARIO.toml only");
  refused("four.toml --budget 1", "found --budget with an order that is given");
}

TEST_CASE("a limit of memory is any number above 0, as in scenarios") {
  // Whole activations fit.
  const Sandbox sandbox;
  const std::string zb1p = "schedule --order zb1p --pp 4 --microbatches 8 --memory-limit ";
  const Ran ran = sandbox.tandem(zb1p + "1.5");
  CHECK(ran.status == 0);
  CHECK(ran.out == sandbox.tandem(zb1p + "1").out);
  for (const char* limit : {"0", "nan", "inf", "x"})
    check_refused(sandbox.tandem(zb1p + limit),
                  fmt::format("--memory-limit: found {}, expected a number above 0", limit));
}

TEST_CASE("a module for Primus plays as the order that it was made of") {
  const Sandbox sandbox;
  sandbox.file("four.toml", kFour);
  const Ran made = sandbox.tandem("schedule four.toml --set schedule.order=zb1p --format primus");
  REQUIRE(made.status == 0);
  sandbox.file("made.py", made.out);
  CHECK(sandbox.tandem("schedule made.py").out ==
        sandbox.tandem("schedule four.toml --set schedule.order=zb1p").out);
  CHECK(iteration_s(sandbox, "made.py") == iteration_s(sandbox, "zb1p"));
  check_refused(sandbox.tandem("schedule --order dualpipe --pp 2 --microbatches 4 --format primus"),
                "--format primus: found two chains, expected one");
}
