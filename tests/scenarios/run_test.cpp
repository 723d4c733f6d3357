// Runs of scenarios: what adds up, what follows from what, on both engines.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/scenarios/simulated.h"
#include "tests/scenarios/small_scenario.h"
#include "tests/seed.h"

using namespace tandem;

TEST_CASE("a custom order is read beside its scenario") {
  const Folder folder;
  folder.with("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const auto scenarios =
      try_load(folder, kUniform + "[schedule]\norder = \"two.csv\"\n", {"parallel.global_batch=2"});
  REQUIRE(scenarios.ok());
  const auto job = order_job(scenarios->front());
  REQUIRE(job.ok());
  CHECK(job->order.name == "two");
  CHECK(job->order.pp() == 2);
  // F of 1 s, B of 2 s: F0 0-1 and 1-2; rank 1 works through from 1 to 7; B0 3-5, B1 7-9 on rank 0.
  const auto result = simulate(scenarios->front(), Engine::Ideal);
  REQUIRE(result.ok());
  CHECK(result->iteration_s == Approx(9).epsilon(1e-12));
}

namespace {

// Every number becomes another one, by its place.
void number_through(nlohmann::ordered_json* json, int* next) {
  if (json->is_number_float()) *json = ++*next / 3.0;  // not exact in binary
  if (json->is_number_integer()) *json = ++*next;
  if (!json->is_structured()) return;
  for (auto& inner : *json) number_through(&inner, next);
}

}  // namespace

TEST_CASE("a run result through JSON and back is the same") {
  RunResult result;
  result.name = "A, \"B\"";
  result.axes = {"model", "cluster"};
  result.points = {"A", "\"B\""};
  result.cluster = "selene";
  result.engine = "ideal";
  result.warnings = {"first", "second"};
  result.looked_for_bandwidth = true;
  result.published_tflops_per_gpu = result.least_internode_Gbitps = 0;
  result.overlap_fraction.fill(0);
  result.overlap_fraction[2].reset();
  result.plan.emplace();
  result.training.emplace().fits = true;
  result.saving.emplace().of_communication = 0;
  result.lower_bound = {0, BoundKind::Memory, 3};
  auto json = to_json(result);
  int numbers = 0;
  number_through(&json, &numbers);
  // 8 sizes and 2 counts; 8 times and ratios, 5 + 5 + 5 + 4 by group kind, 17 of training and 2 of
  // its peak, 4 of a saving, 2 of a bound, 2 more.
  CHECK(numbers == 65);
  CHECK(to_json(run_result_from_json(nlohmann::ordered_json::parse(json.dump()))) == json);

  result = run_result_from_json(json);
  result.training.reset();
  result.saving.reset();
  result.lower_bound.reset();
  result.published_tflops_per_gpu.reset();
  result.least_internode_Gbitps.reset();
  json = to_json(result);
  for (const char* key :
       {"tokens_per_s", "tokens_per_s_per_gpu", "flops_convention", "mfu", "hfu", "memory_bytes",
        "peak", "fits", "model_tflops_per_gpu", "hardware_tflops_per_gpu",
        "published_tflops_per_gpu", "least_internode_Gbitps", "baseline", "saved_s",
        "saved_of_communication", "lower_bound_s", "lower_bound_kind", "lower_bound_rank"})
    CHECK(json.at(key).is_null());
  CHECK(to_json(run_result_from_json(json)) == json);
}

TEST_CASE("compute, exposed communication and bubble add up to the iteration") {
  // Inside a node, over nodes, interleaved, and with nothing but data parallelism.
  for (const Names& set :
       {Names{}, Names{"cluster.gpus_per_node=2", "cluster.nics_per_node=2"},
        Names{"parallel.vpp=2", "cluster.gpus_per_node=4", "cluster.nics_per_node=1"},
        Names{"parallel.tp=1", "parallel.pp=1", "parallel.dp=8"},
        Names{"parallel.scatter_gather=true", "overlap.batch_p2p=true"}}) {
    const Scenario scenario = load(kSmall, set)[0];
    for (const Engine engine : engines()) {
      const RunResult o = simulated(scenario, engine);
      double sum = o.compute_s + o.bubble_fraction * o.iteration_s;
      for (const double exposed : o.exposed_s) sum += exposed;
      CHECK(o.iteration_s > 0);
      CHECK(o.compute_s > 0);
      CHECK(o.exposed_s[static_cast<int>(GroupKind::Data)] > 0);  // always exposed at the end
      CHECK(sum == Approx(o.iteration_s).epsilon(1e-9));
    }
  }
}

TEST_CASE("a run result's rates follow from the iteration") {
  const Scenario scenario = load(kSmall)[0];
  const RunResult o = simulated(scenario);
  REQUIRE(o.training.has_value());
  // 16 sequences of 512 tokens; 312 TFLOP/s is an A100's dense bf16 peak.
  CHECK(o.training->tokens_per_s == Approx(16 * 512 / o.iteration_s));
  CHECK(o.training->model_tflops_per_gpu ==
        Approx(model_flops(scenario.job.model, scenario.job.plan) / 8 / o.iteration_s * 1e-12));
  CHECK(o.training->tokens_per_s_per_gpu == Approx(16.0 * 512 / 8 / o.iteration_s));
  CHECK(o.training->mfu == Approx(o.training->model_tflops_per_gpu / 312));
  const MemoryBytes& memory = o.training->memory;
  CHECK(memory.total == Approx(memory.weights + memory.gradients + memory.optimizer +
                               memory.activations + memory.communication + memory.workspace));
  CHECK(o.training->fits);
  CHECK(o.gpus == 8);
  CHECK(o.plan->microbatches == 8);
  CHECK(o.ranks_simulated == 2);  // a class a stage
}

TEST_CASE("a faster NIC never slows a plan") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + random() % values.size());
  };
  for (int i = 0; i < 15; ++i) {
    const int tp = one_of({1, 2, 4, 8, 16}), pp = one_of({1, 2, 4}), dp = one_of({1, 2, 4});
    const int vpp = pp > 1 ? one_of({1, 2}) : 1, node = one_of({1, 2, 4, 8});
    const Names set = {fmt::format("parallel.tp={}", tp),
                       fmt::format("parallel.pp={}", pp),
                       fmt::format("parallel.dp={}", dp),
                       fmt::format("parallel.vpp={}", vpp),
                       fmt::format("parallel.global_batch={}", 4 * dp * one_of({1, 2, 3})),
                       fmt::format("cluster.gpus={}", tp * pp * dp),
                       fmt::format("cluster.gpus_per_node={}", node),
                       fmt::format("cluster.nics_per_node={}", one_of({1, node})),
                       fmt::format("train.recompute={}", one_of({0, 1}) ? "full" : "none"),
                       fmt::format("parallel.scatter_gather={}", one_of({0, 1}) == 1)};
    double before = std::numeric_limits<double>::infinity();
    for (const double Gbitps : {1.0, 10.0, 37.5, 200.0, 1000.0}) {
      Names faster = set;
      faster.push_back(fmt::format("cluster.nic_Gbitps={}", Gbitps));
      INFO(fmt::format("{}", fmt::join(faster, " ")));
      const auto result = simulate(load(kSmall, faster)[0], Engine::Ideal);
      REQUIRE(result.ok());
      CHECK(result->iteration_s <= before);
      before = result->iteration_s;
    }
  }
}

