// What runs save against a baseline, what their GPUs send and when their memory peaks; and the
// shipped scenarios that compare ways of overlapping and of cutting.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "planning/simulate/simulate.h"
#include "report/text/table.h"
#include "sim/engines.h"
#include "tests/needs.h"
#include "tests/scenarios/small_scenario.h"

using namespace tandem;

namespace {

using ByName = std::map<std::string, RunResult>;

ByName simulated(const std::vector<Scenario>& scenarios) {
  need_simgrid();
  ByName results;
  for (const auto& result : simulate_all(scenarios, Engine::SimGrid, 2)) {
    INFO((result.ok() ? "" : result.error().text()));
    REQUIRE(result.ok());
    results[result->name] = *result;
  }
  return results;
}

ByName shipped(const char* file, const std::vector<std::pair<std::string, Setting>>& sets = {}) {
  const auto scenarios =
      load_scenarios(fmt::format("{}/scenarios/{}", TANDEM_SOURCE_DIR, file), sets);
  INFO((scenarios.ok() ? "" : scenarios.error().text()));
  REQUIRE(scenarios.ok());
  return simulated(*scenarios);
}

double of(const std::array<double, kGroupKinds>& by_group_kind, GroupKind group_kind) {
  return by_group_kind[static_cast<std::size_t>(group_kind)];
}

// One axis of gradients' types, one of ways to reduce them.
const std::string kCompared = kSmall + R"([train]
zero = 1
[report]
baseline = "in line"
kind = "data"
[[matrix.type]]
name = "fp32"
train.gradient_dtype = "fp32"
[[matrix.type]]
name = "bf16"
train.gradient_dtype = "bf16"
[[matrix.way]]
name = "in line"
[[matrix.way]]
name = "overlap"
overlap = {grad_reduce = true, param_gather = true}
)";

}  // namespace

TEST_CASE("a run's saving is against the baseline with the same other points") {
  const ByName runs = simulated(load(kCompared));
  for (const std::string type : {"fp32", "bf16"}) {
    const RunResult& base = runs.at(type + ", in line");
    const RunResult& run = runs.at(type + ", overlap");
    CHECK_FALSE(base.saving.has_value());
    REQUIRE(run.saving.has_value());
    CHECK(run.saving->baseline == "in line");
    CHECK(run.saving->kind == "data");
    CHECK(run.saving->seconds == Approx(base.iteration_s - run.iteration_s));
    CHECK(run.saving->of_iteration == Approx(run.saving->seconds / base.iteration_s));
    CHECK(run.saving->communication_s == of(base.comm_s, GroupKind::Data));
    CHECK(*run.saving->of_communication ==
          Approx(run.saving->seconds / of(base.comm_s, GroupKind::Data)));
  }
}

TEST_CASE("a run has no saving where its baseline is not simulated") {
  const Folder folder;
  const auto scenarios =
      load_scenarios(folder.with("compared.toml", kCompared), {}, "bf16, overlap");
  REQUIRE(scenarios.ok());
  CHECK_FALSE(simulated(*scenarios).at("bf16, overlap").saving.has_value());
}

TEST_CASE("a baseline that is no point is refused at its line, the nearest one named") {
  const Folder folder;
  const auto refused = [&](const std::string& text) {
    const auto scenarios = try_load(folder, text);
    REQUIRE(!scenarios.ok());
    CHECK(scenarios.error().kind == Error::BadInput);
    return scenarios.error().text();
  };
  std::string text = kCompared;
  CHECK(refused(text.replace(text.find("in line"), 7, "inline")) ==
        folder /
            "small.toml:19: found report.baseline = inline, expected a point's name on an "
            "axis; the nearest is 'in line' (run 'fp32, in line')");
  CHECK(refused(kSmall + "[report]\nbaseline = \"off\"\n") ==
        folder /
            "small.toml:17: found report.baseline = off, expected a point's name on an axis; "
            "the file has none");
}

