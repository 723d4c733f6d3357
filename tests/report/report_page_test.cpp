// The page's data: that its numbers are the JSON's, that no name breaks out of it, the frontier.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "report/page/sweep_page.h"
#include "tests/folder.h"
#include "tests/report/page_seen.h"
#include "tests/scenarios/small_scenario.h"
#include "tests/variable.h"

using namespace tandem;

namespace {

using Better = PageColumn::Better;

// Interleaved: two ranks of two stages each, on a real cluster, so that there is memory.
const std::string kJob = kSmallModel + R"([parallel]
pp = 2
vpp = 2
dp = 2
micro_batch = 1
global_batch = 16
[schedule]
order = "interleaved"
[cluster]
preset = "selene"
[matrix]
"parallel.global_batch" = [8, 16]
)";

std::int64_t at(const Json& column, std::size_t i) {
  return column.is_array() ? column.at(i).get<std::int64_t>() : column.get<std::int64_t>();
}

PageTable table_of(const std::vector<std::pair<double, double>>& points) {
  PageTable table{.title = "t",
                  .columns = {{"days", "d", Better::Less}, {"rate", "1/s", Better::More}}};
  for (const auto& [x, y] : points) table.rows.push_back({x, y});
  table.y = 1;
  return table;
}

}  // namespace

TEST_CASE("a page names the machines: nodes, GPUs, and the rates inside and outside of a node") {
  const Sandbox box;
  const auto named = [&](const std::string& cluster) {
    box.file("job.toml", kSmallModel +
                             "[parallel]\ndp = 16\nglobal_batch = 16\n[cluster]\npreset = \"" +
                             cluster + "\"\n");
    check_done(box.tandem("simulate job.toml --engine ideal --report r.html"));
    return data_of(box.read("r.html")).at("runs").at(0).at("detail").at("hardware");
  };
  CHECK(named("selene") ==
        "2 nodes of 8 A100-SXM4-80GB · inside 300 GB/s a GPU and direction · outside 8 x 200 "
        "Gbit/s");
  CHECK(named("mi355x-roce") ==
        "2 nodes of 8 MI355X-288GB · inside 76.8 GB/s a joined pair and direction · outside 8 x "
        "400 Gbit/s");
}

TEST_CASE("the page's runs are the objects of simulate --json, and the named one is shown first") {
  const Sandbox box;
  box.file("job.toml", kJob);
  const Ran ran = box.tandem(
      "simulate job.toml --json --report r.html --files-of "
      "parallel.global_batch=16");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  Json printed = Json::parse(ran.out);
  const Json data = data_of(box.read("r.html"));
  REQUIRE(data.at("runs").size() == 2);
  CHECK(data.at("chosen") == 1);
  CHECK(data.at("title") == "How long does an iteration take in 2 runs of job?");
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& run = data.at("runs").at(i);
    CHECK(run.at("result") == printed.at(i));
    CHECK(!run.at("detail").at("timeline").is_null());
    CHECK(run.at("detail").at("hardware") ==
          "4 A100-SXM4-80GB in a node · inside 300 GB/s a GPU and direction");

    // Each rank's split adds up to the iteration, and their mean is the printed compute.
    const Json& split = run.at("detail").at("split");
    double compute_ns = 0, ranks = 0;
    for (std::size_t rank = 0; rank < split.at("rank").size(); ++rank) {
      std::int64_t sum = at(split.at("compute_ns"), rank) + at(split.at("bubble_ns"), rank);
      for (const auto& [kind, exposed] : split.at("exposed_ns").items()) sum += at(exposed, rank);
      CHECK(1e-9 * static_cast<double>(sum) ==
            Approx(printed.at(i).at("iteration_s").get<double>()).epsilon(1e-12));
      const double count = split.at("stands_for").at(rank);
      ranks += count;
      compute_ns += count * split.at("compute_ns").at(rank).get<double>();
    }
    CHECK(ranks == printed.at(i).at("gpus"));
    CHECK(1e-9 * compute_ns / ranks ==
          Approx(printed.at(i).at("compute_s").get<double>()).epsilon(1e-12));

    // The fullest rank's most is the printed total, at the printed time.
    const Json& memory = run.at("detail").at("memory");
    for (const char* key : {"capacity", "outside"})
      CHECK(memory.at(key) == printed.at(i).at("memory_bytes").at(key));
    double most = 0, at_s = 0;
    for (const Json& rank : memory.at("ranks")) {
      double held = 0;
      for (const char* kind : {"weights", "gradients", "optimizer", "communication", "workspace"})
        held += rank.at(kind).get<double>();
      const auto activations = rank.at("activations").get<std::vector<double>>();
      CHECK(activations.front() == 0);
      CHECK(activations.back() == 0);  // every forward has its backward
      const auto peak = std::ranges::max_element(activations);
      if (held + *peak <= most) continue;
      most = held + *peak;
      at_s = 1e-9 * rank.at("at_ns").at(peak - activations.begin()).get<double>();
    }
    CHECK(most == Approx(printed.at(i).at("memory_bytes").at("total").get<double>()));
    CHECK(at_s == Approx(printed.at(i).at("peak").at("at_s").get<double>()));
  }
}

