// Orders that are found: never slower than a named one that fits, within every rank's bytes, valid
// for PyTorch, and how close they come to the best there is.
#include "schedule/search/order_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "schedule/order/order_replay.h"
#include "tests/schedule/search_checks.h"

namespace tandem {
namespace {

// Every sequence of a rank's F, I and W of one stage, each kind in the order of the microbatches.
void add_sequences(int stage, int m, std::vector<Action> begun, int f, int i, int w,
                   std::vector<std::vector<Action>>* all) {
  if (w == m) return all->push_back(std::move(begun));
  const auto with = [&](ActionKind kind, int microbatch) {
    std::vector<Action> next = begun;
    next.push_back({Stage{stage}, kind, Microbatch{microbatch}});
    return next;
  };
  if (f < m) add_sequences(stage, m, with(ActionKind::Forward, f), f + 1, i, w, all);
  if (i < f) add_sequences(stage, m, with(ActionKind::BackwardInput, i), f, i + 1, w, all);
  if (w < i) add_sequences(stage, m, with(ActionKind::BackwardWeight, w), f, i, w + 1, all);
}

// The least makespan of all orders with a stage a rank, microbatches in turn, that fit.
double least_of_all(const SearchProblem& problem) {
  std::vector<std::vector<std::vector<Action>>> choices(problem.pp());
  Order order{"", problem.pp(), problem.microbatches, 1, {}};
  for (int rank = 0; rank < problem.pp(); ++rank) {
    add_sequences(rank, problem.microbatches, {}, 0, 0, 0, &choices[rank]);
    std::erase_if(choices[rank], [&](const std::vector<Action>& actions) {
      const Order one{"", problem.pp(), problem.microbatches, 1, {actions}};
      return peak_bytes(problem, one)[0] > problem.limit_bytes[rank] * (1 + kRounding);
    });
    order.ranks.push_back(choices[rank].front());
  }
  double least = kNone;
  std::vector<std::size_t> at(choices.size());
  for (bool more = true; more;) {
    for (std::size_t rank = 0; rank < at.size(); ++rank)
      order.ranks[rank] = choices[rank][at[rank]];
    const OrderReplay replay = replay_stages(order, problem.costs);
    bool ends = true;
    for (int rank = 0; rank < problem.pp(); ++rank) ends = ends && replay.finished(rank);
    if (ends) least = std::min(least, replay.makespan);
    more = false;
    for (std::size_t rank = 0; rank < at.size() && !more; ++rank) {
      more = ++at[rank] < choices[rank].size();
      if (!more) at[rank] = 0;
    }
  }
  return least;
}

}  // namespace

TEST_CASE("a found order is never slower than a named one that fits, on golden sizes") {
  for (const int pp : {2, 4}) {
    for (const int m : {2, 4, 8, 12}) {
      for (const double input : {1., 2.}) {
        INFO("pp " << pp << ", m " << m << ", I " << input);
        SearchSizes sizes{.pp = pp, .microbatches = m};
        sizes.halves.assign(2 * pp, {1, input, 1, 0});
        sizes.bytes.assign(2 * pp, {1, 1});
        sizes.limit = 2 * pp;
        const auto [named, found] = compared(search_case(sizes), 300);
        CHECK(found <= named);
      }
    }
  }
}

TEST_CASE("golden rows: never above the best named order that fits, nor above the reference") {
  check_golden_rows(12, 100);
}

TEST_CASE("random pipelines: never above the best named order, below on most uneven ones") {
  check_random_cases(12, 250);
}

TEST_CASE("what is found depends on the candidates alone, not on their portions") {
  std::mt19937_64 random(5);
  const SearchProblem problem = random_search_case(&random).problems.back();
  OrderSearch at_once(problem, {}), bit_by_bit(problem, {});
  at_once.play(600);
  for (int i = 0; i < 60; ++i) bit_by_bit.play(10);
  REQUIRE(at_once.orders(1).size() == 1);
  CHECK(at_once.orders(1)[0].order.ranks == bit_by_bit.orders(1)[0].order.ranks);
}

TEST_CASE("a rank with room for one microbatch of its stages still has an order, less room none") {
  for (const auto& ranks : {stages_in_order(3, 3), stages_in_a_v(4, 2), stages_in_a_v(2, 4)}) {
    const auto stages = ranks.size();
    const int pp = *std::ranges::max_element(ranks) + 1;
    SearchProblem problem{.microbatches = 7,
                          .rank_of_stage = ranks,
                          .costs = std::vector<OrderCosts>(stages, {1, 2, 1, 0.3}),
                          .bytes = std::vector<StageBytes>(stages, {10, 6}),
                          .limit_bytes = std::vector<double>(pp, 10. * stages / pp)};
    OrderSearch search(problem, {});
    search.play(300);
    REQUIRE(search.orders(1).size() == 1);
    check_valid(problem, search.orders(1)[0].order);
    problem.limit_bytes.back() *= 0.99;
    OrderSearch none(problem, {});
    none.play(300);
    CHECK(none.orders(1).empty());
    CHECK(none.best() == kNone);
  }
}

TEST_CASE("small pipelines: found orders beside the best of all") {
  const unsigned seed = test_seed();
  INFO("TANDEM_SEED=" << seed);
  std::mt19937_64 random(seed);
  int cases = 0, best = 0;
  double worst = 0;
  for (const auto& [pp, most] : {std::pair{2, 4}, {3, 3}}) {
    for (int m = 2; m <= most; ++m) {
      for (int i = 0; i < 4; ++i) {
        SearchProblem problem{.microbatches = m, .rank_of_stage = stages_in_order(pp, 1)};
        const double transfer = between(0, 0.5, &random);
        for (int s = 0; s < pp; ++s) {
          problem.costs.push_back(
              {between(1, 3, &random), between(1, 3, &random), between(1, 3, &random), transfer});
          problem.bytes.push_back({1, between(0.5, 1, &random)});
          problem.limit_bytes.push_back(between(1, pp + 1, &random));
        }
        OrderSearch search(problem, named_orders_for(problem));
        search.play(500);
        const double least = least_of_all(problem), found = search.orders(1).at(0).makespan;
        CHECK(found >= least * (1 - kRounding));
        ++cases;
        if (found <= least * (1 + kRounding)) ++best;
        worst = std::max(worst, found / least - 1);
      }
    }
  }
  WARN(best << " of " << cases << " are the best of all; the worst is " << 100 * worst
            << " % above");
  CHECK(worst < 0.05);
}

}  // namespace tandem
