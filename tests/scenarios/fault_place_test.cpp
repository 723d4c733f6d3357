// Where an Error of a scenario stands: at the line of its keys, whatever its sentence says.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "planning/simulate/simulate.h"
#include "scenarios/tensor_settings.h"
#include "tests/scenarios/small_scenario.h"
#include "topology/cluster.h"
#include "workload/cost/kernel.h"
#include "workload/model/model.h"

using namespace tandem;

namespace {

// kSmall's last line, and more.
const std::string kMore = "[overlap]\ntensor = \"off\"\n";

struct Broken {
  const char* what;
  Error error;
  std::vector<std::string> others;
  int line;  // of kSmall + kMore
};

// Rules that are broken, each as the module that has it says it.
std::vector<Broken> broken_rules(const Scenario& scenario) {
  std::vector<Broken> broken;
  Model model = scenario.job.model;
  Plan plan = scenario.job.plan;
  model.heads = 15;
  broken.push_back({"1024 is no multiple of 15 heads", check_model(model, plan).error(), {}, 3});
  model = scenario.job.model;
  plan.tp = 3;
  broken.push_back({"16 heads on 3 ranks", check_model(model, plan).error(), {}, 4});
  plan = scenario.job.plan;
  plan.overlap_context = true;
  plan.cp = 2;
  plan.context_comm = ContextComm::AllGather;
  broken.push_back({"its key is not set", check_model(model, plan).error(), {"model.layers"}, 2});
  plan = scenario.job.plan;
  plan.tensor_overlap = overlap_by(TensorMethod::Ring);
  plan.sequence_parallel = false;
  broken.push_back({"a GEMM's overlap, by the word", check_model(model, plan).error(), {}, 17});
  CostModel cost = scenario.cost_model();
  cost.precision = "int4";
  broken.push_back({"no rate", check_cost_model(cost).error(), {"cluster.preset"}, 14});
  broken.push_back(
      {"12 GPUs, 8 a node", Cluster::build(scenario.cluster.spec, 12).error(), {}, 15});
  OrderSpec order = scenario.job.order;
  order.name = "2f2b";
  broken.push_back({"no such order", make_order(order).error(), {"parallel.pp"}, 9});
  return broken;
}

}  // namespace

TEST_CASE("a rule's sentence can be reworded, and its Error stays at its line") {
  const Scenario scenario = load(kSmall + kMore).front();
  for (const Broken& rule : broken_rules(scenario)) {
    INFO(rule.what << ": " << rule.error.message);
    const std::string source = fmt::format("{}:{}", scenario.path, rule.line);
    const Error placed = scenario.placed(rule.error.or_of(rule.others));
    CHECK(placed.place.source == source);
    CHECK(placed.text() == source + ": " + rule.error.message);
    // Neither a key nor a place in it is taken for its own.
    for (const char* sentence : {"", "model.vocab: found that", "x.toml:1: parallel.dp = 2",
                                 "found vocab = 1, expected model.seq and schedule.order"}) {
      Error reworded = rule.error;
      reworded.message = sentence;
      CHECK(scenario.placed(reworded.or_of(rule.others)).text() == source + ": " + sentence);
    }
  }
}

TEST_CASE("an Error stands at its first key that is set, else in its table, else at the file") {
  const Scenario scenario = load(kSmall, {"parallel.dp=2"}).front();
  const auto source = [&](std::vector<std::string> keys, const std::vector<std::string>& others) {
    return scenario.placed(Error::of(std::move(keys), "no").or_of(others)).place.source;
  };
  const auto line = [&](int number) { return fmt::format("{}:{}", scenario.path, number); };
  CHECK(source({"model.heads", "model.layers"}, {}) == line(4));
  CHECK(source({"model.kv_heads", "model.layers"}, {}) == line(2));
  CHECK(source({"model.kv_heads"}, {"parallel.tp"}) == line(8));
  CHECK(source({"parallel.dp"}, {}) == "--set");
  CHECK(source({"cluster.fabric"}, {}) == line(15));  // cluster.gpus, the first in the alphabet
  CHECK(source({"overlap.p2p"}, {}) == scenario.path);
}

TEST_CASE("an Error without keys keeps the place that it has") {
  const Scenario scenario = load(kSmall).front();
  CHECK(scenario.placed(Error::at("a.csv:3", "found model.layers")).text() ==
        "a.csv:3: found model.layers");
  CHECK(scenario.placed(Error{"found model.layers", Error::Failed}).text() == "found model.layers");
  // A file that a key names: both places, the key's first.
  const Error placed = scenario.placed(Error::at("a.csv:3", "found 4").or_of({"cluster.preset"}));
  CHECK(placed.text() == fmt::format("{}:14: a.csv:3: found 4", scenario.path));
}

TEST_CASE("a value that is refused, and a key that is unknown, are the Error's key") {
  const Folder folder;
  for (const auto& [set, key] : std::vector<std::pair<std::string, std::string>>{
           {"parallel.tp=0", "parallel.tp"},
           {"parallel.tpp=2", "parallel.tpp"},
           {"model.kinds.fat.hiden=2", "model.kinds.fat.hiden"}}) {
    INFO(set);
    const auto scenarios = try_load(folder, kSmall, {set});
    REQUIRE(!scenarios.ok());
    CHECK(scenarios.error().place.keys == Names{key});
    CHECK(scenarios.error().place.source == "--set");
  }
}

TEST_CASE("a scenario that is no file has the same runs, and Errors that name no line") {
  const auto file = parse_scenario(kSmall, "made here", false);
  REQUIRE(file.ok());
  const auto scenarios = load_scenarios(*file);
  REQUIRE(scenarios.ok());
  CHECK(scenarios->front().job.plan.tp == load(kSmall).front().job.plan.tp);
  CHECK(scenarios->front().name == "made here");
  const auto refused = load_scenarios(*parse_scenario("[parallel]\ntp = 0\n", "made here", false));
  REQUIRE(!refused.ok());
  CHECK(refused.error().text() ==
        "made here: found parallel.tp = 0, expected an integer from 1 to 1000000000");
}

TEST_CASE("of several runs none is the only one, and the Error says how to choose") {
  const std::vector<Scenario> one = load(kSmall);
  CHECK(only_run(one, "a.toml").ok());
  const auto several = only_run({one[0], one[0]}, "a.toml", "only=...");
  REQUIRE(!several.ok());
  CHECK(several.error().text() ==
        "a.toml: found 2 runs, expected one: choose it with only=..., such as 'small'");
}
