// Laws that hold for every valid plan, whatever is combined: random models and plans.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/activations.h"
#include "workload/memory/memory.h"

namespace tandem {
namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  int from(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool coin() { return from(0, 1) == 1; }
  int power(int most) { return 1 << from(0, most); }

  Model model() {
    Model model = {.layers = from(1, 12),
                   .hidden = 64 * from(1, 64),
                   .heads = power(6),
                   .kv_heads = coin() ? 0 : power(5),
                   .gated_mlp = coin(),
                   .seq = 64 * from(1, 64),
                   .vocab = from(1, 200000),
                   .tied_embeddings = coin()};
    if (from(0, 2) > 0) return model;
    model.experts = power(6);
    model.top_k = from(1, std::min(8, model.experts));
    model.expert_ffn_hidden = coin() ? 0 : 128 * from(1, 32);
    model.shared_expert_ffn = coin() ? 0 : 128 * from(1, 32);
    model.expert_imbalance = coin() ? 1 : 1 + 0.1 * from(0, 20);
    return model;
  }

  OrderedPlan plan() {
    OrderedPlan plan = Plan{.tp = power(3),
                            .pp = from(1, 4),
                            .vpp = from(1, 2),
                            .dp = power(3),
                            .cp = power(2),
                            .ep = coin() ? 1 : power(3),
                            .expert_tp = from(0, 1),
                            .micro_batch = from(1, 4),
                            .recompute = static_cast<Recompute>(from(0, 2)),
                            .sequence_parallel = from(0, 3) > 0,
                            .scatter_gather = coin(),
                            .precision = coin() ? "fp16" : "bf16"};
    plan.global_batch = plan.micro_batch * plan.dp * from(1, 8);
    if (plan.recompute == Recompute::Full && coin()) plan.recompute_layers = from(0, 4);
    plan.flash_attention = coin();
    plan.fusion = {coin(), coin(), coin()};
    plan.cross_entropy = static_cast<CrossEntropy>(from(0, 3));
    plan.zero = from(0, 3);
    if (plan.zero > 0 && coin()) plan.hsdp_shard = power(2);
    if (plan.pp == 1 && coin()) plan.reshard_after_forward = coin();
    plan.fp8_param_gather = coin();
    plan.muon = plan.zero < 2 && coin();
    if (plan.sequence_parallel && plan.tp > 1 && coin()) {
      for (GemmOverlap& overlap : plan.tensor_overlap)
        overlap = {.method = static_cast<TensorMethod>(from(0, 3)),
                   .sms = from(0, 32),
                   .splits = from(1, 8)};
    }
    plan.context_comm = static_cast<ContextComm>(from(0, 2));
    plan.overlap_context = plan.context_comm == ContextComm::Ring && coin();
    plan.ends_on_one_rank = coin();
    return plan;
  }

 private:
  std::mt19937_64 random_;
};

// Overlap settings are drawn blindly: what is not allowed where it fell is switched off.
void mend(const Model& model, Plan* plan) {
  for (GemmOverlap& overlap : plan->tensor_overlap) {
    const GemmOverlap kept = overlap;
    Plan alone = *plan;
    alone.tensor_overlap = {};
    alone.tensor_overlap[&overlap - plan->tensor_overlap.data()] = kept;
    if (!check_model(model, alone).ok()) overlap = {};
  }
  for (const auto& [dgrad, wgrad] : {std::pair{1, 2}, std::pair{6, 7}}) {
    if (plan->tensor_overlap[dgrad].method > TensorMethod::Bulk) plan->tensor_overlap[wgrad] = {};
  }
}

void require_sound(const Workload& work, const Pass& pass) {
  const int steps = static_cast<int>(pass.steps.size());
  REQUIRE(pass.output >= 0);
  REQUIRE(pass.output < steps);
  for (int i = 0; i < steps; ++i) {
    const Step& step = pass.steps[i];
    for (const int wait : step.waits) {
      REQUIRE(wait >= 0);
      REQUIRE(wait < i);
    }
    if (step.computes) {
      REQUIRE(step.duration_ns >= 0);
      REQUIRE(step.duration_ns < 1'000'000'000'000);
      REQUIRE(step.kernel < static_cast<int>(work.kernels.size()));
    } else {
      REQUIRE(step.bytes > 0);
      REQUIRE(step.settings.part < step.settings.parts);
      REQUIRE(step.settings.part >= 0);
      const bool in_pass = step.group_kind == GroupKind::Tensor ||
                           step.group_kind == GroupKind::Context ||
                           step.group_kind == GroupKind::Expert;
      REQUIRE(in_pass);
    }
  }
}

void require_sound(const Model& model, const OrderedPlan& plan) {
  const Workload work = make_workload(model, plan, {a100().device, plan.precision});
  LiveActivations live = {{{}}};
  for (int s = 0; s < plan.stages(); ++s) {
    const StageWork& stage = work.stages[s];
    for (auto pass : {&StageWork::forward, &StageWork::backward, &StageWork::backward_input,
                      &StageWork::backward_weight})
      require_sound(work, stage.*pass);
    REQUIRE(seconds(stage.forward) + seconds(stage.backward) > 0);
    for (const ParameterUnit& unit : stage.units) {
      REQUIRE(unit.gradient_bytes >= 0);
      REQUIRE(unit.expert_gradient_bytes >= 0);
      REQUIRE((unit.expert_gradient_bytes == 0 || model.is_moe()));
    }
    for (const Step& step : stage.forward.steps)
      REQUIRE(step.unit < static_cast<int>(stage.units.size()));
    // The split backward's kernels do what the whole one's do.
    REQUIRE(flops(work, stage.backward_input) + flops(work, stage.backward_weight) ==
            Approx(flops(work, stage.backward)).epsilon(1e-12));
    live.ranks[0].push_back({Stage{s}, 2});
  }
  REQUIRE(work.pipeline_bytes > 0);
  const MemoryUse use = peak_memory(model, plan, live);
  for (const double bytes :
       {use.weights, use.gradients, use.optimizer, use.activations, use.total()}) {
    REQUIRE(std::isfinite(bytes));
    REQUIRE(bytes > 0);
  }
  REQUIRE(use.communication >= 0);
  REQUIRE(model_flops(model, plan) > 0);
  // By either convention hardware FLOPs are the model's and what is repeated: HFU >= MFU.
  for (const AttentionFlops attention : {AttentionFlops::Whole, AttentionFlops::Causal})
    REQUIRE(hardware_flops(model, plan, attention) >= model_flops(model, plan, attention));
  REQUIRE(model_flops(model, plan, AttentionFlops::Causal) < model_flops(model, plan));
  // All ranks together compute what is counted, where experts are evenly used and rows divide.
  if (model.is_moe()) return;
  REQUIRE(flops(work) * plan.tp * plan.cp * plan.dp * plan.microbatches() ==
          Approx(hardware_flops(model, plan, computed(plan)) +
                 (padded_vocab(model, plan) - model.vocab) * 6.0 * plan.global_batch * model.seq *
                     model.hidden)
              .epsilon(1e-9));
}

TEST_CASE("any valid plan gives finite work, and steps that wait for steps before them") {
  const unsigned seed = 20261121;
  INFO("seed " << seed);
  Draw draw(seed);
  int overlapping = 0, contexts = 0, mixtures = 0;
  for (int sound = 0; sound < 400;) {
    const Model model = draw.model();
    OrderedPlan plan = draw.plan();
    mend(model, &plan);
    if (!check_model(model, plan).ok()) continue;
    INFO("plan " << sound);
    require_sound(model, plan);
    ++sound;
    overlapping += plan.overlaps_tensor() ? 1 : 0;
    contexts += plan.cp > 1 ? 1 : 0;
    mixtures += model.is_moe() ? 1 : 0;
  }
  CHECK(overlapping > 50);
  CHECK(contexts > 50);
  CHECK(mixtures > 50);
}

// Adds random modules to what a plan offloads, and returns whether it may.
bool offload(const Model& model, Draw* draw, OrderedPlan* plan) {
  for (const OffloadModule& module : kOffloadModules)
    plan->offload_modules.*module.place = draw->coin() && draw->coin();
  if (draw->from(0, 3) == 0) {
    plan->offload_modules = {};
    plan->offload_layers = draw->from(1, model.layers);
  }
  return plan->offloads_activations() && check_model(model, *plan).ok();
}

TEST_CASE("offloaded plans hold no more, and none of their passes is shorter") {
  const unsigned seed = 20261126;
  INFO("seed " << seed);
  Draw draw(seed);
  int less = 0, longer = 0;
  for (int drawn = 0; drawn < 300;) {
    const Model model = draw.model();
    OrderedPlan kept = draw.plan();
    mend(model, &kept);
    OrderedPlan plan = kept;
    if (!check_model(model, kept).ok() || !offload(model, &draw, &plan)) continue;
    ++drawn;
    CostModel cost{a100().device, plan.precision};
    cost.device.host_link_bytes_per_s = draw.coin() ? 1e15 : 1e9;
    const bool hidden = cost.device.host_link_bytes_per_s > 1e12;
    const Workload before = make_workload(model, kept, cost);
    const Workload after =
        make_workload(model, plan, cost, 0, [&](const Model& layer, Recompute recompute) {
          return offloaded_activations(layer, plan, recompute).copied;
        });
    for (std::size_t s = 0; s < before.stages.size(); ++s) {
      for (auto pass : {&StageWork::forward, &StageWork::backward, &StageWork::backward_input,
                        &StageWork::backward_weight}) {
        require_sound(after, after.stages[s].*pass);
        REQUIRE(compute_ns(after.stages[s].*pass) >= compute_ns(before.stages[s].*pass));
        if (hidden) REQUIRE(after.stages[s].*pass == before.stages[s].*pass);
        longer += compute_ns(after.stages[s].*pass) > compute_ns(before.stages[s].*pass) ? 1 : 0;
      }
    }
    LiveActivations live = {{{}}};
    for (int s = 0; s < plan.stages(); ++s) live.ranks[0].push_back({Stage{s}, 2});
    const double spared =
        peak_memory(model, kept, live).activations - peak_memory(model, plan, live).activations;
    REQUIRE(spared >= 0);
    less += spared > 0 ? 1 : 0;
  }
  CHECK(less > 50);
  CHECK(longer > 50);
}

}  // namespace
}  // namespace tandem
