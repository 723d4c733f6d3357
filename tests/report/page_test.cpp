// Report pages in headless Chromium, as people use them: real events on the page as written, with
// a script of the test in it (tests/page) that tells what it saw.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "base/units.h"
#include "tests/report/page_seen.h"
#include "tests/scenarios/small_scenario.h"

using namespace tandem;

namespace {

using Better = PageColumn::Better;

double width_of(const Json& domain) {
  return domain.at(1).get<double>() - domain.at(0).get<double>();
}

// The longest time between two events of rank 0's compute, in nanoseconds.
std::int64_t widest_gap(const std::string& trace) {
  std::int64_t end = -1, widest = 0;
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("0,compute,")) continue;
    const std::size_t last = line.rfind(','), before = line.rfind(',', last - 1);
    const std::int64_t start = std::stoll(line.substr(before + 1, last - before - 1));
    if (end >= 0) widest = std::max(widest, start - end);
    end = std::stoll(line.substr(last + 1));
  }
  return widest;
}

// 10 to 60 days, cost falling with them but for "H100 slow", which others beat.
PageTable candidates() {
  PageTable table{.title = "Candidates",
                  .columns = {{"node"}, {"days", "d", Better::Less}, {"cost", "M$", Better::Less}},
                  .rows = {{"H100 8x400", 10.0, 40.0},
                           {"H100 4x400", 15.0, 30.0},
                           {"H100 slow", 30.0, 38.0},
                           {"A100", 60.0, 20.0},
                           {"A100 failed", PageCell{}, PageCell{}}},
                  .x = 1,
                  .y = 2};
  table.frontier = frontier_of(table);
  return table;
}

}  // namespace

