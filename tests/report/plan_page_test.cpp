// The pages of tune and size: their numbers are those of --json, and what Chromium makes of them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tests/report/page_seen.h"
#include "tests/scenarios/small_scenario.h"

using namespace tandem;

namespace {

// Two jobs, each on two kinds of nodes and two numbers of GPUs; on one node the NICs say nothing.
const std::string kPurchase = R"([parallel]
global_batch = 64
[size]
tokens_T = 0.001
days = 0.4
gpus = [8, 16]
[price]
node_kW = 10
node_hour = 10
[[matrix.job]]
name = "small"
model = {layers = 8, hidden = 1024, heads = 16, seq = 1024, vocab = 32000}
[[matrix.job]]
name = "large"
model = {layers = 8, hidden = 2048, heads = 16, seq = 1024, vocab = 32000}
[[matrix.node]]
name = "8 NICs"
cluster = {preset = "dgx-h100"}
[[matrix.node]]
name = "1 NIC"
cluster = {preset = "dgx-h100", nics_per_node = 1}
price = {node_hour = 9}
)";

struct Made {
  Json printed, page;
};

Made made(const Sandbox& box, const std::string& command) {
  const Ran ran = box.tandem(command + " --json --report r.html");
  check_done(ran);
  return {Json::parse(ran.out), data_of(box.read("r.html"))};
}

Made tuned(const Sandbox& box, const std::string& more = "") {
  box.file("job.toml", kSmall);
  return made(box,
              "tune job.toml --engine ideal --keep 3 --among parallel.cp=1 --among "
              "overlap.tensor=off " +
                  more);
}

Made sized(const Sandbox& box, const std::string& more = "") {
  box.file("job.toml", kPurchase);
  return made(box, "size job.toml --engine ideal " + more);
}

std::size_t column(const Json& table, const std::string& name) {
  for (std::size_t i = 0; i < table.at("columns").size(); ++i) {
    if (table.at("columns").at(i).at("name") == name) return i;
  }
  FAIL("no column " << name);
  return 0;
}

const Json& cell(const Json& table, std::size_t row, const std::string& name) {
  return table.at("rows").at(row).at(column(table, name));
}

// The verdict on a result's memory, as tables have it.
std::string verdict_of(const Json& result) {
  return result.at("fits") ? result.at("verdict").get<std::string>() : "NO";
}

// A size or a word, as a scenario has it.
std::string as_text(const Json& cell) {
  return cell.is_number() ? fmt::format("{:g}", cell.get<double>()) : cell.get<std::string>();
}

// By label: "1", "2", ..., "rules", "own".
const Json& plan_of(const Json& printed, const std::string& label) {
  if (printed.contains(label)) return printed.at(label);
  return printed.at("best").at(std::stoul(label) - 1);
}

}  // namespace

TEST_CASE("tune's page has a row a finalist, with the plan and the numbers of --json") {
  const Sandbox box;
  const auto [printed, page] = tuned(box);
  const Json& table = page.at("table");
  REQUIRE(table.at("rows").size() == printed.at("best").size() + 2);
  for (std::size_t row = 0; row < table.at("rows").size(); ++row) {
    const std::string label = cell(table, row, "plan");
    INFO(label);
    const Json& plan = plan_of(printed, label);
    const Json& result = plan.at("simulate");
    CHECK(cell(table, row, "iteration") == result.at("iteration_s"));
    CHECK(cell(table, row, "MFU") == result.at("mfu"));
    CHECK(cell(table, row, "bubble") == result.at("bubble_fraction"));
    CHECK(cell(table, row, "memory") == result.at("memory_bytes").at("total"));
    CHECK(cell(table, row, "fits") == verdict_of(result));
    // An upper bound, so that a tenth of a percent is rounded up.
    const double above =
        result.at("iteration_s").get<double>() / result.at("lower_bound_s").get<double>() - 1;
    CHECK(cell(table, row, "above its bound").get<double>() ==
          Approx(std::ceil(1000 * above - 1e-6) / 1000));
    double exposed = 0;
    for (const Json& seconds : result.at("exposed_s")) exposed += seconds.get<double>();
    CHECK(cell(table, row, "exposed").get<double>() ==
          Approx(exposed / result.at("iteration_s").get<double>()));
    for (const auto& [key, value] : plan.at("plan").items()) {
      const std::string name = key.starts_with("overlap.") ? key : key.substr(key.find('.') + 1);
      for (std::size_t i = 0; i < table.at("columns").size(); ++i) {
        if (table.at("columns").at(i).at("name") != name) continue;
        CHECK(as_text(table.at("rows").at(row).at(i)) == value);
      }
    }
  }
  CHECK(table.at("marks").at(0) == Json({{"row", 0}, {"as", "fastest"}}));
  CHECK(table.at("columns").at(table.at("x").get<std::size_t>()).at("name") == "memory");
  CHECK(table.at("columns").at(table.at("y").get<std::size_t>()).at("name") == "iteration");
}

TEST_CASE("tune's page has the runs of --json, and all their timelines") {
  const Sandbox box;
  const auto [printed, page] = tuned(box);
  Names with_timeline;
  for (const Json& run : page.at("runs")) {
    const std::string name = run.at("name");
    CHECK(run.at("result") == plan_of(printed, name).at("simulate"));
    const Json& timeline = run.at("detail").at("timeline");
    if (timeline.is_null()) continue;
    with_timeline.push_back(name);
    CHECK(1e-9 * timeline.at("end_ns").get<double>() ==
          Approx(run.at("result").at("iteration_s").get<double>()));
  }
  CHECK(with_timeline.size() == page.at("runs").size());
  CHECK(with_timeline.size() > 3);
}

TEST_CASE("a plan that does not fit is on no frontier, and the page says why") {
  const Sandbox box;
  // The scenario's own micro batch of 4 holds more than any plan of 1 that the search keeps.
  const double least = [&] {
    const Json table = tuned(box).page.at("table");
    double most = 0;
    for (std::size_t row = 0; row < table.at("rows").size(); ++row) {
      if (cell(table, row, "plan") != "own")
        most = std::max(most, cell(table, row, "memory").get<double>());
    }
    return most;
  }();
  const Json table =
      tuned(box, fmt::format("--set parallel.tp=1 --set parallel.pp=1 --set parallel.dp=8 --set "
                             "parallel.micro_batch=2 --among parallel.micro_batch=1 --set "
                             "cluster.memory_reserve_GiB=0.1 --set cluster.memory_GiB={}",
                             0.9 * least / (1 << 30)))
          .page.at("table");
  const std::size_t own = table.at("rows").size() - 1;
  REQUIRE(cell(table, own, "plan") == "own");
  CHECK(cell(table, own, "out") == "does not fit into memory");
  CHECK(cell(table, own, "fits") == "NO");
  for (const Json& row : table.at("frontier")) CHECK(row != own);
  CHECK(table.at("unfit").back() == own);
  const Json& limit = table.at("limit");
  CHECK(limit.at("column") == column(table, "memory"));
  CHECK(limit.at("most").get<double>() < cell(table, own, "memory").get<double>());
}

TEST_CASE("size's page has a row a candidate, each job's frontier and what is recommended") {
  const Sandbox box;
  const auto [printed, page] = sized(box);
  const Json& table = page.at("table");
  REQUIRE(table.at("rows").size() == 8);
  CHECK(table.at("group") == 0);
  CHECK(table.at("columns").at(column(table, "cost p95")).at("unit") == "$");
  std::set<std::size_t> frontier, recommended;
  for (const Json& row : table.at("frontier")) frontier.insert(row.get<std::size_t>());
  for (const Json& mark : table.at("marks")) {
    CHECK(mark.at("as") == "recommended");
    recommended.insert(mark.at("row").get<std::size_t>());
  }
  for (std::size_t row = 0; row < 8; ++row) {
    const Json& one = printed.at("sized").at(row);
    const Json& sums = one.at("economics");
    CHECK(cell(table, row, "job") == one.at("job"));
    CHECK(cell(table, row, "candidate") == one.at("candidate"));
    CHECK(cell(table, row, "GPUs") == one.at("gpus"));
    CHECK(cell(table, row, "nodes") == sums.at("nodes"));
    CHECK(cell(table, row, "iteration") == one.at("simulate").at("iteration_s"));
    CHECK(cell(table, row, "MFU") == one.at("simulate").at("mfu"));
    CHECK(cell(table, row, "fits") == verdict_of(one.at("simulate")));
    CHECK(cell(table, row, "spare") == one.at("simulate").at("spare_bytes"));
    CHECK(cell(table, row, "days p50") == sums.at("days_p50"));
    CHECK(cell(table, row, "days p95") == sums.at("days_late"));
    CHECK(cell(table, row, "cost p95") == sums.at("cost"));
    CHECK(cell(table, row, "cost per T tokens") == sums.at("cost_per_T_tokens"));
    CHECK(cell(table, row, "energy") == sums.at("energy_MWh"));
    CHECK(cell(table, row, "goodput") == sums.at("goodput"));
    CHECK(frontier.contains(row) == one.at("frontier"));
  }
  std::set<std::size_t> best;
  for (const Json& machine : printed.at("machines")) {
    if (!machine.at("recommended")) continue;
    for (const Json& job : machine.at("jobs")) best.insert(job.get<std::size_t>());
  }
  CHECK(recommended == best);
  CHECK(recommended.size() == 2);
  const Json& said = page.at("purchase").at("answers");
  for (std::size_t i = 0; i < printed.at("answers").size(); ++i)
    CHECK(said.at(i) ==
          printed.at("answers").at(printed.at("answers").size() - 1 - i).at("sentence"));
  REQUIRE(page.at("runs").size() == 2);
  for (const Json& run : page.at("runs"))
    CHECK(1e-9 * run.at("detail").at("timeline").at("end_ns").get<double>() ==
          Approx(run.at("result").at("iteration_s").get<double>()));
}