TEST_CASE("ranks that are a little slower change nothing of the least bandwidth between nodes") {
  const Names set = {"report.least_bandwidth=true", "parallel.tp=8", "parallel.dp=4",
                     "cluster.gpus=64", "cluster.preset=aws-p4d"};
  const auto least = [&](const std::string& slower) {
    Names all = set;
    if (!slower.empty()) all.push_back("variability.straggler_ranks=" + slower);
    if (!slower.empty()) all.emplace_back("variability.straggler_factor=1.000001");
    const auto result = simulate(load(kSmall, all)[0], Engine::Ideal);
    REQUIRE(result.ok());
    return result->least_internode_Gbitps.value();
  };
  const double equal = least("");
  CHECK(equal > 0);
  // Communicators that share a NIC in lock step are two classes now.
  CHECK(least("[0, 1, 2, 9, 17]") == Approx(equal).epsilon(0.03));
}

TEST_CASE("more tensor ranks than a node has GPUs is a warning, and is simulated across nodes") {
  // 16 heads over 16 ranks, on nodes of 8.
  const Names set = {"parallel.tp=16", "parallel.pp=1", "parallel.dp=1", "cluster.gpus=16"};
  const Scenario wide = load(kSmall, set)[0];
  for (const Engine engine : engines()) {
    const RunResult o = simulated(wide, engine);
    CHECK(o.warnings == Names{"small: parallel.tp = 16 is more than the 8 GPUs of a node: tensor "
                              "communication crosses nodes"});
    CHECK(o.exposed_s[static_cast<int>(GroupKind::Tensor)] > 0);
    CHECK(o.exposed_between_nodes_s >= o.exposed_s[static_cast<int>(GroupKind::Tensor)]);
  }
  // 28 GPUs are 7 of each of four nodes, of which no tensor group of 4 is whole.
  const Names part = {"parallel.tp=4", "parallel.pp=1", "cluster.gpus=28", "parallel.dp=7",
                      "parallel.global_batch=28"};
  CHECK(simulated(load(kSmall, part)[0]).warnings ==
        Names{"small: parallel.tp = 4 does not divide the 7 GPUs of a node: tensor communication "
              "crosses nodes; cluster.gpus_of_node = 8 fills nodes of 8"});
  const RunResult inside = simulated(
      load(kSmall, {"parallel.tp=8", "parallel.pp=1", "parallel.dp=1", "cluster.gpus=8"})[0]);
  CHECK(inside.warnings.empty());
  CHECK(inside.exposed_s[static_cast<int>(GroupKind::Tensor)] > 0);
  CHECK(inside.exposed_between_nodes_s == 0);
}

