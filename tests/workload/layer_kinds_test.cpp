// Models with layers of several kinds, and kinds beyond attention by heads.
#include <catch2/catch.hpp>
#include <string>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/memory.h"
#include "workload/model/layer_keys.h"

namespace tandem {
namespace {

// Llama's shape; the sizes are those of the published config.json.
Model llama(int layers, int hidden, int heads, int ffn, int vocab) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = 8,
          .ffn_hidden = ffn,
          .gated_mlp = true,
          .seq = 4096,
          .vocab = vocab,
          .tied_embeddings = false};
}

Model qwen3(int layers, int hidden, int heads, int kv_heads, int ffn) {
  Model model = llama(layers, hidden, heads, ffn, 151936);
  model.kv_heads = kv_heads;
  model.head_dim = 128;
  model.qk_norm = true;
  return model;
}

Model with_experts(Model model, int experts, int top_k, int width) {
  model.experts = experts;
  model.top_k = top_k;
  model.expert_ffn_hidden = width;
  return model;
}

// The first `dense` layers without experts.
Model first_dense(const Model& model, int dense) {
  Model plain = model;
  plain.kind = "dense";
  plain.experts = plain.shared_expert_ffn = 0;
  Model moe = model;
  moe.kind = "moe";
  std::vector<std::string> names(dense, "dense");
  names.resize(model.layers, "moe");
  Model both = model;
  REQUIRE(set_layers(names, {plain, moe}, &both).ok());
  return both;
}

Model latent(int layers, int heads, int experts, int vocab, int dense) {
  Model model = llama(layers, 7168, heads, 18432, vocab);
  model.mixer = Mixer::Latent;
  model.q_lora_rank = 1536;
  model.kv_lora_rank = 512;
  model.qk_nope_head_dim = 128;
  model.qk_rope_head_dim = 64;
  model.v_head_dim = 128;
  model.shared_expert_ffn = 2048;
  model.router_bias = true;  // e_score_correction_bias
  return first_dense(with_experts(model, experts, 8, 2048), dense);
}

Model gpt_oss_120b() {
  Model model = with_experts(llama(36, 2880, 64, 2880, 201088), 128, 4, 2880);
  model.head_dim = 64;
  model.attention_bias = model.output_bias = model.mlp_bias = true;
  model.router_bias = model.attention_sinks = true;
  return model;
}

TEST_CASE("parameters, all and active, are those of the published models to the unit") {
  struct Row {
    const char* name;
    Model model;
    double all, active;
  };
  // Worked out from each model's config.json; those of Llama, Mixtral 8x7B and DeepSeek-V3 are also
  // the published counts of their checkpoints.
  const Row rows[] = {
      {"Llama-3.1 8B", llama(32, 4096, 32, 14336, 128256), 8030261248, 8030261248},
      {"Llama-3.1 70B", llama(80, 8192, 64, 28672, 128256), 70553706496, 70553706496},
      {"Llama-3.1 405B", llama(126, 16384, 128, 53248, 128256), 405853388800, 405853388800},
      {"Mixtral 8x7B", with_experts(llama(32, 4096, 32, 14336, 32000), 8, 2, 14336), 46702792704,
       12879925248},
      {"Mixtral 8x22B", with_experts(llama(56, 6144, 48, 16384, 32000), 8, 2, 16384), 140620634112,
       39152031744},
      {"Qwen3 32B", qwen3(64, 5120, 64, 8, 25600), 32762123264, 32762123264},
      {"Qwen3 30B-A3B", with_experts(qwen3(48, 2048, 32, 4, 6144), 128, 8, 768), 30532122624,
       3353032704},
      {"Qwen3 235B-A22B", with_experts(qwen3(94, 4096, 64, 4, 12288), 128, 8, 1536), 235093634560,
       22190763520},
      {"DeepSeek-V3", latent(61, 128, 256, 129280, 3), 671026419200, 37552297472},
      {"Kimi-K2", latent(61, 64, 384, 163840, 1), 1026408232448, 32861500928},
      {"gpt-oss-120b", gpt_oss_120b(), 116829156672, 5711982912},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(card_parameters(row.model) == row.all);
    CHECK(active_parameters(row.model) == row.active);
  }
}

std::string joined(const std::string& pattern) {
  const auto names = parse_layer_pattern(pattern);
  if (!names.ok()) return names.error().message;
  std::string all;
  for (const std::string& name : *names) all += name + ' ';
  return all;
}

TEST_CASE("a pattern is a sum of kinds and of sums, each perhaps several times") {
  CHECK(joined("a") == "a ");
  CHECK(joined("dense*2 + moe*3") == "dense dense moe moe moe ");
  CHECK(joined("(local*2 + global)*2+local") == "local local global local local global local ");
  CHECK(joined("((a + b)*2 + c)*2") == "a b a b c a b a b c ");
  CHECK(joined("") == "model.pattern: found '', expected a kind, as in 'dense*3 + moe*58'");
  CHECK(joined("a*0") ==
        "model.pattern: found '', expected a number from 1 on, and at most a million layers, as in "
        "'dense*3 + moe*58'");
  CHECK(joined("(a + b") == "model.pattern: found '', expected ')', as in 'dense*3 + moe*58'");
  CHECK(joined("a b") ==
        "model.pattern: found 'b', expected '+', '*' or the end, as in 'dense*3 + moe*58'");
  CHECK_FALSE(parse_layer_pattern("(a*999999)*999999").ok());
}