TEST_CASE("size's page says why candidates are out, and needs no run where all are") {
  const Sandbox box;
  box.file("job.toml", kPurchase);
  const Ran ran =
      box.tandem("size job.toml --engine ideal --only small --set size.days=0.001 --report r.html");
  CHECK(ran.status == 1);
  const Json page = data_of(box.read("r.html"));
  const Json& table = page.at("table");
  CHECK(table.at("group").is_null());  // one job
  CHECK(table.at("marks").empty());
  CHECK(page.at("runs").empty());
  for (std::size_t row = 0; row < table.at("rows").size(); ++row)
    CHECK(cell(table, row, "out") == "later than 0.001 days");
}

TEST_CASE(
    "a report of tune and size is refused before anything runs where nothing can be written") {
  const Sandbox box;
  box.file("job.toml", kSmall);
  box.file("purchase.toml", kPurchase);
  check_refused(box.tandem("tune job.toml --report none/r.html"), "none/r.html: ");
  check_refused(box.tandem("size purchase.toml --report none/r.html"), "none/r.html: ");
  check_refused(box.tandem("tune job.toml --set model.layer=2 --report r.html"), "--set");
  CHECK(box.files() == Names{"job.toml", "purchase.toml"});
}

TEST_CASE("tune's page marks the fastest plan, and lays other runs' lanes beside it") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  const Json page = tuned(box).page;
  const Json seen = seen_on(box, *chromium, "r.html", "tune.js");
  CHECK(seen.at("failure") == Json(""));
  CHECK(seen.at("points") == page.at("table").at("rows").size());
  CHECK(seen.at("marks") == 2);
  CHECK(seen.at("badges") == Json({"fastest", "the scenario's own"}));
  CHECK(seen.at("title").get<std::string>().starts_with("1: tp "));
  CHECK(seen.at("beside") == Json({"add a run", "2", "3", "rules", "own"}));
  CHECK(seen.at("laneRuns") == Json::array({""}));
  CHECK(seen.at("laneRunsBeside") == Json({"1", "3", "own"}));
  CHECK(seen.at("tableBeside") == Json({"1", "3", "own"}));
  CHECK(seen.at("laneRunsLess") == Json({"1", "own"}));
  CHECK(seen.at("laneRunsOfRules") == Json({"own", "rules"}));
}

TEST_CASE("size's page draws a frontier a job, and shows one job alone") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  sized(box);
  const Json seen = seen_on(box, *chromium, "r.html", "size.js");
  CHECK(seen.at("failure") == Json(""));
  CHECK(seen.at("points") == 8);
  CHECK(seen.at("frontiers") == 2);
  CHECK(seen.at("marks") == 2);
  CHECK(seen.at("groups") == Json({"all", "small", "large"}));
  CHECK(seen.at("count") == "4 of 8 rows");
  CHECK(seen.at("jobs") == Json({"large"}));
  CHECK(seen.at("pointsOfOne") == 4);
  CHECK(seen.at("frontiersOfOne") == 1);
  CHECK(seen.at("marksOfOne") == 1);
  CHECK(seen.at("countAgain") == "8 of 8 rows");
}

