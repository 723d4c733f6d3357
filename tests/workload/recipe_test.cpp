// Recipes: what quantized products cost in casts, copies and kept activations, by closed forms.
#include "workload/model/recipe.h"
#include "workload/memory/memory.h"

#include <catch2/catch.hpp>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/activations.h"
#include "workload/model/blocks.h"

namespace tandem {
namespace {

// Llama-like, so that no dropout's masks come in: h = 1024, f = 4096, 16 heads, 4096 tokens.
Model llama() {
  return {.layers = 4,
          .hidden = 1024,
          .heads = 16,
          .ffn_hidden = 4096,
          .gated_mlp = true,
          .seq = 4096,
          .vocab = 32000,
          .tied_embeddings = false};
}

constexpr double kTokens = 4096, kHidden = 1024, kFfn = 4096;

Plan in(const std::string& precision, Fp8Recipe recipe = Fp8Recipe::Delayed) {
  return {.global_batch = 1, .precision = precision, .fp8_recipe = recipe, .flash_attention = true};
}

// Casts at the rate of other passes.
FrameworkProfile even() {
  FrameworkProfile profile;
  profile.cast_efficiency = profile.memory_efficiency;
  return profile;
}

double cast_bytes(const Plan& plan) { return recipe_of(plan)->cast_bytes(even()); }

TEST_CASE("a number is read in 16 bits and written twice, with its part of the scales") {
  CHECK(!recipe_of(in("bf16")));
  CHECK(cast_bytes(in("fp8")) == 2 + 2);
  CHECK(cast_bytes(in("fp8", Fp8Recipe::Current)) == 2 + 2 + 2);  // its largest first
  CHECK(cast_bytes(in("fp8", Fp8Recipe::Blockwise)) == 2 + 2 * (1 + 4.0 / 128));
  CHECK(cast_bytes(in("fp8", Fp8Recipe::Mxfp8)) == 2 + 2 * (1 + 1.0 / 32));
  CHECK(cast_bytes(in("fp8", Fp8Recipe::Rowwise)) == (2 + 1) + (2 + 2 + 1));  // rows, columns
  CHECK(cast_bytes(in("nvfp4")) == 3.4 + 2 + 2 * (0.5 + 1.0 / 16));
}

TEST_CASE("a GPU that multiplies columns, too, needs one form of what has one scale") {
  FrameworkProfile profile = even();
  profile.cast_forms = 1;
  const auto bytes = [&](Fp8Recipe recipe) {
    return recipe_of(in("fp8", recipe))->cast_bytes(profile);
  };
  CHECK(bytes(Fp8Recipe::Delayed) == 2 + 1);
  CHECK(bytes(Fp8Recipe::Current) == 2 + 2 + 1);
  CHECK(bytes(Fp8Recipe::Mxfp8) == cast_bytes(in("fp8", Fp8Recipe::Mxfp8)));
}

TEST_CASE("slower casts count as so many more bytes, and products in mxfp8 run at 0.95") {
  FrameworkProfile slow = even();
  slow.cast_efficiency /= 2;
  const Plan plan = in("fp8", Fp8Recipe::Mxfp8);
  CHECK(recipe_of(plan)->cast_bytes(slow) == Approx(2 * cast_bytes(plan)));
  CHECK(recipe_of(plan)->rate == 0.95);
  CHECK(recipe_of(in("fp8"))->rate == 1);
}

TEST_CASE("a layer casts what goes into its four products, and their outputs' gradients") {
  const FrameworkProfile profile = even();
  const auto casts = [&](const Plan& plan, auto block_of, Kernel Block::*pass) {
    const Plan wide = in("bf16");
    return (block_of(llama(), plan, profile).*pass).memory_bytes -
           (block_of(llama(), wide, profile).*pass).memory_bytes;
  };
  const Plan current = in("fp8", Fp8Recipe::Current);
  const double c = cast_bytes(current);
  // Forward: the norms' outputs, attention's, the activation's. Backward: of Q, K and V, the
  // projection's, of gate and up, of fc2.
  CHECK(casts(current, attention_block, &Block::forward) == c * kTokens * 2 * kHidden);
  CHECK(casts(current, mlp_block, &Block::forward) == c * kTokens * (kHidden + kFfn));
  CHECK(casts(current, attention_block, &Block::input_gradient) == c * kTokens * 4 * kHidden);
  CHECK(casts(current, mlp_block, &Block::input_gradient) == c * kTokens * (2 * kFfn + kHidden));
  // Under delayed scaling a norm quantizes what it writes.
  const Plan delayed = in("fp8");
  CHECK(casts(delayed, mlp_block, &Block::forward) == cast_bytes(delayed) * kTokens * kFfn);
}

// Of a pass's steps those that all-reduce one fp32 number.
int numbers_reduced(const Pass& pass) {
  int count = 0;
  for (const Step& step : pass.steps)
    count += !step.computes && step.collective == CommKind::AllReduce && step.bytes == 4;
  return count;
}

Workload work_of(Plan plan, const Model& model = llama()) {
  CostModel cost = a100();
  cost.device.flops_per_s = {{"bf16", 312e12}, {"fp8", 624e12}, {"nvfp4", 1248e12}};
  cost.precision = plan.precision;
  return make_workload(model, plan, cost);
}

// Of each of four layers the inputs of QKV and of fc1, and the gradients of the projection's output
// and of fc2's; the embedding and the head gather in 16 bits.
TEST_CASE("an array is gathered in fp8 by one scale: its largest number is reduced before") {
  for (Plan plan : {in("fp8", Fp8Recipe::Current), in("nvfp4")}) {
    plan.tp = 4;
    CHECK(numbers_reduced(work_of(plan).stages[0].forward) == 0);  // nothing is gathered
    plan.sequence_parallel = true;
    for (const TensorMethod method : {TensorMethod::Off, TensorMethod::Ring}) {
      for (const TensorGemm gemm : {TensorGemm::QkvFprop, TensorGemm::Fc1Fprop})
        plan.tensor_overlap[static_cast<std::size_t>(gemm)] = {.method = method};
      const StageWork stage = work_of(plan).stages[0];
      CHECK(numbers_reduced(stage.forward) == 4 * 2);
      CHECK(numbers_reduced(stage.backward) == 4 * 2);
      CHECK(numbers_reduced(stage.backward_weight) == 0);
      CHECK(stage.forward_amax_bytes + stage.backward_amax_bytes == 0);
    }
    plan.precision = "bf16";
    plan.fp8_recipe = Fp8Recipe::Delayed;
    CHECK(numbers_reduced(work_of(plan).stages[0].forward) == 0);
  }
}

// Transformer Engine keeps three numbers of a product forward and two backward. A layer has four
// products; of experts each has two of its own.
TEST_CASE("delayed scales wait for the largest numbers of all products of a pass") {
  Plan plan = in("fp8");
  CHECK(work_of(plan).stages[0].forward_amax_bytes == 4 * 4 * 3 * 4);
  CHECK(work_of(plan).stages[0].backward_amax_bytes == 4 * 4 * 2 * 4);
  Model experts = llama();
  experts.experts = 8;
  experts.top_k = 2;
  CHECK(work_of(plan, experts).stages[0].forward_amax_bytes == 4 * (2 + 2 * 8) * 3 * 4);
  CHECK(work_of(in("bf16")).stages[0].forward_amax_bytes == 0);
  CHECK(work_of(in("fp8", Fp8Recipe::Mxfp8)).stages[0].forward_amax_bytes == 0);
}

TEST_CASE("weights that are gathered in fp8 have their largest numbers reduced, but in MXFP8") {
  const auto bytes = [](Fp8Recipe recipe) {
    Plan plan = in("fp8", recipe);
    plan.zero = 1;
    const Bytes none = work_of(plan).stages[0].weight_amax_bytes;
    plan.fp8_param_gather = true;
    CHECK(none == 0);
    return work_of(plan).stages[0].weight_amax_bytes;
  };
  CHECK(bytes(Fp8Recipe::Delayed) == 4 * 4 * 4);  // layers, weights, fp32
  CHECK(bytes(Fp8Recipe::Current) == 4 * 4 * 4);
  // 16 h^2 of a layer's weights by blocks of 128 x 128: h = 8 x 128.
  CHECK(bytes(Fp8Recipe::Blockwise) == Approx(4 * 16 * 64 * 4).epsilon(1e-2));
  CHECK(bytes(Fp8Recipe::Mxfp8) == 0);
}

TEST_CASE("the head and a router stay in 16 bits, weights are cast once an iteration") {
  const FrameworkProfile profile = even();
  const Plan plan = in("fp8", Fp8Recipe::Mxfp8);
  CHECK(head_block(llama(), plan, profile).forward.gemms[0].in_16_bits);
  CHECK(head_block(llama(), plan, profile).forward.memory_bytes ==
        head_block(llama(), in("bf16"), profile).forward.memory_bytes);
  Model experts = llama();
  experts.experts = 8;
  experts.top_k = 2;
  const Kernel forward = experts_block(experts, plan, profile).forward;
  CHECK(forward.gemms[0] == Gemm{.m = 4096, .n = 8, .k = 1024, .in_16_bits = true});
  CHECK(!forward.gemms[1].in_16_bits);
  const HeldParameters held = {.dense = 1000};
  const auto step = [&](const Plan& each) {
    return optimizer_kernel(OrderedPlan(each), held, 900, {}, profile).memory_bytes;
  };
  CHECK(step(plan) - step(in("bf16")) == Approx(cast_bytes(plan) * 900).epsilon(1e-12));
}

TEST_CASE(
    "quantized parameters are gathered in a byte, NVFP4 in half, mxfp8 in 16 bits under ZeRO 1") {
  const auto bytes = [](Plan plan, int zero) {
    plan.fp8_param_gather = true;
    plan.zero = zero;
    return gathered_parameter_bytes(plan);
  };
  CHECK(bytes(in("fp8"), 1) == 1);
  CHECK(bytes(in("nvfp4"), 1) == 0.5);
  CHECK(bytes(in("fp8", Fp8Recipe::Mxfp8), 1) == 2);
  CHECK(bytes(in("fp8", Fp8Recipe::Mxfp8), 3) == 1);
  CHECK(gathered_parameter_bytes(in("fp8")) == 2);
}

TEST_CASE("an optimizer's moments in fewer bits are read, written and kept in fewer") {
  const FrameworkProfile profile;
  const HeldParameters held = {.dense = 1000};
  OrderedPlan plan(in("bf16"));
  const double wide = optimizer_kernel(plan, held, 0, {}, profile).memory_bytes;
  const LiveActivations live = {{{{Stage{0}, 0}}}};
  const double kept = peak_memory(llama(), plan, live).optimizer;
  plan.moment_dtype = "bf16";
  CHECK(wide - optimizer_kernel(plan, held, 0, {}, profile).memory_bytes == 1000.0 * 2 * 2 * 2);
  CHECK(peak_memory(llama(), plan, live).optimizer == Approx(kept * 8 / 12).epsilon(1e-14));
}

TEST_CASE("inputs of products are kept quantized: of a layer in fp8 all but 16-bit arrays") {
  // 16 bits: a norm's input and output in each half, Q, K, V and attention's output, gate, up and
  // their product; a row's log-sum-exp. In fp8 the four products' inputs take a byte, and
  // attention's output is kept beside the projection's input.
  const double lse = kTokens * 16 * 4;
  const double wide = 2 * kTokens * (4 * kHidden + 4 * kHidden + 3 * kFfn) + lse;
  CHECK(layer_activations(llama(), in("bf16"), Recompute::None) == wide);
  const double narrow =
      kTokens * (2 * (2 + 1) * kHidden + 3 * 2 * kHidden + (2 + 1) * kHidden + (4 + 1) * kFfn) +
      lse;
  CHECK(layer_activations(llama(), in("fp8"), Recompute::None) == narrow);
}

TEST_CASE("weights are kept in 16 bits and both quantized forms, or, gathered in fp8, in these") {
  const LiveActivations live = {{{{Stage{0}, 0}}}};
  const auto weights = [&](const Plan& plan) {
    return peak_memory(llama(), OrderedPlan(plan), live).weights;
  };
  const double linear = linear_share(llama(), in("bf16"), 0, 4);
  CHECK(linear == 4 * layer_parameters(llama()));
  CHECK(weights(in("fp8")) - weights(in("bf16")) == 2 * linear);
  CHECK(weights(in("nvfp4")) - weights(in("bf16")) == 2 * (0.5 + 1.0 / 16) * linear);
  Plan gathered = in("fp8");
  gathered.fp8_param_gather = true;
  CHECK(weights(gathered) == weights(in("bf16")));
}

TEST_CASE("gathered layers have quantized copies, or nothing else in fp8, the embedding never") {
  const double layer = layer_parameters(llama());
  Model wide = llama(), narrow = llama();
  wide.vocab = 1 << 20;  // an embedding of more than 2 layers' parameters
  narrow.vocab = 1024;
  // The bytes of buffers beyond those in 16 bits; a layer in use, and the embedding or a layer
  // next.
  const auto added = [](const Model& model, bool reshard, bool gathers_fp8) {
    const auto buffers = [&](const std::string& precision) {
      Plan plan = in(precision);
      plan.dp = 4;
      plan.global_batch = 4 * plan.micro_batch;
      plan.zero = 3;
      plan.trainer = Trainer::Megatron;
      plan.reshard_after_forward = reshard;
      plan.fp8_param_gather = gathers_fp8 && precision == "fp8";
      return peak_memory(model, OrderedPlan(plan), {{{{Stage{0}, 1}}}});
    };
    const MemoryUse use = buffers("fp8"), in_16_bits = buffers("bf16");
    CHECK(use.weights == in_16_bits.weights);
    return use.communication - in_16_bits.communication;
  };
  CHECK(added(wide, true, false) == 2 * layer);
  CHECK(added(wide, true, true) == 0);
  CHECK(added(wide, false, false) == 2 * 2 * layer);
  CHECK(added(wide, false, true) == 0);
  CHECK(added(narrow, true, false) == 2 * 2 * layer);
}

}  // namespace
}  // namespace tandem
