// A made-up order whose stages stand neither looped nor in a V: one row of a table, and the search,
// its bounds and the engines know it.
#include <algorithm>
#include <random>

#include "planning/tune/search.h"
#include "planning/tune/tune.h"
#include "scenarios/run/place.h"
#include "tests/scenarios/small_scenario.h"

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
  texts.insert(texts.end(), {"schedule.order=blocks", "parallel.cp=1", "overlap.tensor=off"});
  auto space = Space::among(texts, orders());
  REQUIRE(space.ok());
  return *std::move(space);
}

StageLevel level_of(const Scenario& scenario) {
  auto cluster = make_cluster(scenario);
  REQUIRE(cluster.ok());
  return {scenario, *std::move(cluster)};
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
  const Scenario base = on_a_node();
  const Space space = blocks_among({"parallel.micro_batch=1,4", "parallel.vpp=1,2,3"});
  StageLevel level = level_of(base);
  const SearchResult all = search_all(base, space, &level, 4);
  const SearchResult found = Search(base, space, &level).best({.keep = 4});
  REQUIRE(!all.best.empty());
  REQUIRE(all.best.size() == found.best.size());
  for (std::size_t i = 0; i < all.best.size(); ++i) {
    INFO(text_of(all.best[i].candidate));
    CHECK(found.best[i].iteration_ns == all.best[i].iteration_ns);
    CHECK(found.best[i].candidate.playing.order == "blocks");
  }
  CHECK(found.counts.enumerated == all.counts.enumerated);
  CHECK(found.counts.scheduled < all.counts.scheduled);
}

TEST_CASE("no bound is above what a plan of a made-up order takes or holds") {
  const Scenario across_nodes =
      small({"cluster.preset=jz-v100", "cluster.gpus=16", "parallel.dp=4", "train.precision=fp16"});
  for (const Scenario& base : {on_a_node(), across_nodes}) {
    StageLevel level = level_of(base);
    const Space space = blocks_among({});
    std::vector<Candidate> plans;
    space.for_each_layout(base, [&](const Layout& layout) {
      for (const Playing& playing : space.playings(base, layout))
        for (const Sharing& sharing : space.sharings(base, layout, playing))
          plans.push_back({layout, playing, sharing});
      return true;
    });
    const unsigned seed = 17;
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::shuffle(plans.begin(), plans.end(), random);
    REQUIRE(plans.size() > 200);
    plans.resize(200);
    for (const Candidate& plan : plans) {
      INFO(text_of(plan));
      const auto order = level.order_of(plan);
      REQUIRE(order.ok());
      const auto played = level.play(plan, *order);
      REQUIRE(played.ok());
      CHECK(level.work_bound(plan.layout) <= *played);
      const RankEnds least = level.ends_bound(plan.layout, plan.playing);
      CHECK(level.data_bound(plan, least) <= *played);
      CHECK(level.memory_floor(plan) <= level.memory(plan, *order));
    }
  }
}

TEST_CASE("a tune plays the plans of a made-up order through an engine") {
  const auto tuned = tune(on_a_node(), blocks_among({"parallel.vpp=2", "parallel.tp=1"}),
                          {.keep = 2, .engine = Engine::Ideal});
  REQUIRE(tuned.ok());
  CHECK(tuned->complete);
  for (const Finalist& finalist : tuned->finalists) {
    INFO(finalist.label << ": " << text_of(finalist.candidate));
    REQUIRE(finalist.result.ok());
    if (finalist.label != "own") CHECK(finalist.candidate.playing.order == "blocks");
  }
}

}  // namespace
}  // namespace tandem
