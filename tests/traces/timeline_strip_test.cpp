// TimelineStrip: an iteration in columns, and the spans that measure() adds up.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "tests/made_program.h"
#include "tests/seed.h"
#include "traces/metrics.h"
#include "traces/timeline_strip.h"

using namespace tandem;

namespace {

// Two ranks: rank 0 computes 40 ns and sends for 20 ns; rank 1 receives, and computes 40 ns.
Program two_ranks() {
  return made_program(R"(
    rank 0: F 40ns, send 0>1 20ns after F
    rank 1: recv 0>1 20ns, B 40ns after recv
  )");
}

Trace played(const Program& program) {
  const RankFolding folding = fold(program);
  auto replayed = replay(program, folding);
  REQUIRE(replayed.ok());
  Trace trace;
  for (std::size_t p = 0; p < folding.folded_ranks.size(); ++p) {
    const FoldedRank& folded = folding.folded_ranks[p];
    trace.ranks.push_back({folded.rank, folded.body, folded.multiplicity, replayed->first[p]});
  }
  trace.events = std::move(replayed->events);
  return trace;
}

}  // namespace

// Rank 0: compute to 40, its send to 60 (the iteration's end waits for it), bubble to 100. Rank 1:
// bubble to 40, its receive to 60, compute to 100. Columns of 25 ns.
TEST_CASE("a column has what its rank did in it, to the nanosecond") {
  const Program program = two_ranks();
  const TimelineStrip strip = timeline_strip(program, played(program), 4);
  CHECK(strip.iteration_ns == 100);
  CHECK(strip.left_out == 0);
  REQUIRE(strip.rows.size() == 2);
  const auto parts = [&](int row, std::size_t kind) {
    std::vector<Nanoseconds> ns;
    for (const TimelineStrip::Cell& cell : strip.rows[row].cells)
      ns.push_back(cell.compute_ns[kind]);
    return ns;
  };
  const auto waits = [&](int row) {
    std::vector<Nanoseconds> ns;
    for (const TimelineStrip::Cell& cell : strip.rows[row].cells)
      ns.push_back(cell.exposed_ns[static_cast<std::size_t>(GroupKind::Pipeline)]);
    return ns;
  };
  using Times = std::vector<Nanoseconds>;
  CHECK(parts(0, static_cast<std::size_t>(OpKind::Forward)) == Times{25, 15, 0, 0});
  CHECK(waits(0) == Times{0, 10, 10, 0});
  CHECK(parts(1, static_cast<std::size_t>(OpKind::Backward)) == Times{0, 0, 15, 25});
  CHECK(waits(1) == Times{0, 10, 10, 0});
}

TEST_CASE("a strip's columns add up to the split of its rank, whatever their number") {
  std::mt19937 random(test_seed());
  INFO("seed " << test_seed());
  for (const OrderTraits& order : named_orders()) {
    if (!order.pipelines) continue;
    OrderSpec spec{std::string(order.name), 4, order.default_vpp(), 8, 0};
    const auto made = make_order(spec);
    REQUIRE(made.ok());
    auto program = lower(*made, uniform_workload({1e-6, 2e-6, 1e-6, 1e-6}, made->stages),
                         {.tp = 1, .dp = 1, .overlap_p2p = true});
    REQUIRE(program.ok());
    for (Body& body : program->bodies) {
      for (Op& op : body.ops)
        if (!is_compute(op.kind)) op.duration_ns = 137;
    }
    const Trace trace = played(*program);
    const int columns = 1 + static_cast<int>(random() % 200);
    const TimelineStrip strip = timeline_strip(*program, trace, columns);
    const Metrics metrics = measure(*program, trace);
    INFO(order.name << ", " << columns << " columns");
    REQUIRE(strip.rows.size() == 4);
    for (const TimelineStrip::Row& row : strip.rows) {
      Nanoseconds compute = 0, pipeline = 0;
      for (const TimelineStrip::Cell& cell : row.cells) {
        compute += std::accumulate(cell.compute_ns.begin(), cell.compute_ns.end(), Nanoseconds{0});
        pipeline += cell.exposed_ns[static_cast<std::size_t>(GroupKind::Pipeline)];
      }
      const auto split =
          std::find_if(metrics.ranks.begin(), metrics.ranks.end(),
                       [&](const RankSplit& of) { return index(of.rank) == row.rank; });
      REQUIRE(split != metrics.ranks.end());
      CHECK(compute == split->compute_ns);
      CHECK(pipeline == split->exposed_ns[static_cast<std::size_t>(GroupKind::Pipeline)]);
    }
  }
}

TEST_CASE("a strip comes back from its JSON") {
  const Program program = two_ranks();
  const TimelineStrip strip = timeline_strip(program, played(program), 3);
  const std::string json = to_json(strip);
  CHECK(to_json(timeline_strip_from_json(nlohmann::json::parse(json))) == json);
}

TEST_CASE("ranks of the same stages have one row, and no more than 64 rows are drawn") {
  std::string ranks = "ranks";
  for (int rank = 0; rank < 70; ++rank) ranks += fmt::format(" {}", rank);
  const Program program = made_program(ranks + ": F 5ns");
  const Program stageless = made_program(ranks + ": F 5ns stage-1");
  Trace trace;  // unfolded
  for (int rank = 0; rank < 70; ++rank) {
    trace.ranks.push_back({Rank{rank}, 0, 1, static_cast<std::size_t>(rank)});
    trace.events.push_back({0, 0, 5});
  }
  CHECK(timeline_strip(program, trace, 2).rows.size() == 1);
  CHECK(timeline_strip(stageless, trace, 2).rows.size() == 64);
  CHECK(timeline_strip(stageless, trace, 2).left_out == 6);
}