TEST_CASE("a run's page zooms, searches, filters and selects, and its numbers are the JSON's") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  box.file("job.toml", kSmall);
  const Ran ran = box.tandem("simulate job.toml --json --trace t.csv --report r.html");
  REQUIRE(ran.status == 0);
  const Json result = Json::parse(ran.out).at(0);
  const Json seen = seen_on(box, *chromium, "r.html", "run.js");
  CHECK(seen.at("title") == "How long does an iteration take: job on 8 GPUs? - Tandem");
  CHECK(seen.at("failure") == Json(""));

  double exposed_s = 0;
  for (const auto& [kind, seconds] : result.at("exposed_s").items())
    exposed_s += seconds.get<double>();
  const Json numbers = {{"Iteration", result.at("iteration_s")},
                        {"Tokens", result.at("tokens_per_s")},
                        {"Model rate", result.at("model_tflops_per_gpu")},
                        {"MFU", result.at("mfu")},
                        {"Compute", result.at("compute_s")},
                        {"Bubble", result.at("bubble_fraction")},
                        {"Memory, fullest GPU", result.at("memory_bytes").at("total")}};
  for (const auto& [name, value] : numbers.items()) {
    INFO(name);
    CHECK(seen.at("numbers").at(name) == value);
  }
  CHECK(seen.at("numbers").at("Exposed communication").get<double>() == Approx(exposed_s));
  const Json& memory = result.at("memory_bytes");
  const double outside = memory.at("outside");
  const double usable = memory.at("capacity").get<double>() - outside;
  // In GiB, as the tables have it.
  CHECK(seen.at("memoryText")
            .get<std::string>()
            .find(fmt::format(" of {:.2f} GiB, beside {:.3f} GiB of CUDA", usable / GiB,
                              outside / GiB)) != std::string::npos);
  CHECK(seen.at("memoryNote") == Json{memory.at("total"), usable, outside});

  const double whole = width_of(seen.at("whole"));
  CHECK(seen.at("whole").at(0) == 0);
  CHECK(1e-9 * whole == Approx(result.at("iteration_s").get<double>()));
  // Ctrl + wheel zooms about the pointer, a quarter into the plot.
  const double wheeled = width_of(seen.at("wheeled"));
  CHECK(wheeled < 0.7 * whole);
  CHECK(seen.at("wheeled").at(0).get<double>() + wheeled / 4 == Approx(whole / 4));
  CHECK(seen.at("scrolled") == seen.at("wheeled"));
  CHECK(width_of(seen.at("pressed")) == Approx(wheeled / 1.5));
  CHECK(width_of(seen.at("panned")) == Approx(width_of(seen.at("pressed"))));
  CHECK(seen.at("panned").at(0).get<double>() > seen.at("pressed").at(0).get<double>());
  CHECK(seen.at("reset") == seen.at("whole"));
  CHECK(width_of(seen.at("brushed")) == Approx(whole / 4).epsilon(0.02));

  // The forwards of microbatch 3 in the trace.
  int forwards = 0;
  std::istringstream lines(box.read("t.csv"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(",compute,") != std::string::npos && line.find(",forward,") != std::string::npos)
      forwards += line.find(",3,", line.find(",forward,") + 9) ==
                  line.find(',', line.find(",forward,") + 9);
  }
  CHECK(forwards > 0);
  CHECK(seen.at("found").get<std::string>().starts_with(fmt::format("{} of ", forwards)));
  CHECK(seen.at("match") == "Forward 3");
  const auto selected = seen.at("selected").get<std::string>();
  for (const char* word : {"Forward 0", "Rank", "Stage", "Microbatch", "Start", "Duration"}) {
    INFO(word);
    CHECK(selected.find(word) != std::string::npos);
  }
  CHECK(seen.at("selectedNext") != seen.at("selected"));
  CHECK(seen.at("tip").get<std::string>().find("Duration") != std::string::npos);
  const Json& gap = seen.at("gap");
  INFO(gap);
  CHECK(gap.at("ns") == widest_gap(box.read("t.csv")));
  CHECK(gap.at("tip").get<std::string>().starts_with("Idle "));
  for (const char* word : {"Rank0", "From", "To", "Meanwhile"})
    CHECK(gap.at("tip").get<std::string>().find(word) != std::string::npos);

  CHECK(seen.at("legend") ==
        Json({"forward", "backward", "optimizer", "tensor", "pipeline", "data"}));
  CHECK(seen.at("rectangles") > 20);
  CHECK(seen.at("rectanglesOfNone") == 0);
  CHECK(seen.at("rectanglesAgain") == seen.at("rectangles"));
  CHECK(seen.at("rowsOfCompute") == 2);
  CHECK(seen.at("rowsOfAll") > 4);

  // The canvas is painted in the theme's own paper.
  CHECK(seen.at("light").at(0) == seen.at("light").at(1));
  CHECK(seen.at("dark").at(0) == seen.at("dark").at(1));
  CHECK(seen.at("dark") != seen.at("light"));
  CHECK(seen.at("splitBars") >= 2 * 3);
  CHECK(seen.at("memoryShown") == true);
}

TEST_CASE("a frame costs by pixels: of 200,000 events at most three rectangles a column and lane") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  // 4 ranks of 2 x 10000 compute ops each, and 3 edges with 10000 transfers each way and 2 ends:
  // 80000 + 120000.
  box.file("job.toml", R"([parallel]
pp = 4
global_batch = 10000
[costs]
source = "uniform"
forward_s = 0.001
backward_s = 0.002
p2p_s = 0.0001
)");
  REQUIRE(box.tandem("simulate job.toml --engine ideal --report r.html").status == 0);
  const Json seen = seen_on(box, *chromium, "r.html", "crowd.js");
  CHECK(seen.at("events") >= 200000);
  // In the steady state a rank computes a forward of 1 ms and a backward of 2 ms in turn: of 1000
  // columns a third and two thirds, each to half of one of eight levels.
  const Json& heights = seen.at("heights");
  CHECK(heights.at("forward").get<double>() == Approx(1000 / 3.0).margin(1000 / 16.0));
  CHECK(heights.at("backward").get<double>() == Approx(2000 / 3.0).margin(1000 / 16.0));
  for (const Json& frame : seen.at("frames")) {
    INFO(frame);
    CHECK(frame.at("rectangles").get<double>() <=
          3 * frame.at("plot").get<double>() * frame.at("rows").get<double>());
    CHECK(frame.at("rectangles") > 0);
    CHECK(frame.at("labels").get<double>() <=
          frame.at("plot").get<double>() / 14 * frame.at("rows").get<double>());
  }
}

