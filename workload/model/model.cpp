// The model's arithmetic: layers over stages, parameters, FLOPs.
#include "workload/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/check.h"
#include "workload/cost/kernel.h"

namespace tandem {
namespace {

// Megatron's --make-vocab-size-divisible-by: head GEMMs of odd widths run at a fraction of the
// speed.
constexpr std::int64_t kVocabMultiple = 128;

// A linear layer's weights into the MLP's inner width and out of it.
double products(const Model& model) { return model.gated_mlp ? 3 : 2; }

// Of an s x s matrix, what a causal mask leaves.
constexpr double kCausalShare = 0.5;

// FLOPs of the attention core's two products, of a whole layer and of the head, forward, for the
// global batch.
double core_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  return (attention == AttentionFlops::Causal ? kCausalShare : 1) * 4.0 * plan.global_batch *
         model.seq * model.seq * model.hidden;
}

double layer_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  const double h = model.hidden;
  const double kv = static_cast<double>(model.key_value_heads()) * model.head_size();
  const double mlp =
      model.is_moe()
          ? h * model.experts + products(model) * h *
                                    (static_cast<double>(model.top_k) * model.expert_ffn() +
                                     model.shared_expert_ffn)
          : products(model) * h * model.ffn();
  const double weights = h * (h + 2 * kv) + h * h + mlp;
  return 2.0 * plan.global_batch * model.seq * weights + core_flops(model, plan, attention);
}

double head_flops(const Model& model, const Plan& plan) {
  return 2.0 * plan.global_batch * model.seq * model.hidden * model.vocab;
}

}  // namespace

std::string_view name(TensorGemm gemm) {
  static constexpr std::array<std::string_view, kTensorGemms> kNames = {
      "qkv_fprop", "qkv_dgrad", "qkv_wgrad", "proj_fprop", "proj_dgrad",
      "fc1_fprop", "fc1_dgrad", "fc1_wgrad", "fc2_fprop",  "fc2_dgrad"};
  return kNames[static_cast<std::size_t>(gemm)];
}

std::vector<std::string> keys_of(TensorGemm gemm) {
  return {fmt::format("overlap.gemm.{}", name(gemm)), "overlap.tensor_file", "overlap.tensor"};
}

std::string_view name(TensorMethod method) {
  static constexpr std::array<std::string_view, 4> kNames = {"off", "bulk", "pipelined", "ring"};
  return kNames[static_cast<std::size_t>(method)];
}

std::string_view name(ContextComm comm) {
  static constexpr std::array<std::string_view, 3> kNames = {"ring", "all_gather", "all_to_all"};
  return kNames[static_cast<std::size_t>(comm)];
}

std::vector<int> split_layers(const Model& model, const Plan& plan) {
  if (!plan.layers_per_stage.empty()) return plan.layers_per_stage;
  const int stages = plan.stages();
  CHECK(model.layers > 0 && stages > 0);
  std::vector<int> split(stages);
  if (model.layers % stages == 0) {
    std::ranges::fill(split, model.layers / stages);
  } else if ((model.layers + 2) % stages == 0) {
    std::ranges::fill(split, (model.layers + 2) / stages);
    --split.front();
    --split.back();
  } else {
    const int full = (model.layers + stages - 1) / stages;
    int left = model.layers;
    for (int& layers : split) {
      layers = std::min(full, left);
      left -= layers;
    }
  }
  return split;
}

int padded_vocab(const Model& model, const Plan& plan) {
  const std::int64_t multiple = kVocabMultiple * plan.tp;
  return static_cast<int>((model.vocab + multiple - 1) / multiple * multiple);
}

// Weights of Q, K, V and the projection; GPT: a bias for each output and a LayerNorm (2h), 6h in
// all with kv_heads = heads.
double attention_parameters(const Model& model) {
  const double h = model.hidden;
  const double kv = static_cast<double>(model.key_value_heads()) * model.head_size();
  const double weights = h * (h + 2 * kv) + h * h;
  return model.gated_mlp ? weights + h : weights + (h + 2 * kv + h) + 2 * h;
}