TEST_CASE("the savings' table has a row a run that has a baseline, and is empty without") {
  RunResult base, run;
  base.name = "off";
  base.axes = run.axes = {"variant"};
  base.points = {"off"};
  run.points = {"on"};
  CHECK(savings_table({base}).empty());
  run.saving = Saving{"off", 0.5, 0.125, "data", 1, 0.5};
  CHECK(savings_table({base, run}) ==
        "variant  against  saved s  % of iteration  communication  takes s  saved % of it\n"
        "on       off        0.500            12.5           data    1.000           50.0\n");
  run.saving->of_communication.reset();
  CHECK(savings_table({run}).ends_with(" -\n"));
}

TEST_CASE("what a GPU sends follows from the ring and the shapes") {
  // 8 replicas that reduce fp32 gradients: 2 x 7/8 of 4 bytes a parameter, and the norm's 4 bytes.
  const Scenario whole =
      load(kSmall, {"parallel.tp=1", "parallel.pp=1", "parallel.dp=8", "train.zero=0"})[0];
  const double data = of(simulated({whole}).at("small").sent_bytes, GroupKind::Data);
  CHECK(data == Approx(2 * 7.0 / 8 * 4 * parameters(whole.job.model)).epsilon(1e-4));

  // Two stages, 8 microbatches of 512 x 1024 in 16 bits: one sends them on, the other back.
  const RunResult cut = simulated(load(kSmall)).at("small");
  CHECK(of(cut.sent_bytes, GroupKind::Pipeline) == 8 * 512 * 1024 * 2);
  CHECK(of(cut.sent_bytes, GroupKind::Context) == 0);
}

TEST_CASE("memory peaks with the last forward of gpipe, and with 1F1B's first full rank") {
  const RunResult gpipe = simulated(load(kSmall, {"schedule.order=gpipe"})).at("small");
  const MemoryPeak& last = gpipe.training->peak;
  CHECK(last.action == fmt::format("forward 7 of stage {}", last.pipeline_rank));
  CHECK(last.at_s > 0.2 * gpipe.iteration_s);
  CHECK(last.at_s < gpipe.iteration_s);

  // Rank 0 of two holds two, and then sends the second on.
  const RunResult early =
      simulated(load(kSmall, {"model.seq=2048", "model.vocab=1000"})).at("small");
  CHECK(early.training->peak.pipeline_rank == 0);
  CHECK(early.training->peak.action == "forward 1 of stage 0");
  CHECK(early.training->peak.at_s < 0.3 * early.iteration_s);
}

TEST_CASE("shipped models of Llama 3 and DeepSeek-V3 have a head of their own, GPTs do not") {
  // tie_word_embeddings of their config.json, told by the vocabulary.
  int untied = 0, tied = 0;
  for (const char* file : {"nemo-overlap.toml", "packing.toml", "deepseek-v3.toml"}) {
    const auto scenarios =
        load_scenarios(fmt::format("{}/scenarios/{}", TANDEM_SOURCE_DIR, file), {});
    REQUIRE(scenarios.ok());
    for (const Scenario& scenario : *scenarios) {
      INFO(file << ": " << scenario.name);
      const Model& model = scenario.job.model;
      CHECK(model.tied_embeddings == (model.vocab == 51200));
      ++(model.tied_embeddings ? tied : untied);
    }
  }
  CHECK(untied == 10);  // six of Llama 3 70B, one of 8B, three of DeepSeek-V3
  CHECK(tied == 5);
}

TEST_CASE("each of NeMo's overlaps saves at most its own communication, and all most") {
  const ByName runs = shipped("nemo-overlap.toml");
  for (const std::string model : {"GPT-3 175B", "Llama-3 70B"}) {
    const RunResult& all = runs.at(model + ", all");
    for (const auto& [name, run] : runs) {
      if (!name.starts_with(model) || !run.saving) continue;
      INFO(name);
      CHECK(run.saving->seconds > 0);
      // What waits for the ring between attention's parts is saved as well.
      CHECK(*run.saving->of_communication < 1.01);
      CHECK(all.iteration_s <= run.iteration_s);
    }
  }
  const RunResult& context = runs.at("Llama-3 70B, context");
  CHECK(of(context.exposed_s, GroupKind::Context) == 0);
  CHECK(context.saving->of_communication == Approx(1).margin(0.01));
}