TEST_CASE("the page's timeline has the events of the trace that have a length") {
  const Sandbox box;
  box.file("job.toml", kJob);
  REQUIRE(box.tandem("simulate job.toml --only batch=16 --trace t.csv --report r.html").status ==
          0);
  std::multiset<std::string> of_trace, of_page;
  std::istringstream lines(box.read("t.csv"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] < '0' || line[0] > '9') continue;
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    // rank,lane,op,kind,stage,microbatch,part,bytes,arrive_ns,start_ns,end_ns
    if (cells[9] == cells[10]) continue;
    of_trace.insert(fmt::format("{} {} {} {} {} {} {} {} {}", cells[0], cells[1], cells[3],
                                cells[4], cells[5], cells[6], cells[7], cells[9], cells[10]));
  }
  const Json timeline = data_of(box.read("r.html")).at("runs").at(0).at("detail").at("timeline");
  int in_steps = 0, by_event = 0;
  for (const Json& rank : timeline.at("ranks")) {
    for (const Json& lane : rank.at("lanes")) {
      const bool steps = lane.contains("order");
      ++(steps ? in_steps : by_event);
      std::int64_t end = 0;
      std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> last;
      for (std::size_t i = 0; i < lane.at("events").get<std::size_t>(); ++i) {
        const std::size_t place = steps ? lane.at("order").at(i).get<std::size_t>() : i;
        const auto of = [&](const char* column) { return at(lane.at(column), place); };
        const auto kind = timeline.at("kinds").at(of("kind")).get<std::string>();
        const std::int64_t start = steps ? end + of("gap_ns") : of("start_ns");
        end = start + of("length_ns");
        std::int64_t& microbatch = last[{of("kind"), of("stage")}];
        microbatch = steps ? microbatch + of("microbatch_step") : of("microbatch");
        of_page.insert(fmt::format("{} {} {} {} {} {} {} {} {}", rank.at("rank").get<int>(),
                                   lane.at("name").get<std::string>(), kind, of("stage"),
                                   microbatch, of("part"), of("bytes"), start, end));
      }
    }
  }
  CHECK(in_steps > 0);
  CHECK(by_event > 0);
  CHECK(of_page.size() > 50);
  CHECK(timeline.at("events") == of_page.size());
  CHECK(of_page == of_trace);
}

