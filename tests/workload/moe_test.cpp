// Mixtures of experts: who holds what, what goes where, and totals that stay.
#include "workload/model/moe.h"
#include "workload/memory/memory.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/workload/workload_fixture.h"

namespace tandem {
namespace {

// 8 experts, 2 a token.
Model mixture() {
  return {.layers = 4,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 8,
          .ffn_hidden = 14336,
          .gated_mlp = true,
          .seq = 4096,
          .vocab = 32000,
          .experts = 8,
          .top_k = 2};
}

Plan expert_plan(int tp, int ep, int expert_tp = 0) {
  Plan plan = plan_of(tp, 1, 1);
  plan.dp = 8;
  plan.global_batch = 32;
  plan.ep = ep;
  plan.expert_tp = expert_tp;
  plan.sequence_parallel = tp > 1;
  plan.expert_sms = 5;
  return plan;
}

TEST_CASE("Mixtral 8x7B has 46.7 billion parameters, of which a token meets 12.9") {
  // Embedding and head apart: 46,702,792,704 in all, by its configuration; ours shares them and
  // leaves the last norm out.
  Model model = mixture();
  model.layers = 32;
  CHECK(parameters(model) + 32000.0 * 4096 + 4096 == 46'702'792'704.0);
  const double idle = 32.0 * (8 - 2) * expert_parameters(model);
  CHECK((parameters(model) + 32000.0 * 4096 - idle) / 1e9 == Approx(12.9).epsilon(0.003));
}

TEST_CASE("experts are cut ep and expert_tp ways, the router not at all") {
  const Model model = mixture();
  const double expert = 3.0 * 4096 * 14336, router = 4096.0 * 8;
  CHECK(expert_parameters(model) == expert);
  CHECK(router_parameters(model) == router);
  const double others = layer_parameters(model) - 8 * expert - router;
  for (const int tp : {1, 4}) {
    for (const int ep : {1, 2, 8}) {
      for (const int expert_tp : {1, tp}) {
        const HeldParameters held = share_of_equal_layers(model, expert_plan(tp, ep, expert_tp), 3);
        CHECK(held.dense == Approx(3 * (others / tp + router)).epsilon(1e-14));
        CHECK(held.expert == Approx(3 * 8 * expert / ep / expert_tp).epsilon(1e-14));
      }
    }
  }
}

// tp 4, an expert over 2: a rank routes a quarter of the tokens, two copies each, and gathers what
// arrived at its one neighbour.
TEST_CASE("GPUs that share an expert need not be those that share the rest") {
  const Bytes copies = 4096 / 4 * 2 * 4096 * 2;
  for (const int expert_tp : {2, 4, 8}) {
    Workload work;
    const StageWork stage = middle_stage(mixture(), expert_plan(4, 2, expert_tp), 1, &work);
    int gathers = 0;
    for (const Step& step : stage.forward.steps) {
      if (!step.among_experts) continue;
      CHECK(step.group_kind == GroupKind::Tensor);
      CHECK(step.bytes == copies * expert_tp);
      ++gathers;
    }
    CHECK(gathers == 2);  // there, and scattered on the way home
    const HeldParameters held = share_of_equal_layers(mixture(), expert_plan(4, 2, expert_tp), 1);
    CHECK(held.expert == Approx(8 * expert_parameters(mixture()) / 2 / expert_tp));
  }
}

TEST_CASE("a unit's expert bytes stand apart, and ZeRO cuts them by the experts' replicas") {
  Plan plan = expert_plan(4, 8, 1);
  const Workload work = make_workload(mixture(), plan, a100());
  const HeldParameters held = share_of_equal_layers(mixture(), plan, 1);
  const ParameterUnit& unit = work.stages[0].units[1];
  CHECK(unit.gradient_bytes == std::llround(4 * held.dense));
  CHECK(unit.expert_gradient_bytes == std::llround(4 * held.expert));
  CHECK(unit.expert_parameter_bytes == std::llround(2 * held.expert));
  // tp 4 x dp 8 over ep 8: four replicas of an expert, eight of the rest.
  plan.zero = 1;
  const Workload cut = make_workload(mixture(), plan, a100());
  const HeldParameters all = stage_parameters(mixture(), plan)[0];
  CHECK(to_seconds(cut.stages[0].optimizer->duration_ns) ==
        Approx(58 * (all.dense / 8 + all.expert / 4) / (0.85 * 2.039e12)).epsilon(1e-6));
}

TEST_CASE("tokens are dispatched and combined in all-to-alls of top_k copies, both ways") {
  for (const int tp : {1, 2}) {
    Workload work;
    const StageWork stage = middle_stage(mixture(), expert_plan(tp, 4, 1), 1, &work);
    // A rank's own tokens, s b / tp, twice.
    const Bytes copies = 4096 / tp * 2 * 4096 * 2;
    for (const auto pass : {&StageWork::forward, &StageWork::backward}) {
      CHECK(collectives(stage.*pass, CommKind::AllToAll) == Moved{2, 2 * copies});
      for (const Step& step : communication(stage.*pass, CommKind::AllToAll)) {
        CHECK(step.group_kind == GroupKind::Expert);
        CHECK(step.settings == CommSettings{.sms = 5});
      }
    }
    CHECK(collectives(stage.backward_weight, CommKind::AllToAll).count == 0);
  }
  Workload alone;
  const StageWork stage = middle_stage(mixture(), expert_plan(1, 1), 1, &alone);
  CHECK(collectives(stage.forward, CommKind::AllToAll).count == 0);
}

TEST_CASE("each expert gets its share of the tokens, the busiest rank more of them") {
  const auto rows = [](const Model& model, const Plan& plan) {
    const Block block = experts_block(model, plan, {});
    const Gemm& gemm = block.forward_parts.in.gemms[0];
    return std::pair(gemm.batch, gemm.m);
  };
  Model model = mixture();
  // 4096 tokens x 2 copies from each of 4 ranks, over 8 experts: 4096 rows each, two here.
  CHECK(rows(model, expert_plan(1, 4)) == std::pair<std::int64_t, std::int64_t>(2, 4096));
  // Tensor ranks route their own halves, and share experts or not.
  CHECK(rows(model, expert_plan(2, 4, 1)) == std::pair<std::int64_t, std::int64_t>(2, 2048));
  CHECK(rows(model, expert_plan(2, 4, 2)) == std::pair<std::int64_t, std::int64_t>(2, 4096));
  model.expert_imbalance = 1.25;
  CHECK(rows(model, expert_plan(1, 4)) == std::pair<std::int64_t, std::int64_t>(2, 5120));
  CHECK(expert_group(model, expert_plan(1, 4)).sent_bytes == 4096 * 2 * 4096 * 2 * 5 / 4);
  // One rank with all experts has them all, whatever they get.
  CHECK(rows(model, expert_plan(1, 1)) == std::pair<std::int64_t, std::int64_t>(8, 1024));
}

TEST_CASE("tensor ranks that share experts gather the tokens that arrive, and scatter the sums") {
  Workload shared, apart;
  const StageWork cut = middle_stage(mixture(), expert_plan(2, 4, 2), 1, &shared);
  const StageWork whole = middle_stage(mixture(), expert_plan(2, 4, 1), 1, &apart);
  const Bytes array = 4096 * 4096 * 2, arrived = 4096 * 2 * 4096 * 2;
  for (const auto pass : {&StageWork::forward, &StageWork::backward}) {
    CHECK(collectives(whole.*pass, CommKind::AllGather) == Moved{1, array});  // attention's
    CHECK(collectives(cut.*pass, CommKind::AllGather) == Moved{2, array + arrived});
    CHECK(collectives(cut.*pass, CommKind::ReduceScatter) == Moved{2, array + arrived});
  }
}

TEST_CASE("FLOPs add up over expert ranks: top_k experts, the router, the shared one") {
  for (const int shared : {0, 8192}) {
    for (const int tp : {1, 2}) {
      for (const int ep : {1, 2, 8}) {
        for (const int cp : {1, 2}) {
          Model model = mixture();
          model.shared_expert_ffn = shared;
          Plan plan = expert_plan(tp, ep, ep == 2 ? 1 : 0);
          plan.cp = cp;
          plan.recompute = ep == 8 ? Recompute::Full : Recompute::None;
          const Workload work = make_workload(model, plan, a100());
          CHECK(flops(work) * tp * cp * 8 * plan.microbatches() ==
                Approx(hardware_flops(model, plan)).epsilon(1e-12));
        }
      }
    }
  }
  // Forward and backward of 32 sequences: attention, 2 experts of 3 products, a router.
  const double h = 4096, s = 4096, B = 32;
  const double weights = 2 * h * h + 2 * h * 1024 + 2 * 3 * h * 14336 + h * 8;
  CHECK(model_flops(mixture(), expert_plan(1, 8)) ==
        Approx(3 * (4 * (2 * B * s * weights + 4 * B * s * s * h) + 2 * B * s * h * 32000))
            .epsilon(1e-12));
}

TEST_CASE("input and weight gradients of experts add up to the backward") {
  Model model = mixture();
  model.shared_expert_ffn = 8192;
  Workload work;
  const StageWork stage = middle_stage(model, expert_plan(2, 4, 2), 2, &work);
  CHECK(flops(work, stage.backward_input) + flops(work, stage.backward_weight) ==
        Approx(flops(work, stage.backward)).epsilon(1e-14));
  CHECK(memory_bytes(work, stage.backward_input) + memory_bytes(work, stage.backward_weight) ==
        Approx(memory_bytes(work, stage.backward)).epsilon(1e-12));
}

TEST_CASE("the shared expert runs beside the dispatch, and the addition waits for both") {
  Model model = mixture();
  model.shared_expert_ffn = 8192;
  Workload work;
  const StageWork stage = middle_stage(model, expert_plan(1, 4), 1, &work);
  const std::vector<Step>& steps = stage.forward.steps;
  const auto place = [&](const std::string& name) {
    const auto is_it = [&](const Step& step) { return name_of(work, step) == name; };
    return static_cast<int>(std::ranges::find_if(steps, is_it) - steps.begin());
  };
  const int dispatch = place("mlp norm and router forward") + 1;
  CHECK(steps[dispatch].collective == CommKind::AllToAll);
  CHECK(place("fc1 forward") == dispatch + 1);
  CHECK(steps[dispatch + 1].waits.empty());
  CHECK(steps[place("experts fc1 forward")].waits == Waits{dispatch});
  CHECK(stage.forward.output == place("combination forward"));
  // A dispatch as long as the shared expert costs nothing, the combination all of it.
  const Nanoseconds shared = steps[place("fc1 forward")].duration_ns +
                             steps[place("activation forward")].duration_ns +
                             steps[place("fc2 forward")].duration_ns;
  CHECK(makespan(stage.forward, [&](const Step&) { return shared; }) ==
        to_ns(seconds(stage.forward)) + shared);
}

TEST_CASE("memory holds the experts' share, and the tokens that came") {
  const Model model = mixture();
  Plan plan = expert_plan(1, 4);
  plan.zero = 1;
  plan.trainer = Trainer::Torchtitan;  // has no dummy gradients
  const LiveActivations live = {{{{Stage{0}, 1}}}};
  const MemoryUse use = peak_memory(model, plan, live);
  const HeldParameters held = stage_parameters(model, plan)[0];
  CHECK(use.weights == 2 * held.total());
  CHECK(use.gradients == 4 * held.total());
  // 8 replicas, and 8 / 4 of an expert.
  CHECK(use.optimizer == Approx(12 * (held.dense / 8 + held.expert / 2)).epsilon(1e-14));
  CHECK(use.communication == 2.0 * 4096 * 2 * 4096 * 2);  // sent and got
  // A token: norms and inputs 4 h, Q and the projection's input 2 h, K and V 2 x 1024, attention's
  // matrix; twice an expert's input h and inner arrays 3 f; two bytes each. The router's logits, 4
  // bytes.
  CHECK(activation_bytes_per_layer(model, plan) ==
        4096.0 * (2 * (6 * 4096 + 2 * 1024 + 32 * 4096 + 2 * (4096 + 3 * 14336)) + 4 * 8));
  // Recompute drops the activation's output, f, and without a gate also its product with the
  // router's probabilities.
  Model plain = model;
  plain.gated_mlp = false;
  Plan again = plan;
  again.recompute = Recompute::Selective;
  again.recompute_modules = {.core_attn = false, .moe_act = true};
  const auto dropped = [&](const Model& of) {
    return activation_bytes_per_layer(of, plan) - activation_bytes_per_layer(of, again);
  };
  CHECK(dropped(model) == 4096.0 * 2 * 2 * 14336);
  CHECK(dropped(plain) == 2 * dropped(model));
}

TEST_CASE("Transformers' own layers hold more: RMSNorm's fp32 input, and the gates' activations") {
  const Model model = mixture();
  Plan plan = expert_plan(1, 4);
  plan.trainer = Trainer::Torchtitan;
  const double fused = activation_bytes_per_layer(model, plan);
  for (const Trainer trainer : {Trainer::DeepSpeed, Trainer::Fsdp}) {
    plan.trainer = trainer;
    // Of 4096 tokens: 4 bytes a number of two norms, and of two experts' gates 2 each.
    CHECK(activation_bytes_per_layer(model, plan) ==
          fused + 4096.0 * (2 * 4 * 4096 + 2 * 2 * 14336));
    // GPT's LayerNorm and GELU are single kernels anyway.
    CHECK(activation_bytes_per_layer(gpt_22b(), plan) ==
          activation_bytes_per_layer(gpt_22b(), expert_plan(1, 4)));
  }
}

TEST_CASE("a dispatcher sends copies of tokens, all tokens, or one copy a GPU or node") {
  // 8 experts on 4 GPUs, of which a token takes 2: the second lies beside the first in 1 of 7
  // cases, so that it goes to 2 - 1/7 GPUs; of 2 nodes to 1 + 4/7.
  Model model = mixture();
  const double token = 4096 * 2.0;
  Plan plan = expert_plan(1, 4);
  const auto sent = [&](Dispatcher dispatcher, int nodes) {
    plan.dispatcher = dispatcher;
    plan.expert_nodes = nodes;
    return static_cast<double>(expert_group(model, plan).sent_bytes) / (4096 * token);
  };
  CHECK(sent(Dispatcher::AllToAll, 2) == 2);
  CHECK(sent(Dispatcher::AllGather, 2) == 4);
  CHECK(sent(Dispatcher::DeepEp, 1) == Approx(2 - 1.0 / 7).epsilon(1e-6));
  CHECK(sent(Dispatcher::HybridEp, 2) == Approx(1 + 4.0 / 7).epsilon(1e-6));
  // Both experts in one of 2 groups, which lies on one of 2 nodes, or on 2 of 4 GPUs.
  model.router_groups = 2;
  model.router_topk_groups = 1;
  CHECK(sent(Dispatcher::HybridEp, 2) == 1);
  CHECK(sent(Dispatcher::DeepEp, 1) == Approx(2 * (1 - 1.0 / 6)).epsilon(1e-6));
}

TEST_CASE("tokens that go out in fp8 come back in 16 bits") {
  Plan plan = expert_plan(1, 4);
  const ExpertGroup whole = expert_group(mixture(), plan);
  plan.fp8_dispatch = true;
  const ExpertGroup half = expert_group(mixture(), plan);
  CHECK(whole.sent_bytes == whole.returned_bytes);
  CHECK(half.returned_bytes == whole.returned_bytes);
  // A number is a byte, and 128 of them have a scale of four.
  CHECK(half.sent_bytes * 2 * 128 == whole.sent_bytes * (128 + 4));
  Workload work;
  const StageWork stage = middle_stage(mixture(), plan, 1, &work);
  for (const auto pass : {&StageWork::forward, &StageWork::backward})
    CHECK(collectives(stage.*pass, CommKind::AllToAll) ==
          Moved{2, half.sent_bytes + half.returned_bytes});
}

TEST_CASE("DeepEP takes 20 SMs, which have so much time for a copy and its bytes") {
  Plan plan = expert_plan(1, 4);
  plan.expert_sms = 0;
  ClusterSpec cluster;
  DeviceSpec& device = cluster.device;
  device.deepep_launch_s = 50e-6;
  device.deepep_copy_s = 0.1e-6;
  device.deepep_sm_bytes_per_s = 8192e6;  // a copy of 8192 bytes: a microsecond
  CHECK_FALSE(exchange_kernel(mixture(), plan, cluster));
  CHECK(expert_group(mixture(), plan).sms == 0);
  plan.dispatcher = Dispatcher::DeepEp;
  CHECK(expert_group(mixture(), plan).sms == 20);
  const auto kernel = exchange_kernel(mixture(), plan, cluster);
  REQUIRE(kernel);
  CHECK(kernel->launch_s == 50e-6);
  CHECK(kernel->bytes_per_s == Approx(20 * 8192 / 1.1e-6));
  plan.expert_sms = 5;
  CHECK(exchange_kernel(mixture(), plan, cluster)->bytes_per_s == Approx(5 * 8192 / 1.1e-6));
  device.deepep_sm_bytes_per_s = 0;
  CHECK_FALSE(exchange_kernel(mixture(), plan, cluster));
}

// 16 GPUs on two nodes, 256 experts, 8 a token: with one node at least 1, so 2 (1 - 128!/120! /
// (256!/248!)) nodes; and 16 (1 - 240!/232! / (256!/248!)) GPUs.
TEST_CASE("over nodes a token's second copies go over NVLink, which may be the slower") {
  Model model = mixture();
  model.experts = 256;
  model.top_k = 8;
  Plan plan = expert_plan(1, 16);
  plan.dispatcher = Dispatcher::DeepEp;
  plan.expert_nodes = 2;
  double no_node = 1, no_gpu = 1;
  for (int i = 0; i < 8; ++i) {
    no_node *= (128.0 - i) / (256 - i);
    no_gpu *= (240.0 - i) / (256 - i);
  }
  const TokenCopies copies = copies_over_nodes(model, plan);
  CHECK(copies.nodes == Approx(2 * (1 - no_node)).epsilon(1e-12));
  CHECK(copies.gpus == Approx(16 * (1 - no_gpu)).epsilon(1e-12));
  ClusterSpec cluster;
  cluster.intra_bytes_per_s = 200e9;
  cluster.intra_efficiency = 0.8;
  cluster.device.deepep_sm_bytes_per_s = 1e12;  // 5 SMs: far more than the links
  // Seven of eight second copies leave a GPU, at 160 GB/s.
  const double limit = exchange_kernel(model, plan, cluster)->bytes_per_s;
  CHECK(limit == Approx(160e9 * 8 / 7 * copies.nodes / copies.gpus).epsilon(1e-12));
  plan.dispatcher = Dispatcher::HybridEp;
  CHECK(exchange_kernel(model, plan, cluster)->bytes_per_s == limit);
  CHECK(exchange_kernel(model, plan, cluster)->launch_s == 0);
  // One GPU of each node: nothing to send on.
  plan.expert_nodes = 16;
  CHECK_FALSE(exchange_kernel(model, plan, cluster));
  // SMs that are slower than NVLink carry both legs, at three quarters of their rate inside a node.
  plan.expert_nodes = 2;
  plan.dispatcher = Dispatcher::DeepEp;
  cluster.device.deepep_sm_bytes_per_s = 10e9;
  CHECK(exchange_kernel(model, plan, cluster)->bytes_per_s ==
        Approx(0.75 * 5 * 10e9 * copies.nodes / (copies.nodes + copies.gpus)).epsilon(1e-12));
}

TEST_CASE("all-gathered tokens come back by reduce-scatter, and are kept") {
  Plan plan = expert_plan(1, 4);
  const double copies = activation_bytes_per_layer(mixture(), plan);
  plan.dispatcher = Dispatcher::AllGather;
  Workload work;
  const StageWork stage = middle_stage(mixture(), plan, 1, &work);
  const Bytes all = Bytes{4} * 4096 * 4096 * 2;
  for (const auto pass : {&StageWork::forward, &StageWork::backward}) {
    CHECK(collectives(stage.*pass, CommKind::AllGather) == Moved{1, all});
    CHECK(collectives(stage.*pass, CommKind::ReduceScatter) == Moved{1, all});
    CHECK(collectives(stage.*pass, CommKind::AllToAll) == Moved{0, 0});
  }
  CHECK(activation_bytes_per_layer(mixture(), plan) - copies == static_cast<double>(all));
}

TEST_CASE("an all-gather of tokens moves all of them, however they are routed") {
  Model model = mixture();
  Plan plan = expert_plan(4, 4, 2);
  plan.dispatcher = Dispatcher::AllGather;
  const auto moved = [&] {
    const ExpertGroup group = expert_group(model, plan);
    return std::vector<Bytes>{group.sent_bytes, group.returned_bytes, group.tensor_bytes};
  };
  const auto buffers = [&] {
    return peak_memory(model, plan, {.ranks = {{{Stage{0}, 1}}}}).communication;
  };
  // 1024 tokens of each rank: of 4 ranks, and then of the 2 that share an expert.
  const Bytes all = Bytes{4} * 1024 * 4096 * 2;
  const std::vector<Bytes> even = {all, all, 2 * all};
  const double even_buffers = buffers();
  CHECK(moved() == even);
  model.expert_imbalance = 2;
  CHECK(moved() == even);
  CHECK(buffers() == even_buffers);
  CHECK(experts_block(model, plan, {}).forward_parts.in.gemms[0].m == 2 * 2048);
  model.expert_imbalance = 1;
  model.capacity_factor = 0.5;
  model.pad_to_capacity = true;
  CHECK(moved() == even);
  CHECK(buffers() == even_buffers);
}

TEST_CASE("an exchange hides shared experts that run beside it, and none that run ahead") {
  Model model = mixture();
  model.shared_expert_ffn = 1024;
  Plan plan = expert_plan(1, 4);
  constexpr Nanoseconds kLong = 1'000'000'000;
  for (const auto pass : {&StageWork::forward, &StageWork::backward}) {
    const auto shown = [&](bool beside) {
      plan.shared_expert_overlap = beside;
      Workload work;
      const StageWork stage = middle_stage(model, plan, 1, &work);
      return makespan(stage.*pass, [](const Step&) { return kLong; }) -
             makespan(stage.*pass, [](const Step&) { return Nanoseconds{0}; });
    };
    CHECK(shown(false) == 2 * kLong);
    CHECK(shown(true) < 2 * kLong);
    CHECK(shown(true) > kLong);
  }
}

TEST_CASE("delayed weight gradients run beside the exchange behind their inputs'") {
  Plan plan = expert_plan(1, 4);
  Workload work;
  const auto backward_s = [&](bool delay) {
    plan.delay_wgrad = delay;
    const StageWork stage = middle_stage(mixture(), plan, 1, &work);
    // An exchange as long as the experts' weight gradients.
    Nanoseconds gradients = 0;
    for (const Step& step : stage.backward.steps) {
      const std::string name = step.computes ? name_of(work, step) : "";
      if (name.starts_with("experts fc") && name.ends_with("weight gradient"))
        gradients += step.duration_ns;
    }
    REQUIRE(gradients > 0);
    return std::pair{makespan(stage.backward, [&](const Step&) { return gradients; }), gradients};
  };
  const auto [now, gradients] = backward_s(false);
  const auto [later, unused] = backward_s(true);
  CHECK(now - later == gradients);
}

}  // namespace
}  // namespace tandem
