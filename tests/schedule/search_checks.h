// What holds of every order that is found, and of many of them beside the named ones.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "schedule/order/order_text.h"
#include "schedule/search/order_search.h"
#include "tests/schedule/golden_rows.h"
#include "tests/schedule/pytorch_rules.h"
#include "tests/schedule/search_cases.h"
#include "tests/seed.h"

namespace tandem {

inline constexpr double kRounding = 1e-9;
inline constexpr double kNone = std::numeric_limits<double>::infinity();

inline void check_valid(const SearchProblem& problem, const Order& order) {
  const Status status = validate(order);
  INFO((status.ok() ? "" : status.error().text()));
  REQUIRE(status.ok());
  CHECK(stage_to_rank(order) == problem.rank_of_stage);
  CHECK(fits(problem, order));
  const std::string broken =
      broken_pytorch_rule(to_pytorch(with_communication(order)), order.stages, order.microbatches);
  INFO(broken);
  CHECK(broken.empty());
}

struct Compared {
  double named = kNone, found = kNone;
};

// The best named order and the best found one, over all cuts of a case.
inline Compared compared(const SearchCase& one, int candidates) {
  Compared best;
  for (const SearchProblem& problem : one.problems) {
    const std::vector<Order> named = named_orders_for(problem);
    for (const Order& order : named) {
      if (fits(problem, order)) best.named = std::min(best.named, makespan(problem, order));
    }
    OrderSearch search(problem, named);
    search.play(candidates);
    const double before = search.best();
    search.refine(candidates / 10);
    CHECK(search.best() <= before);
    const std::vector<SearchedOrder> orders = search.orders(3);
    for (const SearchedOrder& found : orders) {
      check_valid(problem, found.order);
      CHECK(found.makespan == makespan(problem, found.order));
      best.found = std::min(best.found, found.makespan);
    }
    if (!orders.empty()) CHECK(orders.front().makespan <= search.best() * (1 + 1e-4));
  }
  return best;
}

inline void check_random_cases(int cases, int candidates) {
  const unsigned seed = test_seed();
  INFO("TANDEM_SEED=" << seed);
  std::mt19937_64 random(seed);
  int uneven = 0, below = 0;
  double gain = 0;
  for (int i = 0; i < cases; ++i) {
    INFO("case " << i);
    const SearchCase one = random_search_case(&random);
    const auto [named, found] = compared(one, candidates);
    CHECK(found <= named);
    if (!one.uneven || named == kNone) continue;
    ++uneven;
    if (found < named * (1 - kRounding)) ++below;
    gain += 1 - found / named;
  }
  WARN(below << " of " << uneven << " uneven pipelines are faster than with the best named order, "
             << 100 * gain / uneven << " % in the mean");
  CHECK(2 * below >= uneven);
}

// The row's stages where its order has them, of two chains those of one; each rank may hold what
// the reference does.
inline SearchProblem problem_of(const GoldenRow& row) {
  const OrderTraits& traits = traits_of(row.spec);
  SearchProblem problem{.microbatches = row.spec.microbatches,
                        .rank_of_stage = ranks_of_chain(traits, row.spec.pp, row.spec.vpp)};
  problem.costs.assign(problem.rank_of_stage.size(), row.spec.costs);
  problem.bytes.assign(problem.rank_of_stage.size(), {1, 0});
  problem.limit_bytes.assign(row.spec.pp, row.peak_live);
  return problem;
}

// Every so many-th row: never above the best named order that fits, nor above the reference.
inline void check_golden_rows(int every, int candidates) {
  const std::vector<GoldenRow> rows = golden_rows();
  int below_named = 0, below_reference = 0, one_chain = 0, looked_at = 0;
  for (std::size_t i = 0; i < rows.size(); i += static_cast<std::size_t>(every)) {
    const GoldenRow& row = rows[i];
    INFO(row.spec.name << " against " << row.file << ", I = " << row.spec.costs.input);
    const auto [named, found] = compared({{problem_of(row)}}, candidates);
    CHECK(found <= named);
    ++looked_at;
    below_named += found < named * (1 - kRounding) ? 1 : 0;
    if (traits_of(row.spec).chains > 1) continue;
    CHECK(found <= row.makespan * (1 + kRounding));
    ++one_chain;
    below_reference += found < row.makespan * (1 - kRounding) ? 1 : 0;
  }
  WARN("of " << looked_at << " rows " << below_named << " are below the best named order, and of "
             << one_chain << " of one chain " << below_reference << " below the reference");
}

}  // namespace tandem
