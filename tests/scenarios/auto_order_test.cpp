// schedule.order = "auto": what it finds beside the named orders, what it says of it, and that it
// plays for real.
#include <nlohmann/json.hpp>

#include "exec/host/host.h"
#include "job/compile.h"
#include "planning/choose/resolve.h"
#include "planning/play/play_job.h"
#include "planning/simulate/simulate.h"
#include "report/text/table.h"
#include "schedule/order/order_text.h"
#include "sim/engines.h"
#include "tests/scenarios/small_scenario.h"
#include "traces/metrics.h"

using namespace tandem;

namespace {

// 16 layers on four ranks, and a head almost as long as one of them. In 11 GiB no order of two
// chains fits, and of the named ones only those that hold less than 1F1B.
const std::string kUnevenStages = R"([model]
layers = 16
hidden = 2048
heads = 16
seq = 2048
vocab = 32000
[parallel]
pp = 4
global_batch = 12
[schedule]
budget = 600
[cluster]
preset = "selene"
gpus = 4
)";

// GPT 28.3B on two DGX A100: the last stage's head takes as long as most of a layer, and no rank
// has memory for a seventh layer and zbv's activations.
const std::string kGpt28B = R"([model]
layers = 96
hidden = 4864
heads = 38
seq = 1024
vocab = 50304
[parallel]
pp = 16
global_batch = 64
[schedule]
budget = 600
[cluster]
preset = "dgx-a100"
)";

// 4 ranks of 2 ms forwards and backwards.
const std::string kMilliseconds = R"([parallel]
pp = 4
global_batch = 6
[schedule]
order = "auto"
budget = 300
memory_limit = 3
[costs]
source = "uniform"
forward_s = 2e-3
input_s = 2e-3
weight_s = 1e-3
p2p_s = 1e-4
)";

RunResult simulated(const std::string& text, const Names& set) {
  const auto result = simulate(load(text, set).front(), Engine::Ideal);
  if (!result.ok()) FAIL(result.error().text());
  return *result;
}

bool can_play(const std::string& text, const Names& set) {
  const Folder folder;
  const auto scenarios = try_load(folder, text, set);
  return scenarios.ok() && simulate(scenarios->front(), Engine::Ideal).ok();
}

}  // namespace

TEST_CASE("an order that is found is never slower than a named one that fits, at any vpp") {
  for (const Names& memory : {Names{}, Names{"cluster.memory_GiB=11"}}) {
    Names set = memory;
    set.push_back("schedule.order=auto");
    const RunResult found = simulated(kUnevenStages, set);
    REQUIRE(found.found_order);
    CHECK(found.training->fits);
    CHECK(found.iteration_s == found.found_order->iteration_s);
    for (const OrderTraits& traits : named_orders()) {
      for (const int vpp : {1, 2, 4}) {
        Names named = memory;
        named.push_back("schedule.order=" + std::string(traits.name));
        named.push_back("parallel.vpp=" + std::to_string(vpp));
        INFO(traits.name << " vpp " << vpp);
        if (!can_play(kUnevenStages, named)) continue;
        const RunResult result = simulated(kUnevenStages, named);
        if (result.training->fits) CHECK(found.iteration_s <= result.iteration_s);
      }
    }
  }
}

TEST_CASE("a found order says what it is worth, and comes back as JSON, CSV and the same run") {
  const Scenario scenario =
      load(kUnevenStages, {"schedule.order=auto", "cluster.memory_GiB=11"}).front();
  const Scenario found = resolved(scenario).value();
  CHECK_FALSE(found.job.is_open());
  CHECK(resolved(scenario)->job.found_order->order.ranks == found.job.found_order->order.ranks);
  const RunResult result = simulate(found, Engine::Ideal).value();
  const OrderFinding& finding = *result.found_order;
  CHECK(finding.name.empty());
  CHECK(finding.named_s > finding.iteration_s);
  const RunResult again = run_result_from_json(to_json(result));
  CHECK(to_json(again)["found_order"] == to_json(result)["found_order"]);
  CHECK(to_json(result)["found_order"]["gain"] == finding.gain());
  CHECK(explanatory_notes({&result}).find("less than the best named order (" + finding.named) !=
        std::string::npos);

  const Folder folder;
  const std::string csv = folder.with("found.csv", to_pytorch(found.job.found_order->order));
  const RunResult read =
      simulated(kUnevenStages, {"schedule.order=" + csv, "cluster.memory_GiB=11",
                                "parallel.vpp=" + std::to_string(found.job.plan.vpp)});
  CHECK(read.iteration_s == result.iteration_s);
}

