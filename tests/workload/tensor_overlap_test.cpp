// Tensor-parallel collectives beside GEMMs: how many steps, of what size, after what; and what
// stays exposed.
#include "workload/model/tensor_overlap.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/workload/workload_fixture.h"

namespace tandem {
namespace {

const CostModel kDevice = a100();

// 8192 rows: deep and wide enough that no part is launch bound.
const Kernel kProduct = {.name = "product", .gemms = {{.m = 8192, .n = 4608, .k = 6144}}};
const Kernel kOther = {.name = "other", .gemms = {{.m = 8192, .n = 4608, .k = 6144}}};

TensorGroup group_of(int size) {
  return {.size = size, .sequence_parallel = true, .bytes = Bytes{2} * 8192 * 6144};
}

GemmOverlap overlap_of(TensorMethod method, int splits = 4) {
  return {.method = method, .sms = 7, .splits = splits};
}

template <class Emit>
Pass pass_of(const Emit& emit) {
  KernelTable kernels(kDevice);
  PricedPass pass(&kernels);
  emit(&pass);
  return pass.take();
}

std::vector<Nanoseconds> durations(const Pass& pass) {
  std::vector<Nanoseconds> all;
  for (const Step& step : pass.steps) {
    if (step.computes) all.push_back(step.duration_ns);
  }
  return all;
}

Pass gathered(int size, const GemmOverlap& overlap) {
  return pass_of([&](PricedPass* pass) {
    gather_and_multiply(pass, kProduct, group_of(size), group_of(size).bytes, overlap);
  });
}

Pass reduced(int size, const GemmOverlap& overlap) {
  return pass_of(
      [&](PricedPass* pass) { multiply_and_reduce(pass, kProduct, group_of(size), overlap); });
}

TEST_CASE("off: the gather before the product and the reduce-scatter behind it, exposed") {
  const Nanoseconds product = durations(gathered(4, {}))[0];
  for (const Pass& pass : {gathered(4, {}), reduced(4, {})}) {
    REQUIRE(pass.steps.size() == 2);
    CHECK(pass.steps[1].waits == Waits{0});
    CHECK(makespan(pass, [](const Step&) { return 1000; }) == product + 1000);
  }
  CHECK(gathered(4, {}).steps[0].collective == CommKind::AllGather);
  CHECK(reduced(4, {}).steps[1].collective == CommKind::ReduceScatter);
}

TEST_CASE("a ring has a shift of bytes / t beside each of t pieces but one") {
  for (const int t : {2, 4, 8}) {
    const Pass gather = gathered(t, overlap_of(TensorMethod::Ring));
    const Pass scatter = reduced(t, overlap_of(TensorMethod::Ring));
    for (const Pass& pass : {gather, scatter}) {
      const std::vector<Step> shifts = communication(pass, CommKind::RingShift);
      CHECK(static_cast<int>(durations(pass).size()) == t);
      REQUIRE(static_cast<int>(shifts.size()) == t - 1);
      for (int i = 0; i < t - 1; ++i) {
        CHECK(shifts[i].bytes == group_of(t).bytes / t);
        CHECK(shifts[i].settings == CommSettings{.part = static_cast<std::int16_t>(i),
                                                 .parts = static_cast<std::int16_t>(t - 1),
                                                 .sms = 7});
      }
    }
    // Gather: shift 0, piece 0, shift 1, piece 1, ...; piece i + 1 after shift i. Scatter: piece 0,
    // shift 0, piece 1, ...; the chain goes on from the last shift.
    CHECK(gather.steps[1].waits.empty());
    CHECK(gather.steps[2 * t - 2].waits == Waits{2 * t - 4});
    CHECK(scatter.steps[1].waits == Waits{0});
    CHECK(scatter.output == 2 * t - 3);
  }
}

TEST_CASE("what a ring does not hide is gathered before it, and scattered behind it") {
  TensorGroup group = group_of(4);
  group.ring_hidden = 0.25;
  const GemmOverlap ring = overlap_of(TensorMethod::Ring);
  const Pass gather = pass_of([&](PricedPass* pass) {
    gather_and_multiply(pass, kProduct, group, group.of_inputs(), ring);
  });
  const Pass scatter =
      pass_of([&](PricedPass* pass) { multiply_and_reduce(pass, kProduct, group, ring); });
  for (const auto& [pass, kind] :
       {std::pair(gather, CommKind::AllGather), std::pair(scatter, CommKind::ReduceScatter)}) {
    CHECK(collectives(pass, kind) == Moved{1, group.bytes * 3 / 4});
    CHECK(communication(pass, CommKind::RingShift).front().bytes == group.bytes / 16);
  }
  CHECK(gather.steps.front().collective == CommKind::AllGather);
  CHECK(scatter.steps.back().collective == CommKind::ReduceScatter);
}

TEST_CASE("gathers move quantized numbers, reductions 16 bits") {
  const auto group = [](const char* precision, Fp8Recipe recipe) {
    Plan plan = plan_of(4);
    plan.sequence_parallel = true;
    plan.precision = precision;
    plan.fp8_recipe = recipe;
    return quantized_group(gpt_22b(), plan, {});
  };
  const TensorGroup wide = group("bf16", Fp8Recipe::Delayed);
  CHECK(wide.of_inputs() == wide.bytes);
  CHECK(wide.of_gradients() == wide.bytes);
  const TensorGroup current = group("fp8", Fp8Recipe::Current);
  CHECK(current.bytes == wide.bytes);
  CHECK(current.of_inputs() == wide.bytes / 2);
  CHECK(current.of_gradients() == wide.bytes / 2);
  // With scales of 32 numbers rows and columns are apart: both of a gradient are needed.
  const TensorGroup mx = group("fp8", Fp8Recipe::Mxfp8);
  CHECK(mx.of_inputs() == wide.bytes / 64 * 33);
  CHECK(mx.of_gradients() == wide.bytes / 32 * 33);
  // torchao's gather in 16 bits where each row has a scale.
  const TensorGroup rowwise = group("fp8", Fp8Recipe::Rowwise);
  CHECK(rowwise.of_inputs() == wide.bytes);
  CHECK(rowwise.of_gradients() == wide.bytes);
}

TEST_CASE("a ring costs max(piece, step) a step, and one piece") {
  const int t = 4;
  for (const Pass& pass :
       {gathered(t, overlap_of(TensorMethod::Ring)), reduced(t, overlap_of(TensorMethod::Ring))}) {
    const Nanoseconds piece = durations(pass)[0];
    for (const Nanoseconds step : {piece / 3, piece, 3 * piece})
      CHECK(makespan(pass, [&](const Step&) { return step; }) ==
            (t - 1) * std::max(piece, step) + piece);
  }
}

TEST_CASE("pipelined with k splits exposes one part") {
  for (const int k : {1, 2, 4, 8}) {
    for (const Pass& pass : {gathered(4, overlap_of(TensorMethod::Pipelined, k)),
                             reduced(4, overlap_of(TensorMethod::Pipelined, k))}) {
      REQUIRE(static_cast<int>(pass.steps.size()) == 2 * k);
      const std::vector<Nanoseconds> parts = durations(pass);
      // A part that is shorter than its GEMM's: all GEMM parts, and one of communication. A longer
      // one: all of communication, and one GEMM part.
      const Nanoseconds brief = parts[0] / 2, lengthy = 2 * parts[0];
      CHECK(makespan(pass, [&](const Step&) { return brief; }) == k * parts[0] + brief);
      CHECK(makespan(pass, [&](const Step&) { return lengthy; }) == k * lengthy + parts[0]);
    }
  }
}

TEST_CASE("parts of any number add up to the whole, where it does not divide, too") {
  for (const int k : {3, 7, 1000}) {
    KernelTable kernels(kDevice);
    PricedPass builder(&kernels);
    multiply_and_reduce(&builder, kProduct, group_of(8), overlap_of(TensorMethod::Pipelined, k));
    const Pass pass = builder.take();
    CHECK(collectives(pass, CommKind::ReduceScatter) == Moved{k, group_of(8).bytes});
    const Workload work = {.kernels = kernels.take()};
    CHECK(flops(work, pass) == Approx(kProduct.flops()).epsilon(1e-14));
  }
}

TEST_CASE("bulk: the saved input is gathered beside dgrad, dgrad's output scattered beside wgrad") {
  const GemmOverlap bulk = overlap_of(TensorMethod::Bulk);
  const Pass pass = pass_of(
      [&](PricedPass* p) { multiply_gradients(p, kProduct, &kOther, group_of(4), bulk, bulk); });
  REQUIRE(pass.steps.size() == 4);
  CHECK(pass.steps[0].collective == CommKind::AllGather);
  CHECK(pass.steps[1].waits.empty());  // dgrad waits for nothing
  CHECK(pass.steps[2].collective == CommKind::ReduceScatter);
  CHECK(pass.steps[2].waits == Waits{1});
  CHECK(pass.steps[3].waits == Waits{0});  // wgrad for the gather
  CHECK(pass.output == 2);
  CHECK(pass.steps[2].settings == CommSettings{.sms = 7});
  const Nanoseconds dgrad = durations(pass)[0], wgrad = durations(pass)[1];
  const auto took = [&](Nanoseconds gather, Nanoseconds scatter) {
    return makespan(pass, [&](const Step& step) {
      return step.collective == CommKind::AllGather ? gather : scatter;
    });
  };
  CHECK(took(dgrad / 2, wgrad / 2) == dgrad + wgrad);  // all hidden
  CHECK(took(2 * dgrad, 1) == 2 * dgrad + wgrad);
  CHECK(took(1, 2 * wgrad) == dgrad + 2 * wgrad);
}

TEST_CASE("without wgrad beside it, dgrad's reduce-scatter is exposed") {
  const GemmOverlap bulk = overlap_of(TensorMethod::Bulk);
  const Pass pass = pass_of(
      [&](PricedPass* p) { multiply_gradients(p, kProduct, nullptr, group_of(4), bulk, bulk); });
  REQUIRE(pass.steps.size() == 3);
  CHECK(pass.output == 2);
  CHECK(makespan(pass, [](const Step& step) {
          return step.collective == CommKind::AllGather ? 1 : 5000;
        }) == durations(pass)[0] + 5000);
}

TEST_CASE("a ring at dgrad takes the reduce-scatter with it, and wgrad waits for the last step") {
  const Pass pass = pass_of([&](PricedPass* p) {
    multiply_gradients(p, kProduct, &kOther, group_of(4), overlap_of(TensorMethod::Ring), {});
  });
  REQUIRE(pass.steps.size() == 4 + 3 + 1);
  CHECK(collectives(pass, CommKind::RingShift).count == 3);
  CHECK(collectives(pass, CommKind::AllGather).count == 0);
  CHECK(pass.steps.back().waits == Waits{5});
}

// Every GEMM of Transformer Engine's default methods.
Plan overlapping_plan(int tp) {
  Plan plan = plan_of(tp);
  plan.sequence_parallel = true;
  for (const TensorGemm gemm :
       {TensorGemm::QkvFprop, TensorGemm::Fc1Fprop, TensorGemm::ProjDgrad, TensorGemm::Fc2Dgrad})
    plan.tensor_overlap[static_cast<std::size_t>(gemm)] = {.method = TensorMethod::Ring, .sms = 1};
  for (const TensorGemm gemm : {TensorGemm::ProjFprop, TensorGemm::Fc2Fprop})
    plan.tensor_overlap[static_cast<std::size_t>(gemm)] = {.method = TensorMethod::Pipelined,
                                                           .sms = 16};
  for (const TensorGemm gemm :
       {TensorGemm::QkvDgrad, TensorGemm::QkvWgrad, TensorGemm::Fc1Dgrad, TensorGemm::Fc1Wgrad})
    plan.tensor_overlap[static_cast<std::size_t>(gemm)] = {.method = TensorMethod::Bulk, .sms = 4};
  return plan;
}

TEST_CASE("a layer in parts does what a layer at a piece does") {
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    Plan plan = overlapping_plan(8);
    plan.recompute = recompute;
    Workload parts, whole;
    const StageWork split = middle_stage(gpt_22b(), plan, 2, &parts);
    plan.tensor_overlap = {};
    const StageWork merged = middle_stage(gpt_22b(), plan, 2, &whole);
    for (const auto pass : {&StageWork::forward, &StageWork::backward, &StageWork::backward_input,
                            &StageWork::backward_weight}) {
      CHECK(flops(parts, split.*pass) == Approx(flops(whole, merged.*pass)).epsilon(1e-12));
      CHECK(memory_bytes(parts, split.*pass) ==
            Approx(memory_bytes(whole, merged.*pass)).epsilon(1e-12));
    }
  }
}

TEST_CASE("a layer of Transformer Engine's methods has their collectives") {
  const Bytes array = 2 * 4 * 2048 * 6144;
  Workload work;
  const StageWork stage = middle_stage(gpt_22b(), overlapping_plan(8), 1, &work);
  // Forward: qkv and fc1 gathered in 7 shifts of 1/8 each, proj and fc2 scattered in 4 parts.
  CHECK(collectives(stage.forward, CommKind::RingShift) == Moved{14, 14 * (array / 8)});
  CHECK(collectives(stage.forward, CommKind::ReduceScatter) == Moved{8, 2 * array});
  CHECK(collectives(stage.forward, CommKind::AllGather).count == 0);
  // Backward: the gradients of fc2's and proj's outputs in shifts; two saved inputs gathered, two
  // gradients scattered, in bulk.
  CHECK(collectives(stage.backward, CommKind::RingShift) == Moved{14, 14 * (array / 8)});
  CHECK(collectives(stage.backward, CommKind::AllGather) == Moved{2, 2 * array});
  CHECK(collectives(stage.backward, CommKind::ReduceScatter) == Moved{2, 2 * array});
  for (const Step& step : communication(stage.backward, CommKind::AllGather))
    CHECK(step.settings == CommSettings{.sms = 4});
  // The norm's gradient comes last: it waits for the reduce-scatter, and the stage before for it.
  const Step& last = stage.backward.steps[stage.backward.output];
  CHECK(name_of(work, last) == "attention norm input gradient");
  REQUIRE(last.waits.size() == 1);
  CHECK(stage.backward.steps[last.waits[0]].collective == CommKind::ReduceScatter);
}

TEST_CASE("free communication leaves a layer in parts its kernels, and overlap never costs more") {
  Workload parts, whole;
  Plan plan = overlapping_plan(8);
  const StageWork split = middle_stage(gpt_22b(), plan, 1, &parts);
  plan.tensor_overlap = {};
  const StageWork merged = middle_stage(gpt_22b(), plan, 1, &whole);
  CHECK(makespan(split.forward, [](const Step&) { return 0; }) == to_ns(seconds(split.forward)));
  // At 25 GB/s, 4 ms an array: cut GEMMs are slower, but what they hide is more.
  const auto comm_ns = [](const Step& step) { return step.bytes / 25; };
  CHECK(makespan(split.forward, comm_ns) < makespan(merged.forward, comm_ns));
}

TEST_CASE("parts of a launch-bound layer take the launch's time together") {
  const Model tiny = {.layers = 3, .hidden = 256, .heads = 8, .seq = 128, .vocab = 1024};
  Plan plan = overlapping_plan(2);
  plan.micro_batch = 1;
  Workload work;
  const StageWork stage = middle_stage(tiny, plan, 1, &work);
  // 1.16 + 0.10 ms forward, 0.91 + 0.10 ms backward.
  CHECK(seconds(stage.forward) == Approx(1.26e-3).epsilon(1e-4));
  CHECK(seconds(stage.backward) == Approx(1.01e-3).epsilon(1e-4));
}

}  // namespace
}  // namespace tandem
