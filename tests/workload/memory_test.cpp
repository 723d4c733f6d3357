// Memory: Korthikanti et al.'s totals, ZeRO's cuts and Megatron's accounting, recompute by number
// of layers, and the buffers of communication.
#include <catch2/catch.hpp>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/memory.h"
#include "workload/memory/trainer.h"

namespace tandem {
namespace {

LiveActivations live_on(std::vector<LiveActivations::Entry> entries) { return {{entries}}; }

constexpr double kSequence = 2048, kBatch = 4, kHidden = 6144, kHeads = 64;

TEST_CASE("a pipeline's first rank holds Korthikanti et al.'s total, equations 5 and 6") {
  // 1F1B keeps pp microbatches on the first of pp stages, each of L / pp layers: L layers' worth,
  // s b h L / t (34 + 5 a s / h), and with selective recompute 34 s b h L / t; there the matrices
  // of one layer at work. Beside them the embedding's dropout masks, s b h pp / t.
  const double s = kSequence, b = kBatch, h = kHidden, a = kHeads, L = 48, pp = 4, t = 8;
  Plan plan = plan_of(8, 4);
  plan.sequence_parallel = true;
  const auto activations = [&] {
    return peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 4}})).activations;
  };
  CHECK(activations() == s * b * L / t * (34 * h + 5 * a * s) + s * b * h * pp / t);
  plan.recompute = Recompute::Selective;
  CHECK(activations() == 34 * s * b * h * L / t + s * b * h * pp / t + 5 * a * s * s * b / t);
}

TEST_CASE("until its weight gradient a microbatch keeps all but matrices and 16 bits a logit") {
  // "Zero Bubble Pipeline Parallelism", table 1, has 32 s b h a layer; two masks are counted here,
  // too. No matrices, and recompute saves nothing. The head keeps its two inputs and fp16
  // gradients.
  const double s = kSequence, b = kBatch, h = kHidden, L = 48, pp = 4, t = 8, vocab = 51200;
  Plan plan = plan_of(8, 4);
  plan.sequence_parallel = true;
  const auto one_more = [&](Stage stage) {
    const auto bytes = [&](int waiting) {
      return peak_memory(gpt_22b(), plan, live_on({{stage, 0, waiting}})).activations;
    };
    return bytes(3) - bytes(2);
  };
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    plan.recompute = recompute;
    CHECK(one_more(Stage{1}) == Approx(34 * s * b * h * L / pp / t));
    CHECK(one_more(Stage{3}) ==
          Approx(34 * s * b * h * L / pp / t + s * b * (4 * h + 2 * vocab) / t));
  }
}

TEST_CASE("weights, gradients and optimizer are Megatron's 18, or 6 + 12 / d bytes a parameter") {
  // bf16 parameters (2), fp32 gradients (4), fp32 copy and two moments (12).
  for (const int dp : {1, 2, 8}) {
    for (const int cp : {1, 2}) {
      Plan plan = plan_of(8);
      plan.precision = "bf16";
      plan.dp = dp;
      plan.cp = cp;
      plan.global_batch = 4 * dp;
      const double d = dp * cp;
      const double held = stage_parameters(gpt_22b(), plan)[0].total();
      const auto bytes = [&](int zero) {
        plan.zero = zero;
        const MemoryUse use = peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}}));
        return (use.weights + use.gradients + use.optimizer) / held;
      };
      CHECK(bytes(0) == Approx(18).epsilon(1e-14));
      CHECK(bytes(1) == Approx(6 + 12 / d).epsilon(1e-14));
      CHECK(bytes(2) == Approx(2 + 16 / d).epsilon(1e-14));
      CHECK(bytes(3) == Approx(18 / d).epsilon(1e-14));
    }
  }
}