// The same model, said as two kinds that do not differ.
Model in_two_kinds(const Model& model) {
  Model even = model, odd = model;
  even.kind = "even";
  odd.kind = "odd";
  std::vector<std::string> names;
  for (int i = 0; i < model.layers; ++i) names.emplace_back(i % 2 == 0 ? "even" : "odd");
  Model both = model;
  REQUIRE(set_layers(names, {even, odd}, &both).ok());
  return both;
}

TEST_CASE("kinds that do not differ are one kind") {
  const Model model = gpt_22b(), both = in_two_kinds(model);
  const OrderedPlan plan(plan_of(8, 4));
  CHECK(card_parameters(both) == card_parameters(model));
  CHECK(model_flops(both, plan) == Approx(model_flops(model, plan)).epsilon(1e-14));
  CHECK(hardware_flops(both, plan) == Approx(hardware_flops(model, plan)).epsilon(1e-14));
  const Workload one = make_workload(model, plan, a100()), two = make_workload(both, plan, a100());
  REQUIRE(one.stages.size() == two.stages.size());
  CHECK(one.kernels.size() == two.kernels.size());
  for (std::size_t s = 0; s < one.stages.size(); ++s) {
    CHECK(seconds(one.stages[s].forward) == seconds(two.stages[s].forward));
    CHECK(seconds(one.stages[s].backward) == seconds(two.stages[s].backward));
    CHECK(one.stages[s].units == two.stages[s].units);
  }
  LiveActivations live;
  for (int stage = 0; stage < 4; ++stage) live.ranks.push_back({{Stage{stage}, 4 - stage}});
  CHECK(peak_memory(both, plan, live).total() ==
        Approx(peak_memory(model, plan, live).total()).epsilon(1e-14));
}

TEST_CASE("a stage does the work of its own layers") {
  const Model dense = llama(4, 1024, 16, 4096, 32000);
  const Model model = first_dense(with_experts(dense, 8, 2, 4096), 2);
  const OrderedPlan plan(plan_of(1, 2));
  const Workload work = make_workload(model, plan, a100());
  const Workload plain = make_workload(dense, plan, a100());
  CHECK(seconds(work.stages[0].forward) == seconds(plain.stages[0].forward));
  CHECK(seconds(work.stages[1].forward) > seconds(plain.stages[1].forward));
  const Workload experts = make_workload(with_experts(dense, 8, 2, 4096), plan, a100());
  CHECK(seconds(work.stages[1].backward) == seconds(experts.stages[1].backward));
  CHECK(stage_parameters(model, plan)[0].expert == 0);
  CHECK(stage_parameters(model, plan)[1].expert == 2 * 8 * 3.0 * 1024 * 4096);
}

TEST_CASE("a window leaves the positions that it says") {
  Model model = gpt_22b();
  model.seq = 512;
  for (const int window : {1, 17, 128, 511, 512, 600}) {
    model.window = window;
    double attended = 0;
    for (int i = 0; i < model.seq; ++i) attended += std::min(i + 1, window);
    // The closed form is the integral: half a position a row less than the sum.
    CHECK(attended_share(model) * 512 * 512 == Approx(attended - 256).margin(256));
  }
  model.window = 0;
  CHECK(attended_share(model) == 0.5);
  model.attention_chunk = 128;
  CHECK(attended_share(model) == 0.125);
}

TEST_CASE("a window in documents, chunks or rings never makes attention slower") {
  CostModel cost = a100();
  cost.device.attention_ramp_keys = 600;
  Model model = llama(2, 1024, 16, 4096, 32000);
  model.seq = 4096;
  Plan plan = plan_of(1);
  plan.flash_attention = plan.cuda_graphs = true;
  const auto forward_s = [&] {
    return seconds(make_workload(model, plan, cost).stages[0].forward);
  };
  for (const int document : {0, 512, 3000}) {
    for (const int cp : {1, 2}) {
      model.document = document;
      model.window = 0;
      plan.cp = cp;
      const double whole = forward_s();
      for (const int window : {16, 100, 256, 511, 512, 1500, 2999, 4095, 4096}) {
        INFO(window << " of " << document << ", cp " << cp);
        model.window = window;
        CHECK(forward_s() <= whole);
      }
    }
  }
}

