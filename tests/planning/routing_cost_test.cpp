// model.routing: what a file of tokens does to a run.
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/sandbox.h"
#include "tests/text.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

// Four layers of 8 experts, on 8 GPUs with 4 ranks for experts.
const std::string kExperts = R"([model]
layers = 4
hidden = 4096
heads = 32
seq = 4096
vocab = 32000
experts = 8
top_k = 2
[parallel]
pp = 2
dp = 4
ep = 4
global_batch = 32
[train]
flash_attention = false
[cluster]
preset = "dgx-h100"
)";

Ran simulated(const Sandbox& box, const std::string& options) {
  box.file("job.toml", kExperts);
  return box.tandem("simulate job.toml --engine ideal " + options);
}

Json run_of(const Sandbox& box, const std::string& options) {
  const Ran ran = simulated(box, "--json " + options);
  check_done(ran);
  return Json::parse(ran.out)[0];
}

// Writes a file in which each layer's experts get these tokens.
void route_by(const Sandbox& box, const std::vector<int>& tokens) {
  std::string text = "expert,tokens\n";
  for (std::size_t expert = 0; expert < tokens.size(); ++expert)
    text += fmt::format("{},{}\n", expert, tokens[expert]);
  box.file("routing.csv", text);
}

TEST_CASE("a balanced file gives what forced routing gives, byte for byte") {
  const Sandbox box;
  route_by(box, {9, 9, 9, 9, 9, 9, 9, 9});
  const Ran forced = simulated(box, ""),
            balanced = simulated(box, "--set model.routing=routing.csv");
  check_done(forced);
  CHECK(balanced.out == forced.out);
  CHECK(forced.out.find("All ranks' experts get equal loads, as with model.routing = forced; where "
                        "parallel.ep is above 1, a learned router's are not, and take longer "
                        "unless padded (model.pad_to_capacity).\n") != std::string::npos);
}

TEST_CASE("a rank that holds all experts is not said to be routed by force where a file is set") {
  const Sandbox box;
  route_by(box, {40, 8, 8, 8, 8, 8, 8, 8});
  const Ran alone = simulated(box, "--set model.routing=routing.csv --set parallel.ep=1");
  check_done(alone);
  CHECK(alone.out.find("(model.routing = forced)") == std::string::npos);
  CHECK(alone.out.find("All ranks' experts get equal loads, as with model.routing = forced; ") !=
        std::string::npos);
}

TEST_CASE("loads of a file are those of expert_imbalance, if every layer has the same") {
  const Sandbox box;
  // Two experts a rank: the first rank gets 24 of 64 tokens, 1.5 times the mean.
  route_by(box, {16, 8, 8, 8, 6, 6, 6, 6});
  const Json routed = run_of(box, "--set model.routing=routing.csv");
  CHECK(routed["iteration_s"] == run_of(box, "--set model.expert_imbalance=1.5")["iteration_s"]);
  CHECK(routed["memory_bytes"]["total"] ==
        run_of(box, "--set model.expert_imbalance=1.5")["memory_bytes"]["total"]);
  const double forced = run_of(box, "")["iteration_s"];
  CHECK(routed["routing_cost"].get<double>() ==
        Approx(1 - forced / routed["iteration_s"].get<double>()));
  // What is sent is the busiest rank's.
  const double sent_evenly = run_of(box, "")["sent_bytes"]["expert"];
  CHECK(routed["sent_bytes"]["expert"].get<double>() == Approx(1.5 * sent_evenly));
  CHECK(routed["routing_waiting"] > 0);
  CHECK(routed["routing_waiting"] < routed["routing_cost"]);
  CHECK(simulated(box, "--set model.routing=routing.csv").out.find("job: routing costs ") !=
        std::string::npos);
}

TEST_CASE("a result says whether all ranks get equal loads") {
  const Sandbox box;
  route_by(box, {40, 8, 8, 8, 8, 8, 8, 8});
  CHECK(run_of(box, "")["equal_expert_loads"] == true);
  const Json routed = run_of(box, "--set model.routing=routing.csv");
  CHECK(routed["equal_expert_loads"] == false);
}