TEST_CASE("jitter unfolds the ranks, says so, and is the same for the same seed") {
  const auto run = [](int seed) {
    return simulated(
        load(kSmall, {"variability.jitter=0.1", fmt::format("variability.seed={}", seed)})[0]);
  };
  const RunResult first = run(7);
  CHECK(first.ranks_simulated == 8);
  CHECK(first.warnings == Names{"small: jitter: all 8 ranks are simulated, none folded; seed 7"});
  CHECK(run(7).iteration_s == first.iteration_s);
  CHECK(run(8).iteration_s != first.iteration_s);
}

TEST_CASE("what was published stands beside the run on the cluster that it was measured on") {
  const auto scenarios = load(kSmall + R"(
[published]
tflops_per_gpu = 137
cluster = "A"
[[variant]]
name = "A"
[[variant]]
name = "B"
)");
  CHECK(simulated(scenarios[0]).published_tflops_per_gpu == 137);
  CHECK(!simulated(scenarios[1]).published_tflops_per_gpu.has_value());
}

TEST_CASE("a run whose model, plan or machine --set changes has no published figure of the file") {
  const std::string text = kSmall +
                           "[published]\ntflops_per_gpu = 137\ncluster = \"A\"\n"
                           "[[variant]]\nname = \"A\"\n";
  const auto published = [&](const Names& set) {
    return simulated(load(text, set)[0]).published_tflops_per_gpu;
  };
  for (const char* set : {"model.hidden=2048", "parallel.micro_batch=2", "train.precision=fp16",
                          "schedule.order=gpipe", "overlap.grad_reduce=true",
                          "cluster.preset=dgx-h100", "cluster.nic_Gbitps=50"}) {
    CAPTURE(set);
    CHECK(!published({set}).has_value());
  }
  // Neither what is reported, nor what compute costs, nor a value that the file has as well.
  for (const char* set : {"report.traffic=true", "costs.software=megatron-a100", "parallel.tp=2"}) {
    CAPTURE(set);
    CHECK(published({set}) == 137);
  }
  CHECK(published({"parallel.micro_batch=2", "published.tflops_per_gpu=120"}) == 120);
}

TEST_CASE("several runs give what each gives alone, a bad one an Error of its own") {
  auto scenarios = load(kSmall + "[matrix]\nparallel.global_batch = [8, 16, 24]\n");
  scenarios[1].job.order.name = "no such order";
  const auto results = simulate_all(scenarios, Engine::Ideal, 2);
  REQUIRE(results.size() == 3);
  CHECK(!results[1].ok());
  for (const int i : {0, 2}) {
    REQUIRE(results[i].ok());
    CHECK(results[i]->iteration_s == simulated(scenarios[i]).iteration_s);
    CHECK(results[i]->points == scenarios[i].points);
  }
}