TEST_CASE("size's page says what to buy, and its bars lie where their days do") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  const auto [printed, page] = sized(box, "--set size.budget=1000");
  const Json& purchase = page.at("purchase");
  const Json seen = seen_on(box, *chromium, "r.html", "size.js");
  const std::string said = seen.at("said");
  for (const Json& answer : printed.at("answers"))
    CHECK(replaced(said, "\n", " ").find(answer.at("sentence").get<std::string>()) !=
          std::string::npos);
  REQUIRE(seen.at("pictures").size() == 2);
  for (std::size_t job = 0; job < 2; ++job) {
    const Json& picture = seen.at("pictures").at(job);
    const Json &first = picture.at("ticks").at(0), &last = picture.at("ticks").at(1);
    const auto x_of = [&](double days) {
      const double share = (days - first.at(0).get<double>()) /
                           (last.at(0).get<double>() - first.at(0).get<double>());
      return first.at(1).get<double>() +
             share * (last.at(1).get<double>() - first.at(1).get<double>());
    };
    CHECK(picture.at("deadline").get<double>() == Approx(x_of(0.4)).margin(1));
    CHECK(picture.at("limits").at(0) == "deadline 0.4 days");
    REQUIRE(picture.at("bars").size() == purchase.at("machines").size());
    for (std::size_t i = 0; i < picture.at("bars").size(); ++i) {
      const Json& bar = picture.at("bars").at(i);
      const Json& machine = purchase.at("machines").at(i);
      const Json& of = machine.at("jobs").at(job);
      INFO(machine.at("candidate") << ", " << machine.at("gpus") << " GPUs");
      CHECK(bar.at("left").get<double>() == Approx(x_of(of.at("days_p50"))).margin(1));
      CHECK(bar.at("dot").get<double>() == Approx(x_of(of.at("days_p50"))).margin(1));
      CHECK(bar.at("right").get<double>() == Approx(x_of(of.at("days_late"))).margin(1));
      CHECK(bar.at("best") == machine.at("recommended"));
      CHECK(bar.at("out") == !machine.at("out").get<std::string>().empty());
    }
    CHECK(picture.at("labels").size() == picture.at("bars").size());
  }
  CHECK(seen.at("tornado") == printed.at("tornado").size());
  CHECK(seen.at("assumed").size() >= printed.at("assumptions").size());
  const Json& rows = seen.at("rows");
  std::size_t networks = 0;
  for (const Json& machine : printed.at("machines"))
    networks += !machine.at("network").is_null() && machine.at("network").at("tiers") > 0;
  const Json& machines = printed.at("machines");
  REQUIRE(rows.at(0).size() == machines.size());
  for (std::size_t i = 0; i < machines.size(); ++i) {
    const Json& row = rows.at(0).at(i);
    CHECK(row.at(0) == machines.at(i).at("candidate"));
    CHECK(row.at(2) == fmt::format("{}+{}", machines.at(i).at("nodes").get<int>(),
                                   machines.at(i).at("spare_nodes").get<int>()));
    const Json& out = machines.at(i).at("out");
    CHECK((out.is_null() || std::ranges::count(row, out) == 1));
  }
  CHECK(rows.at(1).size() == networks);
  REQUIRE(rows.at(2).size() == printed.at("sized").size());
  for (std::size_t i = 0; i < rows.at(2).size(); ++i) {
    CHECK(rows.at(2).at(i).at(0) == printed.at("sized").at(i).at("job"));
    CHECK(rows.at(2).at(i).at(1) == printed.at("sized").at(i).at("candidate"));
  }
  CHECK(rows.at(3).size() == printed.at("tiers").size());
}

TEST_CASE("size's page prints on two sheets") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  sized(box);
  const std::string command = fmt::format(
      "timeout 120 {} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
      "--no-first-run --user-data-dir='{}' --print-to-pdf='{}' 'file://{}' 2>'{}'",
      *chromium, box.path("profile"), box.path("r.pdf"), box.path("r.html"), box.path("log"));
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string pdf = box.read("r.pdf");
  std::size_t sheets = 0;
  for (std::size_t at = 0; (at = pdf.find("/Type /Page\n", at)) != std::string::npos; ++at)
    ++sheets;
  CHECK(sheets >= 1);
  CHECK(sheets <= 2);
}

TEST_CASE("the pages of tune and size lie within the window, wide and narrow") {
  const auto chromium = browser();
  if (!chromium) return;
  const Sandbox box;
  for (const bool tune : {true, false}) {
    tune ? tuned(box) : sized(box);
    for (const int width : {1400, 800, 390, 360}) {
      INFO((tune ? "tune, " : "size, ") << width << " pixels");
      const Json seen = seen_on(box, *chromium, "r.html", "layout.js", width);
      CHECK(seen.at("width") == width);
      if (width == 1400) CHECK(seen.at("scrolls") == Json::array());
    }
  }
}