TEST_CASE("a pipeline's bubble is waiting if the experts' computation is what grew") {
  const Sandbox box;
  route_by(box, {40, 8, 8, 8, 8, 8, 8, 8});
  const std::string links =
      " --set model.layers=8 --set parallel.pp=8 --set parallel.global_batch=8"
      " --set cluster.intra_GBps=1e6 --set cluster.intra_latency_us=0.001";
  const Json routed = run_of(box, links + " --set model.routing=routing.csv");
  CHECK(routed["routing_cost"] > 0.1);
  CHECK(routed["routing_waiting"].get<double>() ==
        Approx(routed["routing_cost"].get<double>()).epsilon(0.02));
}

TEST_CASE("an expert's capacity drops tokens, which shortens a run, and the run says so") {
  const Sandbox box;
  route_by(box, {40, 8, 8, 8, 8, 8, 8, 8});
  const Ran ran = simulated(box, "--set model.routing=routing.csv --set model.capacity_factor=1");
  CHECK(ran.status == 0);
  // 28 of 96: the first expert takes the mean, 12 of 40.
  CHECK(
      ran.err ==
      "warning: job: --set: model.capacity_factor = 1 drops 29.2 % of the tokens' experts; MFU and "
      "tokens/s count them\n");
  CHECK(ran.out.find("job: routing saves ") != std::string::npos);
}

TEST_CASE("a capacity that hides unequal loads is said to drop tokens, and loads are not equal") {
  const Sandbox box;
  // The first expert gets 70 of 84 tokens and takes the mean, 10.5: 59.5 are dropped.
  route_by(box, {70, 2, 2, 2, 2, 2, 2, 2});
  const std::string options = "--set parallel.ep=4 --set model.capacity_factor=1 --set model.";
  const Ran routed = simulated(box, "--json " + options + "routing=routing.csv");
  CHECK(Json::parse(routed.out)[0]["equal_expert_loads"] == false);
  CHECK(routed.out.find("model.capacity_factor = 1 drops 70.8 % of the tokens' experts; MFU") !=
        std::string::npos);
  const Ran stated = simulated(box, "--json " + options + "expert_imbalance=3");
  CHECK(Json::parse(stated.out)[0]["equal_expert_loads"] == false);
  CHECK(stated.out.find("drops 50 % of the tokens' experts or more") != std::string::npos);
}

TEST_CASE("a layer's own loads count for it alone") {
  const Sandbox box;
  box.file("first.csv",
           "layer,expert,tokens\n0,0,1\n0,1,1\n1,0,1\n1,2,1\n1,4,1\n1,6,1\n"
           "2,0,1\n2,2,1\n2,4,1\n2,6,1\n3,0,1\n3,2,1\n3,4,1\n3,6,1\n");
  route_by(box, {1, 1, 0, 0, 0, 0, 0, 0});
  const double forced = run_of(box, "")["iteration_s"];
  const double one = run_of(box, "--set model.routing=first.csv")["iteration_s"];
  const double all = run_of(box, "--set model.routing=routing.csv")["iteration_s"];
  CHECK(one > forced);
  CHECK(one < all);
}

TEST_CASE("an expert of the busiest rank that gets twice as much never makes a job faster") {
  const Sandbox box;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO(seed);
    std::vector<int> tokens;
    for (std::uint64_t expert = 0; expert < 8; ++expert)
      tokens.push_back(1 + static_cast<int>(scatter(seed * 100 + expert) % 50));
    route_by(box, tokens);
    const double before = run_of(box, "--set model.routing=routing.csv")["iteration_s"];
    std::size_t busiest = 0;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (tokens[2 * rank] + tokens[2 * rank + 1] > tokens[2 * busiest] + tokens[2 * busiest + 1])
        busiest = rank;
    }
    tokens[2 * busiest] *= 2;
    route_by(box, tokens);
    CHECK(run_of(box, "--set model.routing=routing.csv")["iteration_s"] >= before);
  }
}

TEST_CASE("a wrong file of routing is refused in one line") {
  const Sandbox box;
  const auto refused = [&](const std::string& options, const std::string& line) {
    const Ran ran = simulated(box, options);
    INFO(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.err.find(line) != std::string::npos);
  };
  refused("--set model.routing=none.csv", "none.csv: no such file");
  refused("--set model.experts=0 --set model.routing=none.csv",
          "found model.routing and no experts, expected a mixture of experts");
  box.file("routing.csv", "expert,tokens\n8,1\n");
  refused("--set model.routing=routing.csv",
          "routing.csv: found expert 8 of layer 0, expected one from 0 to 7");
  refused("--set model.routing=routing.csv --set model.expert_imbalance=2",
          "found model.routing beside model.expert_imbalance, expected one of them");
}

}  // namespace
}  // namespace tandem
