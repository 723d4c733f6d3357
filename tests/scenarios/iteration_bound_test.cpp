// Bounds of whole iterations: below what either engine plays, whatever the plan, and reached where
// there is nothing to choose.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string_view>

#include "schedule/order/bubble.h"
#include "tests/scenarios/simulated.h"
#include "tests/scenarios/small_scenario.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

// SimGrid's ops may end a nanosecond early each.
constexpr double kRounding = 1e-6;

using Choices = std::vector<std::vector<const char*>>;  // of each, one; "" sets nothing

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += " --set " + name;
  return text;
}

// Plays so many of the settings that a scenario takes, and gives the bounds by kind.
std::map<BoundKind, int> play_random(const std::string& text, const Choices& choices, int cases,
                                     Engine engine) {
  std::mt19937 random(test_seed());
  std::map<BoundKind, int> kinds;
  const Folder folder;
  for (int played = 0, tried = 0; played < cases; ++tried) {
    REQUIRE(tried < 100 * cases);
    Names names;
    for (const auto& choice : choices) {
      const std::string_view set = choice[random() % choice.size()];
      std::size_t begin = 0;
      while (begin < set.size()) {  // several, by blanks
        const std::size_t end = std::min(set.find(' ', begin), set.size());
        names.emplace_back(set.substr(begin, end - begin));
        begin = end + 1;
      }
    }
    const auto scenarios = try_load(folder, text, names);
    if (!scenarios.ok()) continue;
    const auto result = simulate_all({scenarios->front()}, engine, 1).front();
    if (!result.ok()) continue;
    INFO("seed " << test_seed() << ":" << joined(names));
    // Over links there is none where ranks of a stage are not alike.
    if (engine == Engine::SimGrid && !result->lower_bound) continue;
    ++played;
    REQUIRE(result->lower_bound.has_value());
    CHECK(result->lower_bound->makespan > 0);
    CHECK(result->lower_bound->makespan <= result->iteration_s * (1 + kRounding));
    ++kinds[result->lower_bound->kind];
  }
  return kinds;
}

const Choices kDense = {
    {"parallel.tp=1 parallel.dp=4", "parallel.tp=2 parallel.dp=2",
     "parallel.tp=1 parallel.cp=2 parallel.dp=2", "parallel.tp=1 parallel.pp=4 parallel.dp=2",
     "parallel.tp=2 parallel.pp=4 parallel.dp=1", "parallel.tp=2 parallel.pp=1 parallel.dp=4"},
    {"", "", "schedule.order=zb1p", "schedule.order=zbv parallel.vpp=2", "schedule.order=dualpipe",
     "schedule.order=dualpipev parallel.vpp=2", "schedule.order=gpipe",
     "schedule.order=interleaved parallel.vpp=2", "schedule.order=interleaved-zb parallel.vpp=2",
     "schedule.order=v-min parallel.vpp=2"},
    {"train.zero=0", "train.zero=1", "train.zero=1 overlap.param_gather=true", "train.zero=3",
     "train.zero=2", "train.zero=3 overlap.param_gather=true"},
    {"", "overlap.grad_reduce=true", "overlap.grad_reduce=true overlap.bucket_MB=20"},
    {"", "train.recompute=full", "train.recompute=selective"},
    {"", "train.sequence_parallel=true"},
    {"", "overlap.tensor=pipelined", "overlap.tensor=ring"},
    {"", "overlap.p2p=true", "overlap.p2p=false", "overlap.batch_p2p=true"},
    {"", "cluster.gpus_per_node=2 cluster.nics_per_node=1",
     "cluster.gpus_per_node=1 cluster.nics_per_node=1"},
    {"", "cluster.nic_Gbitps=10", "cluster.nic_Gbitps=1"},
    {"", "parallel.global_batch=32", "parallel.global_batch=8"},
    {"", "model.vocab=300000"},
    {"", "cluster.memory_GiB=6", "cluster.memory_GiB=4"},
    {"", "variability.straggler_stages=[1] variability.straggler_factor=2"}};

const Choices kExperts = {
    {"model.experts=8 model.top_k=2"},
    {"parallel.ep=2", "parallel.ep=4 parallel.tp=1 parallel.dp=4",
     "parallel.ep=2 parallel.expert_tp=1", "parallel.ep=1 parallel.tp=1 parallel.dp=4",
     "parallel.ep=2 parallel.pp=1 parallel.dp=4 train.sequence_parallel=true"},
    {"schedule.order=interleaved parallel.vpp=2", "schedule.order=dualpipev parallel.vpp=2",
     "schedule.order=1f1b", "schedule.order=zbv parallel.vpp=2"},
    {"", "overlap.expert=true", "overlap.expert=true overlap.expert_sms=20"},
    {"", "train.zero=1 overlap.grad_reduce=true",
     "train.zero=1 overlap.grad_reduce=true parallel.hsdp_shard=2"},
    {"", "cluster.gpus_per_node=2 cluster.nics_per_node=1", "cluster.nic_Gbitps=10",
     "cluster.preset=dgx-h100"},
    {"", "train.recompute=full"},
    {"", "parallel.global_batch=32", "parallel.global_batch=4"}};

}  // namespace