TEST_CASE("what is cut over some of the replicas is so many times larger") {
  Plan plan = plan_of(8);
  plan.dp = 8;
  plan.cp = 2;
  plan.global_batch = 32;
  plan.hsdp_shard = 4;
  const double held = stage_parameters(gpt_22b(), plan)[0].total();
  const auto bytes = [&](int zero) {
    plan.zero = zero;
    const MemoryUse use = peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}}));
    return (use.weights + use.gradients + use.optimizer) / held;
  };
  CHECK(bytes(1) == Approx(6 + 12 / 4.0).epsilon(1e-14));
  CHECK(bytes(2) == Approx(2 + 16 / 4.0).epsilon(1e-14));
  CHECK(bytes(3) == Approx(18 / 4.0).epsilon(1e-14));
  const Workload cut = make_workload(gpt_22b(), plan, a100());
  plan.zero = 0;
  plan.hsdp_shard = 0;
  const Workload whole = make_workload(gpt_22b(), plan, a100());
  CHECK(cut.stages[0].optimizer->duration_ns ==
        Approx(whole.stages[0].optimizer->duration_ns / 4.0).epsilon(1e-5));
}

TEST_CASE("in a pipeline parameters and gradients are whole while it runs, the optimizer is cut") {
  // bf16: 2 + 4 whole and 12 / d, of which FSDP2's cut in fp32 is 4. In fp32 that cut is the
  // parameter, beside the whole of it: 4 + 4 whole and 4 / d, and two moments, 8 / d.
  Plan plan = plan_of(8, 2);
  plan.dp = 4;
  plan.global_batch = 16;
  const double held = stage_parameters(gpt_22b(), plan)[0].total();
  const auto bytes = [&](const char* precision, int zero) {
    plan.precision = precision;
    plan.zero = zero;
    const MemoryUse use = peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}}));
    return (use.weights + use.gradients + use.optimizer) / held;
  };
  for (const int zero : {1, 2, 3})
    CHECK(bytes("bf16", zero) == Approx(6 + 12 / 4.0).epsilon(1e-14));
  // ZeRO 2 and 3 lay the largest unit's gradients out anew to scatter them.
  const auto buffers = [&](int zero) {
    plan.zero = zero;
    return peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}})).communication;
  };
  const double unit = share_of_equal_layers(gpt_22b(), plan, 1).total();
  for (const int zero : {2, 3}) CHECK(buffers(zero) - buffers(1) == Approx(4 * unit));
  CHECK(bytes("fp32", 2) == Approx(8 + 8 / 4.0).epsilon(1e-14));
  CHECK(bytes("fp32", 3) == Approx(8 + 12 / 4.0).epsilon(1e-14));
}

// A plan of ZeRO 3 in bf16, with tp 8 and dp 4.
static Plan sharded_plan() {
  Plan plan = plan_of(8);
  plan.precision = "bf16";
  plan.dp = 4;
  plan.global_batch = 16;
  plan.zero = 3;
  return plan;
}

TEST_CASE("parameters that are not resharded are whole beside their cut, and no layer's apart") {
  Plan plan = sharded_plan();
  const double held = stage_parameters(gpt_22b(), plan)[0].total();
  const double layer = layer_parameters(gpt_22b()) / 8;
  const auto use = [&] { return peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}})); };
  const MemoryUse resharded = use();
  plan.reshard_after_forward = false;
  const MemoryUse kept = use();
  CHECK(kept.weights - resharded.weights == Approx(2 * held).epsilon(1e-14));
  CHECK(resharded.communication - kept.communication == Approx(2 * 2 * layer).epsilon(1e-14));
  CHECK(kept.gradients == resharded.gradients);
  CHECK(kept.optimizer == resharded.optimizer);
}

TEST_CASE("hpZ cuts experts a second time if each rank holds all of them") {
  Model model = gpt_22b();
  model.experts = 8;
  model.top_k = 2;
  const auto added = [&](int ep) {
    Plan plan = plan_of(1);
    plan.precision = "bf16";
    plan.trainer = Trainer::DeepSpeed;
    plan.dp = 8;
    plan.ep = ep;
    plan.global_batch = 32;
    plan.zero = 3;
    const auto weights = [&] { return peak_memory(model, plan, live_on({{Stage{0}, 1}})).weights; };
    const double cut_once = weights();
    plan.zero_hpz = 4;
    const HeldParameters held = stage_parameters(model, plan)[0];
    return (weights() - cut_once) / (2 * (ep == 1 ? held.total() : held.dense));
  };
  CHECK(added(1) == Approx(1.0 / 4));
  CHECK(added(2) == Approx(1.0 / 4));
}

