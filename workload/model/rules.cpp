// Rules that a model and a plan must keep. Each Error names the scenario's key. Declared in
// workload/model/model.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "workload/cost/kernel.h"
#include "workload/model/model.h"
#include "workload/model/muon.h"
#include "workload/model/size_rules.h"
#include "workload/model/tensor_overlap_rules.h"

namespace tandem {
namespace {

// A rule: `value`, which `key` sets, must be a multiple of `divisor`, which `divisor_key` sets.
struct Multiple {
  std::string_view key;
  std::int64_t value;
  std::string_view divisor_key;
  std::int64_t divisor;
  bool applies = true;
  std::string_view product = {};  // names a value of several keys; `key` is the first of them
};

Status check_multiples(std::span<const Multiple> multiples) {
  for (const Multiple& rule : multiples) {
    if (!rule.applies || rule.value % rule.divisor == 0) continue;
    return found_number(rule.key, rule.value,
                        fmt::format("a multiple of {} = {}", rule.divisor_key, rule.divisor),
                        rule.product);
  }
  return Done{};
}

// Checks that all tensor ranks have equally many key/value heads, or equally many ranks share one.
Status check_shared_heads(int kv_heads, const Plan& plan) {
  if (kv_heads % plan.tp == 0 || (kv_heads > 0 && plan.tp % kv_heads == 0)) return Done{};
  return found_number("model.kv_heads", kv_heads,
                      fmt::format("a multiple or a divisor of parallel.tp = {}", plan.tp));
}

Status check_heads(const Model& model, const Plan& plan) {
  const bool by_heads = model.mixer == Mixer::Heads;
  const Multiple multiples[] = {
      {"model.hidden", model.hidden, "model.heads", model.heads, by_heads && model.head_dim == 0},
      {"model.heads", model.heads, "model.kv_heads", model.key_value_heads(), by_heads},
      {"model.heads", model.heads, "parallel.tp", plan.tp},
  };
  RETURN_IF_ERROR(check_multiples(multiples));
  return by_heads ? check_shared_heads(model.key_value_heads(), plan) : Done{};
}

Status check_positive(std::initializer_list<std::pair<std::string_view, int>> sizes) {
  for (const auto& [key, size] : sizes)
    if (size < 1) return found_number(key, size, "a positive number");
  return Done{};
}

Status check_mamba(const Model& model, const Plan& plan) {
  RETURN_IF_ERROR(check_positive({{"model.mamba_heads", model.mamba_heads},
                                  {"model.mamba_head_dim", model.mamba_head_dim},
                                  {"model.mamba_state", model.mamba_state}}));
  const Multiple multiples[] = {
      {"model.mamba_heads", model.mamba_heads, "model.mamba_groups", model.mamba_groups},
      {"model.mamba_heads", model.mamba_heads, "parallel.tp", plan.tp},
      {"model.seq", model.seq, "model.mamba_chunk", model.mamba_chunk}};
  return check_multiples(multiples);
}

Status check_delta_net(const Model& model, const Plan& plan) {
  RETURN_IF_ERROR(check_positive({{"model.linear_key_heads", model.linear_key_heads},
                                  {"model.linear_value_heads", model.linear_value_heads},
                                  {"model.linear_key_head_dim", model.linear_key_head_dim},
                                  {"model.linear_value_head_dim", model.linear_value_head_dim}}));
  const Multiple multiples[] = {
      {"model.linear_value_heads", model.linear_value_heads, "model.linear_key_heads",
       model.linear_key_heads},
      {"model.linear_key_heads", model.linear_key_heads, "parallel.tp", plan.tp},
      {"model.seq", model.seq, "a chunk's positions", kDeltaChunk}};
  return check_multiples(multiples);
}

// Checks what a layer's first half needs: positive sizes, and heads that tensor parallelism can
// cut.
Status check_mixer(const Model& model, const Plan& plan) {
  const bool scans = model.mixer == Mixer::Mamba || model.mixer == Mixer::Linear;
  if (scans && plan.cp > 1 && plan.context_comm != ContextComm::AllToAll)
    return found_word(
        {"parallel.cp_comm", "model.mixer"}, context_comm_name(plan.context_comm),
        fmt::format("all_to_all for model.mixer = {}: a scan goes through the whole sequence",
                    mixer_name(model.mixer)));
  switch (model.mixer) {
    case Mixer::None:
      if (model.has_mlp) return Done{};
      return found_word({"model.mixer", "model.mlp"}, "none with model.mlp = false",
                        "one of a layer's halves at least");
    case Mixer::Heads:
      return check_heads(model, plan);
    case Mixer::Latent:
      RETURN_IF_ERROR(check_positive({{"model.kv_lora_rank", model.kv_lora_rank},
                                      {"model.qk_nope_head_dim", model.qk_nope_head_dim},
                                      {"model.v_head_dim", model.v_head_dim}}));
      return check_heads(model, plan);
    case Mixer::Mamba:
      return check_mamba(model, plan);
    case Mixer::Linear:
      return check_delta_net(model, plan);
  }
  return Done{};
}

Status check_shape(const Model& model, const Plan& plan) {
  RETURN_IF_ERROR(check_mixer(model, plan));
  const Multiple multiples[] = {
      {"model.ffn_hidden", model.ffn(), "parallel.tp", plan.tp},
      {"model.seq", model.seq, "parallel.tp (train.sequence_parallel is on)", plan.tp,
       plan.sequence_parallel && plan.cp == 1},
      {"model.seq", model.seq, "parallel.tp x parallel.cp (train.sequence_parallel is on)",
       static_cast<std::int64_t>(plan.tp) * plan.cp, plan.sequence_parallel},
      {"parallel.global_batch", plan.global_batch, "parallel.micro_batch x parallel.dp",
       static_cast<std::int64_t>(plan.micro_batch) * plan.dp},
  };
  return check_multiples(multiples);
}

// Checks a rank's share of the sequence, and what each way of attending to the other shares needs.
// The ring gives each rank two half-chunks, one from either end, so that all have equal work under
// a causal mask.
Status check_context(const Model& model, const Plan& plan) {
  const bool ring = plan.context_comm == ContextComm::Ring;
  if (plan.cp > 1 && plan.overlap_context && !ring)
    return found_word({"overlap.context"}, "true",
                      fmt::format("false with parallel.cp_comm = {}: only a ring has steps to run "
                                  "beside attention's",
                                  context_comm_name(plan.context_comm)));
  const bool all_to_all = plan.context_comm == ContextComm::AllToAll;
  const std::int64_t ranks = static_cast<std::int64_t>(plan.tp) * plan.cp;
  const Multiple multiples[] = {
      {"model.seq", model.seq, "2 x parallel.cp (parallel.cp_comm is ring)",
       2 * static_cast<std::int64_t>(plan.cp), ring && plan.cp > 1},
      {"model.seq", model.seq, "parallel.cp", plan.cp},
      {"model.heads", model.heads, "parallel.tp x parallel.cp (parallel.cp_comm is all_to_all)",
       ranks, all_to_all && model.attends()},
      {"model.kv_heads", model.key_value_heads(),
       "parallel.tp x parallel.cp (parallel.cp_comm is all_to_all)", ranks,
       all_to_all && model.mixer == Mixer::Heads},
  };
  return check_multiples(multiples);
}

// Checks that the groups which a token may take have enough experts for it.
Status check_router_groups(const Model& model) {
  const int groups = model.router_groups, taken = model.router_topk_groups;
  if (groups == 0 && taken == 0) return Done{};
  if (groups < 1 || model.experts % groups != 0)
    return found_number("model.router_groups", groups,
                        fmt::format("a divisor of model.experts = {}", model.experts));
  if (taken < 1 || taken > groups || model.experts / groups * taken < model.top_k)
    return found_number(
        "model.router_topk_groups", taken,
        fmt::format("from 1 to model.router_groups = {}, with model.top_k = {} experts "
                    "among them",
                    groups, model.top_k));
  return Done{};
}

// Checks experts. With `others_have_experts` layers of other kinds use parallel.ep.
Status check_experts(const Model& model, const Plan& plan, bool others_have_experts) {
  if (!model.is_moe()) {
    if (others_have_experts) return Done{};
    if (plan.ep > 1) return found_number("parallel.ep", plan.ep, "1 without model.experts");
    if (plan.expert_tp > 0)
      return found_number("parallel.expert_tp", plan.expert_tp, "none without model.experts");
    return Done{};
  }
  if (model.top_k < 1 || model.top_k > model.experts)
    return found_number("model.top_k", model.top_k,
                        fmt::format("from 1 to model.experts = {}", model.experts));
  RETURN_IF_ERROR(check_router_groups(model));
  if (!(model.expert_imbalance >= 1 && model.expert_imbalance <= model.experts))
    return found_word({"model.expert_imbalance"}, fmt::format("{}", model.expert_imbalance),
                      fmt::format("from 1 to model.experts = {}", model.experts));
  if (model.pad_to_capacity && model.capacity_factor == 0)
    return found_word({"model.pad_to_capacity"}, "true", "model.capacity_factor with it");
  // Megatron-LM requires this, too: otherwise each tensor rank would send every token.
  if (plan.tp > 1 && !plan.sequence_parallel)
    return found_word({"train.sequence_parallel", "parallel.tp"}, "false",
                      fmt::format("true for model.experts with parallel.tp = {}", plan.tp));
  const std::int64_t replicas = static_cast<std::int64_t>(plan.tp) * plan.cp * plan.dp;
  const Multiple multiples[] = {
      {"model.experts", model.experts, "parallel.ep", plan.ep},
      {"parallel.tp", replicas, "parallel.expert_tp", plan.expert_tensor(), /*applies=*/true,
       "parallel.tp x cp x dp"},
      {"parallel.tp", replicas / plan.expert_tensor(), "parallel.ep", plan.ep,
       /*applies=*/true, "parallel.tp x cp x dp / expert_tp"},
      {"model.expert_ffn_hidden", model.expert_ffn(), "parallel.expert_tp", plan.expert_tensor()},
      {"model.shared_expert_ffn", model.shared_expert_ffn, "parallel.tp", plan.tp},
  };
  return check_multiples(multiples);
}

Status check_overlap(const Model& model, const Plan& plan) {
  RETURN_IF_ERROR(check_tensor_overlap(model, plan));
  for (const auto& [key, sms] : {std::pair("overlap.context_sms", plan.context_sms),
                                 std::pair("overlap.expert_sms", plan.expert_sms)}) {
    if (sms < 0 || sms > kMostSms)
      return found_number(key, sms, fmt::format("from 0 to {}", kMostSms));
  }
  return Done{};
}

Status check_divides_replicas(std::string_view key, int ranks, const Plan& plan) {
  const std::int64_t replicas = static_cast<std::int64_t>(plan.dp) * plan.cp;
  if (replicas % ranks == 0) return Done{};
  return found_number(key, ranks,
                      fmt::format("a divisor of parallel.dp x parallel.cp = {}", replicas));
}

// Checks ZeRO++'s hpZ: a second copy cut over fewer ranks. It is useful only if parameters are
// freed after the forward and gathered again. Where each rank holds all experts (ep = 1), their
// copy is cut over as many of the ranks that hold the same part of an expert.
Status check_secondary(const Model& model, const Plan& plan) {
  if (plan.zero_hpz == 0) return Done{};
  if (!plan.gathers_each_pass() || plan.hsdp_shard > 0)
    return found_word({"parallel.zero_hpz", "train.zero"}, std::to_string(plan.zero_hpz),
                      "none but with train.zero = 3, parallel.pp = 1, "
                      "train.reshard_after_forward and no parallel.hsdp_shard");
  RETURN_IF_ERROR(check_divides_replicas("parallel.zero_hpz", plan.zero_hpz, plan));
  const Multiple multiples[] = {
      {"parallel.zero_hpz", static_cast<std::int64_t>(plan.tp) * plan.cp * plan.dp,
       "parallel.zero_hpz x parallel.expert_tp",
       static_cast<std::int64_t>(plan.zero_hpz) * plan.expert_tensor(),
       /*applies=*/model.is_moe() && plan.ep == 1, "parallel.tp x parallel.cp x parallel.dp"}};
  return check_multiples(multiples);
}

// Checks shards. An expert has dp cp tp / (ep expert_tp) replicas; a shard of hsdp_shard dense
// ranks must be whole expert groups.
Status check_shards(const Plan& plan) {
  if (plan.hsdp_shard == 0) return Done{};
  if (plan.zero == 0)
    return found_word({"parallel.hsdp_shard", "train.zero"}, std::to_string(plan.hsdp_shard),
                      "none with train.zero = 0: nothing is cut");
  RETURN_IF_ERROR(check_divides_replicas("parallel.hsdp_shard", plan.hsdp_shard, plan));
  const Multiple multiples[] = {{"parallel.hsdp_shard",
                                 static_cast<std::int64_t>(plan.hsdp_shard) * plan.tp,
                                 "parallel.ep x parallel.expert_tp",
                                 static_cast<std::int64_t>(plan.ep) * plan.expert_tensor(),
                                 /*applies=*/true, "parallel.hsdp_shard x parallel.tp"}};
  return check_multiples(multiples);
}

Status check_vocabulary(const Model& model, const Plan& plan) {
  if (plan.vocabulary == 0) return Done{};
  if (plan.vocabulary < 0 || plan.vocabulary > 2)
    return found_number("schedule.vocabulary_algorithm", plan.vocabulary, "1 or 2");
  if (plan.pp == 1)
    return found_word({"schedule.vocabulary", "parallel.pp"}, "parallel with parallel.pp = 1",
                      "ranks of a pipeline to share the vocabulary");
  if (model.mtp_layers > 0)
    return found_word({"schedule.vocabulary", "model.mtp_layers"},
                      fmt::format("parallel with model.mtp_layers = {}", model.mtp_layers),
                      "0: each of them has the head again");
  return Done{};
}

// Checks what is offloaded. Megatron-LM has these rules but for full recompute, under which its
// modules keep nothing (megatron/core/transformer/transformer_config.py:2127 at d98e8a64).
Status check_offload(const Model& model, const Plan& plan) {
  const std::string_view key = "train.activation_offload_modules";
  const OffloadModules& modules = plan.offload_modules;
  const bool any_module = modules != OffloadModules{};
  const bool selective = plan.recompute == Recompute::Selective;
  const bool inner = modules.expert_fc1 || modules.moe_act;
  struct Rule {
    bool broken;
    std::string_view other, found, expected;  // `other`: the other key that can mend it
  };
  const Rule rules[] = {
      {any_module && plan.offload_layers > 0, "train.activation_offload_layers",
       "some with train.activation_offload_layers", "one of both keys"},
      {any_module && plan.recompute == Recompute::Full, "train.recompute",
       "some with train.recompute = full", "none: a layer then keeps its input alone"},
      {modules.attn_proj && !modules.core_attn, key, "attn_proj without core_attn",
       "both: the input of one is the output of the other, which needs it too"},
      {modules.fused_group_mlp && inner, key, "fused_group_mlp with expert_fc1 or moe_act",
       "it alone: it has them inside"},
      {selective && modules.core_attn && plan.recompute_modules.core_attn,
       "train.recompute_modules", "core_attn, which train.recompute_modules has too",
       "one of both"},
      {selective && plan.recompute_modules.moe && (inner || modules.fused_group_mlp),
       "train.recompute_modules",
       "a part of the experts, which train.recompute_modules = moe "
       "repeats",
       "one of both"},
  };
  for (const Rule& rule : rules) {
    if (rule.broken)
      return found_word({std::string(key), std::string(rule.other)}, rule.found, rule.expected);
  }
  if (plan.offload_layers < 0 || plan.offload_layers > model.layers)
    return found_number("train.activation_offload_layers", plan.offload_layers,
                        fmt::format("from 0 to model.layers = {}", model.layers));
  return Done{};
}

Status check_training(const Model& model, const Plan& plan) {
  if (plan.zero < 0 || plan.zero > 3) return found_number("train.zero", plan.zero, "from 0 to 3");
  // A pipeline runs other microbatches between a forward and its backward: each would gather again.
  if (plan.zero == 3 && plan.pp > 1 && plan.reshard_after_forward.value_or(false))
    return found_word({"train.reshard_after_forward", "parallel.pp"}, "true",
                      fmt::format("false with parallel.pp = {}: a stage's parameters stay gathered "
                                  "from its first microbatch to its last",
                                  plan.pp));
  RETURN_IF_ERROR(check_secondary(model, plan));
  RETURN_IF_ERROR(check_shards(plan));
  RETURN_IF_ERROR(check_vocabulary(model, plan));
  RETURN_IF_ERROR(check_offload(model, plan));
  if (plan.recompute_layers < -1 || plan.recompute_layers > model.layers)
    return found_number("train.recompute_layers", plan.recompute_layers,
                        fmt::format("-1 (for all) or from 0 to model.layers = {}", model.layers));
  if (plan.recompute_layers >= 0 && plan.recompute != Recompute::Full)
    return found_number("train.recompute_layers", plan.recompute_layers,
                        "none but with train.recompute = full");
  if (plan.flash_attention && plan.precision == "fp32")
    return found_word({"train.flash_attention"}, "true",
                      "false with train.precision = fp32: its kernels take 16 bits");
  return Done{};
}

// Checks a stated number of layers for each of the stages.
Status check_listed_layers(const std::vector<int>& listed, int all_layers, std::int64_t stages) {
  if (static_cast<std::int64_t>(listed.size()) != stages)
    return found_number(
        "parallel.layers_per_stage", listed.size(),
        fmt::format("as many numbers as stages, parallel.pp x parallel.vpp = {}", stages));
  for (const int layers : listed) {
    if (layers < 0 || layers > all_layers)
      return found_number("parallel.layers_per_stage", layers,
                          fmt::format("each number from 0 to model.layers = {}", all_layers));
  }
  const std::int64_t sum = std::accumulate(listed.begin(), listed.end(), std::int64_t{0});
  if (sum == all_layers) return Done{};
  return found_number("parallel.layers_per_stage", sum,
                      fmt::format("a sum of model.layers = {}", all_layers));
}

// Checks that every stage has a layer, except the first and the last one, which have the embedding
// and the head.
Status check_layers(const Model& model, const Plan& plan) {
  const std::vector<int>& listed = plan.layers_per_stage;
  const std::int64_t stages = static_cast<std::int64_t>(plan.pp) * plan.vpp;
  if (!listed.empty()) {
    RETURN_IF_ERROR(check_listed_layers(listed, model.layers, stages));
  } else if (stages > model.layers + 2) {
    return Error::of(
        {"parallel.pp", "parallel.vpp"},
        fmt::format(
            "parallel.pp x parallel.vpp: found {} stages, expected at most model.layers + 2 = {}",
            stages, model.layers + 2));
  }
  const std::vector<int> split = split_layers(model, plan);
  for (std::size_t stage = 1; stage + 1 < split.size(); ++stage) {
    // A layout of Megatron-LM may have only multi-token prediction on the last stage but one. That
    // stage is empty here if prediction is on the last stage (no plan.mtp_before_loss).
    const bool may_be_empty = model.mtp_layers > 0 && stage + 2 == split.size();
    if (split[stage] > 0 || may_be_empty) continue;
    return found_word(
        {"parallel.layers_per_stage"},
        fmt::format("no layer for stage {} ({} layers on {} stages)", stage, model.layers, stages),
        "one at least on all stages but the first and the last");
  }
  return Done{};
}

Status check_dtypes(const Plan& plan) {
  if (bytes_of(plan.precision) == 0)
    return found_word({"train.precision"}, plan.precision, "fp32, fp16, bf16, fp8 or nvfp4");
  // In 16 bits keys of fp8 do nothing, so that one file may compare both.
  if (plan.fp8_attention && is_quantized(plan.precision) && !plan.flash_attention)
    return found_word({"train.fp8_attention"}, "true", "train.flash_attention = true with it");
  const bool fp8 = plan.precision == "fp8";
  if (fp8 && plan.fp8_recipe == Fp8Recipe::Rowwise && plan.fp8_param_gather)
    return found_word({"train.fp8_recipe"}, "rowwise", "another with fp8_param_gather");
  if (fp8 && plan.amax_reduction != AmaxReduction::All && plan.fp8_recipe != Fp8Recipe::Delayed)
    return found_word({"train.amax_reduction"}, "tensor or none",
                      "train.fp8_recipe = delayed, whose scales wait for it");
  if (bytes_of(plan.moment_dtype) == 0 || plan.moment_dtype == "nvfp4")
    return found_word({"train.optimizer_dtype"}, plan.moment_dtype, "fp32, fp16, bf16 or fp8");
  if (bytes_of(plan.gradient_dtype) < 2)
    return found_word({"train.gradient_dtype"}, plan.gradient_dtype, "fp32, fp16 or bf16");
  return Done{};
}

// Checks the rules of one kind of layer.
Status check_layer(const Model& model, const Plan& plan, bool others_have_experts) {
  RETURN_IF_ERROR(check_shape(model, plan));
  RETURN_IF_ERROR(check_context(model, plan));
  return check_experts(model, plan, others_have_experts);
}

// Adds the kind to an Error: the kind's own keys come first, and its name is in the message.
Status in_kind(const Status& status, const Model& kind) {
  if (status.ok() || kind.kind.empty()) return status;
  Error error = status.error();
  std::vector<std::string> keys;
  for (const std::string& key : error.place.keys) {
    if (key.starts_with("model."))
      keys.push_back(fmt::format("model.kinds.{}{}", kind.kind, key.substr(5)));
  }
  error.place.keys.insert(error.place.keys.begin(), keys.begin(), keys.end());
  error.message = fmt::format("kind {}: {}", kind.kind, error.message);
  return error;
}

}  // namespace

Status check_stated(const Model& model, const Plan& plan) {
  // Unstated sizes are 0 and pass: 0 % n == 0.
  const Multiple multiples[] = {
      {"model.hidden", model.hidden, "model.heads", model.heads, model.heads > 0},
      {"model.heads", model.heads, "model.kv_heads", model.kv_heads, model.kv_heads > 0},
      {"model.heads", model.heads, "parallel.tp", plan.tp},
      {"model.ffn_hidden", model.ffn(), "parallel.tp", plan.tp},
      {"model.seq", model.seq, "parallel.cp", plan.cp},
  };
  RETURN_IF_ERROR(check_multiples(multiples));
  RETURN_IF_ERROR(check_shared_heads(model.kv_heads, plan));
  if (model.layers > 0) return check_layers(model, plan);
  return Done{};
}

Status check_model(const Model& model, const Plan& plan) {
  RETURN_IF_ERROR(check_model_sizes(model));
  for (const Model& kind : model.kinds) RETURN_IF_ERROR(in_kind(check_model_sizes(kind), kind));
  return check_plan(model, plan);
}

Status check_part(const Model& model, const Plan& plan) {
  RETURN_IF_ERROR(check_plan_sizes(plan));
  RETURN_IF_ERROR(check_activation(model, plan));
  for (const Model& kind : model.kinds)
    RETURN_IF_ERROR(in_kind(check_activation(kind, plan), kind));
  const LayersOfKinds kinds = kinds_of(model);
  for (const auto& [kind, layers] : kinds)
    RETURN_IF_ERROR(in_kind(check_layer(*kind, plan, model.is_moe()), *kind));
  RETURN_IF_ERROR(check_layers(model, plan));
  RETURN_IF_ERROR(check_dtypes(plan));
  RETURN_IF_ERROR(check_muon(plan));
  for (const auto& [kind, layers] : kinds)
    RETURN_IF_ERROR(in_kind(check_overlap(*kind, plan), *kind));
  return Done{};
}

Status check_plan(const Model& model, const Plan& plan) {
  RETURN_IF_ERROR(check_part(model, plan));
  return check_training(model, plan);
}

}  // namespace tandem
