// What is printed of bounds and bubbles.
#include <catch2/catch.hpp>

#include "report/text/bubble_text.h"
#include "report/text/table.h"
#include "schedule/order/named_orders.h"
#include "tests/text.h"

using namespace tandem;

namespace {

RunResult run_of(const std::string& point, double iteration_s, int pp = 4) {
  RunResult run;
  run.name = "A, " + point;
  run.axes = {"model", "cluster"};
  run.points = {"A", point};
  run.plan = ParallelSizes{.pp = pp};
  run.iteration_s = run.compute_s = iteration_s;
  run.lower_bound = {10, BoundKind::Work, 3};
  return run;
}

std::string explained(const OrderSpec& spec, const OrderCosts& costs, double seconds_a_unit) {
  const auto order = make_order(spec);
  REQUIRE(order.ok());
  const std::vector<OrderCosts> stages(order->stages, costs);
  return bubble_text(*order, explain_bubble(*order, stages),
                     lower_bound(bound_problem(*order, stages)), seconds_a_unit);
}

}  // namespace

TEST_CASE("a run says how far at most it is above the best possible, rounded up") {
  // 12.341 of 10: 23.41 %.
  CHECK(has(conclusions({run_of("B", 12.341)}),
            "at most 23.5 % above the best possible with this layout and memory: 10.000 s, by the "
            "work of rank 3 with its way in and out."));
  CHECK(has(conclusions({run_of("B", 10)}), "at most 0.0 % above"));
  CHECK(has(conclusions({run_of("B", 12), run_of("C", 15)}),
            "Above the best possible with their layouts and memory by at most: B 20.0 %, C 50.0 "
            "%."));
}

TEST_CASE("nothing is said of a run without a pipeline, or without a bound") {
  CHECK(!has(conclusions({run_of("B", 12, 1)}), "best possible"));
  RunResult without = run_of("B", 12);
  without.lower_bound.reset();
  CHECK(!has(conclusions({without}), "best possible"));
}

TEST_CASE("an order's bubble is told part by part, in units or in seconds too") {
  const OrderSpec spec{.name = "1f1b", .pp = 4, .microbatches = 8};
  CHECK(explained(spec, {1, 1, 1, 0}, 0) ==
        "1f1b: 4 ranks, 4 stages, 8 microbatches. It takes 33, of which the mean rank works 24: a "
        "bubble of 9, 27.3 % of the time.\n"
        "\n"
        "units  % of the bubble  where it comes from\n"
        "    3             33.3  fill: until the first microbatch comes to rank 3\n"
        "    6             66.7  drain: behind the last action of rank 3, until the others have "
        "ended\n"
        "\n"
        "It is at most 22.3 % above the best possible with these stages on these ranks and as many "
        "activations held: 27, by the work of rank 3 with its way in and out.\n");
  const std::string seconds = explained(spec, {0.5, 0.5, 0.5, 0}, 0.5);
  CHECK(has(seconds, "It takes 16.5 s, of which the mean rank works 12 s"));
  CHECK(has(seconds, "A unit is the mean stage's forward, 0.5 s.\n"));
  CHECK(has(seconds, "    3  1.5             33.3  fill"));
}

TEST_CASE("an order without a bubble has no parts") {
  CHECK(explained({.name = "gpipe", .pp = 1, .microbatches = 3}, {1, 1, 1, 0}, 0) ==
        "gpipe: 1 rank, 1 stage, 3 microbatches. It takes 9, of which the mean rank works 9: a "
        "bubble of 0, 0.0 % of the time.\n"
        "It is at most 0.0 % above the best possible with these stages on these ranks and as many "
        "activations held: 9, by the work of rank 0 with its way in and out.\n");
}
