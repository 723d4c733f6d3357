// schedule.vocabulary: what it needs, what it does not go with, and what runs hold and take with
// it.
#include <algorithm>

#include "job/compile.h"
#include "job/memory_timeline.h"
#include "schedule/order/order_text.h"
#include "tests/scenarios/simulated.h"
#include "tests/scenarios/small_scenario.h"
#include "workload/memory/memory.h"

using namespace tandem;

namespace {

// Eight layers and a head as long as six of them, on four stages.
const std::string kLargeHead = R"([model]
layers = 8
hidden = 2048
heads = 16
seq = 2048
vocab = 200000
[parallel]
pp = 4
global_batch = 16
[overlap]
p2p = true
[cluster]
preset = "dgx-a100"
)";

const Names kParallel = {"schedule.vocabulary=\"parallel\""};

Names with(const Names& more) {
  Names set = kParallel;
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

std::string refused(const Names& set) {
  const Folder folder;
  const auto scenarios = try_load(folder, kLargeHead, set);
  if (!scenarios.ok()) return scenarios.error().text();
  const auto results = simulate_all({scenarios->front()}, Engine::Ideal, 1);
  REQUIRE(!results[0].ok());
  return results[0].error().text();
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

RunResult run(const Names& set = {}) { return simulated(load(kLargeHead, set).front()); }

}  // namespace

TEST_CASE("vocabulary parallelism takes the head off the last stage, in every order") {
  for (const auto& [name, vpp] : {std::pair{"gpipe", 1},
                                  {"1f1b", 1},
                                  {"interleaved", 2},
                                  {"looped-bfs", 2},
                                  {"zb1p", 1},
                                  {"zb2p", 1},
                                  {"interleaved-zb", 2},
                                  {"zbv", 2},
                                  {"v-half", 2},
                                  {"v-min", 2}}) {
    const Names order = {"schedule.order=\"" + std::string(name) + '"',
                         "parallel.vpp=" + std::to_string(vpp)};
    const double whole_s = run(order).iteration_s;
    for (const char* algorithm : {"1", "2"}) {
      INFO(name << ' ' << algorithm);
      Names set = with(order);
      set.push_back(std::string("schedule.vocabulary_algorithm=") + algorithm);
      CHECK(run(set).iteration_s < 0.75 * whole_s);
    }
  }
}

TEST_CASE("1F1B with vocabulary passes holds p + 2 or p + 1 microbatches and the rank's rows") {
  const auto compiled = [](const Names& set) {
    auto job = compile(load(kLargeHead, set).front());
    REQUIRE(job.ok());
    return *std::move(job);
  };
  const auto peak = [&](const Names& set) { return peak_live(compiled(set).order)[0][0]; };
  CHECK(peak({}) == 4);
  CHECK(peak(with({"schedule.vocabulary_algorithm=1"})) == 6);
  CHECK(peak(kParallel) == 5);
  const auto weights = [&](const Names& set) {
    const CompiledJob job = compiled(set);
    const Scenario scenario = load(kLargeHead, set).front();
    return peak_memory(scenario.job.model, job.plan, live_activations(job.order)).weights;
  };
  // bf16: two layers, a fourth of a matrix of 200,064 rows, and the positions.
  CHECK(weights(kParallel) ==
        2 * (2 * (12.0 * 2048 * 2048 + 13 * 2048) + 200064.0 / 4 * 2048 + 2048.0 * 2048));
}

TEST_CASE("an order that was written with its passes is read and played as it was made") {
  const Folder folder;
  const Scenario named = load(kLargeHead, kParallel).front();
  auto job = compile(named);
  REQUIRE(job.ok());
  folder.with("made.csv", to_pytorch(job->order));
  const Names of_file = {"schedule.order=\"made.csv\"", "overlap.p2p=true"};
  const auto played = [&](const Names& set) -> std::string {
    const auto scenarios = try_load(folder, kLargeHead, set);
    REQUIRE(scenarios.ok());
    const auto results = simulate_all({scenarios->front()}, Engine::Ideal, 1);
    return results[0].ok() ? std::to_string(results[0]->iteration_s) : results[0].error().text();
  };
  CHECK(played(with(of_file)) == std::to_string(simulated(named).iteration_s));
  CHECK(says(played(of_file), "found vocabulary passes of algorithm 2 in"));
  folder.with("made.csv", to_pytorch(*make_order({.name = "1f1b", .pp = 4, .microbatches = 16})));
  CHECK(says(played(with(of_file)), "found no vocabulary passes in"));
}

TEST_CASE("what vocabulary parallelism does not go with is named") {
  CHECK(says(refused({"schedule.vocabulary=\"both\""}), "schedule.vocabulary"));
  CHECK(says(refused({"schedule.vocabulary_algorithm=1"}),
             "found schedule.vocabulary_algorithm without schedule.vocabulary = parallel"));
  CHECK(says(refused(with({"schedule.vocabulary_algorithm=3"})), "from 1 to 2"));
  CHECK(says(refused(with({"parallel.pp=1"})), "found parallel with parallel.pp = 1"));
  CHECK(says(refused(with({"model.mtp_layers=1"})), "model.mtp_layers = 1"));
  CHECK(says(refused(with({"overlap.p2p=false"})), "found overlap.p2p = false with vocabulary"));
  CHECK(says(refused(with({"overlap.p2p=false", "overlap.batch_p2p=true"})),
             "found overlap.batch_p2p = true with vocabulary"));
  CHECK(says(refused(with({"schedule.order=\"dualpipe\""})),
             "order dualpipe: found vocabulary parallelism, expected one of gpipe, 1f1b"));
  const Folder folder;
  const auto uniform = try_load(folder, kUniform, kParallel);
  REQUIRE(!uniform.ok());
  CHECK(says(uniform.error().text(), "found schedule.vocabulary with costs.source = uniform"));
}

TEST_CASE("layouts are found beside vocabulary parallelism, never slower than even ones") {
  const double even_s = run(kParallel).iteration_s;
  CHECK(run(with({"parallel.layout=\"auto\""})).iteration_s <= even_s);
}