TEST_CASE(
    "FSDP shards the originals: 16-bit parameters are gathered alone, DeepSpeed keeps a cut") {
  Plan plan = sharded_plan();
  const double held = stage_parameters(gpt_22b(), plan)[0].total();
  const auto weights = [&](Trainer trainer) {
    plan.trainer = trainer;
    return peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}})).weights;
  };
  for (const Trainer fsdp : {Trainer::Fsdp, Trainer::Torchtitan}) CHECK(weights(fsdp) == 0);
  for (const Trainer other : {Trainer::DeepSpeed, Trainer::Megatron})
    CHECK(weights(other) == Approx(2 * held / 4).epsilon(1e-14));
  plan.reshard_after_forward = false;
  CHECK(weights(Trainer::Fsdp) == Approx(2 * held).epsilon(1e-14));
  plan.precision = "fp32";  // no originals beside the parameters
  plan.reshard_after_forward.reset();
  CHECK(weights(Trainer::Fsdp) == Approx(4 * held / 4).epsilon(1e-14));
}

TEST_CASE("ZeRO updates a data-parallel rank's cut, and leaves the bytes of units whole") {
  Plan plan = plan_of(8, 2);
  plan.dp = 4;
  plan.cp = 2;
  plan.global_batch = 16;
  const Workload whole = make_workload(gpt_22b(), plan, a100());
  plan.zero = 1;
  const Workload cut = make_workload(gpt_22b(), plan, a100());
  for (int s = 0; s < 2; ++s) {
    CHECK(cut.stages[s].optimizer->duration_ns ==
          Approx(whole.stages[s].optimizer->duration_ns / 8.0).epsilon(1e-5));
    CHECK(cut.stages[s].units[0].gradient_bytes == whole.stages[s].units[0].gradient_bytes);
  }
}

TEST_CASE(
    "an fp8 gather halves layers' parameter bytes, not embedding's and head's, in fp8 alone") {
  Plan plan = plan_of(8);
  const auto first_bytes = [&] {
    return make_workload(gpt_22b(), plan, a100()).stages[0].units[1].parameter_bytes;
  };
  const Bytes in_16_bits = first_bytes();
  plan.fp8_param_gather = true;
  CHECK(first_bytes() == in_16_bits);
  plan.fp8_param_gather = false;
  plan.precision = "fp8";
  CostModel cost = a100();
  cost.precision = "fp8";
  cost.device.flops_per_s["fp8"] = 624e12;
  const Workload wide = make_workload(gpt_22b(), plan, cost);
  plan.fp8_param_gather = true;
  const Workload narrow = make_workload(gpt_22b(), plan, cost);
  const std::size_t units = wide.stages[0].units.size();
  for (std::size_t i = 0; i < units; ++i) {
    const int share = i == 0 || i + 1 == units ? 1 : 2;
    CHECK(narrow.stages[0].units[i].parameter_bytes * share ==
          wide.stages[0].units[i].parameter_bytes);
    CHECK(narrow.stages[0].units[i].gradient_bytes == wide.stages[0].units[i].gradient_bytes);
  }
}

TEST_CASE("with both ends on one rank the head has no copy of the embedding, said or seen") {
  OrderedPlan plan = plan_of(1, 2);
  plan.vpp = 2;
  const LiveActivations folded = {{{{Stage{0}, 1}, {Stage{3}, 1}}, {{Stage{1}, 1}, {Stage{2}, 1}}}};
  const MemoryUse seen = peak_memory(gpt_22b(), plan, folded);
  plan.ends_on_one_rank = true;
  const MemoryUse said = peak_memory(gpt_22b(), plan, folded);
  CHECK(seen.weights == said.weights);
  CHECK(stage_parameters(gpt_22b(), plan)[3].dense == 12 * layer_parameters(gpt_22b()));
  const Workload work = make_workload(gpt_22b(), plan, a100());
  CHECK(work.embedding_gradient_bytes == 0);
  CHECK(work.stages[3].units.back() == ParameterUnit{});
}

