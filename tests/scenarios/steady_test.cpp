// Iterations that follow from two of fewer microbatches, held to those that are played whole.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "planning/play/play_job.h"
#include "tests/draw.h"
#include "tests/scenarios/simulated.h"
#include "tests/scenarios/small_scenario.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

// A run's JSON but for what the engine took, or its Error.
std::string text_of(const Result<RunResult>& result) {
  if (!result.ok()) return result.error().text();
  auto json = to_json(*result);
  json.erase("engine_wall_s");
  return json.dump(1);
}

// Whoever looks at the trace gets all of it, so the iteration is played whole.
std::string played_whole(const Scenario& scenario) {
  OutputFiles files;
  files.on_trace = [](const Program&, const Trace&) -> Status { return Done{}; };
  return text_of(simulate(scenario, Engine::Ideal, files));
}

// Orders that split backwards: interleaved's, one of two chains, one in a V, those made for costs.
Names drawn_order(Draw* draw) {
  const int pp = draw->among<int>({2, 4, 8}), vpp = draw->among<int>({1, 2, 4});
  const std::string order = draw->among<const char*>(
      {"interleaved-zb", "dualpipe", "dualpipev", "zb1p", "zb2p", "zbv", "v-half", "v-min"});
  const int microbatches = 4 * pp * draw->among<int>({13, 31, 40, 70});
  Names set = {"schedule.order=" + order,
               fmt::format("parallel.pp={}", pp),
               fmt::format("cluster.gpus={}", pp),
               "parallel.tp=1",
               "parallel.dp=1",
               "model.layers=32",
               fmt::format("parallel.global_batch={}", microbatches)};
  if (order == "interleaved-zb") set.push_back(fmt::format("parallel.vpp={}", vpp));
  if (draw->below(2) == 0) set.emplace_back("model.vocab=256000");
  if (draw->below(2) == 0) set.emplace_back("train.recompute=full");
  return set;
}

Names drawn_settings(Draw* draw) {
  if (draw->below(2) == 0) return drawn_order(draw);
  const int pp = draw->among<int>({1, 2, 4, 8}), vpp = pp == 1 ? 1 : draw->among<int>({1, 1, 2, 4});
  const int tp = draw->among<int>({1, 2}), dp = draw->among<int>({1, 2});
  const int round = vpp == 1 ? 1 : pp;
  const int microbatches = round * (draw->among<int>({25, 61, 90}) + (pp == 1    ? 1000
                                                                      : vpp == 1 ? 250
                                                                                 : 0));
  Names set = {fmt::format("parallel.pp={}", pp),
               fmt::format("parallel.vpp={}", vpp),
               fmt::format("parallel.tp={}", tp),
               fmt::format("parallel.dp={}", dp),
               fmt::format("cluster.gpus={}", pp * tp * dp),
               "model.layers=32",
               fmt::format("parallel.global_batch={}", dp * microbatches)};
  const auto maybe = [&](const std::string& setting) {
    if (draw->below(3) == 0) set.push_back(setting);
  };
  if (vpp > 1 && draw->below(2) == 0) set.push_back(fmt::format("schedule.group={}", pp + pp / 2));
  if (pp > 1) maybe("overlap.p2p=false");
  if (pp > 1 && set.back() == "overlap.p2p=false") maybe("overlap.batch_p2p=true");
  maybe("train.recompute=full");
  maybe("overlap.grad_reduce=true");
  if (draw->below(3) == 0) {
    set.push_back(fmt::format("variability.straggler_stages=[{}]", draw->below(pp * vpp)));
    set.push_back("variability.straggler_factor=1.7");
  }
  maybe(fmt::format("train.zero={}", dp > 1 ? draw->among<int>({1, 2, 3}) : 0));
  maybe("model.vocab=256000");
  maybe("model.seq=4096");
  return set;
}

}  // namespace

TEST_CASE("an iteration from two of fewer microbatches is the whole one's, to the nanosecond") {
  Draw draw(test_seed());
  int found = 0, runs = 0;
  std::set<std::string> orders;
  const char* const more = std::getenv("TANDEM_RANDOM_SCENARIOS");
  while (runs < (more == nullptr ? 100 : std::atoi(more))) {
    const Names set = drawn_settings(&draw);
    INFO("TANDEM_SEED=" << test_seed() << ": " << fmt::format("{}", fmt::join(set, " ")));
    const Folder folder;
    const auto scenarios = try_load(folder, kSmall, set);
    if (!scenarios.ok()) continue;  // settings that do not go together
    ++runs;
    const Scenario& scenario = scenarios->front();
    if (play_steady(scenario)) {
      ++found;
      orders.insert(scenario.job.order.name);
    }
    const std::string from_few = text_of(simulate(scenario, Engine::Ideal));
    const std::string whole = played_whole(scenario);
    const auto [few_at, whole_at] = std::ranges::mismatch(from_few, whole);
    INFO(std::string(std::max(from_few.begin(), few_at - 200), few_at));
    CHECK(std::string(few_at, from_few.end()).substr(0, 60) ==
          std::string(whole_at, whole.end()).substr(0, 60));
  }
  CHECK(found > runs / 2);
  CHECK(orders.size() >= 8);
}

TEST_CASE("many more microbatches take no more ops to play") {
  const auto played = [](int microbatches) {
    const auto scenario = load(kUniform, {fmt::format("parallel.global_batch={}", microbatches),
                                          "parallel.pp=16", "costs.p2p_s=0.1"});
    const auto job = play_steady(scenario.front());
    REQUIRE(job);
    return std::pair(job->trace.events.size(), job->metrics.iteration_s);
  };
  const auto [few_events, few_s] = played(500);
  const auto [many_events, many_s] = played(50000);
  CHECK(many_events == few_events);
  // 1F1B whose transfers are not hidden: a round is F, B and a transfer each way.
  CHECK((many_s - few_s) / 49500 == Approx(3.2));
}

TEST_CASE("an iteration that does not repeat itself is played whole") {
  const auto repeats = [](const Names& set) {
    Names all = {"parallel.global_batch=400", "parallel.pp=4"};
    all.insert(all.end(), set.begin(), set.end());
    return play_steady(load(kUniform, all).front()).has_value();
  };
  CHECK(repeats({}));
  CHECK_FALSE(repeats({"variability.jitter=0.01"}));
  CHECK_FALSE(repeats({"schedule.order=gpipe"}));
  CHECK_FALSE(repeats({"parallel.global_batch=30"}));
}
