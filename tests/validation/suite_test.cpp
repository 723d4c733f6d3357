// Suites: what a row says of a run simulated and measured, and the command that makes rows.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "report/text/suite_table.h"
#include "tests/sandbox.h"
#include "validation/compare/suite.h"

using namespace tandem;

namespace {

constexpr auto kPipeline = static_cast<std::size_t>(GroupKind::Pipeline);

RunResult result(double iteration_s, double compute_s, double exposed_s, double overlap,
                 double bubble = 0.2) {
  RunResult result;
  result.iteration_s = iteration_s;
  result.compute_s = compute_s;
  result.exposed_s[kPipeline] = exposed_s;
  result.overlap_fraction[kPipeline] = overlap;
  result.bubble_fraction = bubble;
  return result;
}

// `own`: what is simulated with its op times; by default what was measured.
Measured measured(const RunResult& result, std::optional<RunResult> own = {}) {
  RealRunResult real;
  real.result = result;
  real.spread.iteration_s = {result.iteration_s, result.iteration_s, result.iteration_s};
  real.spread.bubble_fraction.p50 = result.bubble_fraction;
  return {real, own.value_or(result)};
}

Scenario scenario() {
  Scenario scenario;
  scenario.axes = {"order"};
  scenario.points = {"1f1b"};
  return scenario;
}

// Two stages, two microbatches, transfers of 1 ms.
constexpr const char* kSuite = R"([parallel]
pp = 2
global_batch = 2
[costs]
source = "uniform"
forward_s = 0.004
backward_s = 0.008
p2p_s = 0.001
[validate]
iteration_percent = 90
communicating_percent = 90
bubble_points = 90
overlap_points = 100
[matrix]
schedule.order = ["1f1b", "gpipe"]
)";

}  // namespace

TEST_CASE("a row's errors are simulated over measured, less 1, and differences of fractions") {
  const SuiteRow row = suite_row(scenario(), result(0.985, 0.6, 0.2, 0.5, 0.19),
                                 measured(result(1, 0.6, 0.2, 0.52, 0.2)));
  CHECK(row.iteration_error() == Approx(-0.015));
  CHECK(row.simulated_bubble == 0.19);
  CHECK(row.measured_bubble == 0.2);
  CHECK(row.simulated_overlap == 0.5);
  CHECK(row.measured_overlap == 0.52);
  CHECK(!row.ratio_error());
  CHECK(!row.communicates);
  CHECK(row.faults.empty());
}

TEST_CASE("a row may differ by more where communication takes longer than compute") {
  const auto row_of = [](double compute_s) {
    return suite_row(scenario(), result(0.97, compute_s, 0.4, 0.5),
                     measured(result(1, compute_s, 0.4, 0.5)));
  };
  CHECK(row_of(0.5).faults == Names{"iteration differs by -3.00 %, expected at most 2"});
  CHECK(row_of(0.3).communicates);
  CHECK(row_of(0.3).faults.empty());
}

TEST_CASE("a row's ratio is that of the iteration to its baseline's") {
  // Simulated 2 s against a baseline of 1 s, measured 2.2 s against 1 s: 2 / 2.2 - 1.
  RunResult simulated = result(2, 1.6, 0.2, 0.5), real = result(2.2, 1.6, 0.2, 0.5);
  simulated.saving = Saving{"DGX-like", -1};
  real.saving = Saving{"DGX-like", -1.2};
  const SuiteRow row = suite_row(scenario(), simulated, measured(real));
  CHECK(row.simulated_ratio.value() == Approx(2));
  CHECK(row.measured_ratio.value() == Approx(2.2));
  CHECK(row.ratio_error().value() == Approx(2 / 2.2 - 1));
}

