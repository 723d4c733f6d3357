// The model's arithmetic and memory against published closed forms and counts; and the rules.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/memory.h"

namespace tandem {
namespace {

Model gpt(int layers, int hidden, int heads) {
  return {.layers = layers, .hidden = hidden, .heads = heads, .seq = 2048, .vocab = 51200};
}

Model llama2_70b() {
  return {.layers = 80,
          .hidden = 8192,
          .heads = 64,
          .kv_heads = 8,
          .ffn_hidden = 28672,
          .gated_mlp = true,
          .seq = 4096,
          .vocab = 32000};
}

Plan two_replicas(int tp, int pp, int vpp = 1) {
  return {.tp = tp, .pp = pp, .vpp = vpp, .dp = 2, .micro_batch = 2, .global_batch = 16};
}

TEST_CASE("the ten models of Narayanan et al. 2021, table 1, have the parameters in their names") {
  struct Row {
    int layers, hidden, heads;
    double billions;
  };
  const Row rows[] = {{24, 2304, 24, 1.7},      {30, 3072, 32, 3.6},     {36, 4096, 32, 7.5},
                      {40, 6144, 48, 18.4},     {48, 8192, 64, 39.1},    {60, 10240, 80, 76.1},
                      {80, 12288, 96, 145.6},   {96, 16384, 128, 310.1}, {105, 20480, 128, 529.6},
                      {128, 25600, 160, 1008.0}};
  for (const Row& row : rows) {
    const double h = row.hidden, l = row.layers;
    const double count = parameters(gpt(row.layers, row.hidden, row.heads));
    // Equation 2, and its value as the table prints it, to one decimal.
    CHECK(count ==
          Approx(12 * l * h * h * (1 + 13 / (12 * h)) + (51200 + 2048) * h).epsilon(1e-14));
    CHECK(std::abs(count / 1e9 - row.billions) < 0.06);
  }
}

TEST_CASE("Llama 2 70B has 68,976,648,192 parameters with its head and last norm") {
  // Ours shares the embedding with the head and leaves the last norm out: add 32000 h and h.
  CHECK(parameters(llama2_70b()) + 32000.0 * 8192 + 8192 == 68'976'648'192.0);
}

TEST_CASE("a layer is its two blocks, and fewer key-value heads have fewer parameters") {
  const Model model = gpt(4, 1024, 16);
  // 12 h^2 + 13 h: QKV 3h^2 + 3h, projection h^2 + h, MLP 8h^2 + 5h, two norms 4h.
  CHECK(layer_parameters(model) == 12.0 * 1024 * 1024 + 13 * 1024);
  CHECK(attention_parameters(model) == 4.0 * 1024 * 1024 + 6 * 1024);
  CHECK(mlp_parameters(model) == 8.0 * 1024 * 1024 + 7 * 1024);
  Model grouped = model;
  grouped.kv_heads = 4;  // K and V have 256 columns each instead of 1024: 2 x 768 (h + 1) less
  CHECK(layer_parameters(grouped) == layer_parameters(model) - 2 * 768 * 1025.0);
}

TEST_CASE("FLOPs reduce to the papers' closed forms") {
  const unsigned seed = 7;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 200; ++i) {
    Model model = gpt(draw(1, 128), 64 * draw(1, 400), 1);
    model.seq = 128 * draw(1, 64);
    model.vocab = draw(1000, 260000);
    Plan plan = two_replicas(1, 1);
    plan.global_batch = draw(1, 4096);
    const double B = plan.global_batch, s = model.seq, l = model.layers, h = model.hidden,
                 V = model.vocab;
    const double model_count = 72 * B * s * l * h * h * (1 + s / (6 * h) + V / (12 * l * h));
    CHECK(model_flops(model, plan) == Approx(model_count).epsilon(1e-12));
    CHECK(hardware_flops(model, plan) == model_flops(model, plan));
    plan.recompute = Recompute::Full;  // equation 3
    CHECK(hardware_flops(model, plan) ==
          Approx(96 * B * s * l * h * h * (1 + s / (6 * h) + V / (16 * l * h))).epsilon(1e-12));
    CHECK(model_flops(model, plan) == Approx(model_count).epsilon(1e-12));
    plan.recompute = Recompute::Selective;
    CHECK(hardware_flops(model, plan) ==
          Approx(model_count + 4 * B * s * s * h * l).epsilon(1e-12));
  }
}

TEST_CASE("a gated MLP counts three products, grouped attention smaller K and V") {
  const Model model = llama2_70b();
  const Plan plan = two_replicas(1, 1);
  // Weights of a layer's products: 2 h^2 + 2 h 1024 + 3 h f; two FLOPs each a token, three passes.
  const double h = 8192, s = 4096, B = 16;
  const double weights = 2 * h * h + 2 * h * 1024 + 3 * h * 28672;
  CHECK(model_flops(model, plan) ==
        Approx(3 * (80 * (2 * B * s * weights + 4 * B * s * s * h) + 2 * B * s * h * 32000))
            .epsilon(1e-12));
}

TEST_CASE("layers over stages: listed, even, ends counted, or ceil with the remainder last") {
  const auto split = [](int layers, int pp, int vpp) {
    return split_layers(gpt(layers, 64, 1), two_replicas(1, pp, vpp));
  };
  CHECK(split(24, 4, 1) == std::vector<int>{6, 6, 6, 6});
  CHECK(split(24, 2, 2) == std::vector<int>{6, 6, 6, 6});
  CHECK(split(22, 4, 1) == std::vector<int>{5, 6, 6, 5});  // zero-bubble's: 22 + 2 = 4 x 6
  CHECK(split(6, 4, 2) == std::vector<int>{0, 1, 1, 1, 1, 1, 1, 0});
  const std::vector<int> jean_zay = split(78, 12, 1);  // 11 x 7 and the last stage has one
  CHECK(jean_zay.front() == 7);
  CHECK(jean_zay.back() == 1);
  CHECK(std::accumulate(jean_zay.begin(), jean_zay.end(), 0) == 78);
  Plan listed = two_replicas(1, 3);
  listed.layers_per_stage = {3, 5, 2};
  CHECK(split_layers(gpt(10, 64, 1), listed) == std::vector<int>{3, 5, 2});
}

TEST_CASE("stages share out the whole model, and a second copy of the embedding serves the head") {
  const Model model = gpt(24, 2304, 24);
  const auto sum = [&](const Plan& plan) {
    double all = 0;
    for (const HeldParameters& held : stage_parameters(model, plan)) all += held.total();
    return all;
  };
  CHECK(sum(two_replicas(1, 1)) == Approx(parameters(model)).epsilon(1e-14));
  CHECK(sum(two_replicas(1, 1, 4)) == Approx(parameters(model)).epsilon(1e-14));
  CHECK(sum(two_replicas(1, 4)) == Approx(parameters(model) + 51200.0 * 2304).epsilon(1e-14));
  // ParallelSizes by tp, all but the positions.
  const double positions = 2048.0 * 2304;
  CHECK(sum(two_replicas(8, 1)) ==
        Approx((parameters(model) - positions) / 8 + positions).epsilon(1e-14));
}

TEST_CASE("an untied head has a matrix of its own: Llama 2 7B has 6,738,415,616 parameters") {
  // 32 layers of 4 h^2 + 3 h f + 2 h, twice V h, and a last norm of h that we leave out.
  Model model = {.layers = 32,
                 .hidden = 4096,
                 .heads = 32,
                 .ffn_hidden = 11008,
                 .gated_mlp = true,
                 .seq = 4096,
                 .vocab = 32000,
                 .tied_embeddings = false};
  const double untied = parameters(model);
  CHECK(untied + 4096 == 6'738'415'616.0);
  model.tied_embeddings = true;
  CHECK(untied - parameters(model) == 32000.0 * 4096);
}

TEST_CASE("untied, the last stage holds V h / tp parameters more wherever it is") {
  for (const int tp : {1, 4}) {
    for (const int pp : {1, 4}) {
      for (const bool ends_on_one_rank : {false, true}) {
        OrderedPlan plan = two_replicas(tp, pp);
        plan.ends_on_one_rank = ends_on_one_rank;
        Model model = gpt(24, 2304, 24);
        const std::vector<HeldParameters> tied = stage_parameters(model, plan);
        model.tied_embeddings = false;
        const std::vector<HeldParameters> untied = stage_parameters(model, plan);
        // Tied with a pipeline in a line, the last stage has a copy: as many bytes.
        const bool copy = pp > 1 && !ends_on_one_rank;
        CHECK(untied.back().dense - tied.back().dense ==
              Approx(copy ? 0.0 : 51200.0 * 2304 / tp).margin(1e-3));
        for (std::size_t s = 0; s + 1 < tied.size(); ++s) CHECK(untied[s].dense == tied[s].dense);
      }
    }
  }
}

TEST_CASE("causal FLOPs are whole ones less half of attention's products") {
  // Forward 4 B s^2 h a layer, backward twice that; full recompute repeats the forward.
  const Model model = gpt(24, 2304, 24);
  Plan plan = two_replicas(1, 1);
  const double half = 0.5 * 24 * 4.0 * plan.global_batch * 2048 * 2048 * 2304;
  const auto model_less =
      model_flops(model, plan) - model_flops(model, plan, AttentionFlops::Causal);
  CHECK(model_less == Approx(3 * half).epsilon(1e-9));
  plan.recompute = Recompute::Full;
  CHECK(hardware_flops(model, plan) - hardware_flops(model, plan, AttentionFlops::Causal) ==
        Approx(4 * half).epsilon(1e-9));
}

TEST_CASE("at 128k tokens with fused attention HFU is above MFU, by what its backward repeats") {
  // It was below: hardware FLOPs counted the causal half and model FLOPs all of it. Now both count
  // 3 cores, and the hardware the scores of the backward again, half a core.
  Model model = llama2_70b();
  model.seq = 131072;
  Plan plan = two_replicas(8, 1);
  plan.flash_attention = true;
  const double core = 4.0 * plan.global_batch * 131072.0 * 131072.0 * 8192;
  for (const auto& [attention, share] :
       {std::pair{AttentionFlops::Whole, 1.0}, std::pair{AttentionFlops::Causal, 0.5}})
    CHECK(hardware_flops(model, plan, attention) - model_flops(model, plan, attention) ==
          Approx(80 * share * 0.5 * core).epsilon(1e-9));
}

TEST_CASE("the vocabulary is padded to a multiple of 128 tp") {
  Model model = gpt(4, 64, 8);
  model.vocab = 50257;
  CHECK(padded_vocab(model, two_replicas(1, 1)) == 50304);
  CHECK(padded_vocab(model, two_replicas(8, 1)) == 51200);
  model.vocab = 51200;
  CHECK(padded_vocab(model, two_replicas(8, 1)) == 51200);
}

TEST_CASE("fp8 is kept and sent in 16 bits") {
  Plan plan = two_replicas(1, 1);
  CHECK(stored_bytes(plan) == 2);
  plan.precision = "fp8";
  CHECK(stored_bytes(plan) == 2);
  plan.precision = "fp32";
  CHECK(stored_bytes(plan) == 4);
}

TEST_CASE("every broken rule is named with what was found and what was expected") {
  struct Case {
    std::function<void(Model*, Plan*)> spoil;
    std::string message;
  };
  const Case cases[] = {
      {[](Model* m, Plan*) { m->layers = 0; }, "model.layers: found 0, expected a positive number"},
      {[](Model* m, Plan*) { m->heads = -3; }, "model.heads: found -3, expected a positive number"},
      {[](Model* m, Plan*) { m->seq = 2'000'000'000; },
       "model.seq: found 2000000000, expected at most 16000000"},
      {[](Model* m, Plan*) { m->kv_heads = -1; },
       "model.kv_heads: found -1, expected 0 (for the default) or a positive number"},
      {[](Model* m, Plan*) { m->hidden = 1000; },
       "model.hidden: found 1000, expected a multiple of model.heads = 24"},
      {[](Model* m, Plan*) { m->kv_heads = 5; },
       "model.heads: found 24, expected a multiple of model.kv_heads = 5"},
      {[](Model*, Plan* p) { p->tp = 5; },
       "model.heads: found 24, expected a multiple of parallel.tp = 5"},
      {[](Model* m, Plan* p) { m->kv_heads = 12, p->tp = 8; },
       "model.kv_heads: found 12, expected a multiple or a divisor of parallel.tp = 8"},
      {[](Model* m, Plan* p) { m->ffn_hidden = 6001, p->tp = 2; },
       "model.ffn_hidden: found 6001, expected a multiple of parallel.tp = 2"},
      {[](Model* m, Plan* p) { m->seq = 2047, p->tp = 2, p->sequence_parallel = true; },
       "model.seq: found 2047, expected a multiple of parallel.tp (train.sequence_parallel is on) "
       "= 2"},
      {[](Model*, Plan* p) { p->global_batch = 18; },
       "parallel.global_batch: found 18, expected a multiple of parallel.micro_batch x parallel.dp "
       "= 4"},
      {[](Model*, Plan* p) { p->global_batch = 0; },
       "parallel.global_batch: found 0, expected a positive number"},
      {[](Model*, Plan* p) { p->pp = 0; }, "parallel.pp: found 0, expected a positive number"},
      {[](Model*, Plan* p) { p->pp = 27; },
       "parallel.pp x parallel.vpp: found 27 stages, expected at most model.layers + 2 = 26"},
      {[](Model*, Plan* p) { p->pp = 10; },
       "parallel.layers_per_stage: found no layer for stage 8 (24 layers on 10 stages), expected "
       "one "
       "at least on all stages but the first and the last"},
      {[](Model*, Plan* p) { p->pp = 2, p->layers_per_stage = {24}; },
       "parallel.layers_per_stage: found 1, expected as many numbers as stages, parallel.pp x "
       "parallel.vpp = 2"},
      {[](Model*, Plan* p) {
         p->pp = 2, p->layers_per_stage = {12, 13};
       },
       "parallel.layers_per_stage: found 25, expected a sum of model.layers = 24"},
      {[](Model*, Plan* p) {
         p->pp = 2, p->layers_per_stage = {25, -1};
       },
       "parallel.layers_per_stage: found 25, expected each number from 0 to model.layers = 24"},
      {[](Model*, Plan* p) { p->precision = "tf32"; },
       "train.precision: found tf32, expected fp32, fp16, bf16, fp8 or nvfp4"},
      {[](Model*, Plan* p) { p->gradient_dtype = "fp8"; },
       "train.gradient_dtype: found fp8, expected fp32, fp16 or bf16"},
      {[](Model*, Plan* p) { p->pp = 20, p->dp = 1'000'000, p->tp = 8; },
       "parallel.tp x pp x dp x cp: found 160000000 GPUs, expected at most 1e8"},
  };
  const Model model = gpt(24, 2304, 24);
  CHECK(check_model(model, two_replicas(8, 4)).ok());
  for (const Case& spoiled : cases) {
    Model bad_model = model;
    Plan bad_plan = two_replicas(1, 1);
    spoiled.spoil(&bad_model, &bad_plan);
    const Status status = check_model(bad_model, bad_plan);
    INFO(spoiled.message);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().text() == spoiled.message);
    CHECK(status.error().kind == Error::BadInput);
  }
}

TEST_CASE("an odd vocabulary is no error, and neither are ends without layers") {
  Model model = gpt(6, 64, 8);
  model.vocab = 50257;
  CHECK(check_model(model, two_replicas(8, 1)).ok());
  CHECK(check_model(model, two_replicas(1, 8)).ok());  // 0 1 1 1 1 1 1 0
}

TEST_CASE("a layer's activations are those of Korthikanti et al. 2022, to the byte") {
  // Equations 1, 2, 4 and 6 and table 2, on the 22B model.
  const Model model = gpt_22b();
  const double s = 2048, b = 4, h = 6144, a = 64;
  for (const double t : {1.0, 2.0, 8.0}) {
    Plan plan = plan_of(static_cast<int>(t));
    const auto bytes = [&](Recompute recompute, bool sequence_parallel) {
      plan.recompute = recompute;
      plan.sequence_parallel = sequence_parallel;
      return activation_bytes_per_layer(model, plan);
    };
    CHECK(bytes(Recompute::None, false) == s * b * (10 * h + 24 * h / t + 5 * a * s / t));
    CHECK(bytes(Recompute::None, true) == s * b / t * (34 * h + 5 * a * s));
    CHECK(bytes(Recompute::Selective, false) == s * b * (10 * h + 24 * h / t));
    CHECK(bytes(Recompute::Selective, true) == s * b * 34 * h / t);
    CHECK(bytes(Recompute::Full, false) == 2 * s * b * h);
  }
}

TEST_CASE("grouped heads and a gated MLP keep what they have, without dropout's masks") {
  // fp16, tp = 1, a token: norms and inputs 4 h, Q and the projection's input 2 h, K and V 2 x
  // 1024, gate, up and product 3 f; softmax's output a s. Two bytes each.
  const Model model = llama2_70b();
  const Plan plan = plan_of(1, 1, 1);
  CHECK(activation_bytes_per_layer(model, plan) ==
        4096.0 * 2 * (6 * 8192 + 2 * 1024 + 3 * 28672 + 64 * 4096));
}

TEST_CASE("the fullest GPU: 16 or 18 bytes a parameter, and its live microbatches") {
  Model model = gpt_22b();
  Plan plan = plan_of(8, 2);
  plan.gradient_dtype = "fp16";
  plan.recompute = Recompute::Selective;
  plan.sequence_parallel = true;
  const double held = stage_parameters(model, plan)[0].total();
  const LiveActivations live = {{{{Stage{0}, 2}}, {{Stage{1}, 1}}}};
  const MemoryUse use = peak_memory(model, plan, live);
  CHECK(use.rank == 0);
  CHECK(use.weights == 2 * held);
  CHECK(use.gradients == 2 * held);
  CHECK(use.optimizer == 12 * held);
  // 2 microbatches x (24 layers and the embedding's dropout mask, s b h / t), and once the
  // attention matrices of the layer whose core is recomputed.
  const double sb = 2048.0 * 4, h = 6144;
  CHECK(use.activations ==
        Approx(2 * (24 * sb * 34 * h / 8 + sb * h / 8) + sb * 5 * 64 * 2048 / 8).epsilon(1e-12));
  plan.gradient_dtype = "fp32";
  CHECK(peak_memory(model, plan, live).gradients == 4 * held);
  plan.precision = "fp32";  // no originals beside the weights
  CHECK(peak_memory(model, plan, live).optimizer == 8 * held);
}

TEST_CASE("the last stage holds its logits, and with full recompute one layer at work") {
  const Model model = gpt_22b();
  Plan plan = plan_of(8, 2);
  plan.recompute = Recompute::Full;
  const LiveActivations live = {{{{Stage{0}, 0}}, {{Stage{1}, 3}}}};
  const MemoryUse use = peak_memory(model, plan, live);
  const double sb = 2048.0 * 4, h = 6144;
  CHECK(use.rank == 1);
  // 3 x (24 inputs, the norm's and the head's input, logits and a copy) and one whole layer.
  CHECK(use.activations == Approx(3 * sb * (24 * 2 * h + 2 * 2 * h + 4 * 51200.0 / 8) +
                                  sb * (10 * h + 24 * h / 8 + 5 * 64 * 2048.0 / 8))
                               .epsilon(1e-12));
}

TEST_CASE(
    "a rank with both ends of the chain holds one embedding, and no rank less than its share") {
  const Model model = gpt_22b();
  Plan plan = plan_of(1, 2);
  plan.vpp = 2;
  const std::vector<HeldParameters> held = stage_parameters(model, plan);
  const LiveActivations folded = {{{{Stage{0}, 0}, {Stage{3}, 0}}, {{Stage{1}, 0}, {Stage{2}, 0}}}};
  const MemoryUse use = peak_memory(model, plan, folded);
  CHECK(use.rank == 0);
  CHECK(use.weights == Approx(2 * (held[0].dense + held[3].dense - 51200.0 * 6144)).epsilon(1e-14));
  CHECK(use.activations == 0);
  CHECK(use.total() - use.communication == Approx(18 * use.weights / 2).epsilon(1e-14));
}

}  // namespace
}  // namespace tandem
