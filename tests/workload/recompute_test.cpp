// Recompute by module: what each spares in memory, and that kernels repeat what the FLOPs say.
#include <catch2/catch.hpp>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/activations.h"
#include "workload/model/blocks.h"

namespace tandem {
namespace {

// Latent attention, and an MLP or experts with a shared one; s = 1024, 4 sequences.
Model model_of(bool experts) {
  Model model = {.layers = 4,
                 .hidden = 1024,
                 .heads = 16,
                 .ffn_hidden = 4096,
                 .gated_mlp = true,
                 .seq = 1024,
                 .vocab = 32000,
                 .mixer = Mixer::Latent,
                 .q_lora_rank = 384,
                 .kv_lora_rank = 256,
                 .qk_nope_head_dim = 64,
                 .qk_rope_head_dim = 32,
                 .v_head_dim = 64};
  if (!experts) return model;
  model.experts = 8;
  model.top_k = 2;
  model.expert_ffn_hidden = 512;
  model.shared_expert_ffn = 768;
  return model;
}

constexpr double kTokens = 4 * 1024;

Plan repeating(std::vector<std::string_view> names, bool flash = true) {
  Plan plan = plan_of(1);
  plan.recompute = Recompute::Selective;
  plan.recompute_modules = {.core_attn = false};
  for (const RecomputeModule& module : kRecomputeModules) {
    if (std::ranges::find(names, module.name) != names.end())
      plan.recompute_modules.*module.place = true;
  }
  plan.flash_attention = flash;
  return plan;
}

TEST_CASE("a module's arrays are not kept, and those of its largest layer come once") {
  struct Row {
    std::string_view name;
    bool experts;
    double columns;  // of 2 bytes, a token
    double logits = 0;
  };
  const double heads = 16;
  const Row rows[] = {
      {"layernorm", false, 2 * 1024},
      {"mla_up_proj", false, heads * (96 + 96 + 64)},
      {"mlp", false, 3 * 4096},
      {"moe_act", true, 2 * 512},
      {"shared_experts", true, 3 * 768},
      // Two copies' inputs and inner arrays, and the shared expert's; 4 bytes a logit.
      {"moe", true, 2 * (1024 + 3 * 512) + 3 * 768, 8},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const Model model = model_of(row.experts);
    const Plan plan = repeating({row.name});
    const double spared = kTokens * (2 * row.columns + 4 * row.logits);
    CHECK(layer_activations(model, plan, Recompute::None) -
              layer_activations(model, plan, Recompute::Selective) ==
          spared);
    CHECK(recomputed_activations(model, plan) == spared);
  }
}

TEST_CASE("kernels repeat what the hardware's FLOPs count of every module, on one GPU and on two") {
  for (const RecomputeModule& module : kRecomputeModules) {
    for (const bool experts : {false, true}) {
      for (const int tp : {1, 2}) {
        for (const bool flash : {false, true}) {
          INFO(module.name << (experts ? " experts" : " dense") << " tp " << tp << " flash "
                           << flash);
          const Model model = model_of(experts);
          Plan plan = repeating({module.name}, flash);
          plan.tp = tp;
          // So that compression and routers are cut, too.
          plan.sequence_parallel = tp > 1;
          CHECK(4 * flops(make_workload(model, plan, a100())) ==
                Approx(hardware_flops(model, plan, computed(plan)) / tp).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("what is repeated takes time in the backward and none in the forward") {
  const Model model = model_of(true);
  // No launches of the CPU's hide it.
  const auto work_of = [&](std::vector<std::string_view> names) {
    Plan plan = repeating(std::move(names));
    plan.cuda_graphs = true;
    return make_workload(model, plan, a100());
  };
  const Workload kept = work_of({});
  for (const RecomputeModule& module : kRecomputeModules) {
    if (module.name == "core_attn" || module.name == "mlp") continue;  // fused; experts
    INFO(module.name);
    const Workload work = work_of({module.name});
    CHECK(seconds(work.stages[0].forward) == seconds(kept.stages[0].forward));
    CHECK(seconds(work.stages[0].backward) > seconds(kept.stages[0].backward));
  }
}

TEST_CASE(
    "the CPU launches a module again in twice its block's forward, but not what experts add") {
  for (const bool experts : {false, true}) {
    INFO((experts ? "experts" : "dense"));
    const Model model = model_of(experts);
    Plan plan = repeating({"layernorm"});
    plan.micro_batch = 1;
    CostModel cost = a100();
    cost.profile.forward_launch_s = 1;  // all else takes far less
    cost.profile.backward_launch_s = 2;
    cost.profile.expert_launch_s = 5;
    const double again = seconds(make_workload(model, plan, cost).stages[0].backward);
    plan.recompute_modules = {};
    plan.recompute = Recompute::None;
    const double once = seconds(make_workload(model, plan, cost).stages[0].backward);
    // A layer has two norms, each of half its forward's launches.
    CHECK(again - once == Approx(2 * (0.5 + 0.5) * model.layers).epsilon(1e-3));
  }
}

TEST_CASE("experts that are recomputed send their tokens again") {
  Plan plan = repeating({});
  plan.dp = 4;
  plan.ep = 4;
  plan.global_batch = 64;
  const auto exchanges = [&] {
    const Workload work = make_workload(model_of(true), plan, a100());
    return std::ranges::count_if(work.stages[0].backward.steps, [](const Step& step) {
      return !step.computes && step.group_kind == GroupKind::Expert;
    });
  };
  CHECK(exchanges() == 2 * 4);
  plan.recompute_modules.moe = true;
  CHECK(exchanges() == 4 * 4);
}

}  // namespace
}  // namespace tandem