// GPT: up and down with biases, 5h for f = 4h. Gated: gate, up, down.
double ffn_parameters(const Model& model, double ffn) {
  const double h = model.hidden;
  return model.gated_mlp ? 3 * h * ffn : 2 * h * ffn + (ffn + h);
}

double expert_parameters(const Model& model) {
  return model.is_moe() ? ffn_parameters(model, model.expert_ffn()) : 0;
}

double mlp_parameters(const Model& model) {
  const double norm = (model.gated_mlp ? 1.0 : 2.0) * model.hidden;
  if (!model.is_moe()) return ffn_parameters(model, model.ffn()) + norm;
  const double shared =
      model.shared_expert_ffn > 0 ? ffn_parameters(model, model.shared_expert_ffn) : 0;
  return router_parameters(model) + model.experts * expert_parameters(model) + shared + norm;
}

double router_parameters(const Model& model) {
  return static_cast<double>(model.hidden) * model.experts;
}

double layer_parameters(const Model& model) {
  return attention_parameters(model) + mlp_parameters(model);
}

double embedding_parameters(const Model& model) {
  const double positions = model.gated_mlp ? 0 : model.seq;
  return (model.vocab + positions) * model.hidden;
}

double parameters(const Model& model) {
  const double head = model.tied_embeddings ? 0 : static_cast<double>(model.vocab) * model.hidden;
  return model.layers * layer_parameters(model) + embedding_parameters(model) + head;
}

HeldParameters layers_share(const Model& model, const Plan& plan, int layers) {
  const double experts = model.experts * expert_parameters(model);
  const double router = router_parameters(model);
  return {
      .dense = layers * (layer_parameters(model) - experts - router) / plan.tp + layers * router,
      .expert = layers * experts / (static_cast<double>(plan.ep) * plan.expert_tensor())};
}

double embedding_share(const Model& model, const Plan& plan) {
  return static_cast<double>(padded_vocab(model, plan)) / plan.tp * model.hidden;
}

double position_parameters(const Model& model) {
  return model.gated_mlp ? 0.0 : static_cast<double>(model.seq) * model.hidden;
}

bool head_has_copy(const Model& model, const OrderedPlan& plan) {
  return model.tied_embeddings && plan.pp > 1 && !plan.ends_on_one_rank;
}

double head_share(const Model& model, const OrderedPlan& plan) {
  const bool holds = !model.tied_embeddings || head_has_copy(model, plan);
  return holds ? embedding_share(model, plan) : 0;
}

std::vector<HeldParameters> stage_parameters(const Model& model, const OrderedPlan& plan) {
  std::vector<HeldParameters> sums;
  for (const int layers : split_layers(model, plan))
    sums.push_back(layers_share(model, plan, layers));
  sums.front().dense += embedding_share(model, plan) + position_parameters(model);
  sums.back().dense += head_share(model, plan);
  return sums;
}

int recomputed_layers(const Plan& plan, int stage_layers) {
  if (plan.recompute != Recompute::Full) return 0;
  return plan.recompute_layers < 0 ? stage_layers : std::min(plan.recompute_layers, stage_layers);
}

double model_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  return 3 * (model.layers * layer_flops(model, plan, attention) + head_flops(model, plan));
}

double hardware_flops(const Model& model, const Plan& plan, AttentionFlops attention) {
  const double core = core_flops(model, plan, attention);
  double sum = model_flops(model, plan, attention);
  const double forward = layer_flops(model, plan, attention);
  if (plan.flash_attention) {
    sum += model.layers * core * (kFlashBackward - 2);  // forward and twice that is the model's
  } else if (plan.recompute == Recompute::Selective) {
    sum += model.layers * core;
  }
  int again = 0;
  for (const int layers : split_layers(model, plan)) again += recomputed_layers(plan, layers);
  return sum + again * forward;
}

int stored_bytes(const Plan& plan) {
  CHECK(bytes_of(plan.precision) > 0);
  return std::max(2, bytes_of(plan.precision));
}

}  // namespace tandem
