// An optimizer that is partly on the CPU, launches in graphs, experts of bounded capacity,
// documents.
#include <catch2/catch.hpp>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/memory.h"
#include "workload/model/blocks.h"

namespace tandem {
namespace {

TEST_CASE("what the CPU updates is not on the GPU, and takes its link's and its memory's time") {
  CostModel cost = a100();
  cost.device.host_link_bytes_per_s = 32e9;
  cost.device.host_memory_bytes_per_s = 50e9;
  OrderedPlan plan(plan_of(1));
  plan.precision = cost.precision = "bf16";
  const HeldParameters held = {.dense = 1e9};
  const auto step_s = [&] {
    return to_seconds(kernel_ns(cost, optimizer_kernel(plan, held, 0, {}, cost.profile)));
  };
  const LiveActivations live = {{{{Stage{0}, 0}}}};
  const double on_gpu = peak_memory(gpt_22b(), plan, live).optimizer;
  // 58 bytes a parameter at 85 % of 2.039 TB/s; or beside half of it half of the parameters: fp32
  // gradients down and bf16 parameters up, 6 bytes; Adam reads and writes its 12, and reads and
  // writes these 6.
  CHECK(step_s() == Approx(58.0 / (0.85 * 2039)).epsilon(1e-6));
  plan.optimizer_offload = 0.5;
  CHECK(step_s() == Approx(0.5 * (6 / 32.0 + 30 / 50.0)).epsilon(1e-6));
  CHECK(peak_memory(gpt_22b(), plan, live).optimizer == Approx(on_gpu / 2).epsilon(1e-14));
}

TEST_CASE("what is not in a graph is launched by the CPU") {
  const FrameworkProfile profile;
  Plan plan = plan_of(1);
  const auto launches = [&] {
    return std::array{attention_block(gpt_22b(), plan, profile).forward.launch_s > 0,
                      mlp_block(gpt_22b(), plan, profile).forward.launch_s > 0,
                      head_block(gpt_22b(), plan, profile).forward.launch_s > 0};
  };
  CHECK(launches() == std::array{true, true, true});
  plan.cuda_graphs = true;
  CHECK(launches() == std::array{false, false, false});
  plan.cuda_graph_modules = {.mlp = false, .head = false};
  CHECK(launches() == std::array{false, true, true});
}

TEST_CASE(
    "where the CPU waits for counts of tokens, graphs of a part of the experts spare nothing") {
  FrameworkProfile profile;
  profile.expert_launch_s = 3e-3;
  Model model = gpt_22b();
  model.experts = 8;
  model.top_k = 2;
  Plan plan = plan_of(1);
  plan.ep = 8;
  const double rest = experts_block(model, plan, profile).forward.launch_s;
  plan.cuda_graphs = true;
  plan.cuda_graph_modules.moe = false;
  CHECK(experts_block(model, plan, profile).forward.launch_s == rest);
  plan.cuda_graph_modules = {};
  CHECK(experts_block(model, plan, profile).forward.launch_s == 0);
}

TEST_CASE("of padded experts' launches a graph of router or preprocessing takes a third") {
  FrameworkProfile profile;
  profile.expert_launch_s = 3e-3;
  Model model = gpt_22b();
  model.experts = 8;
  model.top_k = 2;
  const Model dropless = model;
  model.capacity_factor = 1;
  model.pad_to_capacity = true;
  Plan plan = plan_of(1);
  plan.ep = 8;
  const auto launch_s = [&](CudaGraphModules modules) {
    modules.moe = false;
    plan.cuda_graph_modules = modules;
    return experts_block(model, plan, profile).forward.launch_s;
  };
  const double rest = launch_s({});
  CHECK(experts_block(dropless, plan, profile).forward.launch_s - rest == Approx(0.3 * 3e-3));
  plan.cuda_graphs = true;
  CHECK(launch_s({.moe_router = false, .moe_preprocess = false}) == rest);
  CHECK(launch_s({.moe_router = false}) == Approx(rest - 0.7e-3));
  CHECK(launch_s({}) == Approx(rest - 1.4e-3));
  plan.cuda_graph_modules = {};
  CHECK(experts_block(model, plan, profile).forward.launch_s == 0);
}

TEST_CASE("an expert takes its capacity at most, or always") {
  Model model = gpt_22b();
  model.experts = 8;
  model.top_k = 2;
  model.expert_imbalance = 1.8;
  Plan plan = plan_of(1);
  plan.ep = 8;
  CHECK(expert_load(model, plan) == 1.8);
  model.capacity_factor = 1.25;
  CHECK(expert_load(model, plan) == 1.25);
  model.expert_imbalance = 1;
  CHECK(expert_load(model, plan) == 1);
  model.pad_to_capacity = true;
  CHECK(expert_load(model, plan) == 1.25);
}

TEST_CASE("an imbalance drops the busiest rank's excess over its capacity, at least") {
  Model model = gpt_22b();
  model.experts = 8;
  model.top_k = 2;
  model.expert_imbalance = 3;
  Plan plan = plan_of(1);
  plan.ep = 8;
  CHECK(dropped_share(model, plan) == 0);  // no capacity
  CHECK_FALSE(equal_expert_loads(model, plan));
  model.capacity_factor = 1;
  CHECK(dropped_share(model, plan) == 2.0 / 8);
  CHECK_FALSE(equal_expert_loads(model, plan));
  // The busiest rank takes 0.5 of 3, the seven others 3.5 of 5.
  model.capacity_factor = 0.5;
  CHECK(dropped_share(model, plan) == 4.0 / 8);
  model.capacity_factor = 3;
  CHECK(dropped_share(model, plan) == 0);
  model.expert_imbalance = 1;
  model.capacity_factor = 0.5;
  CHECK(dropped_share(model, plan) == 0.5);
  CHECK(equal_expert_loads(model, plan));
}

TEST_CASE("hardware computes the tokens that a capacity leaves, and padding") {
  Model model = gpt_22b();
  model.experts = 8;
  model.top_k = 2;
  Plan plan = plan_of(1);
  plan.ep = 8;
  const double all = hardware_flops(model, plan), model_all = model_flops(model, plan);
  const double experts = 3.0 * model.layers * 2 * plan.global_batch * model.seq * 2 *
                         mlp_matrices(model) * model.hidden * model.expert_ffn();
  model.capacity_factor = 1.25;
  CHECK(hardware_flops(model, plan) == all);
  model.capacity_factor = 0.5;
  CHECK(hardware_flops(model, plan) == Approx(all - experts / 2).epsilon(1e-12));
  CHECK(model_flops(model, plan) == model_all);
  model.capacity_factor = 1.25;
  model.pad_to_capacity = true;
  CHECK(hardware_flops(model, plan) == Approx(all + experts / 4).epsilon(1e-12));
}

TEST_CASE("documents of a packed sequence attend to themselves alone, in a window or not") {
  Model model = gpt_22b();  // 2048 positions
  model.document = 512;
  CHECK(attended_share(model) == 0.125);
  model.window = 256;  // half of a document: 1/2 - 1/8 of it
  CHECK(attended_share(model) == 0.375 / 4);
  model.attention_chunk = 256;
  CHECK(attended_share(model) == 0.5 / 8);
}

TEST_CASE("chunks and documents that do not divide the sequence leave a shorter one at its end") {
  for (int Model::*part : {&Model::attention_chunk, &Model::document}) {
    Model model = gpt_22b();
    model.seq = 12288;
    model.*part = 8192;  // two thirds, and a third
    CHECK(attended_share(model) == Approx((4 + 1) / 9.0 / 2).epsilon(1e-14));
    model.window = 6144;  // 3/4 of the first, and all of the last
    CHECK(attended_share(model) == Approx((4 * (0.75 - 0.75 * 0.75 / 2) + 0.5) / 9).epsilon(1e-14));
    model.window = 0;
    model.*part = 12289;
    CHECK(attended_share(model) == 0.5);
  }
}

}  // namespace
}  // namespace tandem
