// Activations on the CPU: what leaves the GPU, what is copied, and when a pass waits for copies.
#include <catch2/catch.hpp>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/activations.h"
#include "workload/memory/memory.h"

namespace tandem {
namespace {

// 32 heads of 128, an eighth of them for keys and values; 4 layers of 4 sequences of 2048.
Model model_of(bool experts) {
  Model model = {.layers = 4,
                 .hidden = 4096,
                 .heads = 32,
                 .kv_heads = 4,
                 .ffn_hidden = 14336,
                 .gated_mlp = true,
                 .seq = 2048,
                 .vocab = 32000};
  if (!experts) return model;
  model.experts = 8;
  model.top_k = 2;
  model.expert_ffn_hidden = 1024;
  return model;
}

constexpr double kTokens = 4 * 2048;

Plan offloading(std::vector<std::string_view> names) {
  Plan plan = plan_of(1);
  plan.flash_attention = true;
  for (const OffloadModule& module : kOffloadModules) {
    if (std::ranges::find(names, module.name) != names.end())
      plan.offload_modules.*module.place = true;
  }
  return plan;
}

double activations(const Model& model, const OrderedPlan& plan, int microbatches, int stage = 0) {
  return peak_memory(model, plan, {{{{Stage{stage}, microbatches}}}}).activations;
}

TEST_CASE("a module's arrays leave the GPU, and attention's output is copied for both its users") {
  struct Row {
    std::vector<std::string_view> names;
    bool experts;
    double freed, copied;  // numbers of 2 bytes, a token
  };
  const double query = 4096, kv = 2 * 512;
  const Row rows[] = {
      {{"attn_norm"}, false, 0, 0},  // with heads, it is one kernel with the product
      {{"qkv_linear"}, false, 2 * 4096, 2 * 4096},
      {{"core_attn"}, false, query + kv, query + kv + query},
      {{"core_attn", "attn_proj"}, false, query + kv + query, query + kv + 2 * query},
      {{"mlp_norm"}, false, 0, 0},
      {{"mlp_norm"}, true, 4096, 4096},
      {{"expert_fc1"}, true, 2 * 4096, 2 * 4096},
      {{"moe_act"}, true, 2 * 2 * 1024, 2 * 2 * 1024},
      {{"fused_group_mlp"}, true, 2 * (4096 + 3 * 1024), 2 * (4096 + 3 * 1024)},
  };
  for (const Row& row : rows) {
    INFO(row.names.front());
    const Model model = model_of(row.experts);
    const Plan plan = offloading(row.names);
    REQUIRE(check_model(model, plan).ok());
    const Offloaded layer = offloaded_activations(model, plan, Recompute::None);
    CHECK(layer.freed == 2 * kTokens * row.freed);
    CHECK(layer.copied == 2 * kTokens * row.copied);
  }
}

TEST_CASE("latent attention's norm is a kernel of its own, and arrays below 1 Mi numbers stay") {
  Model model = model_of(false);
  model.kv_heads = 0;
  model.mixer = Mixer::Latent;
  model.q_lora_rank = 384;
  model.kv_lora_rank = 96;
  model.qk_nope_head_dim = 64;
  model.qk_rope_head_dim = 32;
  model.v_head_dim = 64;
  const Plan plan = offloading({"attn_norm"});
  CHECK(offloaded_activations(model, plan, Recompute::None).freed == 2 * kTokens * 4096);
  const Plan product = offloading({"qkv_linear"});
  // The norm's output, and what is compressed.
  CHECK(offloaded_activations(model, product, Recompute::None).freed ==
        2 * kTokens * (4096 + 384 + 96 + 32));
  model.seq = 256;
  // 4 x 256 x 512 numbers are half of 1 Mi, the norm's 4 x 256 x 4096 are 4 Mi.
  CHECK(offloaded_activations(model, product, Recompute::None).freed == 2 * 4 * 256.0 * 4096);
}

TEST_CASE("quantized: a module frees what is kept, and copies what it is kept from") {
  const Model model = model_of(true);
  Plan plan = offloading({"core_attn", "attn_proj", "expert_fc1"});
  plan.precision = "fp8";
  const auto layer = [&] { return offloaded_activations(model, plan, Recompute::None); };
  // Q, K, V and the output in 16 bits; the projection's copy and the experts' rows in 8.
  const double attention = 2 * (4096 + 1024) + (2 + 1) * 4096, rows = 2 * 4096;
  CHECK(layer().freed == kTokens * (attention + rows));
  CHECK(layer().copied == kTokens * (attention + 2 * rows));  // as 16 bits
  plan.fp8_recipe = Fp8Recipe::Mxfp8;
  const double number = 1 + 1.0 / 32;
  CHECK(layer().copied ==
        Approx(kTokens * (2 * (4096 + 1024) + (2 + number) * 4096 + number * rows)));
}

TEST_CASE("memory is less by what is offloaded, but for a layer's arrays and a module's") {
  Model model = model_of(true);
  model.layers = 8;
  OrderedPlan kept(offloading({})), plan(offloading({"core_attn", "attn_proj", "moe_act"}));
  kept.pp = plan.pp = 2;
  const double unit = 2 * kTokens * 1024;
  // core_attn frees 5 units, attn_proj 4, moe_act 4. The last stage has logits in a module's place.
  for (const int microbatches : {1, 3}) {
    for (const auto& [stage, module] : {std::pair{0, 5}, std::pair{1, 0}})
      CHECK(activations(model, kept, microbatches, stage) -
                activations(model, plan, microbatches, stage) ==
            unit * (microbatches * 4 * 13 - (13 + module)));
  }
  CHECK(activations(model, plan, 0) == activations(model, kept, 0));
  model.layers = 2;  // the layer at work is all that a stage has
  CHECK(activations(model, plan, 1) == activations(model, kept, 1));
}

TEST_CASE("layers that are offloaded keep nothing, under full recompute not even their input") {
  const Model model = model_of(false);
  OrderedPlan plan(offloading({}));
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    plan.recompute = recompute;
    plan.offload_layers = 0;
    const double layer = layer_activations(model, plan, recompute);
    const double all = activations(model, plan, 2);
    plan.offload_layers = 3;
    CHECK(all - activations(model, plan, 2) == Approx((2 * 3 - 1) * layer).epsilon(1e-12));
    CHECK(offloaded_activations(model, plan, recompute).copied == layer);
  }
}

TEST_CASE("waits stand beside a pass's communication, in proportion to its bytes") {
  PassBuilder builder;
  builder.communicate(GroupKind::Tensor, CommKind::AllGather, 100);
  builder.compute(0, 10);
  builder.communicate(GroupKind::Expert, CommKind::AllToAll, 300);
  builder.compute(1, 20);
  builder.communicate(GroupKind::Tensor, CommKind::ReduceScatter, 100);
  const Pass pass = builder.take(), longer = with_waits(pass, 50);
  CHECK(compute_ns(pass) == 30);
  std::vector<Nanoseconds> lane;
  for (const Step& step : longer.steps) {
    if (step.computes) lane.push_back(step.duration_ns);
  }
  CHECK(lane == std::vector<Nanoseconds>{10, 10, 30, 20, 10});
  CHECK(longer.steps[longer.output].collective == CommKind::ReduceScatter);
  // A kernel waits for what it waited for before.
  CHECK(longer.steps[5].kernel == 1);
  CHECK(longer.steps[5].waits == Waits{3});
  CHECK(with_waits(pass, 0) == pass);
  PassBuilder alone;
  alone.compute(0, 10);
  CHECK(compute_ns(with_waits(alone.take(), 5)) == 15);
}

TEST_CASE("a layer takes the time of its kernels or of its copies, whichever is longer") {
  const Model model = model_of(false);
  const OrderedPlan kept(offloading({})), plan(offloading({"core_attn", "attn_proj"}));
  CostModel cost = a100();
  const CopiedBytes copied = [&](const Model& layer, Recompute recompute) {
    return offloaded_activations(layer, plan, recompute).copied;
  };
  const double bytes = copied(model, Recompute::None);
  const Workload before = make_workload(model, kept, cost);
  cost.device.host_link_bytes_per_s = 1e15;
  CHECK(make_workload(model, plan, cost, 0, copied).stages[0].forward == before.stages[0].forward);
  cost.device.host_link_bytes_per_s = 1e9;
  const Workload slow = make_workload(model, plan, cost, 0, copied);
  // Neither the embedding nor the head hide copies.
  const auto ends_s = [&](Pass StageWork::*pass) {
    double sum = 0;
    for (const Step& step : (before.stages[0].*pass).steps)
      sum += step.unit >= 1 && step.unit <= 4 ? 0 : to_seconds(step.duration_ns);
    return sum;
  };
  for (const auto pass : {&StageWork::forward, &StageWork::backward, &StageWork::backward_input})
    CHECK(seconds(slow.stages[0].*pass) == Approx(4 * bytes / 1e9 + ends_s(pass)).epsilon(1e-6));
  CHECK(slow.stages[0].backward_weight == before.stages[0].backward_weight);
  // Half of the layers have the time of all of them.
  OrderedPlan half = kept;
  half.offload_layers = 2;
  const double layer = layer_activations(model, half, Recompute::None);
  const Workload spread =
      make_workload(model, half, cost, 0, [&](const Model&, Recompute) { return layer; });
  CHECK(seconds(spread.stages[0].forward) ==
        Approx(2 * layer / 1e9 + ends_s(&StageWork::forward)).epsilon(1e-6));
}

}  // namespace
}  // namespace tandem