TEST_CASE("28.3B on 16 A100: the found order comes within 2 % of what the head's rank has to do") {
  const RunResult zbv = simulated(kGpt28B, {"schedule.order=zbv"});
  const RunResult found = simulated(kGpt28B, {"schedule.order=auto"});
  CHECK(found.iteration_s <= zbv.iteration_s);
  CHECK(found.training->fits);
  // Both ends are on rank 0 in a V: its work is the only bound that an order meets.
  const Scenario scenario = resolved(load(kGpt28B, {"schedule.order=auto"}).front()).value();
  const PlayedJob job = play_once(scenario, Engine::Ideal).value();
  double busiest_s = 0;
  for (const RankSplit& split : measure(job.job.program, job.trace).ranks)
    busiest_s = std::max(busiest_s, to_seconds(split.compute_ns));
  CHECK(found.iteration_s < 1.02 * busiest_s);
}

TEST_CASE(
    "28.3B on 16 A100: with the vocabulary over all ranks 8 % less than zbv, 3 % from the bound") {
  const RunResult zbv = simulated(kGpt28B, {"schedule.order=zbv"});
  const RunResult found =
      simulated(kGpt28B, {"schedule.order=auto", "schedule.vocabulary=parallel"});
  CHECK(found.iteration_s < zbv.iteration_s * 0.92);
  CHECK(found.training->fits);
  CHECK(found.training->memory.total <= zbv.training->memory.total);
  REQUIRE(found.lower_bound);
  CHECK(found.lower_bound->makespan <= found.iteration_s);
  CHECK(found.iteration_s < found.lower_bound->makespan * 1.03);
}

TEST_CASE("no order with vocabulary passes is faster than its bound") {
  for (const char* order : {"gpipe", "1f1b", "zb1p", "zb2p", "zbv", "v-half", "v-min"}) {
    for (const char* algorithm : {"1", "2"}) {
      INFO(order << ", algorithm " << algorithm);
      const RunResult result = simulated(
          kGpt28B, {std::string("schedule.order=") + order, "schedule.vocabulary=parallel",
                    std::string("schedule.vocabulary_algorithm=") + algorithm});
      REQUIRE(result.lower_bound);
      CHECK(result.lower_bound->makespan <= result.iteration_s * (1 + 1e-9));
    }
  }
}

TEST_CASE("layout and order are found together: no slower than the order alone") {
  const RunResult order = simulated(kUnevenStages, {"schedule.order=auto"});
  const RunResult both = simulated(kUnevenStages, {"schedule.order=auto", "parallel.layout=auto"});
  CHECK(both.iteration_s <= order.iteration_s);
  CHECK(both.training->fits);
  CHECK_FALSE(both.layout.empty());
}

TEST_CASE("a memory limit of a found order counts microbatches of a rank, from F to W") {
  const Scenario found = resolved(load(kMilliseconds).front()).value();
  const Order& order = found.job.found_order->order;
  for (const std::vector<Action>& actions : order.ranks) {
    int held = 0;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::Forward) ++held;
      if (action.kind == ActionKind::Backward || action.kind == ActionKind::BackwardWeight) --held;
      CHECK(held <= 3 * found.job.plan.vpp);
    }
  }
}

TEST_CASE(
    "stated seconds are a stage's, so that orders are found for one a rank unless vpp is set") {
  // Two stages a rank would be twice the work: 6 x 10 ms, where one has 6 x 5 ms.
  const RunResult one = simulated(kMilliseconds, {"schedule.memory_limit=2"});
  REQUIRE(one.found_order);
  CHECK(explanatory_notes({&one}).ends_with("; no named order of these sizes fits.\n"));
  CHECK(one.compute_s == Approx(6 * 5e-3));
  CHECK(simulated(kMilliseconds, {"parallel.vpp=2"}).compute_s == Approx(6 * 10e-3));
}

TEST_CASE("a found order plays on the host to its end, with the payloads that it should have") {
  const CompiledJob job = compile(resolved(load(kMilliseconds).front()).value()).value();
  ExecOptions options;
  options.warmup = 0;
  options.iterations = 1;
  const auto execution = execute_host(job.program, options);
  if (!execution.ok()) FAIL(execution.error().text());
  REQUIRE(execution->failure.empty());
  REQUIRE(execution->iterations.size() == 1);
  CHECK(execution->payloads_checked > 0);
  SimOptions unfolded;
  unfolded.fold = false;
  const Trace trace = ideal(job.program, unfolded).value();
  CHECK(execution->iterations[0].events.size() == trace.events.size());
  CHECK(measure(job.program, execution->iterations[0]).iteration_s >=
        measure(job.program, trace).iteration_s);
}
