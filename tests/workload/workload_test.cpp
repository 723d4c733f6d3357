// What stages compute, send and hold: totals, published layer times, collectives, sizes, memory.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/memory.h"

namespace tandem {
namespace {

Bytes gradient_bytes(const StageWork& stage) {
  Bytes sum = 0;
  for (const ParameterUnit& unit : stage.units) sum += unit.gradient_bytes;
  return sum;
}

TEST_CASE("a 22B layer takes what Korthikanti et al. measured, less all-reduces, within 6 %") {
  // Table 4, milliseconds for forward and backward, tp = 8, b = 4. Each pass has two all-reduces of
  // 2 x 2048 x 4 x 6144 = 100,663,296 bytes. nccl-tests take 0.8285 ms for just that on 8 A100s
  // (vTrain's table), and training runs 0.80 of what nccl-tests take: 2 x 0.8 x 0.8285 = 1.33 ms a
  // pass, 2.65 ms for a backward that repeats the forward's.
  struct Row {
    Recompute recompute;
    bool sequence_parallel;
    double forward_ms, backward_ms, backward_comm_ms;
  };
  const Row rows[] = {{Recompute::None, false, 7.7, 11.9, 1.33},
                      {Recompute::None, true, 7.2, 11.8, 1.33},
                      {Recompute::Full, false, 7.7, 19.5, 2.65},
                      {Recompute::Selective, false, 7.7, 13.2, 1.33},
                      {Recompute::Selective, true, 7.2, 13.1, 1.33}};
  for (const Row& row : rows) {
    Plan plan = plan_of(8);
    plan.recompute = row.recompute;
    plan.sequence_parallel = row.sequence_parallel;
    Workload work;
    const StageWork stage = middle_stage(gpt_22b(), plan, 1, &work);
    INFO(1e3 * seconds(stage.forward) << " ms, " << 1e3 * seconds(stage.backward) << " ms");
    CHECK(1e3 * seconds(stage.forward) == Approx(row.forward_ms - 1.33).epsilon(0.06));
    CHECK(1e3 * seconds(stage.backward) ==
          Approx(row.backward_ms - row.backward_comm_ms).epsilon(0.06));
  }
}

TEST_CASE("kernels of all GPUs and microbatches add up to the hardware FLOPs") {
  for (const int tp : {1, 2, 8}) {
    for (const int pp : {1, 4}) {
      for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
        Plan plan = plan_of(tp, pp);
        plan.recompute = recompute;
        const Workload work = make_workload(gpt_22b(), plan, a100());
        CHECK(flops(work) * tp * plan.microbatches() ==
              Approx(hardware_flops(gpt_22b(), plan)).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("gated, grouped models add up to their hardware FLOPs, too") {
  const Model model = {.layers = 8,
                       .hidden = 8192,
                       .heads = 64,
                       .kv_heads = 8,
                       .ffn_hidden = 28672,
                       .gated_mlp = true,
                       .seq = 4096,
                       .vocab = 32768};
  Plan plan = plan_of(8, 2, 1);
  plan.recompute = Recompute::Full;
  const Workload work = make_workload(model, plan, a100());
  CHECK(flops(work) * 8 * plan.microbatches() ==
        Approx(hardware_flops(model, plan)).epsilon(1e-12));
}

TEST_CASE("input and weight gradients add up to the backward") {
  for (const int tp : {1, 8}) {
    for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      Plan plan = plan_of(tp, 3);
      plan.recompute = recompute;
      const Workload work = make_workload(gpt_22b(), plan, a100());
      for (const StageWork& stage : work.stages) {
        CHECK(flops(work, stage.backward_input) + flops(work, stage.backward_weight) ==
              Approx(flops(work, stage.backward)).epsilon(1e-14));
        CHECK(memory_bytes(work, stage.backward_input) +
                  memory_bytes(work, stage.backward_weight) ==
              Approx(memory_bytes(work, stage.backward)).epsilon(1e-14));
        // Nothing is launch bound here: the times add up as well (to a nanosecond a piece).
        CHECK(seconds(stage.backward_input) + seconds(stage.backward_weight) ==
              Approx(seconds(stage.backward)).epsilon(1e-6));
        CHECK(collectives(stage.backward_input, CommKind::AllReduce) ==
              collectives(stage.backward, CommKind::AllReduce));
        CHECK(collectives(stage.backward_weight, CommKind::AllReduce).count == 0);
      }
    }
  }
}

TEST_CASE("a layer's passes over memory are the fitted totals") {
  // u = 2 b s h; forward 0.86 u (11/sp + 14/tp) and 6.7 passes over 2 b (a/tp) s^2 bytes, backward
  // 0.86 u (14/sp + 32/tp), 6.25 passes and 3.7 bytes a parameter held.
  const Model model = gpt_22b();
  for (const int tp : {1, 8}) {
    for (const bool sequence_parallel : {false, true}) {
      Plan plan = plan_of(tp);
      plan.sequence_parallel = sequence_parallel;
      const double u = 2.0 * 4 * 2048 * 6144;
      const double sp = sequence_parallel ? tp : 1;
      const double matrix = 2.0 * 4 * (64.0 / tp) * 2048 * 2048;
      Workload work;
      const StageWork stage = middle_stage(model, plan, 1, &work);
      CHECK(memory_bytes(work, stage.forward) ==
            Approx(0.86 * u * (11 / sp + 14.0 / tp) + 6.7 * matrix).epsilon(1e-12));
      CHECK(memory_bytes(work, stage.backward) ==
            Approx(0.86 * u * (14 / sp + 32.0 / tp) + 6.25 * matrix +
                   3.7 * layer_parameters(model) / tp)
                .epsilon(1e-12));
    }
  }
}

TEST_CASE("without tensor parallelism a layer is one step and nothing is reduced") {
  Plan plan = plan_of(1);
  plan.recompute = Recompute::Full;
  Workload work;
  const StageWork stage = middle_stage(gpt_22b(), plan, 5, &work);
  for (const Pass& pass :
       {stage.forward, stage.backward, stage.backward_input, stage.backward_weight}) {
    CHECK(pass.steps.size() == 5);
    for (const Step& step : pass.steps) CHECK(step.computes);
  }
}

TEST_CASE("a layer all-reduces twice forward, twice recomputed, twice backward") {
  const Bytes array = 2 * 4 * 2048 * 6144;
  Plan plan = plan_of(8);
  Workload work;
  StageWork stage = middle_stage(gpt_22b(), plan, 1, &work);
  CHECK(collectives(stage.forward, CommKind::AllReduce) == Moved{2, 2 * array});
  CHECK(collectives(stage.backward, CommKind::AllReduce) == Moved{2, 2 * array});
  CHECK(name_of(work, stage.forward.steps[0]) == "attention forward");
  CHECK(name_of(work, stage.backward.steps[0]) == "mlp backward");
  plan.recompute = Recompute::Full;
  stage = middle_stage(gpt_22b(), plan, 1, &work);
  CHECK(collectives(stage.backward, CommKind::AllReduce) == Moved{4, 4 * array});
  CHECK(name_of(work, stage.backward.steps[0]) == "attention forward");
  CHECK(name_of(work, stage.backward.steps[4]) == "mlp backward");
}

TEST_CASE("sequence parallelism gathers before a block and scatters after it: the same bytes") {
  const Bytes array = 2 * 4 * 2048 * 6144;
  Plan plan = plan_of(8);
  const Workload plain = make_workload(gpt_22b(), plan, a100());
  plan.sequence_parallel = true;
  Workload work;
  const StageWork stage = middle_stage(gpt_22b(), plan, 1, &work);
  const std::vector<Step>& steps = stage.forward.steps;
  REQUIRE(steps.size() == 6);
  CHECK(steps[0] == Step{.computes = false, .collective = CommKind::AllGather, .bytes = array});
  CHECK(steps[1].computes);
  CHECK(steps[1].waits == Waits{0});
  CHECK(
      steps[2] ==
      Step{.computes = false, .collective = CommKind::ReduceScatter, .bytes = array, .waits = {1}});
  // The whole job: an all-reduce is one of each, ends included. The head's small one stays (12 s
  // b).
  const Workload whole = make_workload(gpt_22b(), plan, a100());
  for (auto pass : {&StageWork::forward, &StageWork::backward}) {
    const Bytes small = pass == &StageWork::forward ? 12 * 2048 * 4 : 0;
    const Bytes reduced = collectives(plain.stages[0].*pass, CommKind::AllReduce).bytes - small;
    CHECK(collectives(whole.stages[0].*pass, CommKind::AllGather).bytes == reduced);
    CHECK(collectives(whole.stages[0].*pass, CommKind::ReduceScatter).bytes == reduced);
    CHECK(collectives(whole.stages[0].*pass, CommKind::AllReduce).bytes == small);
  }
}

// 64 query heads of 96 and 4 key/value heads on 8 ranks: (64 + 2 x 4) x 96 columns of Q, K and V,
// of which each rank computes an eighth; then it has 8 query heads and one key/value head.
TEST_CASE("tensor ranks that share a key/value head gather Q, K and V, whose weights stay cut") {
  Model model = gpt_22b();
  const Bytes tokens = 4 * 2048;
  model.kv_heads = 4;
  Plan plan = plan_of(8);
  plan.sequence_parallel = true;
  Workload work;
  const StageWork stage = middle_stage(model, plan, 1, &work);
  const Bytes gathered = 2 * tokens * (64 + 2 * 4) * 96, array = 2 * tokens * 6144;
  CHECK(collectives(stage.forward, CommKind::AllGather) == Moved{3, 2 * array + gathered});
  CHECK(collectives(stage.backward, CommKind::ReduceScatter) == Moved{3, 2 * array + gathered});
  const Kernel& qkv = work.kernels[stage.forward.steps[2].kernel];
  CHECK(qkv.gemms == std::vector<Gemm>{{.m = tokens, .n = (64 + 2 * 4) * 96 / 8, .k = 6144}});
  // All weights are there once, on whatever ranks; a rank's kept keys and values are a head's.
  CHECK(share_of_equal_layers(model, plan, 1).total() * 8 ==
        Approx(layer_parameters(model)).epsilon(1e-3));
  Model own = model;
  own.kv_heads = 8;
  CHECK(activation_bytes_per_layer(model, plan) == activation_bytes_per_layer(own, plan));
  CHECK(collectives(middle_stage(own, plan, 1, &work).forward, CommKind::AllGather).bytes ==
        2 * array);
}

TEST_CASE("the ends: embedding first, head last, each with its all-reduce") {
  const Bytes array = 2 * 4 * 2048 * 6144;
  const Workload work = make_workload(gpt_22b(), plan_of(8, 4), a100());
  const StageWork& first = work.stages.front();
  const StageWork& last = work.stages.back();
  CHECK(name_of(work, first.forward.steps[0]) == "embedding forward");
  CHECK(first.forward.steps[1].bytes == array);
  CHECK(name_of(work, first.backward.steps.back()) == "embedding weight gradient");
  CHECK(name_of(work, last.forward.steps.end()[-2]) == "head forward");
  CHECK(last.forward.steps.back().bytes == 12 * 2048 * 4);
  CHECK(name_of(work, last.backward.steps[0]) == "head backward");
  CHECK(last.backward.steps[1].bytes == array);
  // 12 layers a stage: 2 all-reduces each, and those of the ends.
  CHECK(collectives(first.forward, CommKind::AllReduce).count == 25);
  CHECK(collectives(last.forward, CommKind::AllReduce).count == 25);
  CHECK(collectives(last.backward, CommKind::AllReduce).count == 25);
  CHECK(collectives(first.backward, CommKind::AllReduce).count == 24);
}

TEST_CASE("layers share their kernels") {
  Plan plan = plan_of(8, 12);
  plan.recompute = Recompute::Full;
  const Workload work = make_workload(gpt_22b(), plan, a100());
  // 7 of a layer, 2 of the embedding, 4 of the head, the optimizer on a first, middle, last rank.
  CHECK(work.kernels.size() == 16);
  for (std::size_t i = 0; i < work.kernels.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(work.kernels[i] == work.kernels[j]);
  }
}

TEST_CASE("a stage with nothing to do has one step that takes no time") {
  Model model = gpt_22b();
  model.layers = 6;  // 0 1 1 1 1 1 1 0: the embedding alone has no linear layer
  const Workload work = make_workload(model, plan_of(1, 8), a100());
  CHECK(work.stages[0].layers == 0);
  CHECK(work.stages[0].backward_weight == Pass{.steps = {Step{}}, .output = 0});
  CHECK(Step{}.computes);
}

TEST_CASE("a small model is bound by the CPU that launches its kernels") {
  // 1.16 ms forward, 0.91 ms backward a layer and pass; 1.16 + 0.91 ms with full recompute.
  const Model tiny = {.layers = 3, .hidden = 256, .heads = 4, .seq = 128, .vocab = 1024};
  Plan plan = plan_of(1, 1, 1);
  Workload work;
  StageWork stage = middle_stage(tiny, plan, 1, &work);
  CHECK(stage.forward.steps[0].duration_ns == 1'160'000);
  CHECK(stage.backward.steps[0].duration_ns == 910'000);
  CHECK(stage.backward_input.steps[0].duration_ns + stage.backward_weight.steps[0].duration_ns ==
        910'000);
  plan.recompute = Recompute::Full;
  stage = middle_stage(tiny, plan, 1, &work);
  CHECK(stage.backward.steps[0].duration_ns == 2'070'000);
  // Tensor parallelism launches its collectives: 0.10 ms more, half of it in each block.
  plan.recompute = Recompute::None;
  plan.tp = 2;
  stage = middle_stage(tiny, plan, 1, &work);
  CHECK(stage.forward.steps[0].duration_ns + stage.forward.steps[2].duration_ns == 1'260'000);
  // 24 s h^2 / 2 = 0.1 GFLOP in two blocks: far below 0.1 ms on an A100.
  plan.cuda_graphs = true;
  stage = middle_stage(tiny, plan, 1, &work);
  CHECK(stage.forward.steps[0].duration_ns < 100'000);
}

TEST_CASE("the CPU launches on while collectives run") {
  // Launching two blocks takes 1.26 ms; what their collectives take of that is no reason to wait,
  // but the device's own time stays.
  const Model tiny = {.layers = 1, .hidden = 256, .heads = 4, .seq = 128, .vocab = 1024};
  const Plan plan = plan_of(2, 1, 1);
  const auto layer = [&](Nanoseconds collective) {
    const Workload work = make_workload(tiny, plan, a100(), collective);
    const std::vector<Step>& steps = work.stages[0].forward.steps;
    REQUIRE(name_of(work, steps[2]) == "attention forward");
    REQUIRE(name_of(work, steps[4]) == "mlp forward");
    return steps[2].duration_ns + steps[4].duration_ns;
  };
  CHECK(layer(0) == 1'260'000);
  CHECK(layer(200'000) == 860'000);
  CHECK(layer(630'000) > 6 * 3'000);  // six GEMMs
  CHECK(layer(630'000) == layer(1'000'000));
}

TEST_CASE("the CPU launches what is recomputed while the device is still at a backward") {
  // With full recompute a layer's backward launches for 1.16 + 0.91 ms, and 0.20 ms more with
  // tensor parallelism. Each block's forward alone is short of its launch here, its backward is
  // not: together they take as long as the device does.
  Model model = {.layers = 3, .hidden = 1024, .heads = 16, .seq = 1024, .vocab = 1024};
  Plan plan = plan_of(2, 1, 6);
  const auto passes = [&] {
    Workload work;
    const StageWork stage = middle_stage(model, plan, 1, &work);
    return std::pair{seconds(stage.forward), seconds(stage.backward)};
  };
  const auto [launched, backward] = passes();  // without recompute
  CHECK(launched == Approx(1.26e-3));
  plan.cuda_graphs = true;
  const double device = passes().first, gradients = passes().second;
  CHECK(backward == Approx(gradients));
  plan.cuda_graphs = false;
  plan.recompute = Recompute::Full;
  REQUIRE(device + gradients > 2.27e-3);
  CHECK(passes().second == Approx(device + gradients));
}

TEST_CASE("sizes that go over the network") {
  const Bytes array = 2 * 4 * 2048 * 6144;
  Plan plan = plan_of(8, 4);
  Workload work = make_workload(gpt_22b(), plan, a100());
  CHECK(work.pipeline_bytes == array);
  CHECK(work.pipeline_gather_bytes == 0);
  CHECK(work.gradient_norm_bytes == 4);
  CHECK(work.embedding_gradient_bytes == 51200 / 8 * 6144 * 4);
  // 12 layers of 12 h^2 + 13 h over 8 GPUs in fp32; the embedding and all positions; the head's
  // copy.
  const Bytes layers = 12 * (12LL * 6144 * 6144 + 13 * 6144) / 8;
  const Bytes table = 51200LL * 6144 / 8;
  CHECK(gradient_bytes(work.stages[0]) == 4 * (layers + table + 2048 * 6144));
  CHECK(gradient_bytes(work.stages[1]) == 4 * layers);
  CHECK(gradient_bytes(work.stages[3]) == 4 * (layers + table));

  plan.gradient_dtype = "bf16";
  plan.scatter_gather = true;
  work = make_workload(gpt_22b(), plan, a100());
  CHECK(gradient_bytes(work.stages[1]) == 2 * layers);
  CHECK(work.pipeline_bytes == array / 8);
  CHECK(work.pipeline_gather_bytes == array);
  plan.sequence_parallel = true;  // what arrives cut is wanted cut
  work = make_workload(gpt_22b(), plan, a100());
  CHECK(work.pipeline_bytes == array / 8);
  CHECK(work.pipeline_gather_bytes == 0);

  work = make_workload(gpt_22b(), plan_of(1), a100());
  CHECK(work.embedding_gradient_bytes == 0);
  CHECK(work.gradient_norm_bytes == 0);
}

TEST_CASE("the optimizer passes 58 bytes a parameter that the GPU holds") {
  Plan plan = plan_of(8, 2);
  plan.vpp = 2;
  const Workload work = make_workload(gpt_22b(), plan, a100());
  const std::vector<HeldParameters> held = stage_parameters(gpt_22b(), plan);
  REQUIRE(work.stages.size() == 4);
  for (int stage = 0; stage < 4; ++stage) {
    REQUIRE(work.stages[stage].optimizer);
    CHECK(to_seconds(work.stages[stage].optimizer->duration_ns) ==
          Approx(58 * held[stage].dense / (0.85 * 2.039e12)).epsilon(1e-6));
  }
}

TEST_CASE("uniform costs are one step an action and nothing else") {
  const Workload work = uniform_workload(
      {.forward_s = 1e-3, .backward_s = 2e-3, .input_s = 0.5e-3, .weight_s = 0}, 4);
  REQUIRE(work.stages.size() == 4);
  const auto only = [](Nanoseconds duration_ns) {
    return Pass{.steps = {Step{.duration_ns = duration_ns}}, .output = 0};
  };
  const StageWork& stage = work.stages[3];
  CHECK(stage.forward == only(1'000'000));
  CHECK(stage.backward == only(2'000'000));
  CHECK(stage.backward_input == only(500'000));
  CHECK(stage.backward_weight == only(0));
  CHECK_FALSE(stage.optimizer);
  CHECK(work.kernels.empty());
  CHECK(work.pipeline_bytes == 0);
  CHECK(work.gradient_norm_bytes == 0);
}

TEST_CASE("any valid plan has finite work, and a larger microbatch never takes less time") {
  const unsigned seed = 1234;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int drawn = 0;
  while (drawn < 200) {
    Model model = {.layers = draw(1, 40),
                   .hidden = 64 * draw(1, 200),
                   .heads = 1 << draw(0, 6),
                   .kv_heads = draw(0, 1) == 0 ? 0 : 1 << draw(0, 4),
                   .gated_mlp = draw(0, 1) == 1,
                   .seq = 64 * draw(1, 64),
                   .vocab = draw(1, 200000)};
    Plan plan = {.tp = 1 << draw(0, 4),
                 .pp = draw(1, 12),
                 .vpp = draw(1, 3),
                 .micro_batch = draw(1, 8),
                 .recompute = static_cast<Recompute>(draw(0, 2)),
                 .sequence_parallel = draw(0, 1) == 1,
                 .scatter_gather = draw(0, 1) == 1,
                 .precision = "fp16"};
    plan.global_batch = plan.micro_batch * draw(1, 64);
    if (!check_model(model, plan).ok()) continue;
    ++drawn;
    const Workload work = make_workload(model, plan, a100());
    Plan larger = plan;
    larger.micro_batch = plan.micro_batch + 1;
    larger.global_batch = larger.micro_batch;
    const Workload more = make_workload(model, larger, a100());
    for (int s = 0; s < plan.stages(); ++s) {
      for (auto pass : {&StageWork::forward, &StageWork::backward, &StageWork::backward_input,
                        &StageWork::backward_weight}) {
        const double time = seconds(work.stages[s].*pass);
        REQUIRE_FALSE((work.stages[s].*pass).steps.empty());
        REQUIRE(time >= 0);
        REQUIRE(time < 1000);
        // A launch is shared out over blocks, each rounded to a nanosecond.
        const auto steps = static_cast<double>((work.stages[s].*pass).steps.size());
        REQUIRE(seconds(more.stages[s].*pass) >= time - 1e-9 * steps);
      }
      REQUIRE(seconds(work.stages[s].forward) + seconds(work.stages[s].backward) > 0);
      REQUIRE(gradient_bytes(work.stages[s]) >= 0);
    }
    REQUIRE(work.pipeline_bytes > 0);
  }
}

}  // namespace
}  // namespace tandem
