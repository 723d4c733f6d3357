// The rules of what can be combined: each broken one is named with its key, and what it asks for.
#include <catch2/catch.hpp>
#include <functional>

#include "tests/workload/workload_fixture.h"

namespace tandem {
namespace {

struct Case {
  std::function<void(Model*, Plan*)> spoil;
  std::string message;
};

// A 24-layer model, tp 4, sequence parallel, that keeps all the rules.
void check_cases(const std::vector<Case>& cases, bool experts) {
  Model model = {.layers = 24, .hidden = 2304, .heads = 24, .seq = 2048, .vocab = 51200};
  Plan plan = plan_of(4);
  plan.sequence_parallel = true;
  plan.dp = 2;
  if (experts) model.experts = 8, model.top_k = 2, plan.ep = 4, plan.expert_tp = 1;
  REQUIRE(check_model(model, plan).ok());
  for (const Case& spoiled : cases) {
    Model bad_model = model;
    Plan bad_plan = plan;
    spoiled.spoil(&bad_model, &bad_plan);
    const Status status = check_model(bad_model, bad_plan);
    INFO(spoiled.message);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().text() == spoiled.message);
    CHECK(status.error().kind == Error::BadInput);
  }
}

void set(Plan* plan, TensorGemm gemm, GemmOverlap overlap) {
  plan->tensor_overlap[static_cast<std::size_t>(gemm)] = overlap;
}

TEST_CASE("context parallelism asks for sequences and heads that divide") {
  check_cases(
      {{[](Model*, Plan* p) { p->cp = 0; }, "parallel.cp: found 0, expected a positive number"},
       {[](Model* m, Plan* p) { m->seq = 2056, p->cp = 8, p->sequence_parallel = false; },
        "model.seq: found 2056, expected a multiple of 2 x parallel.cp (parallel.cp_comm is ring) "
        "= 16"},
       {[](Model* m, Plan* p) {
          m->seq = 2052, p->cp = 8, p->sequence_parallel = false;
          p->context_comm = ContextComm::AllGather;
        },
        "model.seq: found 2052, expected a multiple of parallel.cp = 8"},
       {[](Model* m, Plan* p) { m->seq = 2052, p->cp = 2; },
        "model.seq: found 2052, expected a multiple of parallel.tp x parallel.cp "
        "(train.sequence_parallel is on) = 8"},
       {[](Model*, Plan* p) { p->cp = 4, p->context_comm = ContextComm::AllToAll; },
        "model.heads: found 24, expected a multiple of parallel.tp x parallel.cp (parallel.cp_comm "
        "is all_to_all) = 16"},
       {[](Model* m, Plan* p) {
          m->kv_heads = 4, p->cp = 2, p->context_comm = ContextComm::AllToAll;
        },
        "model.kv_heads: found 4, expected a multiple of parallel.tp x parallel.cp "
        "(parallel.cp_comm is all_to_all) = 8"},
       {[](Model*, Plan* p) {
          p->cp = 2, p->context_comm = ContextComm::AllGather, p->overlap_context = true;
        },
        "overlap.context: found true, expected false with parallel.cp_comm = all_gather: only a "
        "ring has steps to run beside attention's"},
       {[](Model*, Plan* p) { p->context_sms = -1; },
        "overlap.context_sms: found -1, expected from 0 to 1024"}},
      false);
}

TEST_CASE("experts ask for groups that divide them, and a sensible number of choices") {
  check_cases(
      {{[](Model* m, Plan*) { m->experts = 0; },
        "parallel.ep: found 4, expected 1 without model.experts"},
       {[](Model*, Plan* p) {
          p->precision = "fp8", p->fp8_recipe = Fp8Recipe::Current;
          p->amax_reduction = AmaxReduction::Tensor;
        },
        "train.amax_reduction: found tensor or none, expected train.fp8_recipe = delayed, whose "
        "scales wait for it"},
       {[](Model*, Plan* p) { p->precision = "fp8", p->fp8_attention = true; },
        "train.fp8_attention: found true, expected train.flash_attention = true with it"},
       {[](Model*, Plan* p) {
          p->precision = "fp8", p->fp8_recipe = Fp8Recipe::Rowwise, p->fp8_param_gather = true;
        },
        "train.fp8_recipe: found rowwise, expected another with fp8_param_gather"},
       {[](Model*, Plan* p) { p->ep = 0; }, "parallel.ep: found 0, expected a positive number"},
       {[](Model* m, Plan*) { m->experts = -1; },
        "model.experts: found -1, expected 0 (for the default) or a positive number"},
       {[](Model* m, Plan*) { m->top_k = 9; },
        "model.top_k: found 9, expected from 1 to model.experts = 8"},
       {[](Model* m, Plan*) { m->top_k = 0; },
        "model.top_k: found 0, expected from 1 to model.experts = 8"},
       {[](Model* m, Plan*) { m->expert_imbalance = 0.5; },
        "model.expert_imbalance: found 0.5, expected from 1 to model.experts = 8"},
       {[](Model*, Plan* p) { p->expert_tp = 3; },
        "parallel.tp x cp x dp: found 8, expected a multiple of parallel.expert_tp = 3"},
       {[](Model*, Plan* p) { p->ep = 3; },
        "model.experts: found 8, expected a multiple of parallel.ep = 3"},
       {[](Model*, Plan* p) { p->expert_tp = 4; },
        "parallel.tp x cp x dp / expert_tp: found 2, expected a multiple of parallel.ep = 4"},
       {[](Model* m, Plan* p) { m->expert_ffn_hidden = 1001, p->expert_tp = 4, p->ep = 2; },
        "model.expert_ffn_hidden: found 1001, expected a multiple of parallel.expert_tp = 4"},
       {[](Model* m, Plan*) { m->shared_expert_ffn = 1001; },
        "model.shared_expert_ffn: found 1001, expected a multiple of parallel.tp = 4"},
       {[](Model*, Plan* p) { p->sequence_parallel = false; },
        "train.sequence_parallel: found false, expected true for model.experts with parallel.tp = "
        "4"},
       {[](Model*, Plan* p) { set(p, TensorGemm::Fc1Fprop, {.method = TensorMethod::Ring}); },
        "overlap.gemm.fc1_fprop: found ring, expected off with model.experts and no shared one: "
        "experts have no such collective"},
       {[](Model*, Plan* p) { p->expert_sms = 2000; },
        "overlap.expert_sms: found 2000, expected from 0 to 1024"}},
      true);
}

TEST_CASE("a GEMM overlaps by a method that it has, where there is something to overlap") {
  check_cases(
      {{[](Model*, Plan* p) {
          p->tp = 1;
          set(p, TensorGemm::QkvFprop, {.method = TensorMethod::Ring});
        },
        "overlap.gemm.qkv_fprop: found ring, expected off with parallel.tp = 1: nothing is "
        "communicated"},
       {[](Model*, Plan* p) {
          p->sequence_parallel = false;
          set(p, TensorGemm::Fc2Dgrad, {.method = TensorMethod::Pipelined});
        },
        "overlap.gemm.fc2_dgrad: found pipelined, expected off without train.sequence_parallel: an "
        "all-reduce has no GEMM to meet"},
       {[](Model*, Plan* p) { set(p, TensorGemm::ProjFprop, {.method = TensorMethod::Bulk}); },
        "overlap.gemm.proj_fprop: found bulk, expected off, pipelined or ring"},
       {[](Model*, Plan* p) { set(p, TensorGemm::QkvWgrad, {.method = TensorMethod::Ring}); },
        "overlap.gemm.qkv_wgrad: found ring, expected off or bulk"},
       {[](Model*, Plan* p) {
          set(p, TensorGemm::Fc1Dgrad, {.method = TensorMethod::Ring});
          set(p, TensorGemm::Fc1Wgrad, {.method = TensorMethod::Bulk});
        },
        "overlap.gemm.fc1_wgrad: found bulk, expected off with overlap.gemm.fc1_dgrad = ring, "
        "which runs the reduce-scatter beside dgrad"},
       {[](Model*, Plan* p) {
          set(p, TensorGemm::Fc2Fprop, {.method = TensorMethod::Pipelined, .splits = 0});
        },
        "overlap.gemm.fc2_fprop.splits: found 0, expected from 1 to 1024"},
       {[](Model*, Plan* p) {
          set(p, TensorGemm::Fc2Fprop, {.method = TensorMethod::Pipelined, .sms = -2});
        },
        "overlap.gemm.fc2_fprop.sms: found -2, expected from 0 to 1024"}},
      false);
}

TEST_CASE("Transformer Engine's own defaults are no error, and neither are rings at dgrad") {
  Plan plan = plan_of(8);
  plan.sequence_parallel = true;
  for (int i = 0; i < kTensorGemms; ++i) {
    const auto gemm = static_cast<TensorGemm>(i);
    Plan one = plan;
    const bool weight = tensor_gemm_name(gemm).ends_with("wgrad");
    set(&one, gemm, {.method = weight ? TensorMethod::Bulk : TensorMethod::Ring});
    INFO(tensor_gemm_name(gemm));
    CHECK(check_model(gpt_22b(), one).ok());
  }
}

TEST_CASE("ZeRO, recompute and attention keep to where they mean something") {
  check_cases(
      {{[](Model*, Plan* p) { p->zero = 4; }, "train.zero: found 4, expected from 0 to 3"},
       {[](Model*, Plan* p) { p->zero = -1; }, "train.zero: found -1, expected from 0 to 3"},
       {[](Model*, Plan* p) { p->zero = 2, p->zero_hpz = 2; },
        "parallel.zero_hpz: found 2, expected none but with train.zero = 3, parallel.pp = 1, "
        "train.reshard_after_forward and no parallel.hsdp_shard"},
       {[](Model*, Plan* p) { p->zero = 3, p->pp = 2, p->reshard_after_forward = true; },
        "train.reshard_after_forward: found true, expected false with parallel.pp = 2: a stage's "
        "parameters stay gathered from its first microbatch to its last"},
       {[](Model*, Plan* p) { p->hsdp_shard = 1; },
        "parallel.hsdp_shard: found 1, expected none with train.zero = 0: nothing is cut"},
       {[](Model*, Plan* p) { p->zero = 1, p->hsdp_shard = 3; },
        "parallel.hsdp_shard: found 3, expected a divisor of parallel.dp x parallel.cp = 2"},
       {[](Model*, Plan* p) { p->recompute_layers = 25, p->recompute = Recompute::Full; },
        "train.recompute_layers: found 25, expected -1 (for all) or from 0 to model.layers = 24"},
       {[](Model*, Plan* p) { p->recompute_layers = 2; },
        "train.recompute_layers: found 2, expected none but with train.recompute = full"},
       {[](Model*, Plan* p) { p->flash_attention = true, p->precision = "fp32"; },
        "train.flash_attention: found true, expected false with train.precision = fp32: its "
        "kernels take 16 bits"}},
      false);
  check_cases({{[](Model*, Plan* p) { p->ep = 8, p->zero = 1, p->hsdp_shard = 1; },
                "parallel.hsdp_shard x parallel.tp: found 4, expected a multiple of parallel.ep x "
                "parallel.expert_tp = 8"},
               {[](Model*, Plan* p) {
                  p->ep = 1, p->expert_tp = 8, p->pp = 1, p->zero = 3, p->zero_hpz = 2;
                  p->reshard_after_forward = true;
                },
                "parallel.tp x parallel.cp x parallel.dp: found 8, expected a multiple of "
                "parallel.zero_hpz x parallel.expert_tp = 16"}},
              true);
}

TEST_CASE("offloaded modules ask for what Megatron-LM asks, and for something that is kept") {
  const std::string key = "train.activation_offload_modules: found ";
  check_cases(
      {{[](Model*, Plan* p) { p->offload_modules.moe_act = true, p->offload_layers = 1; },
        key + "some with train.activation_offload_layers, expected one of both keys"},
       {[](Model*, Plan* p) { p->offload_modules.moe_act = true, p->recompute = Recompute::Full; },
        key + "some with train.recompute = full, expected none: a layer then keeps its input "
              "alone"},
       {[](Model*, Plan* p) { p->offload_modules.attn_proj = true; },
        key + "attn_proj without core_attn, expected both: the input of one is the output of the "
              "other, which needs it too"},
       {[](Model*, Plan* p) {
          p->offload_modules.fused_group_mlp = p->offload_modules.moe_act = true;
        },
        key + "fused_group_mlp with expert_fc1 or moe_act, expected it alone: it has them inside"},
       {[](Model*, Plan* p) {
          p->offload_modules.core_attn = true, p->recompute = Recompute::Selective;
        },
        key + "core_attn, which train.recompute_modules has too, expected one of both"},
       {[](Model*, Plan* p) {
          p->offload_modules.moe_act = true, p->recompute = Recompute::Selective;
          p->recompute_modules = {.core_attn = false, .moe = true};
        },
        key + "a part of the experts, which train.recompute_modules = moe repeats, expected one "
              "of both"},
       {[](Model*, Plan* p) { p->offload_layers = 25; },
        "train.activation_offload_layers: found 25, expected from 0 to model.layers = 24"}},
      true);
}

}  // namespace
}  // namespace tandem