TEST_CASE("an untied head costs weights, gradients, optimizer and data-parallel bytes, no sum") {
  // On one stage V h / tp more of each: 2 + 4 + 12 bytes with fp32 gradients, and a unit of the
  // head that is reduced (4) and gathered (2). Over four stages the copy was there already, and
  // only the all-reduce of both ends' gradients goes.
  Model untied = gpt_22b();
  untied.tied_embeddings = false;
  Plan plan = plan_of(8);
  plan.gradient_dtype = "fp32";
  const double matrix = 51200.0 * 6144 / 8;
  const LiveActivations live = live_on({{Stage{0}, 1}});
  const MemoryUse with = peak_memory(untied, plan, live),
                  without = peak_memory(gpt_22b(), plan, live);
  CHECK(with.weights - without.weights == 2 * matrix);
  CHECK(with.gradients - without.gradients == 4 * matrix);
  CHECK(with.optimizer - without.optimizer == 12 * matrix);
  CHECK(with.activations == without.activations);
  const ParameterUnit head = make_workload(untied, plan, a100()).stages[0].units.back();
  CHECK(head.gradient_bytes == 4 * matrix);
  CHECK(head.parameter_bytes == 2 * matrix);
  CHECK(make_workload(gpt_22b(), plan, a100()).stages[0].units.back() == ParameterUnit{});

  plan.pp = 4;
  const Workload own = make_workload(untied, plan, a100()),
                 shared = make_workload(gpt_22b(), plan, a100());
  CHECK(own.stages[3].units == shared.stages[3].units);
  CHECK(own.embedding_gradient_bytes == 0);
  CHECK(shared.embedding_gradient_bytes == 4 * matrix);
  // Both ends on one rank: two matrices there, where a tied model has one.
  const LiveActivations ends = live_on({{Stage{0}, 1}, {Stage{3}, 1}});
  CHECK(peak_memory(untied, plan, ends).weights - peak_memory(gpt_22b(), plan, ends).weights ==
        2 * matrix);
}

TEST_CASE("recompute of n layers repeats the first n of a stage, and keeps the others whole") {
  Plan plan = plan_of(8, 4);
  plan.recompute = Recompute::Full;
  const double input = activation_bytes_per_layer(gpt_22b(), plan);
  plan.recompute = Recompute::None;
  const double whole = activation_bytes_per_layer(gpt_22b(), plan);
  const double none_flops = hardware_flops(gpt_22b(), plan);
  const Workload none = make_workload(gpt_22b(), plan, a100());
  plan.recompute = Recompute::Full;
  const double all_flops = hardware_flops(gpt_22b(), plan);
  const Workload all = make_workload(gpt_22b(), plan, a100());
  for (const int n : {0, 5, 12, 40}) {
    plan.recompute_layers = n;
    const int again = std::min(n, 12);  // of 12 layers a stage
    CHECK(hardware_flops(gpt_22b(), plan) ==
          Approx(none_flops + (all_flops - none_flops) * again / 12).epsilon(1e-14));
    const Workload work = make_workload(gpt_22b(), plan, a100());
    CHECK(flops(work) * 8 * plan.microbatches() ==
          Approx(hardware_flops(gpt_22b(), plan)).epsilon(1e-12));
    // A middle stage: each repeated layer brings its forward's two kernels and two all-reduces.
    const Pass& pass = work.stages[1].backward;
    CHECK(collectives(pass, CommKind::AllReduce).count == 24 + 2 * again);
    CHECK(pass.steps.size() == none.stages[1].backward.steps.size() + 4 * again);
    if (n >= 12) CHECK(pass.steps.size() == all.stages[1].backward.steps.size());
    // The last layer of the stage is the first of its backward: kept while n < 12.
    CHECK((name_of(work, pass.steps[0]) == "mlp backward") == (n < 12));
    const double at_work = again > 0 ? whole : 0;
    CHECK(peak_memory(gpt_22b(), plan, live_on({{Stage{1}, 2}})).activations ==
          Approx(2 * (again * input + (12 - again) * whole) + at_work).epsilon(1e-14));
  }
}