TEST_CASE("a comparison's page has both runs' lanes one below the other, and compare's numbers") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  box.file("job.toml", kSmall);
  for (const char* engine : {"ideal", "simgrid"})
    REQUIRE(
        box.tandem(fmt::format("simulate job.toml --unfolded --engine {0} --trace {0}.csv", engine))
            .status == 0);
  const Ran ran = box.tandem("compare ideal.csv simgrid.csv --json --report r.html");
  REQUIRE(ran.status == 0);
  const Json comparison = Json::parse(ran.out);
  const Json seen = seen_on(box, *chromium, "r.html", "comparison.js");
  const auto lanes = seen.at("lanes").get<std::vector<std::string>>();
  REQUIRE(lanes.size() >= 4);
  REQUIRE(lanes.size() % 2 == 0);
  for (std::size_t i = 0; i < lanes.size(); i += 2) {
    const std::string lane = lanes[i].substr(0, lanes[i].rfind(' '));
    CHECK(lanes[i] == lane + " simulated");
    CHECK(lanes[i + 1] == lane + " measured");
  }
  // The first two rows: simulated, measured, their difference.
  const auto values = seen.at("values").get<std::vector<double>>();
  REQUIRE(values.size() >= 9);
  const Json &a = comparison.at("simulated"), &b = comparison.at("measured");
  CHECK(values[0] == a.at("iteration_s"));
  CHECK(values[1] == b.at("iteration_s"));
  CHECK(values[3] == a.at("compute_s"));
  CHECK(values[6] == a.at("bubble_fraction"));
  CHECK(values[8] == comparison.at("bubble_difference"));
  CHECK(seen.at("splitRows") == 4);  // two ranks, each of two runs
}

TEST_CASE("a table's page shows the frontier, and filters rows by text and along its axes") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  REQUIRE(write_html_page({.title = "Purchase", .table = candidates()}, box.path("r.html")).ok());
  const Json seen = seen_on(box, *chromium, "r.html", "table.js");
  CHECK(seen.at("all").size() == 5);
  CHECK(seen.at("points") == 4);  // the failed one has no place
  CHECK(seen.at("onFrontier") == 3);
  CHECK(seen.at("cheap") == Json({"A100"}));
  CHECK(seen.at("a100") == Json({"A100", "A100 failed"}));
  // Six tenths of 20 to 40: up to 32.
  CHECK(seen.at("brushed") == Json({"H100 4x400", "A100"}));
  CHECK(seen.at("brushedCount") == "2 of 5 rows");
  CHECK(seen.at("sorted") ==
        Json({"A100", "H100 4x400", "H100 slow", "H100 8x400", "A100 failed"}));
  CHECK(seen.at("pointsElsewhere") == 4);
}

