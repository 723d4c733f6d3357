// tandem compare, and simulate --unfolded, which it asks for.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

// Two stages, two replicas: folded, one of each two ranks is played.
const std::string kJob = R"([parallel]
pp = 2
dp = 2
global_batch = 8
[costs]
source = "uniform"
forward_s = 0.01
backward_s = 0.02
p2p_s = 0.001
)";

std::set<std::string> ranks_in(const std::string& trace) {
  std::set<std::string> ranks;
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] >= '0' && line[0] <= '9')
      ranks.insert(line.substr(0, line.find(',')));
  }
  return ranks;
}

void check_written(const Ran& ran) {
  INFO(ran.err);
  REQUIRE(ran.status == 0);
}

}  // namespace

TEST_CASE("unfolded, every rank is played, of a scenario and of a Program, in the same time") {
  const Sandbox box;
  box.file("job.toml", kJob);
  box.file("job.csv", box.tandem("schedule job.toml --format program").out);
  for (const char* input : {"job.toml --engine ideal", "job.csv"}) {
    INFO(input);
    std::set<double> iterations_s;
    for (const bool unfolded : {false, true}) {
      const Ran ran = box.tandem(
          fmt::format("simulate {} --json --trace t.csv{}", input, unfolded ? " --unfolded" : ""));
      check_done(ran);
      iterations_s.insert(Json::parse(ran.out).at(0).at("iteration_s").get<double>());
      CHECK(Json::parse(ran.out).at(0).at("ranks_simulated") == (unfolded ? 4 : 2));
      CHECK(ranks_in(box.read("t.csv")).size() == (unfolded ? 4 : 2));
    }
    CHECK(iterations_s.size() == 1);  // in lock step folding is exact
  }
}

TEST_CASE("a trace compared with itself differs in nothing, and has what simulate said") {
  const Sandbox box;
  box.file("job.toml", kJob);
  const Ran simulated = box.tandem("simulate job.toml --engine ideal --json --trace t.csv");
  check_done(simulated);
  const Json run = Json::parse(simulated.out).at(0);
  const Ran ran = box.tandem("compare t.csv t.csv --json");
  check_done(ran);
  const Json json = Json::parse(ran.out);
  CHECK(json.at("iteration_error") == 0.0);
  CHECK(json.at("bubble_difference") == 0.0);
  CHECK(json.at("exposed_difference_s").at("pipeline") == 0.0);
  CHECK(json.at("ops").at("worst_error") == 0.0);
  CHECK(json.at("worst").empty());
  for (const char* key : {"iteration_s", "compute_s", "bubble_ratio", "bubble_fraction",
                          "exposed_s", "comm_s", "overlap_fraction"}) {
    INFO(key);
    CHECK(json.at("simulated").at(key) == run.at(key));
  }
}

TEST_CASE("a run with jitter is held against one without, in a table, JSON and a timeline") {
  const Sandbox box;
  box.file("job.toml", kJob);
  check_written(box.tandem("simulate job.toml --engine ideal --unfolded --trace s.csv"));
  check_written(
      box.tandem("simulate job.toml --engine ideal --set variability.jitter=0.1 --trace m.csv"));
  const Ran table = box.tandem("compare s.csv m.csv --worst 2 --perfetto both.json");
  check_done(table);
  CHECK(table.out.starts_with("simulated  s.csv (ideal)\nmeasured   m.csv (ideal)\n"));
  CHECK(table.out.find("\nworst ops ") != std::string::npos);
  CHECK(table.out.find("\nThe measured iteration takes ") != std::string::npos);
  const Json json = Json::parse(box.tandem("compare s.csv m.csv --worst 2 --json").out);
  CHECK(json.at("worst").size() == 2);
  CHECK(json.at("ranks").size() == 4);
  std::set<std::string> processes;
  const Json timelines = Json::parse(box.read("both.json"));
  for (const Json& event : timelines.at("traceEvents")) {
    if (event.at("name") == "process_name") processes.insert(event.at("args").at("name"));
  }
  CHECK(processes.size() == 8);
  CHECK(processes.contains("rank 3 measured"));
}

TEST_CASE("compare refuses what is no pair of traces with one line, and leaves no file") {
  const Sandbox box;
  box.file("job.toml", kJob);
  check_written(box.tandem("simulate job.toml --engine ideal --trace folded.csv"));
  check_written(box.tandem("simulate job.toml --engine ideal --unfolded --trace all.csv"));
  check_written(
      box.tandem("simulate job.toml --engine ideal --set costs.p2p_s=0.002 --trace other.csv"));
  const auto files = box.files();
  check_refused(box.tandem("compare folded.csv all.csv --perfetto p.json"),
                "folded.csv: found no rank 1, which all.csv has, expected all its ranks: simulate "
                "with --unfolded");
  check_refused(box.tandem("compare folded.csv other.csv --perfetto p.json"),
                "other.csv: found a trace of program '1f1b ");
  check_refused(box.tandem("compare folded.csv job.toml"), "job.toml:1: found '[parallel]', exp");
  check_refused(box.tandem("compare folded.csv no.csv"), "no.csv: no such file");
  check_refused(box.tandem("compare folded.csv"), "");
  check_refused(box.tandem("compare folded.csv folded.csv --worst -1"), "");
  check_refused(box.tandem("compare folded.csv folded.csv --perfetto no/p.json"), "no/p.json: ");
  CHECK(box.files() == files);
}