TEST_CASE("full recompute adds exactly a forward, at a piece and in parts") {
  for (const bool overlaps : {false, true}) {
    Plan plan = plan_of(8);
    plan.sequence_parallel = true;
    if (overlaps) plan.tensor_overlap[0].method = TensorMethod::Ring;
    Workload work;
    const StageWork none = middle_stage(gpt_22b(), plan, 3, &work);
    plan.recompute = Recompute::Full;
    const StageWork full = middle_stage(gpt_22b(), plan, 3, &work);
    CHECK(seconds(full.backward) ==
          Approx(seconds(none.backward) + seconds(none.forward)).epsilon(1e-14));
    for (const CommKind kind :
         {CommKind::AllGather, CommKind::ReduceScatter, CommKind::RingShift}) {
      CHECK(collectives(full.backward, kind).bytes ==
            collectives(none.backward, kind).bytes + collectives(none.forward, kind).bytes);
    }
  }
}

TEST_CASE("fused attention keeps a log-sum-exp a row instead of the matrix") {
  Plan plan = plan_of(8);
  plan.sequence_parallel = true;
  plan.flash_attention = true;
  // s b / t (34 h + 4 a): fp32, a row of each head.
  CHECK(activation_bytes_per_layer(gpt_22b(), plan) ==
        kSequence * kBatch / 8 * (34 * kHidden + 4 * kHeads));
}

TEST_CASE("communication buffers, one after the other") {
  const double array = 2 * kSequence * kBatch * kHidden;
  // DeepSpeed has no dummy gradients, and FSDP no buckets either.
  const auto buffers = [](Plan plan) {
    plan.trainer = plan.zero > 0 ? Trainer::Fsdp : Trainer::DeepSpeed;
    return peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}})).communication;
  };
  Plan plan = plan_of(8);
  CHECK(buffers(plan) == 0);
  plan.pp = 2;  // one goes out while one comes in
  CHECK(buffers(plan) == 2 * array);
  plan.scatter_gather = true;
  CHECK(buffers(plan) == 2 * array / 8);
  plan = plan_of(8);
  plan.sequence_parallel = true;  // what is gathered
  CHECK(buffers(plan) == array);
  plan.tensor_overlap[0].method = TensorMethod::Ring;
  plan.tensor_overlap[3].method = TensorMethod::Pipelined;
  CHECK(buffers(plan) == 3 * array);
  // Keys and values of 2048 / 4 positions, and their gradients: in use and coming; gathered; or q,
  // k and v of 16 heads each, sent and got.
  plan = plan_of(1);
  plan.cp = 4;
  CHECK(buffers(plan) == 2 * 2 * 2 * array / 4);
  plan.context_comm = ContextComm::AllGather;
  CHECK(buffers(plan) == 2 * 2 * array);
  plan.context_comm = ContextComm::AllToAll;
  CHECK(buffers(plan) == 2 * 3 * array / 4);
  // ZeRO 2: a layer's gradients; 3: two layers more.
  plan = plan_of(8);
  const double layer = layer_parameters(gpt_22b()) / 8;
  plan.zero = 2;
  CHECK(buffers(plan) == Approx(4 * layer));
  plan.zero = 3;
  CHECK(buffers(plan) == Approx(4 * layer + 2 * 2 * layer));
}

TEST_CASE("frameworks hold buffers of their own") {
  const auto more_than_fsdp = [](Plan plan, Trainer trainer) {
    plan.trainer = Trainer::Fsdp;
    const double without = peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}})).communication;
    plan.trainer = trainer;
    return peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}})).communication - without;
  };
  Plan plan = plan_of(8);
  const double h = kHidden;
  // An array of each weight's shape, 16 bits: attention's with its norm and biases, and the MLP's.
  CHECK(more_than_fsdp(plan, Trainer::Megatron) ==
        Approx(2 * (4 * h * h + 6 * h + 8 * h * h + 7 * h) / 8));
  plan.sequence_parallel = true;
  plan.tensor_overlap[0].method = TensorMethod::Ring;
  const double array = 2 * kSequence * kBatch * h;
  CHECK(more_than_fsdp(plan, Trainer::DeepSpeed) == Approx(array));  // userbuffers
  CHECK(more_than_fsdp(plan, Trainer::Torchtitan) == 0);
  // Two buckets of 5e8 elements, and fp32 gradients of the part that is updated; ZeRO 3 converts
  // 1e9 at a time and holds as many gathered.
  plan = plan_of(1);
  plan.dp = 4;
  const double all = stage_parameters(gpt_22b(), plan)[0].total();
  plan.zero = 1;
  CHECK(more_than_fsdp(plan, Trainer::DeepSpeed) == Approx(2 * 2 * 5e8 + 4 * all / 4));
  plan.optimizer_offload = 1;
  CHECK(more_than_fsdp(plan, Trainer::DeepSpeed) == Approx(2 * 2 * 5e8));
  plan.optimizer_offload = 0;
  plan.zero = 3;
  CHECK(more_than_fsdp(plan, Trainer::DeepSpeed) == Approx(2 * 2 * 5e8 + 2 * 1e9 + 4 * 1e9));
  // Nobody names a trainer: ZeRO 3 without tensor and pipeline parallelism may be DeepSpeed's.
  CHECK(trainer_of(plan) == Trainer::DeepSpeed);
  plan.precision = "fp8";
  CHECK(trainer_of(plan) == Trainer::Megatron);
  plan.precision = "bf16";
  plan.tp = 2;
  CHECK(trainer_of(plan) == Trainer::Megatron);
}