TEST_CASE("a table's filter reads numbers as cells show them, and says what it leaves out") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  const PageTable table{
      .title = "Runs",
      .columns = {{"run"},
                  {"parallel.tp"},
                  {"tokens", "1/s", Better::More},
                  {"tokens a GPU", "1/s", Better::More},
                  {"MFU", "share", Better::More},
                  {"memory", "bytes", Better::Less},
                  {"iteration", "s", Better::Less},
                  {"days p50", "d", Better::Less},
                  {"days p95", "d", Better::Less},
                  {"fits"}},
      .rows = {{"a", 1.0, 251'000.3, 15'000.0, 0.0992, 23 * GiB, 0.13, 5.0, 8.0, "yes"},
               {"b", 16.0, 200'000.4, 12'000.0, 0.035, 9 * GiB, 0.2, 9.0, 12.0, "if unfragmented"},
               {"c", 2.0, 98'062.0, 6'000.0, 0.35, 2 * GiB, 0.33, 20.0, 30.0, "NO"},
               {"d", 3.0, {}, {}, {}, {}, {}, {}, {}, {}}},
      .x = 5,
      .y = 6};
  REQUIRE(write_html_page({.title = "Runs", .table = table}, box.path("r.html")).ok());
  const Json seen = seen_on(box, *chromium, "r.html", "filter.js");
  // The cell of b shows 200,000 tokens, which is not more than that.
  CHECK(seen.at("rows") == Json({{"tokens > 200,000", "a"},
                                 {"tokens >= 200,000", "a b"},
                                 {"tokens < 100k", "c"},
                                 {"MFU > 9", "a c"},
                                 {"mfu < 9 %, tokens > 100,000", "b"},
                                 {"memory < 10", "b c"},
                                 {"memory < 10 GiB and tp = 2", "c"},
                                 {"memory > 10240 MiB", "a"},
                                 {"iteration < 250 ms", "a b"},
                                 {"days p95 < 10 days", "a"},
                                 {"tp=1", "a"},
                                 {"251,000", "a"},
                                 {"unfragmented", "b"},
                                 {"fits = no", "c"},
                                 {"days < 10", "a b c d"},
                                 {"nosuch < 5", "a b c d"},
                                 {"tokens > abc, tp = 1", "a"},
                                 {"fits < 5", "a b c d"}}));
  std::map<std::string, std::string> left_out = seen.at("leftOut");
  std::erase_if(left_out, [](const auto& said) { return said.second.empty(); });
  CHECK(left_out ==
        std::map<std::string, std::string>{
            {"days < 10", "\"days < 10\" is left out: it may mean days p50 or days p95."},
            {"nosuch < 5", "\"nosuch < 5\" is left out: no column begins with \"nosuch\"."},
            {"tokens > abc, tp = 1",
             "\"tokens > abc\" is left out: expected a value such as 251,000 1/s, "
             "found \"abc\"."},
            {"fits < 5", "\"fits < 5\" is left out: the column has no numbers."}});
}

TEST_CASE("a page shows the cluster whose links are listed, and of others nothing") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  box.file("job.toml", kSmall);
  REQUIRE(box.tandem("simulate job.toml --report job.html").status == 0);
  CHECK(seen_on(box, *chromium, "job.html", "cluster.js").at("hidden") == true);
  REQUIRE(box.tandem("simulate " TANDEM_SOURCE_DIR
                     "/scenarios/torus.toml --engine ideal --report torus.html")
              .status == 0);
  const Json seen = seen_on(box, *chromium, "torus.html", "cluster.js");
  CHECK(seen.at("failure").get<std::string>().empty());
  CHECK(seen.at("hidden") == false);
  CHECK(seen.at("width") > 300);
  CHECK(seen.at("height") > 200);
  CHECK(seen.at("switches") > 0);
  CHECK(seen.at("links") > 0);
  CHECK(seen.at("outside") == 0);
  const Json& texts = seen.at("texts");
  CHECK(std::ranges::find(texts, Json("inside of n0")) != texts.end());
}