TEST_CASE("overlap and bubble that differ by too many points are faults") {
  const SuiteRow row =
      suite_row(scenario(), result(1, 0.6, 0.1, 0.5, 0.2), measured(result(1, 0.6, 0.1, 0.4, 0.3)));
  CHECK(row.faults == Names{"bubble differs by -10.00 points, expected at most 2",
                            "overlap differs by +10.00 points, expected at most 3"});
  CHECK(suite_table({row}).find("1f1b: bubble differs by -10.00 points") != std::string::npos);
}

TEST_CASE("what the measured op times come to may differ by what the suite says, if it does") {
  // 0.97 s against 1 s: -3 %; bubbles 0.26 and 0.2; overlaps 0.4 and 0.5.
  const Measured real = measured(result(1, 0.6, 0.1, 0.5, 0.2), result(0.97, 0.6, 0.1, 0.4, 0.26));
  Scenario suite = scenario();
  const SuiteRow row = suite_row(suite, result(1, 0.6, 0.1, 0.5, 0.2), real);
  CHECK(row.own_iteration_error() == Approx(-0.03));
  CHECK(row.own_bubble_difference == Approx(0.06));
  CHECK(row.own_overlap_difference.value() == Approx(-0.1));
  CHECK(row.faults.empty());
  suite.measurement.own_iteration_percent = 2;
  suite.measurement.own_bubble_points = 2;
  suite.measurement.own_overlap_points = 3;
  CHECK(suite_row(suite, result(1, 0.6, 0.1, 0.5, 0.2), real).faults ==
        Names{"iteration with its own op times differs by -3.00 %, expected at most 2",
              "bubble with its own op times differs by +6.00 points, expected at most 2",
              "overlap with its own op times differs by -10.00 points, expected at most 3"});
}

TEST_CASE("validate measures every run of a suite, and writes table, CSV and page") {
  const Sandbox box;
  box.file("suite.toml", kSuite);
  const Ran ran = box.tandem("validate suite.toml --iterations 3 --csv s.csv --page s.md");
  check_done(ran);
  CHECK(std::ranges::count(ran.out, '\n') == 3);
  CHECK(std::ranges::count(box.read("s.csv"), '\n') == 3);
  CHECK(box.read("s.csv").starts_with("schedule.order,simulated_s,measured_s,"));
  CHECK(box.read("s.md").starts_with("# suite\n\n| schedule.order | sim. ms |"));

  const auto json = nlohmann::json::parse(box.tandem("validate suite.toml --json").out);
  REQUIRE(json.size() == 2);
  // (p + m - 1) (F + B), and three transfers that nothing hides.
  CHECK(json[0].at("simulated_s").get<double>() == Approx(3 * 0.012 + 0.003));
  CHECK(json[0].at("measured_s").get<double>() > 3 * 0.012 + 0.003);
  CHECK(json[0].at("faults").empty());
  // All transfers wait for their receivers: their own times make the iteration again.
  CHECK(json[0].at("own_iteration_error").get<double>() == Approx(0).margin(0.02));
}

TEST_CASE("validate fails where a run differs by more than it may, and says by how much") {
  const Sandbox box;
  box.file("suite.toml", kSuite);
  const Ran ran =
      box.tandem("validate suite.toml --only 1f1b --set validate.iteration_percent=1e-9");
  CHECK(ran.status == 1);
  CHECK(ran.out.find("1f1b: iteration differs by -") != std::string::npos);
  CHECK(ran.err == "found 1 of 1 runs that differ by more than they may\n");
}

TEST_CASE("what a launcher cannot do is said") {
  const Sandbox box;
  box.file("suite.toml", kSuite);
  const auto launched = [&](const std::string& words) {
    return box.tandem(
        "validate suite.toml --only 1f1b --set validate.backend=mpi --set "
        "'validate.launch=\"" +
        words + "\"'");
  };
  CHECK(launched("exit 77;").status == 3);
  CHECK(launched("exit 77;").err == "schedule.order=1f1b: this machine cannot run it\n");
  CHECK(launched("exit 5;").status == 1);
  check_refused(launched("run {nodes}"),
                "schedule.order=1f1b: --set: validate.launch: found '{nodes}', expected {preset}");
}
