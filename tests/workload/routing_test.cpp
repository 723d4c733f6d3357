// Routing: loads by hand, what they do to a model's layers, and the files they are read from.
#include "workload/model/routing.h"

#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "scenarios/routing_file.h"
#include "tests/sandbox.h"
#include "workload/model/blocks.h"

namespace tandem {
namespace {

const RoutedLoad& on(const std::vector<RoutedLoad>& loads, int ranks) {
  const auto found = std::ranges::find(loads, ranks, &RoutedLoad::ranks);
  REQUIRE(found != loads.end());
  return *found;
}

TEST_CASE("the busiest rank's load is its experts' tokens over the mean rank's") {
  // Four experts: 40, 20, 20, 20 tokens. Of two ranks the first has 60 of 100; of four, 40.
  const auto loads = routed_loads({{40, 20, 20, 20}}, 4, 0);
  REQUIRE(loads.size() == 3);  // 1, 2 and 4 ranks
  CHECK(on(loads, 1).mean == 1);
  CHECK(on(loads, 2).mean == Approx(1.2));
  CHECK(on(loads, 4).mean == Approx(1.6));
  CHECK(on(loads, 4).most == Approx(1.6));
}

TEST_CASE("ranks wait for the busiest of each exchange, and memory holds the worst one") {
  // Another expert is the hot one each time: in the sum both ranks have as much.
  const auto loads = routed_loads({{3, 1}, {1, 3}, {2, 2}}, 2, 0);
  CHECK(on(loads, 2).mean == Approx((1.5 + 1.5 + 1) / 3));
  CHECK(on(loads, 2).most == Approx(1.5));
}

TEST_CASE("an expert drops what is above its capacity") {
  // Of 100 tokens over 4 experts the mean is 25: with a capacity of 1.2 an expert takes 30.
  CHECK(on(routed_loads({{40, 20, 20, 20}}, 4, 1.2), 4).mean == Approx(1.2));
  CHECK(on(routed_loads({{40, 20, 20, 20}}, 4, 1.2), 2).mean == Approx(1.0));
}

TEST_CASE("what is dropped is counted, and ranks are equal only where they take as much") {
  // Of 100 tokens the first expert's 40 are cut to 30, and 10 dropped.
  const auto cut = routed_loads({{40, 20, 20, 20}}, 4, 1.2);
  CHECK(on(cut, 4).dropped == Approx(0.1));
  CHECK(on(cut, 1).dropped == Approx(0.1));
  CHECK_FALSE(on(cut, 4).even);
  CHECK(on(cut, 1).even);
  CHECK(on(routed_loads({{40, 20, 20, 20}}, 4, 1.6), 4).dropped == 0);
  // All take their capacity, half of the mean.
  CHECK(on(routed_loads({{40, 20, 20, 20}}, 4, 0.5), 4).even);
  CHECK(on(routed_loads({{40, 20, 20, 20}}, 4, 0.5), 4).dropped == Approx(0.5));
  // The second exchange drops 50 of 100 tokens, the first 50 of 300.
  CHECK(on(routed_loads({{200, 100}, {0, 100}}, 2, 1), 2).dropped == Approx(0.25));
}

Model moe(int layers) {
  Model model;
  model.layers = layers;
  model.hidden = 1024;
  model.heads = 8;
  model.seq = 1024;
  model.vocab = 32000;
  model.experts = 4;
  model.top_k = 1;
  return model;
}

TEST_CASE("layers with different loads are kinds of their own, and even loads change nothing") {
  Plan plan;
  plan.ep = 4;
  Model model = moe(3);
  REQUIRE(route({.layers = {{1, {{40, 20, 20, 20}}}}, .all_layers = {{1, 1, 1, 1}}}, &model).ok());
  REQUIRE(model.kinds.size() == 2);
  CHECK(expert_load(model.layer(0), plan) == 1);
  CHECK(expert_load(model.layer(1), plan) == Approx(1.6));
  CHECK(&model.layer(0) == &model.layer(2));
  CHECK(expert_load(evenly_routed(model).layer(1), plan) == 1);
  Model even = moe(3);
  REQUIRE(route({.layers = {}, .all_layers = {{7, 7, 7, 7}, {5, 5, 5, 5}}}, &even).ok());
  CHECK(even.kinds.empty());
  CHECK(even.routed.empty());
  REQUIRE(route({.layers = {}, .all_layers = {{0.1, 0.1, 0.1, 0.1}}}, &even).ok());
  CHECK(even.routed.empty());
  Model six = moe(3);
  six.experts = 6;
  REQUIRE(route({.layers = {}, .all_layers = {ExpertTokens(6, 0.1)}}, &six).ok());
  CHECK(six.kinds.empty());
}

TEST_CASE("tokens must fit the model's layers and experts") {
  const auto error = [](const Routing& routing) {
    Model model = moe(2);
    const Status status = route(routing, &model);
    REQUIRE(!status.ok());
    return status.error().message;
  };
  CHECK(error({.layers = {{2, {{1}}}}, .all_layers = {{1}}}) ==
        "found layer 2, expected one from 0 to 1");
  CHECK(error({.layers = {{0, {{1}}}}, .all_layers = {}}) ==
        "found no tokens of layer 1, which has experts");
  CHECK(error({.layers = {}, .all_layers = {{1, 1, 1, 1, 1}}}) ==
        "found expert 4 of layer 0, expected one from 0 to 3");
}

TEST_CASE("a CSV file has tokens by layer, step and expert") {
  const Sandbox box;
  const auto read = [&](const std::string& text) {
    box.file("r.csv", text);
    return read_routing(box.path("r.csv"));
  };
  const auto all = read("expert,tokens\n0,3\n2,1\n");
  REQUIRE(all.ok());
  CHECK(all->layers.empty());
  CHECK(all->all_layers == Exchanges{{3, 0, 1}});
  const auto steps = read("layer,step,expert,tokens\n1,10,0,3\n1,11,1,2\n0,10,0,1\n");
  REQUIRE(steps.ok());
  CHECK(steps->layers.at(1) == Exchanges{{3}, {0, 2}});
  CHECK(steps->layers.at(0) == Exchanges{{1}});
  const auto error = [&](const std::string& text) {
    const auto found = read(text);
    REQUIRE(!found.ok());
    return found.error().text().substr(box.path("r.csv").size());
  };
  CHECK(error("expert\n0\n") == ": found no column tokens");
  CHECK(error("expert,tokens,rank\n0,1,2\n") ==
        ": found column rank, expected layer, step, expert and tokens");
  CHECK(error("expert,tokens\n0,1\n0,2\n") == ":3: found expert 0 again, as in line 2");
  CHECK(error("expert,tokens\n0,-1\n") == ":2: tokens: found -1, expected from 0 to 1e+15");
  CHECK(error("expert,tokens\n0,0\n") == ": found no tokens in step 0");
  CHECK(error("expert,tokens\n0,1e308\n") == ":2: tokens: found 1e+308, expected from 0 to 1e+15");
}

TEST_CASE("Megatron-LM's router traces are added up rank by rank, microbatch by microbatch") {
  const Sandbox box;
  const std::string head = R"({"step": 0, "stage": "pre_dispatch", "block": "decoder", "layer": )";
  // Two microbatches of layer 1; a record of multi-token prediction is left out.
  box.file("router_trace_rank0.jsonl",
           head +
               R"(1, "rank": 0, "num_tokens": 2, "topk": 1, "top_indices": [[0], [1]]})"
               "\n" +
               head +
               R"(1, "rank": 0, "num_tokens": 1, "topk": 1, "top_indices": [[2]]})"
               "\n" +
               R"({"step": 0, "block": "mtp", "mtp_idx": 0, "layer": 0, "top_indices": [[3]]})"
               "\n");
  box.file("router_trace_rank1.jsonl",
           head +
               R"(1, "rank": 1, "num_tokens": 2, "topk": 1, "top_indices": [[0], [0]]})"
               "\n" +
               head +
               R"(1, "rank": 1, "num_tokens": 1, "topk": 1, "top_indices": [[2]]})"
               "\n");
  const auto routing = read_routing(box.path("router_trace_rank0.jsonl"));
  REQUIRE(routing.ok());
  REQUIRE(routing->layers.size() == 1);
  CHECK(routing->layers.at(1) == Exchanges{{3, 1}, {0, 0, 2}});
  const auto wrong_with = [&](const std::string& rank1) {
    box.file("router_trace_rank1.jsonl", rank1);
    const auto found = read_routing(box.path("router_trace_rank0.jsonl"));
    REQUIRE(!found.ok());
    return found.error().text();
  };
  CHECK(wrong_with(head + R"(1, "rank": 1, "top_indices": [[0]]})" + "\n")
            .find("found other microbatches than in ") != std::string::npos);
  CHECK(wrong_with(head + R"(1, "top_indices": [[18446744073709551615]]})" + "\n")
            .find(":1: found an expert in top_indices that is no number from 0") !=
        std::string::npos);
  CHECK(wrong_with(head + R"(18446744073709551615, "top_indices": [[0]]})" + "\n")
            .find(":1: found no step, layer or top_indices") != std::string::npos);
  box.file("router_trace_rank1.jsonl", "{}\n");
  const auto wrong = read_routing(box.path("router_trace_rank0.jsonl"));
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().text() ==
        box.path("router_trace_rank1.jsonl") +
            ":1: found no step, layer or top_indices, as Megatron-LM's router trace has them");
}

}  // namespace
}  // namespace tandem