TEST_CASE("a page of several runs says of each what it saves, its interval, whether it fits") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  // Both runs have the same warnings: each stands once below the table.
  box.file("job.toml", kSmall + R"([report]
note = "Two ways to hold the optimizer."
baseline = "whole"
kind = "data"
[[matrix.optimizer]]
name = "whole"
train.zero = 0
[[matrix.optimizer]]
name = "shared"
train.zero = 1
)");
  const auto simulated = [&](const std::string& more) {
    const Ran ran = box.tandem("simulate job.toml --json --report r.html" + more);
    REQUIRE(ran.status == 0);
    return Json::parse(ran.out);
  };
  // Half of what the allocator may waste is left in the whole optimizer's run.
  const Json memory = simulated("").at(0).at("memory_bytes");
  const auto bytes = [&](const char* key) { return memory.at(key).get<double>(); };
  const Json runs = simulated(
      fmt::format(" --set cluster.memory_GiB={}",
                  (bytes("total") + bytes("outside") + bytes("fragmentation") / 2) / GiB));
  const Json seen = seen_on(box, *chromium, "r.html", "runs.js");
  CHECK(seen.at("noteShown") == true);
  CHECK(seen.at("note") == "Two ways to hold the optimizer.");
  const auto columns = seen.at("columns").get<Names>();
  const auto cell = [&](std::size_t row, const std::string& name) {
    const auto at = std::ranges::find(columns, name);
    REQUIRE(at != columns.end());
    return seen.at("rows").at(row).at(at - columns.begin()).get<std::string>();
  };
  CHECK(cell(0, "Fits").starts_with("if unfragmented +"));
  for (std::size_t row = 0; row < 2; ++row)
    CHECK(cell(row, "Fits") == fmt::format("{} {:+.1f}", runs[row].at("verdict").get<std::string>(),
                                           runs[row].at("spare_bytes").get<double>() / GiB));
  CHECK(cell(0, "90 of 100 within").find(" to ") != std::string::npos);
  CHECK(cell(0, "Saved") == "-");
  CHECK(cell(1, "Saved").ends_with("against whole"));
  Names figures = seen.at("figures"), second = seen.at("figuresOfSecond");
  // 4.405 %: a tenth of a percent is rounded up.
  const double above =
      runs[1].at("iteration_s").get<double>() / runs[1].at("lower_bound_s").get<double>() - 1;
  CHECK(seen.at("iterationOfSecond")
            .get<std::string>()
            .ends_with(
                fmt::format("at most {:.1f} % above the best possible with this layout and memory",
                            std::ceil(1000 * above - 1e-6) / 10)));
  CHECK(std::ranges::find(figures, "Saved") == figures.end());
  CHECK(std::ranges::find(second, "Saved") != second.end());
  CHECK(seen.at("warnings").size() == (runs[0].at("warnings").empty() ? 0u : 1u));
  CHECK(seen.at("warningsOfSecond").size() == runs[1].at("warnings").size());
}

TEST_CASE("a page of several orders draws them on one time axis, aligned by a microbatch") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  std::string text = kTwoStages;
  for (const char* order : {"1f1b", "gpipe", "zb1p"})
    text += fmt::format("[[variant]]\nname = \"{0}\"\nschedule.order = \"{0}\"\n", order);
  box.file("orders.toml", text);
  REQUIRE(box.tandem("simulate orders.toml --report r.html").status == 0);
  const Json seen = seen_on(box, *chromium, "r.html", "beside.js");
  CHECK(seen.at("rows") == Json({"1f1b", "gpipe", "zb1p"}));
  CHECK(seen.at("starts").at(0) != seen.at("starts").at(1));
  CHECK(seen.at("aligned").at(0) == seen.at("aligned").at(1));
  CHECK(seen.at("aligned").at(1) == seen.at("aligned").at(2));
  CHECK(seen.at("endAligned") > seen.at("end"));
  CHECK(seen.at("told") == seen.at("toldAligned"));  // each event's own time
}