TEST_CASE("without a pipeline, data overlap exposes the same however deep the model") {
  // Where a layer's gather takes less than its forward, and its reduction less than its backward:
  // on four times the links of the scenario's.
  const ByName runs = shipped("nemo-data.toml", {{"cluster.nic_Gbitps", {1600.0, "the test"}}});
  const auto exposed = [&](const std::string& name) {
    return of(runs.at(name).exposed_s, GroupKind::Data);
  };
  CHECK(exposed("48 layers, overlap") == Approx(exposed("12 layers, overlap")).epsilon(0.01));
  CHECK(exposed("48 layers, in line") > 3.5 * exposed("12 layers, in line"));
}

TEST_CASE("virtual stages send more, and only with them does pipeline overlap pay") {
  const ByName runs = shipped("nemo-pipeline.toml");
  // Of 8 ranks with v stages each, 8 v - 1 edges are crossed.
  const double edge = of(runs.at("VPP 1, in line").sent_bytes, GroupKind::Pipeline) / 7;
  double saved = 0;
  for (const int vpp : {1, 2, 6, 12}) {
    const std::string stages = fmt::format("VPP {}, ", vpp);
    const RunResult& overlap = runs.at(stages + "overlap");
    CHECK(of(overlap.sent_bytes, GroupKind::Pipeline) == Approx(edge * (8 * vpp - 1)));
    CHECK(of(overlap.sent_bytes, GroupKind::Pipeline) ==
          of(runs.at(stages + "in line").sent_bytes, GroupKind::Pipeline));
    CHECK(overlap.saving->seconds > saved);
    CHECK(of(overlap.exposed_s, GroupKind::Pipeline) > 0);  // fill and flush
    saved = overlap.saving->seconds;
  }
  CHECK(runs.at("VPP 1, overlap").saving->of_iteration < 0.005);
  CHECK(runs.at("VPP 12, overlap").saving->of_iteration > 0.015);
  // Transfers both ways share a NIC, and then cost more than the bubble that they save.
  CHECK(runs.at("VPP 12, in line").iteration_s > runs.at("VPP 6, in line").iteration_s);
}

TEST_CASE("ZeRO-3 collapses as its batch is spread thinner, tensor and pipeline cuts do not") {
  const ByName runs = shipped("zero3-vs-3d.toml");
  const auto tflops = [&](const std::string& cut, int gpus) {
    const RunResult& run = runs.at(fmt::format("{}, {} GPUs", cut, gpus));
    return run.training->hardware_tflops_per_gpu;
  };
  for (const int gpus : {384, 768, 1536}) {
    const RunResult& zero = runs.at(fmt::format("ZeRO-3, measured links, {} GPUs", gpus));
    CHECK(tflops("TP 8 x PP 12", gpus) > tflops("ZeRO-3, measured links", gpus));
    CHECK(tflops("ZeRO-3, full links", gpus) > tflops("ZeRO-3, measured links", gpus));
    // Parameters of 16 bits, gathered twice and reduced once, however many GPUs.
    CHECK(of(zero.sent_bytes, GroupKind::Data) == Approx(3 * 2 * 174.6e9).epsilon(0.01));
    CHECK(zero.training->hardware_tflops_per_gpu ==
          Approx(*zero.published_tflops_per_gpu).epsilon(0.1));
  }
  // Measured: 44 of 144, and 141 of 153.
  CHECK(tflops("ZeRO-3, measured links", 1536) < 0.35 * tflops("ZeRO-3, measured links", 384));
  CHECK(tflops("TP 8 x PP 12", 1536) > 0.85 * tflops("TP 8 x PP 12", 384));
}