TEST_CASE("the page of a large run that is played folded is small") {
  const Sandbox box;
  // 200,000 events, of which few differ.
  REQUIRE(box.tandem("simulate deepseek-v3 --only 1F1B --engine ideal --report r.html").status ==
          0);
  CHECK(std::filesystem::file_size(box.path("r.html")) < 3'000'000);
  const Json timeline = data_of(box.read("r.html")).at("runs").at(0).at("detail").at("timeline");
  CHECK(timeline.at("events") > 100'000);
}

TEST_CASE("a timeline of more events than a browser can show says how many there are") {
  const Sandbox box;
  // 8 ops and 12 ends of transfers a microbatch: 80000 of them have 1.6 million events.
  box.file("job.toml", kTwoStages);
  REQUIRE(box.tandem("simulate job.toml --engine ideal --set parallel.pp=4 --set "
                     "parallel.global_batch=80000 --report r.html")
              .status == 0);
  const Json run = data_of(box.read("r.html")).at("runs").at(0);
  const Json& timeline = run.at("detail").at("timeline");
  CHECK(timeline.at("events") == 1'600'000);
  CHECK(timeline.at("ranks").empty());
  CHECK(1e-9 * timeline.at("end_ns").get<double>() ==
        Approx(run.at("result").at("iteration_s").get<double>()));
}

TEST_CASE("the same runs give the same page, and it asks for nothing from outside") {
  const Sandbox box;
  box.file("job.toml", kJob);
  for (const char* name : {"a.html", "b.html"})
    REQUIRE(box.tandem(fmt::format("simulate job.toml --jobs 2 --report {}", name)).status == 0);
  const std::string page = box.read("a.html");
  // What the clock says of the engine differs.
  const std::regex wall("\"engine_wall_s\":[^,}]*");
  CHECK(std::regex_replace(data_text(page), wall, "") ==
        std::regex_replace(data_text(box.read("b.html")), wall, ""));
  const std::string around = page.substr(page.find("</script>", page.find("id=\"data\"")));
  CHECK(page.find("<link") == std::string::npos);
  CHECK(page.find(" src=") == std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.find("https://d3js.org v") != std::string::npos);  // its notice
  CHECK(around.find("THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS") != std::string::npos);
}

TEST_CASE("a sweep's page has its rows, the columns in which they differ, and their frontier") {
  const Sandbox box;
  box.file("job.toml", kJob + "\"parallel.dp\" = [1, 2]\n");
  const Ran ran = box.tandem("sweep job.toml -o rows.csv --engine ideal --report r.html");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  const Json table = data_of(box.read("r.html")).at("table");
  std::vector<std::string> names;
  for (const Json& column : table.at("columns")) names.push_back(column.at("name"));
  // 4 runs; bubbles differ with the number of microbatches, memory with that of warm-ups' sizes.
  const Names first = {"run",  "parallel.dp", "parallel.global_batch",
                       "GPUs", "iteration",   "tokens"};
  REQUIRE(names.size() >= first.size());
  CHECK(Names(names.begin(), names.begin() + 6) == first);
  CHECK(table.at("rows").size() == 4);
  CHECK(names[table.at("x").get<std::size_t>()] == "GPUs");
  CHECK(names[table.at("y").get<std::size_t>()] == "tokens");
  // Of 2 and of 4 GPUs the larger batch, whose bubble is smaller, gives more tokens; and 4 GPUs
  // more than 2.
  Names best;
  for (const Json& row : table.at("frontier"))
    best.push_back(table.at("rows").at(row.get<std::size_t>()).at(0));
  REQUIRE(best.size() == 2);
  for (const std::string& name : best) CHECK(name.find("=16") != std::string::npos);
}

TEST_CASE("no name ends the data, and what is no UTF-8 is replaced") {
  const PageData data{.title = "</script><script>alert(1)</script><!--",
                      .runs = {{"a\"b\\c\n\xff", {{"name", "<b>"}}, ""}}};
  const PageFiles files = {
      {"page.html", "<script type=\"application/json\" id=\"data\"></script>\n"}};
  const std::string page = html_page(files, to_text(data));
  CHECK(page.find('<', 1) == page.rfind("</script>"));
  CHECK(data_of(page).at("title") == data.title);
  CHECK(data_of(page).at("runs").at(0).at("name") == "a\"b\\c\n\xEF\xBF\xBD");
  CHECK(data_of(page).at("runs").at(0).at("result").at("name") == "<b>");
}

TEST_CASE("a page file says first what it is for, is named by page.html, and keeps to its size") {
  const auto files = load_page_files();
  if (!files.ok()) {
    WARN("skipped: " << files.error().text());
    return;
  }
  const std::string& page = files->at("page.html");
  for (const auto& [name, text] : *files) {
    INFO(name);
    if (name == "d3.min.js") continue;
    CHECK(std::count(text.begin(), text.end(), '\n') <= 500);
    if (name == "page.html") continue;
    CHECK((text.starts_with("// ") || text.starts_with("/* ")));
    CHECK(page.find("\"" + name + "\"") != std::string::npos);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  }
}

TEST_CASE(
    "without D3 --report is refused before anything runs, exit status 3, and all else works") {
  const Sandbox box;
  box.file("job.toml", kTwoStages);
  const Folder alone;  // the program, and no D3 beside it
  const std::string program = alone / "tandem";
  std::filesystem::copy_file(TANDEM_PROGRAM, program);
  const Variable data("TANDEM_DATA_DIR", TANDEM_SOURCE_DIR);
  const auto simulate = [&](const std::string& more) {
    return std::system(
        fmt::format("cd '{}' && '{}' simulate job.toml --engine ideal {} >out 2>err",
                    std::filesystem::path(box.path("job.toml")).parent_path().string(), program,
                    more)
            .c_str());
  };
  CHECK(WEXITSTATUS(simulate("--report r.html")) == 3);
  CHECK(box.read("out").empty());
  const std::string err = box.read("err");
  CHECK(err.starts_with("--report: found no d3.min.js beside "));
  CHECK(std::count(err.begin(), err.end(), '\n') == 1);
  CHECK(box.files() == Names{"err", "job.toml", "out"});
  CHECK(simulate("") == 0);
}

TEST_CASE("the frontier holds the rows that no other one beats, along x") {
  // (3, 5) beats (4, 4) and (3, 4); (1, 2) is fastest, (6, 9) has the highest rate; (6, 9) again is
  // as good; (7, 9) is beaten by both.
  const std::vector<std::pair<double, double>> points = {{4, 4}, {3, 5}, {6, 9}, {1, 2},
                                                         {3, 4}, {6, 9}, {7, 9}};
  CHECK(frontier_of(table_of(points)) == std::vector<std::size_t>{3, 1, 2, 5});
  PageTable costs = table_of(points);
  costs.columns[0].better = Better::More;  // now (7, 9) beats all
  CHECK(frontier_of(costs) == std::vector<std::size_t>{6});
  PageTable gaps = table_of(points);
  gaps.rows[3][0] = {};  // a run that failed has no days
  CHECK(frontier_of(gaps) == std::vector<std::size_t>{1, 2, 5});
  PageTable full = table_of(points);
  full.unfit = {1};  // without (3, 5) there is (3, 4), and (4, 4) is as good and later
  CHECK(frontier_of(full) == std::vector<std::size_t>{3, 4, 2, 5});
}

TEST_CASE("a sweep's runs have names, not numbers, in its page, and so have keys of texts") {
  const Folder folder;
  const auto table =
      sweep_table(folder.with("rows.csv",
                              "name,engine,cluster.name,model.kinds.a.mixer,parallel.tp,axes,gpus\n"
                              "007,ideal,0012,1,1,,1\n1e3,ideal,2e3,2,2,,2\n"));
  REQUIRE(table.ok());
  CHECK(table->rows.at(0) == std::vector<PageCell>{"007", "0012", "1", 1.0, 1.0});
  CHECK(table->rows.at(1) == std::vector<PageCell>{"1e3", "2e3", "2", 2.0, 2.0});
}

TEST_CASE("a sweep's page has the verdicts on memory, also where they are all alike") {
  const auto fits = [](const Names& verdicts) {
    std::string csv = "name,engine,axes,gpus,iteration_s,fits,verdict\n";
    for (const std::string& verdict : verdicts)
      csv += fmt::format("r,ideal,,1,2,{},{}\n", verdict != "no", verdict);
    const Folder folder;
    const PageTable table = *sweep_table(folder.with("rows.csv", csv));
    std::vector<PageCell> cells;
    for (const std::vector<PageCell>& row : table.rows)
      if (table.columns.back().name == "fits") cells.push_back(row.back());
    return cells;
  };
  CHECK(fits({"yes", "if unfragmented", "no"}) ==
        std::vector<PageCell>{"yes", "if unfragmented", "NO"});
  CHECK(fits({"no", "no"}) == std::vector<PageCell>{"NO", "NO"});
  CHECK(fits({"if unfragmented", "if unfragmented"}).size() == 2);
  CHECK(fits({"yes", "yes"}).empty());
}

TEST_CASE(
    "of a sweep only runs that fit are on the frontier, and capacity less the reserve is the "
    "limit") {
  const Sandbox box;
  // ZeRO 1 halves the optimizer on two replicas: the runs without it hold most.
  box.file("job.toml", kJob + "\"train.zero\" = [0, 1]\n");
  const auto sweep = [&](const std::string& more) {
    const Ran ran = box.tandem("sweep job.toml -o rows.csv --engine ideal --report r.html" + more);
    INFO(ran.err);
    REQUIRE(ran.status == 0);
    std::filesystem::remove(box.path("rows.csv"));
    return data_of(box.read("r.html")).at("table");
  };
  const auto memory_of = [](const Json& table, std::size_t row) {
    const auto& columns = table.at("columns");
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns.at(i).at("name") == "memory") return table.at("rows").at(row).at(i).get<double>();
    }
    FAIL("no memory");
    return 0.0;
  };
  const Json roomy = sweep("");
  CHECK(roomy.at("unfit").empty());
  std::vector<double> held;
  for (std::size_t row = 0; row < roomy.at("rows").size(); ++row)
    held.push_back(memory_of(roomy, row));
  const auto [least, most] = std::ranges::minmax(held);
  REQUIRE(least < most);
  const Json tight =
      sweep(fmt::format(" --set cluster.memory_GiB={} --set cluster.memory_reserve_GiB=1",
                        (least + most) / 2 / (1 << 30) + 1));
  CHECK(tight.at("limit").at("most").get<double>() == Approx((least + most) / 2));
  CHECK(tight.at("limit").at("as") == "capacity less CUDA and NCCL");
  REQUIRE(!tight.at("unfit").empty());
  for (const Json& row : tight.at("unfit")) {
    CHECK(memory_of(tight, row) > (least + most) / 2);
    for (const Json& on : tight.at("frontier")) CHECK(on != row);
  }
}