TEST_CASE("the loss takes what its kernels do, or its head's backward does") {
  const auto last = [](Plan plan, std::optional<CrossEntropy> how) {
    plan.cross_entropy = how;
    return peak_memory(gpt_22b(), plan, live_on({{Stage{0}, 1}})).activations;
  };
  Plan plan = plan_of(1);
  const double logits = kSequence * kBatch * 51200;
  plan.trainer = Trainer::Megatron;
  const double te = last(plan, CrossEntropy::TransformerEngine);
  CHECK(last(plan, std::nullopt) == te);
  CHECK(last(plan, CrossEntropy::Unfused) - te == Approx(2 * logits));
  CHECK(last(plan, CrossEntropy::Native) - te == Approx(6.1 * logits));
  // Chunked, the head's backward is above: the logits' gradient and an array of the weight's shape.
  CHECK(te - last(plan, CrossEntropy::Chunked) == Approx(2 * logits - 2.0 * 51200 * kHidden));
  plan.trainer = Trainer::DeepSpeed;
  CHECK(last(plan, std::nullopt) - te == Approx(16 * logits));
  plan.trainer = Trainer::Fsdp;
  CHECK(last(plan, std::nullopt) == te);
}

TEST_CASE("what is not fused passes over memory again") {
  // tp 8, a layer: 16 and 17 passes of the matrix, 2 of the inner array, 10 and 17 for each norm's
  // input; the head 42 bytes a logit.
  const double array = 2 * kSequence * kBatch * kHidden;
  const double matrix = 2 * kBatch * kHeads / 8 * kSequence * kSequence;
  const Fusion all;
  const auto more = [&](Fusion fusion, Pass StageWork::*pass) {
    Plan plan = plan_of(8);
    Workload fused, separate;
    const StageWork with = middle_stage(gpt_22b(), plan, 1, &fused);
    plan.fusion = fusion;
    const StageWork without = middle_stage(gpt_22b(), plan, 1, &separate);
    return memory_bytes(separate, without.*pass) - memory_bytes(fused, with.*pass);
  };
  Fusion fusion = all;
  fusion.softmax = false;
  CHECK(more(fusion, &StageWork::forward) == Approx(16 * matrix));
  CHECK(more(fusion, &StageWork::backward) == Approx(17 * matrix));
  fusion = all;
  fusion.bias_gelu = false;
  CHECK(more(fusion, &StageWork::forward) == Approx(2 * 4 * array / 8));
  CHECK(more(fusion, &StageWork::backward) == 0);
  fusion = all;
  fusion.norm = false;
  CHECK(more(fusion, &StageWork::forward) == Approx(2 * 10 * array));
  CHECK(more(fusion, &StageWork::backward) == Approx(2 * 17 * array));
  Plan plan = plan_of(8);
  const Workload fused = make_workload(gpt_22b(), plan, a100());
  plan.cross_entropy = CrossEntropy::Unfused;
  const Workload separate = make_workload(gpt_22b(), plan, a100());
  CHECK(memory_bytes(separate, separate.stages[0].forward) -
            memory_bytes(fused, fused.stages[0].forward) ==
        Approx(42 * kSequence * kBatch * 51200 / 8));
}

}  // namespace
}  // namespace tandem
