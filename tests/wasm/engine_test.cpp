// The engine that a page holds gives the program's digits, of shipped scenarios and of random ones.
// It is asked in node, where ./dev wasm built it.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "planning/simulate/simulate.h"
#include "planning/what_if/memory_fixes.h"
#include "report/page/run_inputs.h"
#include "tests/random/random_jobs.h"
#include "tests/sandbox.h"
#include "tests/seed.h"
#include "tests/wasm/built_engine.h"

using namespace tandem;

namespace {

using Json = nlohmann::ordered_json;

// The requests of a test, and what the engine answers.
class Asked {
 public:
  void add(Json request) { text_ += request.dump() + '\n'; }

  std::vector<Json> answers(const Sandbox& box) const {
    box.file("requests", text_);
    const std::string command =
        fmt::format("node '{}/tests/wasm/answers.js' '{}' '{}' > '{}' 2> '{}'", TANDEM_SOURCE_DIR,
                    built_engine(), box.path("requests"), box.path("answers"), box.path("log"));
    const int status = std::system(command.c_str());
    INFO(box.read("log"));
    REQUIRE(status == 0);
    std::vector<Json> all;
    std::istringstream lines(box.read("answers"));
    for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
    return all;
  }

 private:
  std::string text_;
};

Json request_of(const Scenario& scenario) {
  const auto inputs = run_inputs(scenario);
  REQUIRE(inputs.ok());
  Json run = *inputs;
  run["changes"] = Json::object();
  return {{"do", "simulate"}, {"run", run}, {"detail", false}};
}

// What the program prints of the run alone.
Json expected_of(const Scenario& scenario) {
  std::vector<Result<RunResult>> played = {
      run_in_own_process([&] { return simulate(scenario, Engine::Ideal); })};
  add_memory_fixes({scenario}, 1, &played);
  if (!played[0].ok()) return {{"error", played[0].error().message}};
  return comparable(to_json(*played[0]));
}

// What the engine's answers to `simulate` and to `fixes` come to.
Json seen_in(const Json& simulated, const Json& fixed) {
  if (simulated.contains("error")) return {{"error", simulated.at("error")}};
  Json result = simulated.at("result");
  result["memory_fixes"] = fixed.at("memory_fixes");
  return comparable(result);
}

void check_same(const std::vector<Scenario>& scenarios) {
  const Sandbox box;
  Asked asked;
  for (const Scenario& scenario : scenarios) {
    Json request = request_of(scenario);
    asked.add(request);
    request["do"] = "fixes";
    asked.add(request);
  }
  const std::vector<Json> answers = asked.answers(box);
  REQUIRE(answers.size() == 2 * scenarios.size());
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    INFO(scenarios[i].path << ": " << scenarios[i].name);
    const Json seen = seen_in(answers[2 * i], answers[2 * i + 1]);
    CHECK(Json::diff(expected_of(scenarios[i]), seen) == Json::array());
  }
}

}  // namespace

TEST_CASE("the engine of a page gives the digits of all shipped scenarios") {
  if (!has_engine()) return;
  namespace fs = std::filesystem;
  std::vector<Scenario> all;
  for (const auto& entry : fs::directory_iterator(TANDEM_SOURCE_DIR "/scenarios")) {
    if (entry.path().extension() != ".toml") continue;
    INFO(entry.path());
    const auto scenarios = load_scenarios(entry.path().string());
    REQUIRE(scenarios.ok());
    all.insert(all.end(), scenarios->begin(), scenarios->end());
  }
  REQUIRE(all.size() > 50);
  check_same(all);
}

TEST_CASE("the engine of a page gives the digits of random jobs") {
  if (!has_engine()) return;
  INFO("TANDEM_SEED=" << test_seed());
  std::vector<Scenario> all;
  for (std::uint64_t seed = 1000 * test_seed(); all.size() < 300; ++seed) {
    if (const auto scenario = scenario_of(random_job(seed))) all.push_back(*scenario);
  }
  check_same(all);
}

TEST_CASE("the engine of a page refuses in one line, by the key, and goes on") {
  if (!has_engine()) return;
  const Sandbox box;
  const auto scenario =
      load_scenarios(TANDEM_SOURCE_DIR "/scenarios/megatron-sc21.toml", {}, "39B, selene");
  REQUIRE(scenario.ok());
  Json request = request_of(scenario->front());
  Asked asked;
  request["run"]["changes"] = {{"parallel.tp", 3}};
  asked.add(request);
  asked.add({{"do", "dance"}});
  asked.add({{"do", "check"},
             {"run", request_of(scenario->front()).at("run")},
             {"tries", {{{"parallel.tp", 3}}, {{"train.recompute", "none"}}}}});
  request["run"]["changes"] = {{"parallel.dp", nullptr}, {"parallel.tp", 4}};
  asked.add(request);
  const std::vector<Json> answers = asked.answers(box);
  REQUIRE(answers.size() == 4);
  CHECK(answers[0].at("keys") == Json({"cluster.gpus"}));
  CHECK(answers[1].at("error") == "found the request 'dance', expected one such as 'simulate'");
  CHECK(answers[2].at(0) == answers[0].at("error"));
  CHECK(answers[2].at(1).is_null());
  CHECK(answers[3].at("result").at("plan").at("dp") == 64);
  CHECK(answers[3].at("values").at("parallel.tp") == 4);
}
