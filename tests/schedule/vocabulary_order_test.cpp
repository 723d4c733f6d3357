// Orders with the vocabulary's passes: what they look like, hold and take; their text form, and
// what validation refuses.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "schedule/order/order_replay.h"
#include "schedule/order/order_text.h"
#include "schedule/order/vocabulary.h"
#include "tests/folder.h"
#include "tests/made_order.h"
#include "tests/schedule/vocabulary_work.h"

namespace tandem {
namespace {

Order order_with(const std::string& name, int pp, int microbatches, int algorithm, int vpp = 0) {
  OrderSpec spec;
  spec.name = name;
  spec.pp = pp;
  spec.vpp = vpp > 0 ? vpp : traits_of(name).default_vpp();
  spec.microbatches = microbatches;
  spec.vocabulary = algorithm;
  return made_order(spec);
}

// Every named order that takes the vocabulary, with stages a rank that it has.
std::vector<std::pair<std::string, int>> takers() {
  std::vector<std::pair<std::string, int>> all;
  for (const OrderTraits& traits : named_orders()) {
    if (!traits.takes_vocabulary()) continue;
    all.emplace_back(traits.name, std::max(traits.default_vpp(), traits.least_vpp));
  }
  return all;
}

int peak_of(const Order& order, int rank) {
  const std::vector<std::vector<int>> live = peak_live(order);
  return std::accumulate(live[rank].begin(), live[rank].end(), 0);
}

std::string fault_of(const Order& order) {
  const Status status = validate(order);
  return status.ok() ? "" : status.error().text();
}

// The place of the action in its rank's order.
std::ptrdiff_t place_of(const Order& order, int rank, const std::string& text) {
  const auto found = std::ranges::find(order.ranks[rank], text, to_text);
  REQUIRE(found != order.ranks[rank].end());
  return found - order.ranks[rank].begin();
}

TEST_CASE("1F1B's ranks put S and T between F and B, and turn one or two microbatches later") {
  // With lookups that take no time, as they are drawn: nothing.
  CHECK(to_grid(order_with("1f1b", 3, 5, 2)) ==
        "time   0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 "
        "27 28 29\n"
        "rank 0 F0 F1 F2 S0 F3 S1 T0 T1 .  .  S2 B0--- F4 T2 S3 B1--- T3 .  S4 B2--- T4 .  .  "
        "B3--- B4---\n"
        "rank 1 .  F0 F1 S0 F2 S1 T0 T1 .  B0--- S2 F3 T2 B1--- S3 F4 T3 B2--- S4 T4 .  B3--- "
        "B4--- .  .\n"
        "rank 2 .  .  F0 S0 F1 S1 T0 B0--- F2 S2 T1 B1--- F3 S3 T2 B2--- F4 S4 T3 B3--- B4--- T4 "
        ".  .  .\n");
}

TEST_CASE("1F1B holds p + 2 microbatches with algorithm 1, p + 1 with algorithm 2") {
  for (const int pp : {2, 3, 4, 8, 16}) {
    INFO(pp);
    CHECK(peak_of(order_with("1f1b", pp, 3 * pp, 0), 0) == pp);
    CHECK(peak_of(order_with("1f1b", pp, 3 * pp, 1), 0) == pp + 2);
    CHECK(peak_of(order_with("1f1b", pp, 3 * pp, 2), 0) == pp + 1);
    for (int algorithm : {1, 2})
      CHECK(std::ranges::max(peak_outputs(order_with("1f1b", pp, 3 * pp, algorithm))) <= 2);
  }
}

TEST_CASE(
    "V-Half holds two or four more half microbatches, others no more than their limit and "
    "that") {
  for (const auto& [name, vpp] : takers()) {
    if (!traits_of(name).made_for_costs()) continue;
    for (const int pp : {4, 8}) {
      for (const int algorithm : {1, 2}) {
        INFO(name << ' ' << pp << ' ' << algorithm);
        const Order plain = order_with(name, pp, 32, 0, vpp);
        const Order shared = order_with(name, pp, 32, algorithm, vpp);
        const int limit = name == "zb1p"     ? pp
                          : name == "zb2p"   ? 2 * pp
                          : name == "zbv"    ? 2 * pp
                          : name == "v-half" ? 2 * (pp / 2) + 2
                                             : 2 * ((pp + 4) / 3);
        for (int rank = 0; rank < pp; ++rank)
          CHECK(peak_of(shared, rank) <= limit + barriers(algorithm) * vpp);
        CHECK(peak_of(plain, 0) <= limit);
      }
    }
  }
}

TEST_CASE("1F1B takes m (F + B + S + T) + (p - 1)(F + B), less a T that algorithm 2 puts off") {
  // Free communication and F = B / 2 = S = T: nothing is idle but what 1F1B's own fill leaves.
  for (const int pp : {2, 3, 5, 8}) {
    for (const int m : {16, 17, 64}) {
      INFO(pp << ' ' << m);
      CHECK(replay_order(order_with("1f1b", pp, m, 1), {}).makespan == 5 * m + 3 * (pp - 1));
      CHECK(replay_order(order_with("1f1b", pp, m, 2), {}).makespan == 5 * m + 3 * (pp - 1) - 1);
    }
  }
}

TEST_CASE("in the steady state every order's interval is what a rank does for a microbatch") {
  for (const auto& [name, vpp] : takers()) {
    // Those whose forwards all come first have no steady state; V-Min's memory does not allow one.
    if (name == "gpipe" || name == "looped-bfs" || name == "v-min") continue;
    for (const int algorithm : {1, 2}) {
      INFO(name << ' ' << algorithm);
      constexpr int kFew = 64, kMore = 96;
      const auto makespan = [&, order = name, stages = vpp](int m) {
        return replay_order(order_with(order, 4, m, algorithm, stages), {}).makespan;
      };
      const double interval = (makespan(kMore) - makespan(kFew)) / (kMore - kFew);
      const double work = 3 * vpp + 2;
      CHECK(interval >= work - 1e-9);
      CHECK(interval <= 1.02 * work);
    }
  }
}

TEST_CASE("every order that takes the vocabulary is valid, and its CSV is read as it was written") {
  const Folder folder;
  for (const auto& [name, vpp] : takers()) {
    for (const auto& [pp, m] : {std::pair{2, 4}, std::pair{4, 8}, std::pair{5, 15}}) {
      for (const int algorithm : {1, 2}) {
        INFO(name << ' ' << pp << ' ' << m << ' ' << algorithm);
        auto made = vocabulary_order(name, pp, vpp, m, algorithm);
        REQUIRE(made.ok());
        CHECK(fault_of(*made).empty());
        const std::string text = to_pytorch(*made);
        CHECK(text.starts_with(fmt::format("# vocabulary: {}\n", algorithm)));
        const auto read = read_pytorch(folder.with("made.csv", text));
        REQUIRE(read.ok());
        CHECK(read->vocabulary == algorithm);
        CHECK(read->ranks == made->ranks);
        // Four more a rank and microbatch; the others stand as before.
        for (const auto& actions : made->ranks) {
          const auto added = std::ranges::count_if(
              actions, [](const Action& action) { return is_vocabulary(action.kind); });
          CHECK(added == 4 * m);
        }
      }
    }
  }
}

TEST_CASE("the order's communication is PyTorch's, whose form has none of the vocabulary's") {
  const Order order = order_with("1f1b", 2, 2, 2);
  Order plain = with_communication(order);
  for (auto& actions : plain.ranks)
    std::erase_if(actions, [](const Action& action) { return is_vocabulary(action.kind); });
  for (const auto& [rank, send, receive] :
       {std::tuple{0, "0SEND_F0", "0RECV_B0"}, std::tuple{1, "1SEND_B0", "1RECV_F0"}}) {
    place_of(plain, rank, send);
    place_of(plain, rank, receive);
  }
}

TEST_CASE("a vocabulary pass that is missing, twice, misplaced or out of turn is named") {
  const Order good = order_with("1f1b", 2, 3, 2);
  REQUIRE(fault_of(good).empty());
  const auto broken = [&](auto change) {
    Order order = good;
    order.name.clear();
    change(&order);
    return fault_of(order);
  };
  const auto erase = [](int rank, const std::string& text) {
    return [=](Order* order) {
      order->ranks[rank].erase(order->ranks[rank].begin() + place_of(*order, rank, text));
    };
  };
  CHECK(broken(erase(1, "1T2")) ==
        "rank 1: found no 1T2, expected vocabulary passes of each of 3 "
        "microbatches on every rank");
  const std::string rule =
      ": vocabulary passes are of the rank's lowest stage, once a microbatch, as the chain's ends "
      "go";
  CHECK(broken(erase(0, "0E0")) == "rank 0: found 0E1, expected 0E0" + rule);
  CHECK(broken([](Order* order) {
          order->ranks[1].push_back({Stage{1}, ActionKind::OutputS, Microbatch{2}});
        }) == "rank 1: found 1S2, expected no more" + rule);
  CHECK(broken([](Order* order) {
          std::swap(order->ranks[0][place_of(*order, 0, "0S0")],
                    order->ranks[0][place_of(*order, 0, "0S1")]);
        }) == "rank 0: found 0S1, expected 0S0" + rule);
  CHECK(broken([](Order* order) {
          order->ranks[0][place_of(*order, 0, "0G0")].stage = Stage{1};
        }) == "rank 0: found 1G0, expected 0G0" + rule);
  CHECK(broken([](Order* order) { order->vocabulary = 0; }) ==
        "rank 0: found 0E0, expected no more" + rule);
  CHECK(broken([](Order* order) { order->chains = 2; }) ==
        "found vocabulary passes with 2 chains, expected one");
}

TEST_CASE("ranks that wait for one another's vocabulary passes are named") {
  // Rank 0 does S and T only behind a gradient that needs them.
  Order order = order_with("1f1b", 2, 2, 2);
  order.name.clear();
  auto& actions = order.ranks[0];
  const auto b = place_of(order, 0, "0B0");
  std::stable_partition(actions.begin(), actions.begin() + b + 1, [](const Action& action) {
    return action.kind != ActionKind::OutputS && action.kind != ActionKind::OutputT;
  });
  CHECK(fault_of(order) ==
        "the order waits for itself: rank 0 at 0B0 waits for 1B0 of rank 1, which at 1T0 waits for "
        "0S0 of rank 0");
}

TEST_CASE(
    "orders without a pipeline of one chain take no vocabulary, and there are two algorithms") {
  const auto refused = [](const std::string& name, int pp, int algorithm) {
    const auto order = vocabulary_order(name, pp, traits_of(name).default_vpp(), 16, algorithm);
    return order.ok() ? "" : order.error().text();
  };
  CHECK(refused("dualpipe", 4, 2) ==
        "order dualpipe: found vocabulary parallelism, expected one of gpipe, 1f1b, interleaved, "
        "looped-bfs, zb1p, zb2p, interleaved-zb, zbv, v-half and v-min");
  CHECK(refused("none", 1, 1).starts_with("order none: found vocabulary parallelism, expected"));
  CHECK(refused("1f1b", 1, 1) ==
        "order 1f1b: found vocabulary parallelism with pp = 1, expected at "
        "least 2 ranks that share the vocabulary");
  CHECK(refused("1f1b", 2, 3) ==
        "order 1f1b: found algorithm 3 of vocabulary parallelism, expected 1 or 2");
}

TEST_CASE(
    "an order has its vocabulary passes once, and cells that wait for themselves are refused") {
  const std::vector<OrderCosts> stages(2);
  const auto twice = with_vocabulary(order_with("1f1b", 2, 2, 1), 1, stages, {});
  REQUIRE(!twice.ok());
  CHECK(twice.error().text() ==
        "order 1f1b: found such passes in it already, expected one chain of stages without passes "
        "of the vocabulary");
  Order order = order_with("1f1b", 2, 2, 0);
  order.ranks[1][0].with_next = true;  // (1F0;1B0)
  const auto stuck = with_vocabulary(order, 2, stages, {});
  REQUIRE(!stuck.ok());
  CHECK(stuck.error().text().find("expected no backward of the last stage in the cell of its own "
                                  "forward") != std::string::npos);
}

}  // namespace
}  // namespace tandem