TEST_CASE("the bound of a uniform job is worked out by hand") {
  // F 1, I 1, W 1 on two ranks: the second begins at 1 and works 4 x 3; 1F1B takes a B more.
  const RunResult o = simulated(load(kUniform)[0]);
  REQUIRE(o.lower_bound.has_value());
  CHECK(o.lower_bound->makespan == Approx(13).epsilon(1e-12));
  CHECK(o.lower_bound->kind == BoundKind::Work);
  CHECK(o.lower_bound->rank == 1);
  CHECK(o.iteration_s == Approx(15).epsilon(1e-12));
  CHECK(*above_bound(o) == Approx(2.0 / 13).epsilon(1e-12));
}

TEST_CASE("an explained order takes what it takes on the engine, and has the same bound") {
  // A transfer of 30 takes longer than a pass, so that transfers of an edge wait for each other.
  for (const OrderTraits& traits : named_orders()) {
    if (traits.name == "none") continue;  // of no pipeline
    for (const double transfer : {3.0, 30.0}) {
      INFO(traits.name << ", transfers of " << transfer);
      const int vpp = std::max(traits.default_vpp(), traits.least_vpp);
      const RunResult run = simulated(
          load(kUniform,
               {fmt::format("schedule.order={}", traits.name), "overlap.p2p=true", "parallel.pp=4",
                fmt::format("parallel.vpp={}", vpp), "parallel.global_batch=8",
                "costs.forward_s=10", "costs.input_s=12", "costs.weight_s=7", "costs.backward_s=19",
                fmt::format("costs.p2p_s={}", transfer)})[0]);
      OrderSpec spec{.name = std::string(traits.name), .pp = 4, .vpp = vpp, .microbatches = 8};
      spec.costs = {10, 12, 7, transfer};
      const auto order = make_order(spec);
      REQUIRE(order.ok());
      const std::vector<OrderCosts> stages(order->stages, spec.costs);
      CHECK(explain_bubble(*order, stages).makespan == Approx(run.iteration_s).epsilon(1e-9));
      CHECK(lower_bound(bound_problem(*order, stages, /*memory=*/false)).makespan ==
            Approx(run.lower_bound->makespan).epsilon(1e-9));
    }
  }
}

TEST_CASE("without a pipeline, and nothing beside compute, the bound is the iteration") {
  for (const Names& set :
       {Names{"parallel.pp=1", "parallel.dp=4"},
        Names{"parallel.pp=1", "parallel.dp=4", "train.zero=1"},
        Names{"parallel.pp=1", "parallel.tp=8", "parallel.dp=1", "train.sequence_parallel=true"}}) {
    for (const Engine engine : engines()) {
      const RunResult o = simulated(load(kSmall, set)[0], engine);
      REQUIRE(o.lower_bound.has_value());
      CHECK(o.lower_bound->makespan == Approx(o.iteration_s).epsilon(1e-6));
    }
  }
}

TEST_CASE("no run of any plan ends before its bound") {
  std::map<BoundKind, int> kinds = play_random(kSmall, kDense, 120, Engine::Ideal);
  CHECK(kinds[BoundKind::Work] > 0);
  CHECK(kinds.size() > 1);
  play_random(kSmall, kExperts, 60, Engine::Ideal);
}

TEST_CASE("what HSDP's replicas and a whole backward hide is no part of the bound") {
  const Names hsdp = {"parallel.tp=1", "parallel.ep=1", "overlap.grad_reduce=true",
                      "parallel.dp=4", "train.zero=1",  "parallel.hsdp_shard=2"};
  const Names whole = {"parallel.pp=1", "parallel.ep=2",       "train.sequence_parallel=true",
                       "parallel.dp=4", "overlap.expert=true", "cluster.preset=dgx-h100"};
  for (Names set : {hsdp, whole}) {
    INFO(joined(set));
    for (const char* common : {"model.experts=8", "model.top_k=2", "parallel.global_batch=4"})
      set.emplace_back(common);
    const RunResult o = simulated(load(kSmall, set)[0]);
    REQUIRE(o.lower_bound.has_value());
    CHECK(o.lower_bound->makespan <= o.iteration_s * (1 + kRounding));
    CHECK(o.lower_bound->makespan > 0.8 * o.iteration_s);
  }
}

TEST_CASE("no run over links ends before its bound") {
  need_simgrid();
  play_random(kSmall, kDense, 40, Engine::SimGrid);
  play_random(kSmall, kExperts, 20, Engine::SimGrid);
}

TEST_CASE("where ops may take less than their prices there is no bound") {
  CHECK(!simulated(load(kSmall, {"variability.jitter=0.1"})[0]).lower_bound.has_value());
  const Names slow_rank = {"variability.straggler_ranks=[3]", "variability.straggler_factor=2"};
  // Its group's links are no longer shared at the same time; without links all prices stand.
  CHECK(simulated(load(kSmall, slow_rank)[0]).lower_bound.has_value());
  need_simgrid();
  CHECK(!simulated(load(kSmall, slow_rank)[0], Engine::SimGrid).lower_bound.has_value());
}