TEST_CASE("capacity is a line, and one plan far beyond it does not squash the others") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  PageTable table{
      .title = "Plans",
      .columns = {{"plan"}, {"memory", "bytes", Better::Less}, {"iteration", "s", Better::Less}},
      .rows = {{"1", 40e9, 3.0},
               {"2", 60e9, 2.0},
               {"3", 78e9, 1.5},
               {"4", 88e9, 1.4},
               {"own", 635e9, 1.0}},
      .x = 1,
      .y = 2,
      .unfit = {3, 4},
      .limit = PageLimit{1, 80e9, "capacity"}};
  table.frontier = frontier_of(table);
  CHECK(table.frontier == std::vector<std::size_t>{0, 1, 2});  // of those that fit
  REQUIRE(write_html_page({.title = "Plans", .table = table}, box.path("r.html")).ok());
  const Json seen = seen_on(box, *chromium, "r.html", "limit.js");
  CHECK(seen.at("beyond") == 1);
  REQUIRE(seen.at("points").size() == 4);
  // The axis ends at 1.15 x 80 = 92 GB: from 40 to 88 GB the points take most of it; up to 635 GB
  // they would take a thirteenth.
  double least = 1e9, most = 0;
  for (const Json& x : seen.at("points")) {
    least = std::min(least, x.get<double>());
    most = std::max(most, x.get<double>());
  }
  CHECK(most - least > 0.6 * seen.at("plot").get<double>());
  REQUIRE(seen.at("lines").size() == 1);
  CHECK(seen.at("lines").at(0) < most);  // 80 GB lies below 88 GB
  CHECK(seen.at("lines").at(0) > least);
  CHECK(seen.at("note") == "1 beyond 85.68 GiB stands at the edge, as triangles: up to 591.4 GiB.");
  CHECK(seen.at("linesElsewhere") == 0);
  CHECK(seen.at("pointsElsewhere") == 5);
}

TEST_CASE("pages lie within the window, wide and narrow") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  box.file("job.toml", kSmall + "[matrix]\n\"parallel.global_batch\" = [8, 16]\n");
  REQUIRE(box.tandem("simulate job.toml --report run.html").status == 0);
  REQUIRE(
      write_html_page({.title = "Purchase", .table = candidates()}, box.path("table.html")).ok());
  for (const char* page : {"run.html", "table.html"}) {
    for (const int width : {1600, 800, 360}) {
      INFO(page << ", " << width << " pixels");
      const Json seen = seen_on(box, *chromium, page, "layout.js", width);
      CHECK(seen.at("width") == width);
      if (width > 1400) CHECK(seen.at("scrolls") == Json::array());
    }
  }
}

TEST_CASE("a page of causes has a step each, from the simulated to the measured iteration") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  const std::string traces = TANDEM_SOURCE_DIR "/validation/gpu/results/h100/traces/";
  const Ran ran = box.tandem(fmt::format(
      "explain {0}job.toml {0}checkpoint.json.gz --engine ideal --report e.html --json", traces));
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  const Json told = Json::parse(ran.out);
  for (const int width : {1280, 390}) {
    const Json seen = seen_on(box, *chromium, "e.html", "explain.js", width);
    INFO(seen.dump(1));
    CHECK(seen.at("problems") == Json::array());
    CHECK(seen.at("overflow") <= 0);
    CHECK(seen.at("answer").get<std::string>().find(
              "All of it: copies between GPU and host hold compute up") != std::string::npos);
    const Json& rows = seen.at("rows");
    std::size_t sums = 0;  // a step each, unless they round to nothing
    for (const char* sum : {"smaller_causes_s", "interactions_s", "not_explained_s"})
      sums += std::abs(told.at(sum).get<double>()) < 1e-8 ? 0 : 1;
    REQUIRE(rows.size() == told.at("causes").size() + sums + 2);
    CHECK(rows.front().at("seconds") == told.at("simulated_s"));
    CHECK(rows.back().at("seconds") == told.at("measured_s"));
    CHECK(rows.at(1).at("seconds").get<double>() ==
          Approx(told.at("causes").at(0).at("alone_s").get<double>()));
    // The first cause stands where the simulated iteration ends.
    CHECK(rows.at(1).at("left").get<double>() ==
          Approx(rows.front().at("right").get<double>()).margin(0.03));
    CHECK(seen.at("ranks") == 1);
    CHECK(seen.at("lanes").size() >= 3);
    CHECK(seen.at("slow") ==
          Json({"0, stage 0", "1, stage 1", "2, stage 2: compute × 1.20", "3, stage 3"}));
  }
}