// One layer of each kind, of whole sizes under the parallelism that is tried.
Model of_mixer(Mixer mixer) {
  Model model = llama(4, 1024, 16, 4096, 32000);
  model.seq = 1024;
  model.mixer = mixer;
  model.kv_lora_rank = 256;
  model.q_lora_rank = 384;
  model.qk_nope_head_dim = 64;
  model.qk_rope_head_dim = 32;
  model.v_head_dim = 64;
  model.mamba_heads = 32;
  model.mamba_head_dim = 64;
  model.mamba_state = 128;
  model.mamba_groups = 8;
  model.linear_key_heads = 16;
  model.linear_value_heads = 32;
  model.linear_key_head_dim = model.linear_value_head_dim = 64;
  return model;
}

TEST_CASE("kernels compute the FLOPs of every kind of layer, on however many GPUs") {
  for (const Mixer mixer :
       {Mixer::Heads, Mixer::Latent, Mixer::Mamba, Mixer::Linear, Mixer::None}) {
    for (const int tp : {1, 4}) {
      for (const bool flash : {false, true}) {
        INFO(mixer_name(mixer) << " tp " << tp << " flash " << flash);
        const Model model = of_mixer(mixer);
        OrderedPlan plan(plan_of(tp, 2));
        plan.flash_attention = flash;
        const double expected = hardware_flops(model, plan, computed(plan)) / tp;
        // Four microbatches an iteration. Latent attention's compression is not cut by tp.
        const double compression =
            mixer == Mixer::Latent ? (1 - 1.0 / tp) * 6.0 * plan.global_batch * model.seq * 4 *
                                         (replicated_parameters(model) - router_parameters(model))
                                   : 0;
        const double padding = 6.0 * plan.global_batch * model.seq * model.hidden *
                               (padded_vocab(model, plan) - model.vocab) / tp;
        CHECK(4 * flops(make_workload(model, plan, a100())) ==
              Approx(expected + compression + padding).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("layers that do not attend need no heads") {
  for (const Mixer mixer : {Mixer::Mamba, Mixer::Linear, Mixer::None}) {
    INFO(mixer_name(mixer));
    const Model with = of_mixer(mixer);
    Model without = with;
    without.heads = without.kv_heads = 0;
    const OrderedPlan plan(plan_of(4, 2));
    REQUIRE(check_model(without, plan).ok());
    CHECK(make_workload(without, plan, a100()).kernels ==
          make_workload(with, plan, a100()).kernels);
    CHECK(hardware_flops(without, plan) == hardware_flops(with, plan));
    CHECK(parameters(without) == parameters(with));
    // In a model of kinds each kind answers for itself.
    Model of_kinds = with;
    of_kinds.mixer = Mixer::Heads;
    of_kinds.heads = of_kinds.kv_heads = 0;
    of_kinds.kinds = {without};
    of_kinds.layer_kinds = {0, 0, 0, 0};
    CHECK(check_model(of_kinds, plan).ok());
    CHECK(make_workload(of_kinds, plan, a100()).stages.size() == 2);
    of_kinds.kinds[0].mixer = Mixer::Heads;
    CHECK(check_model(of_kinds, plan).error().text() ==
          "model.heads: found 0, expected a positive number");
  }
}

TEST_CASE("kernels compute the FLOPs of multi-token prediction, however it is recomputed") {
  Model model = of_mixer(Mixer::Heads);
  model.mtp_layers = 2;
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    for (const int layers : {-1, 1}) {
      if (layers >= 0 && recompute != Recompute::Full) continue;
      for (const bool flash : {false, true}) {
        INFO(static_cast<int>(recompute) << " of " << layers << " layers, flash " << flash);
        OrderedPlan plan(plan_of(1, 2));
        plan.recompute = recompute;
        plan.recompute_layers = layers;
        plan.flash_attention = flash;
        // Three heads, each over a vocabulary that no padding widens.
        REQUIRE(padded_vocab(model, plan) == model.vocab);
        CHECK(4 * flops(make_workload(model, plan, a100())) ==
              Approx(hardware_flops(model, plan, computed(plan))).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("multi-token prediction adds a layer, a product and a head to the last stage") {
  Model model = llama(4, 1024, 16, 4096, 32000);
  const OrderedPlan plan(plan_of(1, 2));
  const Workload without = make_workload(model, plan, a100());
  model.mtp_layers = 1;
  const Workload with = make_workload(model, plan, a100());
  CHECK(seconds(with.stages[0].forward) == seconds(without.stages[0].forward));
  const double tokens = 4.0 * plan.micro_batch * model.seq;  // of an iteration
  // 6 FLOPs a number and token of the layer's weights, attention's two products, 2 h^2, the head.
  const double h = 1024, kv = 8 * 64, weights = h * (2 * h + 2 * kv) + 3 * h * 4096;
  CHECK(model_flops(model, plan) - model_flops(
                                       [&] {
                                         Model plain = model;
                                         plain.mtp_layers = 0;
                                         return plain;
                                       }(),
                                       plan) ==
        Approx(tokens * (6 * (weights + 2 * h * h + h * 32000) + 12.0 * model.seq * h)));
  CHECK(stage_parameters(model, plan)[1].dense - stage_parameters(model, plan)[0].dense ==
        Approx(weights + 2 * h + 2 * h * h + 3 * h));
}

}  // namespace
}  // namespace tandem
