// A made-up order whose stages stand neither looped nor in a V: one row of a table, and the search,
// its bounds and the engines know it.
#include <algorithm>

#include "planning/tune/tune.h"
#include "tests/planning/stage_plans.h"

namespace tandem {
namespace {

// 1F1B of whole ranks: each holds vpp stages that follow one another, and runs all of them forward,
// or all of them backward.
std::vector<std::vector<Action>> in_blocks(const OrderSpec& spec) {
  std::vector<std::vector<Action>> ranks(spec.pp);
  for (int rank = 0; rank < spec.pp; ++rank) {
    const int first = rank * spec.vpp, end = first + spec.vpp;
    const int ahead = std::min(spec.pp - 1 - rank, spec.microbatches);
    for (int i = 0; i < spec.microbatches + ahead; ++i) {
      for (int stage = first; stage < end && i < spec.microbatches; ++stage)
        ranks[rank].push_back({Stage{stage}, ActionKind::Forward, Microbatch{i}});
      for (int stage = end - 1; stage >= first && i >= ahead; --stage)
        ranks[rank].push_back({Stage{stage}, ActionKind::Backward, Microbatch{i - ahead}});
    }
  }
  return ranks;
}

// The program's orders and one more.
const std::vector<OrderTraits>& orders() {
  static const std::vector<OrderTraits> kOrders = [] {
    std::vector<OrderTraits> all(named_orders().begin(), named_orders().end());
    all.push_back({.name = "blocks",
                   .make = in_blocks,
                   .check = [](const OrderSpec&) -> Status { return Done{}; },
                   .placement = {[](int stage, int, int vpp) { return stage / vpp; }},
                   .exchanges = BatchedP2p::EachAction});
    return all;
  }();
  return kOrders;
}

// The small model's 16 sequences on so many GPUs of V100 nodes.
Scenario small(const Names& set) {
  Scenario scenario = load(kSmall, set).front();
  scenario.job.order.orders = orders();
  return scenario;
}

Scenario on_a_node() { return small({"cluster.gpus=4", "parallel.dp=1", "cluster.memory_GiB=4"}); }

Space blocks_among(Names texts) {
  texts.insert(texts.end(), {"schedule.order=blocks", "parallel.pp=2,4,8", "parallel.cp=1",
                             "overlap.tensor=off"});
  auto space = Space::among(texts, orders());
  REQUIRE(space.ok());
  return *std::move(space);
}

TEST_CASE("a made-up order is 1F1B of vpp stages a rank") {
  // (m + p - 1) (f + b) with m = 4, p = 2 and two stages of 1 + 2 s a rank: 5 x 6 s.
  Scenario scenario = load(kUniform, {"parallel.vpp=2"}).front();
  scenario.job.order.orders = orders();
  scenario.job.order.name = "blocks";
  const auto job = order_job(scenario);
  REQUIRE(job.ok());
  CHECK(validate(job->order).ok());
  CHECK(stage_to_rank(job->order) == std::vector<int>{0, 0, 1, 1});
  const auto result = simulate(scenario, Engine::Ideal);
  REQUIRE(result.ok());
  CHECK(result->iteration_s == Approx(30).epsilon(1e-9));
}

TEST_CASE("nobody knows the made-up order without its row") {
  CHECK_FALSE(Space::among({"schedule.order=blocks"}).ok());
  CHECK_FALSE(check_order({.name = "blocks"}).ok());
}

TEST_CASE("the search finds of a made-up order what trying every plan finds") {
  for (const Found& found : check_against_all(
           on_a_node(), blocks_among({"parallel.micro_batch=1,4", "parallel.vpp=1,2,3"})))
    CHECK(found.candidate.playing.order == "blocks");
}

TEST_CASE("no bound is above what a plan of a made-up order takes or holds") {
  const Scenario across_nodes =
      small({"cluster.preset=jz-v100", "cluster.gpus=16", "parallel.dp=4", "train.precision=fp16"});
  for (const Scenario& base : {on_a_node(), across_nodes}) {
    const unsigned seed = 17;
    INFO("seed " << seed);
    check_bounds(base, drawn_of(base, blocks_among({}), seed, 200));
  }
}

TEST_CASE("a tune plays the plans of a made-up order through an engine") {
  const auto tuned = tune(on_a_node(), blocks_among({"parallel.vpp=2", "parallel.tp=1"}),
                          {.keep = 2, .engine = Engine::Ideal});
  REQUIRE(tuned.ok());
  CHECK(tuned->complete);
  for (const Finalist& finalist : tuned->finalists) {
    INFO(finalist.label << ": " << plan_text(finalist.candidate));
    REQUIRE(finalist.result.ok());
    if (finalist.label != "own") CHECK(finalist.candidate.playing.order == "blocks");
  }
}

}  // namespace
}  // namespace tandem