TEST_CASE("without communication the bubble is (p-1)/m, interleaved (p-1)/(vm), on both engines") {
  // Narayanan et al. 2021, section 2.2: a rank idles for p-1 forwards and backwards of one of its v
  // chunks, and computes m of all v.
  struct Case {
    const char* order;
    int p, v, m;
  };
  std::vector<Case> cases;
  for (const int p : {2, 8, 64}) {
    for (const int m : {8, 512}) {
      if (m < p) continue;
      for (const char* order : {"1f1b", "gpipe"}) cases.push_back({order, p, 1, m});
      for (const int v : {2, 3}) cases.push_back({"interleaved", p, v, m});
    }
  }
  CHECK(cases.size() == 5 * 4);
  std::vector<Scenario> scenarios;
  for (const Case& c : cases)
    scenarios.push_back(load(
        kUniform,
        {fmt::format("schedule.order={}", c.order), fmt::format("parallel.pp={}", c.p),
         fmt::format("parallel.vpp={}", c.v), fmt::format("parallel.global_batch={}", c.m)})[0]);
  for (const Engine engine : engines()) {
    const auto results = simulate_all(scenarios, engine, 2);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      INFO(c.order << ", p " << c.p << ", v " << c.v << ", m " << c.m << ", engine "
                   << (engine == Engine::Ideal ? "ideal" : "simgrid"));
      REQUIRE(results[i].ok());
      CHECK(results[i]->bubble_ratio ==
            Approx((c.p - 1.0) / (static_cast<double>(c.v) * c.m)).margin(1e-9).epsilon(0));
      // Forward 1 s and backward 2 s of v chunks, m times, and the bubble.
      CHECK(results[i]->iteration_s == Approx(3.0 * c.v * c.m + 3.0 * (c.p - 1)).epsilon(1e-9));
    }
  }
}

TEST_CASE("what is out of all measure is one line, not an overflow") {
  const auto refused = [](const std::string& text, const Names& set) {
    const auto result = simulate(load(text, set)[0], Engine::Ideal);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().kind == Error::BadInput);
    return result.error().text();
  };
  // 2 ranks, 65 stages each: 129 edges, both directions, at either rank.
  CHECK(refused(kUniform, {"parallel.vpp=65"}).find("258 pipeline edges") != std::string::npos);
  CHECK(refused(kSmall, {"cluster.intra_GBps=1e-12"}).find("expected at") != std::string::npos);
  // Passes that take thousands of years, before they are put into an order.
  for (const char* rate :
       {"cluster.tflops=1e-9", "cluster.tflops=1e-20", "cluster.memory_GBps=1e-9"})
    for (const char* order : {"1f1b", "zb1p", "auto"}) {
      INFO(rate << ' ' << order);
      CHECK(refused(kSmall, {rate, std::string("schedule.order=") + order})
                .find("--set: found ops that take ") == 0);
    }
  CHECK(refused(kUniform, {"costs.forward_s=0", "costs.backward_s=0"}).find("takes no time") !=
        std::string::npos);
}

TEST_CASE("only the runs whose name is asked for are checked") {
  // parallel.tp = 3 breaks several rules; the other run does not know of it.
  const Folder folder;
  const std::string path = folder.with("two.toml", kSmall + "[matrix]\nparallel.tp = [2, 3]\n");
  CHECK_FALSE(load_scenarios(path).ok());
  const auto one = load_scenarios(path, {}, "parallel.tp=2");
  REQUIRE(one.ok());
  CHECK(one->size() == 1);
  CHECK_FALSE(load_scenarios(path, {}, "parallel.tp=4").ok());
  // A run's whole name goes over names that contain it.
  const std::string more =
      folder.with("more.toml", kSmall + "[matrix]\nparallel.global_batch = [8, 80]\n");
  CHECK(load_scenarios(more, {}, "parallel.global_batch=8")->size() == 1);
  CHECK(load_scenarios(more, {}, "global_batch=8")->size() == 2);
}

TEST_CASE("an integer may be written as a number without a fraction, and not as a text") {
  const Folder folder;
  const auto batched = [&](const std::string& batch) {
    std::string text = kSmall;
    const std::size_t line = text.find("global_batch");
    text.replace(line, text.find('\n', line) - line, "global_batch = " + batch);
    return load_scenarios(folder.with("batch.toml", text));
  };
  for (const char* batch : {"64.0", "6.4e1", "0x40"}) {
    INFO(batch);
    const auto loaded = batched(batch);
    REQUIRE(loaded.ok());
    CHECK(loaded->front().job.plan.global_batch == 64);
  }
  const auto refused = [&](const char* batch) { return batched(batch).error().text(); };
  CHECK(refused("64.5").find("= 64.5, expected an integer from") != std::string::npos);
  CHECK(refused("\"64\"").find("= \"64\", expected an integer from") != std::string::npos);
}
