// FrameworkProfile: what of it belongs to which GPU, what its constants mean for a whole iteration.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "planning/simulate/simulate.h"
#include "schedule/lowering/lower.h"
#include "tests/scenarios/small_scenario.h"
#include "topology/preset.h"

namespace tandem {
namespace {

Scenario with(const Names& keys) { return load(kSmall, keys)[0]; }

// Of every pipeline rank, what its optimizer ops take together.
std::vector<Nanoseconds> optimizer_ns(const Program& program) {
  std::vector<Nanoseconds> sums;
  for (const Body& body : program.bodies) {
    Nanoseconds& sum = sums.emplace_back();
    for (const Op& op : body.ops) sum += op.kind == OpKind::Optimizer ? op.duration_ns : 0;
  }
  return sums;
}

std::vector<Nanoseconds> optimizer_ns(Scenario scenario, double overhead_s) {
  scenario.costs.profile.iteration_overhead_s = overhead_s;
  const auto job = compile(scenario);
  INFO((job.ok() ? "" : job.error().text()));
  REQUIRE(job.ok());
  return optimizer_ns(job->program);
}

TEST_CASE("an iteration's overhead is charged once a rank, whatever stages the rank has") {
  for (const Names& order :
       {Names{"schedule.order=1f1b"}, Names{"schedule.order=interleaved", "parallel.vpp=4"},
        Names{"schedule.order=zbv"}, Names{"schedule.order=dualpipe"},
        Names{"schedule.order=dualpipev"}}) {
    INFO(order[0]);
    const Scenario scenario = with(order);
    const std::vector<Nanoseconds> without = optimizer_ns(scenario, 0);
    const std::vector<Nanoseconds> charged = optimizer_ns(scenario, 0.016);
    REQUIRE(charged.size() == 2);
    for (int rank = 0; rank < 2; ++rank) CHECK(charged[rank] == without[rank] + 16'000'000);
  }
}

TEST_CASE("graphs of a whole iteration spare the CPU's overhead, not what grows with the GPUs") {
  FrameworkProfile profile;
  profile.iteration_overhead_s = 0.04;
  profile.rank_overhead_s = 0.002;
  Plan plan{.tp = 4, .dp = 8};
  CHECK(iteration_overhead_s(plan, profile, 32) == Approx(0.04 + 5 * 0.002));
  plan.cuda_graphs = true;
  CHECK(iteration_overhead_s(plan, profile, 32) == Approx(5 * 0.002));
  plan.cuda_graph_modules.moe = false;
  CHECK(iteration_overhead_s(plan, profile, 32) == Approx(0.04 + 5 * 0.002));
}

TEST_CASE("FSDP's rings show a step's latency for each layer, collective and other rank") {
  const FrameworkProfile profile = {.shard_latency_s = 2e-6};
  const auto shown = [&](const Plan& plan) { return iteration_overhead_s(plan, profile, 24); };
  CHECK(shown({.dp = 512, .micro_batch = 1, .global_batch = 512, .zero = 1}) == 0);
  CHECK(shown({.dp = 512, .micro_batch = 1, .global_batch = 512, .zero = 2}) ==
        Approx(2e-6 * 24 * 2 * 511));
  CHECK(shown({.dp = 512, .micro_batch = 1, .global_batch = 1024, .zero = 3}) ==
        Approx(2e-6 * 24 * 3 * 2 * 511));
  // Shards within a node have short rings.
  CHECK(shown({.dp = 512, .micro_batch = 1, .global_batch = 512, .zero = 3, .hsdp_shard = 8}) ==
        Approx(2e-6 * 24 * 3 * 7));
}

TEST_CASE("optimizer and overhead take every rank as long with 1 virtual stage as with 10") {
  // 40 layers on 4 ranks: 10 each either way. Each of a rank's 10 parts is rounded to a nanosecond.
  const auto of = [](const char* vpp) {
    return optimizer_ns(with({"model.layers=40", "parallel.pp=4", "parallel.dp=1", vpp}), 0.0117);
  };
  const std::vector<Nanoseconds> one = of("parallel.vpp=1"), ten = of("parallel.vpp=10");
  REQUIRE(one.size() == 4);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(one[rank] > 11'700'000);
    CHECK(std::abs(one[rank] - ten[rank]) <= 10);
  }
}

TEST_CASE("a rank that updates nothing has the overhead alone") {
  Workload work = uniform_workload({.forward_s = 1, .backward_s = 2}, 4);
  work.iteration_overhead_ns = 5;
  OrderSpec spec{.name = "interleaved", .pp = 2, .vpp = 2, .microbatches = 4};
  const auto order = make_order(spec);
  REQUIRE(order.ok());
  const auto program = lower(*order, work, {});
  REQUIRE(program.ok());
  CHECK(optimizer_ns(*program) == std::vector<Nanoseconds>{5, 5});
}

TEST_CASE("ZeRO-3 gathers ahead where nobody says that it should not, other stages do not") {
  const Names alone = {"parallel.tp=1", "parallel.pp=1", "parallel.dp=8"};
  const auto gathers_ahead = [&](const Names& more) {
    Names keys = alone;
    keys.insert(keys.end(), more.begin(), more.end());
    return with(keys).job.data.param_gather;
  };
  CHECK(gathers_ahead({"train.zero=3"}));
  CHECK_FALSE(gathers_ahead({"train.zero=3", "overlap.param_gather=false"}));
  CHECK_FALSE(gathers_ahead({"train.zero=1"}));
  CHECK_FALSE(gathers_ahead({"train.zero=2"}));
}

TEST_CASE("only what was measured of early DeepSpeed gathers slower than NCCL's own benchmarks") {
  for (const std::string& name : framework_profile_names()) {
    INFO(name);
    const bool early = name.starts_with("deepspeed-") || name.starts_with("bigscience-");
    CHECK((load_framework_profile(name)->zero3_stretch > 1) == early);
  }
}

TEST_CASE("every device names its framework profile, and one that names none is refused") {
  for (const std::string& name : device_names()) {
    INFO(name);
    const auto device = load_device(name);
    REQUIRE(device.ok());
    CHECK(load_framework_profile(device->profile).ok());
  }
}

TEST_CASE("calibrated is what runs of that profile on that GPU in that precision stand behind") {
  const struct {
    Names keys;
    bool calibrated;
  } cases[] = {
      // 1.7B to 1T on A100 in fp16; nobody measured that Megatron in bf16.
      {{"train.precision=fp16"}, true},
      {{"train.precision=bf16"}, false},
      // MLPerf is in fp8, and has tensor with context parallelism; no run in bf16 has.
      {{"cluster.preset=dgx-h100", "train.precision=fp8"}, true},
      {{"cluster.preset=dgx-h100", "train.precision=bf16"}, true},
      {{"cluster.preset=dgx-h100", "train.precision=fp16"}, false},
      {{"cluster.preset=dgx-h100", "train.precision=fp8", "parallel.cp=2", "parallel.dp=1"}, true},
      {{"cluster.preset=dgx-h100", "train.precision=bf16", "parallel.cp=2", "parallel.dp=1"},
       false},
      // Experts: none on H100s that a fit could leave out; on B200s without tensor parallelism.
      {{"cluster.preset=dgx-h100", "train.precision=bf16", "parallel.tp=1", "parallel.dp=4",
        "model.experts=8", "model.top_k=2"},
       false},
      {{"cluster.preset=dgx-b200", "train.precision=fp8", "parallel.tp=1", "parallel.dp=4",
        "model.experts=8", "model.top_k=2"},
       true},
      {{"cluster.preset=dgx-b200", "train.precision=fp8", "train.sequence_parallel=true",
        "model.experts=8", "model.top_k=2"},
       false},
      {{"cluster.preset=dgx-b200", "train.precision=fp8", "costs.software=nemo-h100"}, false},
      // H200's row has context parallelism alone.
      {{"cluster.preset=dgx-h200", "train.precision=fp8"}, false},
      {{"cluster.preset=dgx-b200", "train.precision=fp8"}, true},
      {{"cluster.preset=gb200-nvl72", "train.precision=fp8"}, true},
      {{"cluster.preset=gb200-nvl72", "train.precision=bf16"}, false},
      {{"cluster.preset=dgx-h100", "train.precision=fp8", "costs.software=nemo-2304-h100"}, false},
      // Tensor cores without mxfp8 have no runs in it.
      {{"cluster.preset=dgx-h100", "train.precision=fp8", "train.fp8_recipe=mxfp8"}, false},
      {{"cluster.preset=dgx-b200", "train.precision=fp8", "train.fp8_recipe=mxfp8"}, true},
      // No row on V100s but BigScience's.
      {{"cluster.preset=jz-v100", "train.precision=fp16"}, false},
      {{"cluster.preset=jz-v100", "train.precision=fp16", "costs.software=bigscience-v100"}, true},
      // What was not measured is not a base's either.
      {{"train.precision=fp16", "costs.software=nccl-rates-a100"}, false},
      // GPUs of one's own, by whatever number; memory that is larger takes no time.
      {{"train.precision=fp16", "cluster.gpu_name=A100-SXM4-80GB"}, false},
      {{"train.precision=fp16", "cluster.tflops=400"}, false},
      {{"train.precision=fp16", "cluster.memory_GBps=1555"}, false},
      {{"train.precision=fp16", "cluster.sms=100"}, false},
      {{"train.precision=fp16", "cluster.gemm_efficiency=0.8"}, false},
      {{"train.precision=fp16", "cluster.memory_GiB=40"}, true},
      // Links are another question.
      {{"train.precision=fp16", "cluster.nic_Gbitps=50"}, true},
  };
  for (const auto& [keys, calibrated] : cases) {
    INFO(fmt::format("{}", fmt::join(keys, " ")));
    CHECK(with(keys).costs.calibrated == calibrated);
  }
  CHECK_FALSE(load(kUniform)[0].costs.calibrated);  // stated costs are not the model's
}

TEST_CASE("a guess has an interval at least 1.5 times as wide as its software's own") {
  const auto guess =
      simulate(with({"cluster.preset=dgx-b200", "train.precision=fp16"}), Engine::Ideal);
  REQUIRE(guess.ok());
  CHECK(guess->calibrated == false);
  CHECK(guess->cost_model == "nemo-b200 on B200-180GB in fp16");
  REQUIRE(guess->interval_s);
  const FrameworkProfile own = *load_framework_profile("nemo-b200");
  CHECK(guess->interval_s->first <= std::pow(own.interval_low, 1.5) * guess->iteration_s);
  CHECK(guess->interval_s->second >= std::pow(own.interval_high, 1.5) * guess->iteration_s);
}

TEST_CASE("what no measured run has is named where a prediction is a guess") {
  const auto named = [](const Names& keys) { return with(keys).costs.model_name; };
  const Names bf16 = {"cluster.preset=dgx-h100", "train.precision=bf16"};
  const auto and_more = [&](Names more) {
    more.insert(more.begin(), bf16.begin(), bf16.end());
    return named(more);
  };
  CHECK(named(bf16) == "nemo-h100 on H100-SXM5-80GB in bf16");
  CHECK(and_more({"parallel.cp=2", "parallel.dp=1"}) ==
        "nemo-h100 on H100-SXM5-80GB in bf16 with context parallelism");
  CHECK(named({"cluster.preset=dgx-h100", "train.precision=fp8", "parallel.tp=1", "parallel.dp=4",
               "train.zero=3"}) == "nemo-h100 on H100-SXM5-80GB in fp8 with ZeRO 3");
  CHECK(and_more({"parallel.tp=1", "parallel.dp=4", "model.experts=8", "model.top_k=2"}) ==
        "nemo-h100 on H100-SXM5-80GB in bf16 with experts");
  CHECK(named({"cluster.preset=dgx-b200", "train.precision=fp8", "train.sequence_parallel=true",
               "model.experts=8", "model.top_k=2"}) ==
        "nemo-b200 on B200-180GB in fp8 with experts and tensor parallelism");
  CHECK(named({"cluster.preset=gb200-nvl72", "train.precision=bf16"}) ==
        "nemo-b200 on GB200-186GB in bf16 without experts");
}

TEST_CASE("over the same links no newer GPU is slower on the same job") {
  // By generation; H200 is H100's chip with faster memory, GB200 is B200's with more power, and the
  // 300s are theirs with more memory. The H20 and the H100 NVL compute less than the H100 of a
  // GH200, and their memory is no faster; than an H100 of 80 GB it is.
  const Names generations[] = {{"a100-40gb", "a100-80gb", "h100-80gb", "h200-141gb", "b200-180gb",
                                "gb200-186gb", "gb300-288gb"},
                               {"h100-80gb", "h800-80gb", "h100-96gb", "h200-141gb", "b200-180gb",
                                "b300-288gb", "gb300-288gb"},
                               {"h20-96gb", "h100-96gb"},
                               {"h100-nvl-94gb", "h100-96gb"},
                               {"mi300x-192gb", "mi325x-256gb", "mi350x-288gb", "mi355x-288gb"}};
  const Names seven_b = {"model.layers=32", "model.hidden=4096",          "model.heads=32",
                         "model.seq=4096",  "train.flash_attention=true", "parallel.tp=1",
                         "parallel.pp=1",   "cluster.memory_GiB=200"};
  const Names gpt = {"model.layers=48", "model.hidden=8192",      "model.heads=64",
                     "model.seq=2048",  "cluster.memory_GiB=500", "train.recompute=full"};
  const struct {
    const char* name;
    const Names& model;
    Names plan;
  } jobs[] = {
      {"FSDP, 7B",
       seven_b,
       {"parallel.dp=64", "parallel.global_batch=64", "train.zero=3", "cluster.gpus=64",
        "overlap.grad_reduce=true"}},
      {"FSDP, 7B, nothing reduced beside compute",
       seven_b,
       {"parallel.dp=64", "parallel.global_batch=64", "train.zero=3", "cluster.gpus=64"}},
      {"FSDP, 7B, one node",
       seven_b,
       {"parallel.dp=8", "parallel.global_batch=8", "train.zero=3", "cluster.gpus=8"}},
      {"DDP, 7B", seven_b, {"parallel.dp=64", "parallel.global_batch=256", "cluster.gpus=64"}},
      {"3D",
       gpt,
       {"parallel.tp=8", "parallel.pp=4", "parallel.dp=2", "parallel.global_batch=64",
        "cluster.gpus=64"}},
      {"3D, interleaved",
       gpt,
       {"parallel.tp=8", "parallel.pp=4", "parallel.vpp=6", "parallel.dp=2", "train.zero=1",
        "parallel.global_batch=64", "cluster.gpus=64"}},
      {"pipeline alone",
       gpt,
       {"parallel.tp=1", "parallel.pp=8", "parallel.dp=1", "parallel.global_batch=32",
        "cluster.gpus=8"}}};
  for (const auto& job : jobs) {
    for (const char* preset : {"dgx-a100", "dgx-h100"}) {
      std::map<std::string, double> iteration_s;
      const auto took = [&](const std::string& gpu) {
        if (!iteration_s.contains(gpu)) {
          Names keys = job.model;
          keys.insert(keys.end(), job.plan.begin(), job.plan.end());
          keys.push_back(fmt::format("cluster.preset={}", preset));
          keys.push_back(fmt::format("cluster.gpu={}", gpu));
          const auto result = simulate(with(keys), Engine::Ideal);
          REQUIRE(result.ok());
          iteration_s[gpu] = result->iteration_s;
        }
        return iteration_s[gpu];
      };
      for (const Names& older_first : generations) {
        for (std::size_t i = 1; i < older_first.size(); ++i) {
          INFO(job.name << ", links of " << preset << ", " << older_first[i - 1] << ", "
                        << older_first[i]);
          // Where the host's launches take longest all GPUs take as long, but for a layer's parts,
          // each of which is rounded to a nanosecond.
          CHECK(took(older_first[i]) <= took(older_first[i - 1]) * (1 + 1e-6));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem
