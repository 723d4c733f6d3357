// Splits of layers over stages: against all that there are, and against what moves one layer.
#include "schedule/order/layer_split.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <utility>

#include "schedule/order/order_replay.h"
#include "schedule/order/repeated_replay.h"
#include "schedule/order/split_search.h"
#include "tests/made_order.h"

using namespace tandem;

namespace {

LayerCosts random_costs(int layers, std::mt19937* random) {
  std::uniform_real_distribution<double> time(0.5, 2);
  const auto one = [&] { return OrderCosts{time(*random), time(*random), time(*random), 0}; };
  LayerCosts costs;
  for (int layer = 0; layer < layers; ++layer) costs.layers.push_back(one());
  costs.embedding = one();
  costs.head = one();
  costs.each = {0.1, 0.1, 0.1, 0};
  return costs;
}

LayerCosts alike(int layers, double head) {
  LayerCosts costs;
  costs.layers.assign(layers, {1, 1, 1, 0});
  costs.embedding = costs.each = {0, 0, 0, 0};
  costs.head = {head, head, head, 0};
  return costs;
}

double busiest(const LayerCosts& costs, const std::vector<int>& split,
               const std::vector<int>& rank_of_stage) {
  std::vector<double> ranks(rank_of_stage.size());
  const std::vector<OrderCosts> stages = costs_of_split(costs, split);
  for (std::size_t s = 0; s < stages.size(); ++s)
    ranks[rank_of_stage[s]] += stages[s].forward + stages[s].input + stages[s].weight;
  return *std::ranges::max_element(ranks);
}

// All splits in which stages between the ends have a layer.
std::vector<std::vector<int>> all_splits(int layers, int stages) {
  if (stages == 1) return {{layers}};
  std::vector<std::vector<int>> splits;
  for (int last = 0; last <= layers; ++last) {
    for (std::vector<int> split : all_splits(layers - last, stages - 1)) {
      split.push_back(last);
      const bool between =
          std::any_of(split.begin() + 1, split.end() - 1, [](int own) { return own == 0; });
      if (!between) splits.push_back(split);
    }
  }
  return splits;
}

std::vector<int> looped(int pp, int vpp) {
  std::vector<int> ranks(static_cast<std::size_t>(pp) * vpp);
  for (std::size_t stage = 0; stage < ranks.size(); ++stage)
    ranks[stage] = static_cast<int>(stage) % pp;
  return ranks;
}

}  // namespace

TEST_CASE("with a stage a rank no split's busiest stage has less to do") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 100; ++trial) {
    const int stages = 2 + trial % 4, layers = stages - 2 + trial % 9;
    if (layers == 0) continue;
    const LayerCosts costs = random_costs(layers, &random);
    const std::vector<int> split = balanced_split(costs, looped(stages, 1));
    CHECK(std::accumulate(split.begin(), split.end(), 0) == layers);
    double least = 1e9;
    for (const std::vector<int>& other : all_splits(layers, stages))
      least = std::min(least, busiest(costs, other, looped(stages, 1)));
    CHECK(busiest(costs, split, looped(stages, 1)) == Approx(least));
  }
}

TEST_CASE("with layers that are alike no split's busiest rank of two stages has less to do") {
  for (const int layers : {7, 8, 9, 12}) {
    for (const double head : {0.0, 0.7, 1.5, 3.0}) {
      const LayerCosts costs = alike(layers, head);
      const std::vector<int> ranks = looped(3, 2);
      double least = 1e9;
      for (const std::vector<int>& other : all_splits(layers, 6))
        least = std::min(least, busiest(costs, other, ranks));
      CHECK(busiest(costs, balanced_split(costs, ranks), ranks) == Approx(least));
    }
  }
}

TEST_CASE("a head as long as two layers leaves the last stage two layers fewer") {
  CHECK(balanced_split(alike(14, 2), looped(4, 1)) == std::vector{4, 4, 4, 2});
  CHECK(balanced_split(alike(16, 0), looped(4, 1)) == std::vector{4, 4, 4, 4});
}

TEST_CASE("refining never ends above where it starts, and asks for no more than it may") {
  const LayerCosts costs = alike(16, 2);
  const Order order = made_order({.name = "1f1b", .pp = 4, .microbatches = 8});
  int asked = 0;
  const auto value = [&](const std::vector<int>& split) {
    ++asked;
    return SplitValue{split[0] < 5, replay_stages(order, costs_of_split(costs, split)).makespan};
  };
  const std::vector<int> even = {4, 4, 4, 4};
  const auto splits = refined_splits(costs, {even}, 1000, {value});
  CHECK(!value(even).better_than(value(splits.front())));
  CHECK(value(splits.front()).time < value(even).time);
  CHECK(splits.front()[0] < 5);  // what does not fit comes behind
  asked = 0;
  refined_splits(costs, {even}, 5, {value});
  CHECK(asked == 5);
}

