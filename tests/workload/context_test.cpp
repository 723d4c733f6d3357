// Context parallelism and fused attention: tokens cut, keys and values passed on, and totals that
// stay.
#include "workload/model/context.h"
#include "workload/memory/memory.h"

#include <catch2/catch.hpp>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/memory.h"

namespace tandem {
namespace {

// Grouped keys and values, so that their bytes are not the queries'.
Model grouped() {
  return {.layers = 4,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 8,
          .ffn_hidden = 14336,
          .gated_mlp = true,
          .seq = 8192,
          .vocab = 32768};
}

Plan context_plan(int cp, ContextComm comm, bool overlap = false, int tp = 1) {
  Plan plan = plan_of(tp, 1, 1);
  plan.cp = cp;
  plan.context_comm = comm;
  plan.overlap_context = overlap;
  plan.context_sms = 3;
  plan.sequence_parallel = tp > 1;
  return plan;
}

// Its own keys and values: 2 x (s / cp) x b x 1024 columns / tp x 2 bytes.
Bytes key_values(int cp, int tp = 1) { return 2 * (8192 / cp) * 1024 / tp * 2; }

std::vector<Nanoseconds> core_parts(const Workload& work, const Pass& pass) {
  std::vector<Nanoseconds> parts;
  for (const Step& step : pass.steps) {
    if (name_of(work, step).starts_with("attention core")) parts.push_back(step.duration_ns);
  }
  return parts;
}

TEST_CASE("a ring attends in cp parts, with cp - 1 shifts of a rank's keys and values") {
  for (const int cp : {2, 4, 8}) {
    for (const bool overlap : {false, true}) {
      Workload work;
      Plan plan = context_plan(cp, ContextComm::Ring, overlap);
      plan.cuda_graphs = true;  // no launches of the CPU's, which may take longer than a part
      const StageWork stage = middle_stage(grouped(), plan, 1, &work);
      for (const auto pass : {&StageWork::forward, &StageWork::backward}) {
        const std::vector<Nanoseconds> parts = core_parts(work, stage.*pass);
        CHECK(static_cast<int>(parts.size()) == cp);
        // Each part but the first adds what it found to what was found before.
        CHECK(parts[1] > parts[0]);
        for (int i = 2; i < cp; ++i) CHECK(parts[i] == parts[1]);
        // The backward's shifts carry gradients as well.
        const Bytes bytes = (pass == &StageWork::backward ? 2 : 1) * key_values(cp);
        CHECK(collectives(stage.*pass, CommKind::RingShift) == Moved{cp - 1, (cp - 1) * bytes});
      }
      const std::vector<Step> shifts = communication(stage.forward, CommKind::RingShift);
      CHECK(shifts.back().group_kind == GroupKind::Context);
      CHECK(shifts.back().settings == CommSettings{.part = static_cast<std::int16_t>(cp - 2),
                                                   .parts = static_cast<std::int16_t>(cp - 1),
                                                   .sms = 3});
    }
  }
}

TEST_CASE("an overlapped ring exposes max(0, step - part) a step, another one every step") {
  const int cp = 4;
  for (const auto pass : {&StageWork::forward, &StageWork::backward}) {
    Workload work;
    const auto stage = [&](bool overlap) {
      return middle_stage(grouped(), context_plan(cp, ContextComm::Ring, overlap), 1, &work);
    };
    const Pass beside = stage(true).*pass, between = stage(false).*pass;
    const std::vector<Nanoseconds> parts = core_parts(work, beside);
    const Nanoseconds compute = to_ns(seconds(beside));
    for (const Nanoseconds step : {parts[0] / 2, parts[0], 3 * parts[0]}) {
      const auto comm_ns = [&](const Step&) { return step; };
      Nanoseconds exposed = 0;
      for (int i = 0; i + 1 < cp; ++i) exposed += std::max<Nanoseconds>(0, step - parts[i]);
      CHECK(makespan(beside, comm_ns) - compute == exposed);
      CHECK(makespan(between, comm_ns) - compute == (cp - 1) * step);
    }
  }
}

// A rank's 2048 positions: 4096 columns of queries, 2048 of keys and values. fp32 read and written,
// 16 bits read.
TEST_CASE("a ring's sums pass over 10 bytes a number: the output, and the gradients of all") {
  const ContextGroup group = context_group(grouped(), context_plan(4, ContextComm::Ring));
  CHECK(group.merge_bytes == 10.0 * 2048 * 4096);
  CHECK(group.merge_gradient_bytes == 10.0 * 2048 * (4096 + 2048));
}

TEST_CASE("gathered keys and values: once forward, once again and summed backward") {
  const int cp = 4;
  Workload work;
  const StageWork stage =
      middle_stage(grouped(), context_plan(cp, ContextComm::AllGather), 1, &work);
  const Bytes whole = cp * key_values(cp);
  CHECK(collectives(stage.forward, CommKind::AllGather) == Moved{1, whole});
  CHECK(collectives(stage.forward, CommKind::ReduceScatter).count == 0);
  CHECK(collectives(stage.backward, CommKind::AllGather) == Moved{1, whole});
  CHECK(collectives(stage.backward, CommKind::ReduceScatter) == Moved{1, whole});
  CHECK(core_parts(work, stage.forward).size() == 1);
  CHECK(makespan(stage.backward, [](const Step&) { return 1000; }) ==
        to_ns(seconds(stage.backward)) + 2000);
}

TEST_CASE("heads for positions: q, k, v before the core and its output behind it, both ways") {
  const int cp = 4;
  Workload work;
  const StageWork stage =
      middle_stage(grouped(), context_plan(cp, ContextComm::AllToAll), 1, &work);
  const Bytes queries = 8192 / cp * 4096 * 2;
  for (const auto pass : {&StageWork::forward, &StageWork::backward}) {
    const std::vector<Step> exchanges = communication(stage.*pass, CommKind::AllToAll);
    REQUIRE(exchanges.size() == 2);
    const bool forward = pass == &StageWork::forward;
    CHECK(exchanges[forward ? 0 : 1].bytes == queries + key_values(cp));
    CHECK(exchanges[forward ? 1 : 0].bytes == queries);
  }
  // Whole sequences, a quarter of the heads: 32 / 4 matrices of 8192 x 8192.
  for (const Kernel& kernel : work.kernels) {
    if (kernel.name == "attention core forward")
      CHECK(kernel.gemms[0] ==
            Gemm{.batch = 8, .m = 8192, .n = 8192, .k = 128, .in_16_bits = true});
  }
}

// Megatron-LM's MambaContextParallel and GatedDeltaNet exchange all that the first product gives.
TEST_CASE("a scan's heads for positions: all that it reads before it, its output behind it") {
  const auto exchanged = [](const Model& model, const Plan& plan) {
    Workload work;
    const StageWork stage = middle_stage(model, plan, 1, &work);
    const std::vector<Step> steps = communication(stage.forward, CommKind::AllToAll);
    REQUIRE(steps.size() == 2);
    const double number = 2.0 * 8192 / plan.cp;
    return std::pair(static_cast<double>(steps[0].bytes) / number,
                     static_cast<double>(steps[1].bytes) / number);
  };
  const Plan plan = context_plan(4, ContextComm::AllToAll);
  Model mamba = grouped();
  mamba.mixer = Mixer::Mamba;
  mamba.mamba_heads = 128;
  mamba.mamba_head_dim = 64;
  mamba.mamba_state = 128;
  mamba.mamba_groups = 8;
  // Gate and input, B and C, a step for each head.
  CHECK(exchanged(mamba, plan) == std::pair(2 * 8192.0 + 2 * 8 * 128 + 128, 8192.0));
  mamba.mamba_groups = 2;  // each group's B and C go to two ranks
  CHECK(exchanged(mamba, plan) == std::pair(2 * 8192.0 + 2 * 4 * 128 + 128, 8192.0));
  Model delta = grouped();
  delta.mixer = Mixer::Linear;
  delta.linear_key_heads = 16;
  delta.linear_value_heads = 32;
  delta.linear_key_head_dim = 64;
  delta.linear_value_head_dim = 128;
  delta.linear_conv = 4;
  // Queries and keys, values and gate, two numbers for each head.
  CHECK(exchanged(delta, plan) == std::pair(2 * 1024 + 2 * 4096 + 2 * 32.0, 4096.0));
}

TEST_CASE("latent attention's output goes back with its values' size") {
  Model latent = grouped();
  latent.mixer = Mixer::Latent;
  latent.kv_lora_rank = 512;
  latent.qk_nope_head_dim = 128;
  latent.qk_rope_head_dim = 64;
  latent.v_head_dim = 128;
  const ContextGroup group = context_group(latent, context_plan(4, ContextComm::AllToAll));
  const Bytes number = 2 * 8192 / 4;
  CHECK(group.input_bytes == number * 32 * (192 + 192 + 128));
  CHECK(group.output_bytes == number * 32 * 128);
  const ContextGroup ring = context_group(latent, context_plan(4, ContextComm::Ring));
  CHECK(ring.merge_bytes == 10.0 * 2048 * 32 * 128);
  CHECK(ring.merge_gradient_bytes == 10.0 * 2048 * 32 * (192 + 192 + 128));
}

TEST_CASE("context ranks' FLOPs add up to the whole's, however they attend") {
  for (const ContextComm comm :
       {ContextComm::Ring, ContextComm::AllGather, ContextComm::AllToAll}) {
    for (const int cp : {1, 2, 8}) {
      for (const int tp : {1, 2}) {
        if (comm == ContextComm::AllToAll && cp * tp > 8) continue;  // 8 kv heads
        for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
          for (const bool flash : {false, true}) {
            Plan plan = context_plan(cp, comm, false, tp);
            plan.recompute = recompute;
            plan.flash_attention = flash;
            const Workload work = make_workload(grouped(), plan, a100());
            CHECK(flops(work) * tp * cp * plan.microbatches() ==
                  Approx(hardware_flops(grouped(), plan, computed(plan))).epsilon(1e-12));
          }
        }
      }
    }
  }
}

TEST_CASE("cp cuts the activations: tensor collectives, pipeline transfers, memory, the head") {
  Plan plan = context_plan(1, ContextComm::Ring, false, 2);
  plan.pp = 2;
  const Workload whole = make_workload(grouped(), plan, a100());
  const double kept = activation_bytes_per_layer(grouped(), plan);
  plan.cp = 4;
  const Workload cut = make_workload(grouped(), plan, a100());
  CHECK(cut.pipeline_bytes * 4 == whole.pipeline_bytes);
  CHECK(collectives(cut.stages[1].forward, CommKind::AllReduce).bytes * 4 ==
        collectives(whole.stages[1].forward, CommKind::AllReduce).bytes);
  CHECK(collectives(cut.stages[0].forward, CommKind::AllGather).bytes * 4 ==
        collectives(whole.stages[0].forward, CommKind::AllGather).bytes);
  CHECK(activation_bytes_per_layer(grouped(), plan) == Approx(kept / 4).epsilon(1e-14));
  // Parameters are whole on each of them.
  CHECK(cut.stages[0].units[1].gradient_bytes == whole.stages[0].units[1].gradient_bytes);
}

TEST_CASE("fused attention counts the causal half forward, and 2.5 times that backward") {
  Plan plan = plan_of(1, 1, 1);
  plan.flash_attention = true;
  Workload work;
  const StageWork stage = middle_stage(grouped(), plan, 1, &work);
  const Kernel& forward = work.kernels[stage.forward.steps[0].kernel];
  const Kernel& backward = work.kernels[stage.backward.steps[0].kernel];
  // Two products of 2 x 32 x 8192 x 8192 x 128, halved.
  const double core = 2.0 * 32 * 8192 * 8192 * 128;
  CHECK(forward.attention_flops == core);
  CHECK(backward.attention_flops == 2.5 * core);
  CHECK(forward.gemms.size() == 4);  // qkv, projection, fc1, fc2
  // The matrix's passes are gone: 6.7 of 2 bytes forward, 6.25 backward.
  plan.flash_attention = false;
  Workload unfused;
  const StageWork other = middle_stage(grouped(), plan, 1, &unfused);
  const double matrix = 2.0 * 32 * 8192 * 8192;
  CHECK(memory_bytes(unfused, other.forward) - memory_bytes(work, stage.forward) ==
        Approx(6.7 * matrix).epsilon(1e-9));
  CHECK(memory_bytes(unfused, other.backward) - memory_bytes(work, stage.backward) ==
        Approx(6.25 * matrix).epsilon(1e-9));
}

TEST_CASE("with fused attention selective recompute has nothing to do") {
  for (const int tp : {1, 8}) {
    Plan plan = plan_of(tp, 1, 1);
    plan.flash_attention = true;
    const Workload none = make_workload(grouped(), plan, a100());
    const double kept = activation_bytes_per_layer(grouped(), plan);
    plan.recompute = Recompute::Selective;
    const Workload selective = make_workload(grouped(), plan, a100());
    CHECK(selective.stages[0].backward == none.stages[0].backward);
    CHECK(selective.kernels == none.kernels);
    CHECK(activation_bytes_per_layer(grouped(), plan) == kept);
    // Selective recompute adds nothing to what the fused backward repeats: of the forward core's
    // two products, 4 B s^2 h a layer, the scores once more.
    const double core = 4.0 * plan.global_batch * 8192 * 8192 * grouped().hidden;
    CHECK(hardware_flops(grouped(), plan) - model_flops(grouped(), plan) ==
          Approx(grouped().layers * 0.5 * core).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace tandem