TEST_CASE(
    "stages that are alike replay as one cost does, and a transfer delays what waits for it") {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zbv"}) {
    const OrderTraits& traits = traits_of(name);
    const int vpp = name == std::string("interleaved") ? 2 : traits.default_vpp();
    const Order order = made_order({.name = name, .pp = 4, .vpp = vpp, .microbatches = 8});
    const std::vector<OrderCosts> stages(order.stages, {3, 2, 1, 0});
    CHECK(replay_stages(order, stages).makespan ==
          replay_order(order, {.forward = 3, .backward = 3, .input = 2, .weight = 1}).makespan);
  }
  const Order one = made_order({.name = "gpipe", .pp = 3, .microbatches = 1});
  const std::vector<OrderCosts> stages(3, {3, 2, 1, 0.5});
  CHECK(replay_stages(one, stages).makespan == 3 * (3 + 3) + 4 * 0.5);
}

TEST_CASE("an order played again takes what it takes when played anew, at any times") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> time(0, 2);
  for (const char* name : {"gpipe", "1f1b", "interleaved", "looped-bfs", "zb1p", "interleaved-zb",
                           "zbv", "dualpipe", "dualpipev"}) {
    INFO(name);
    const OrderTraits& traits = traits_of(name);
    const int vpp = std::max(traits.default_vpp(), traits.least_vpp);
    const Order order = made_order({.name = name, .pp = 4, .vpp = vpp, .microbatches = 16});
    RepeatedReplay replay(order);
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<OrderCosts> stages;
      for (int stage = 0; stage < order.stages; ++stage)
        stages.push_back({time(random), time(random), time(random), 0.1 * time(random)});
      CHECK(replay.makespan(stages) == replay_stages(order, stages).makespan);
    }
  }
}

TEST_CASE("no change of a stage's times shortens an iteration by more than its passes on the way") {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> time(0.5, 2);
  for (const char* name : {"1f1b", "interleaved", "zbv"}) {
    const int vpp = name == std::string("1f1b") ? 1 : 2;
    const Order order = made_order({.name = name, .pp = 4, .vpp = vpp, .microbatches = 12});
    RepeatedReplay replay(order);
    for (int trial = 0; trial < 50; ++trial) {
      std::vector<OrderCosts> stages;
      for (int stage = 0; stage < order.stages; ++stage)
        stages.push_back({time(random), time(random), time(random), 0.1});
      const double before = replay.makespan(stages);
      const std::vector<PathPasses> way = replay.longest_way();
      double of_way = 0, change = 0;
      for (int stage = 0; stage < order.stages; ++stage) {
        const OrderCosts next = {time(random), time(random), time(random), 0.1};
        of_way += way[stage].forward + way[stage].input + way[stage].weight;
        change += way[stage].forward * (next.forward - stages[stage].forward) +
                  way[stage].input * (next.input - stages[stage].input) +
                  way[stage].weight * (next.weight - stages[stage].weight);
        stages[stage] = next;
      }
      CHECK(of_way > 0);
      CHECK(replay.makespan(stages) >= before + change - 1e-9);
    }
  }
}

TEST_CASE("where the longest way is known, only moves that can shorten it are tried") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    const LayerCosts costs = random_costs(14, &random);
    const Order order = made_order({.name = "1f1b", .pp = 5, .microbatches = 10});
    RepeatedReplay replay(order);
    int asked = 0;
    const auto value = [&](const std::vector<int>& split) {
      ++asked;
      return SplitValue{true, replay.makespan(costs_of_split(costs, split))};
    };
    const auto way = [&](const std::vector<int>& split) {
      replay.makespan(costs_of_split(costs, split));
      return replay.longest_way();
    };
    const std::vector<int> even = {3, 3, 3, 3, 2};
    const auto blind = refined_splits(costs, {even}, 10'000, {value});
    const int without = std::exchange(asked, 0);
    const auto seeing = refined_splits(costs, {even}, 10'000, {value, way});
    CHECK(asked < without);
    // Both end where no move of a layer is better.
    CHECK(value(seeing.front()).time <= value(even).time);
    CHECK(refined_splits(costs, {seeing.front()}, 10'000, {value}).front() == seeing.front());
    CHECK(refined_splits(costs, {blind.front()}, 10'000, {value, way}).front() == blind.front());
  }
}
