#include "job/idle_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "workload/model/layer_keys.h"
#include "workload/model/model.h"

namespace tandem {
namespace {

template <Mixer kMixer>
bool has_mixer(const Scenario& s) {
  return std::ranges::any_of(kinds_of(s.job.model), [](const LayersOfKind& layers) {
    return layers.kind->mixer == kMixer;
  });
}

// A key that does nothing unless another key has a value. "model.mamba_": the first key that is set
// and begins so.
struct ConditionalKey {
  const char* key;
  const char* condition;
  // Whether the condition holds. Also true if the key is set to what it is by default.
  bool (*holds)(const Scenario&);
};

bool has_shared_experts(const Scenario& s) {
  return std::ranges::any_of(kinds_of(s.job.model), [](const LayersOfKind& layers) {
    return layers.kind->is_moe() && layers.kind->shared_expert_ffn > 0;
  });
}

bool is_pipeline(const Scenario& s) { return s.job.plan.pp > 1; }
bool cuts_contexts(const Scenario& s) { return s.job.plan.cp > 1; }
bool cuts_experts(const Scenario& s) { return s.job.model.is_moe() && s.job.plan.ep > 1; }

// Scenario::settings has the value of each key that is set, Scenario::places its file and line.
bool has_text(const Scenario& s, const char* key, std::string_view text) {
  const auto setting = s.settings.find(key);
  return setting != s.settings.end() && setting->second.text() == text;
}

constexpr ConditionalKey kConditionalKeys[] = {
    {"model.kv_heads", "model.mixer = heads", has_mixer<Mixer::Heads>},
    {"model.shared_kv", "model.mixer = heads", has_mixer<Mixer::Heads>},
    {"model.attention_sinks", "model.mixer = heads", has_mixer<Mixer::Heads>},
    {"model.q_lora_rank", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.kv_lora_rank", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.qk_nope_head_dim", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.qk_rope_head_dim", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.v_head_dim", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.mamba_", "model.mixer = mamba", has_mixer<Mixer::Mamba>},
    {"model.linear_", "model.mixer = linear", has_mixer<Mixer::Linear>},
    {"parallel.cp_comm", "parallel.cp >= 2",
     [](const Scenario& s) {
       return cuts_contexts(s) || s.job.plan.context_comm == ContextComm::Ring;
     }},
    {"parallel.dispatcher", "parallel.ep >= 2",
     [](const Scenario& s) {
       return cuts_experts(s) || s.job.plan.dispatcher == Dispatcher::AllToAll;
     }},
    {"parallel.fp8_dispatch", "parallel.ep >= 2",
     [](const Scenario& s) { return cuts_experts(s) || !s.job.plan.fp8_dispatch; }},
    {"schedule.memory_limit", "an order by name or auto",
     [](const Scenario& s) { return s.job.order_file.empty(); }},
    {"schedule.budget", "schedule.order = auto",
     [](const Scenario& s) { return has_text(s, "schedule.order", "auto"); }},
    {"train.recompute_modules", "train.recompute = selective",
     [](const Scenario& s) { return s.job.plan.recompute == Recompute::Selective; }},
    {"train.cuda_graph_scope", "train.cuda_graphs = true",
     [](const Scenario& s) { return s.job.plan.cuda_graphs; }},
    {"train.fp8_recipe", "train.precision = fp8",
     [](const Scenario& s) {
       return s.job.plan.precision == "fp8" || has_text(s, "train.fp8_recipe", "delayed");
     }},
    {"train.amax_reduction", "train.precision = fp8",
     [](const Scenario& s) {
       return s.job.plan.precision == "fp8" || has_text(s, "train.amax_reduction", "all");
     }},
    {"train.fp8_attention", "train.precision = fp8 or nvfp4",
     [](const Scenario& s) {
       return is_quantized(s.job.plan.precision) || has_text(s, "train.fp8_attention", "false");
     }},
    {"train.fp8_param_gather", "train.precision = fp8 or nvfp4",
     [](const Scenario& s) {
       return is_quantized(s.job.plan.precision) || has_text(s, "train.fp8_param_gather", "false");
     }},
    {"train.reshard_after_forward", "train.zero = 3",
     [](const Scenario& s) { return s.job.plan.zero == 3; }},
    {"train.activation_offload_modules", "model.experts or a module of attention",
     [](const Scenario& s) {
       const OffloadModules& modules = s.job.plan.offload_modules;
       return s.job.model.is_moe() || modules == OffloadModules{} || modules.attn_norm ||
              modules.qkv_linear || modules.core_attn || modules.attn_proj;
     }},
    // With mixer = heads, attn_norm is a part of qkv_linear's kernel, so alone it offloads nothing.
    {"train.activation_offload_modules", "model.mixer = latent for attn_norm, or other modules",
     [](const Scenario& s) {
       const OffloadModules& modules = s.job.plan.offload_modules;
       return !modules.attn_norm || has_mixer<Mixer::Latent>(s) || modules.qkv_linear ||
              modules.core_attn || modules.attn_proj ||
              (s.job.model.is_moe() && modules != OffloadModules{.attn_norm = true});
     }},
    {"overlap.align_param_gather", "overlap.param_gather",
     [](const Scenario& s) { return s.job.data.param_gather; }},
    {"overlap.batch_p2p", "parallel.pp >= 2",
     [](const Scenario& s) { return is_pipeline(s) || !s.job.batch_p2p; }},
    {"overlap.bucket_MB", "overlap.grad_reduce or overlap.param_gather",
     [](const Scenario& s) { return s.job.data.grad_reduce || s.job.data.param_gather; }},
    {"overlap.context", "parallel.cp >= 2",
     [](const Scenario& s) { return cuts_contexts(s) || !s.job.plan.overlap_context; }},
    {"overlap.context_sms", "parallel.cp >= 2",
     [](const Scenario& s) { return cuts_contexts(s) || s.job.plan.context_sms == 0; }},
    // Whole experts are replicated over tp, so they are reduced even if dp x cp is 1.
    {"overlap.data_sms", "parallel.dp x cp >= 2",
     [](const Scenario& s) {
       return s.job.plan.dp * s.job.plan.cp > 1 || s.job.model.is_moe() || s.job.data.sms == 0;
     }},
    {"overlap.delay_wgrad", "model.experts and parallel.ep >= 2",
     [](const Scenario& s) { return cuts_experts(s) || !s.job.plan.delay_wgrad; }},
    {"overlap.expert_sms", "model.experts and parallel.ep >= 2",
     [](const Scenario& s) { return cuts_experts(s) || s.job.plan.expert_sms == 0; }},
    {"overlap.p2p", "parallel.pp >= 2",
     [](const Scenario& s) { return is_pipeline(s) || !s.job.overlap_p2p.value_or(false); }},
    {"overlap.p2p_sms", "parallel.pp >= 2",
     [](const Scenario& s) { return is_pipeline(s) || s.job.p2p_sms == 0; }},
    {"overlap.shared_experts", "model.shared_expert_ffn", has_shared_experts},
    {"overlap.tensor_setting", "overlap.tensor_file",
     [](const Scenario& s) { return !s.job.tensor.file.empty(); }},
    {"cluster.host_link_GBps", "train.optimizer_offload or train.activation_offload_*",
     [](const Scenario& s) {
       return s.job.plan.optimizer_offload > 0 || s.job.plan.offloads_activations();
     }},
    {"cluster.host_memory_GBps", "train.optimizer_offload",
     [](const Scenario& s) { return s.job.plan.optimizer_offload > 0; }},
    {"costs.p2p_s", "costs.source = uniform",
     [](const Scenario& s) { return s.costs.uniform.has_value(); }},
    {"variability.background", "links: costs.p2p_MB or a model",
     [](const Scenario& s) { return s.costs.need_cluster() || s.variability.background == 0; }},
    {"variability.straggler_factor", "straggler_ranks, _nodes, _stages or _share",
     [](const Scenario& s) { return s.variability.stragglers.any(); }},
    {"variability.slow_link_", "variability.slow_link",
     [](const Scenario& s) { return !s.variability.slow_link.name.empty(); }}};

// Keys of [model] that count for layers with experts alone.
constexpr std::string_view kExpertKeys[] = {
    "top_k",           "router_groups",     "router_topk_groups", "router_bias",
    "moe_latent",      "expert_ffn_hidden", "shared_expert_ffn",  "expert_imbalance",
    "capacity_factor", "pad_to_capacity"};

// If the table of every kind has this key of a layer, returns these tables, as "model.kinds.moe":
// the key has no effect in [model]. Returns nothing if some kind takes [model]'s.
std::vector<std::string> tables_instead(const Scenario& s, std::string_view word) {
  const bool is_expert_key = std::ranges::find(kExpertKeys, word) != std::end(kExpertKeys);
  std::vector<std::string> tables;
  for (const LayersOfKind& layers : kinds_of(s.job.model)) {
    if (is_expert_key && !layers.kind->is_moe()) continue;
    const std::string table = std::string(kKindPrefix) + layers.kind->kind;
    if (!s.settings.contains(fmt::format("{}.{}", table, word))) return {};
    tables.push_back(table);
  }
  return tables;
}

void add_keys_of_kinds(const Scenario& s, std::vector<std::string>* lines) {
  if (s.job.model.kinds.empty()) return;
  for (const BoundKey<Model>& bound : layer_keys()) {
    const std::string word(bound.key.last_word());
    const std::string key = "model." + word;
    if (!s.settings.contains(key)) continue;
    const std::vector<std::string> tables = tables_instead(s, word);
    if (!tables.empty())
      lines->push_back(fmt::format("{}: {} has no effect: {}.{} stands over it", s.place_of({key}),
                                   key, tables.front(), word));
  }
}

// A settings file says of every GEMM how it overlaps.
void add_tensor_word(const Scenario& s, std::vector<std::string>* lines) {
  constexpr const char* kWord = "overlap.tensor";
  if (s.places.contains(kWord) && !s.job.tensor.file.empty())
    lines->push_back(fmt::format("{}: {} has no effect: overlap.tensor_file stands over it",
                                 s.place_of({kWord}), kWord));
}

// Only latent attention has a module mla_up_proj.
void add_up_projection(const Scenario& s, std::vector<std::string>* lines) {
  constexpr const char* kKey = "train.recompute_modules";
  const Plan& plan = s.job.plan;
  const bool is_repeated =
      plan.recompute == Recompute::Selective && plan.recompute_modules.mla_up_proj;
  if (!is_repeated || s.costs.uniform || !s.places.contains(kKey) || has_mixer<Mixer::Latent>(s))
    return;
  lines->push_back(fmt::format("{}: mla_up_proj in {} has no effect without model.mixer = latent",
                               s.place_of({kKey}), kKey));
}

// Whether the key says how a pass computes or communicates. A scenario that states the seconds of
// each pass (costs.source = uniform) has no use for it.
bool is_of_passes(std::string_view key) {
  if (key.starts_with("overlap.")) return key != "overlap.p2p" && key != "overlap.batch_p2p";
  return key.starts_with("train.") || key == "parallel.cp_comm" || key == "parallel.scatter_gather";
}

void add_keys_of_passes(const Scenario& s, std::vector<std::string>* lines) {
  if (!s.costs.uniform) return;
  std::vector<std::string> keys;
  for (const auto& [key, place] : s.places) {
    if (is_of_passes(key)) keys.push_back(key);
  }
  if (keys.empty()) return;
  lines->push_back(fmt::format(
      "{}: {} {} no effect with costs.source = uniform: the seconds of an action are all there is",
      s.place_of({keys.front()}), fmt::join(keys, ", "), keys.size() == 1 ? "has" : "have"));
}

void add_conditional_keys(const Scenario& s, std::vector<std::string>* lines) {
  for (const ConditionalKey& row : kConditionalKeys) {
    const auto set = s.places.lower_bound(row.key);
    if (set == s.places.end() || row.holds(s)) continue;
    if (s.costs.uniform && is_of_passes(set->first)) continue;  // add_keys_of_passes() tells
    const bool is_prefix = std::string_view(row.key).ends_with('_');
    if (is_prefix ? !set->first.starts_with(row.key) : set->first != row.key) continue;
    lines->push_back(fmt::format("{}: {} has no effect without {}", s.place_of({set->first}),
                                 set->first, row.condition));
  }
}

}  // namespace

std::vector<std::string> idle_keys(const Scenario& scenario) {
  std::vector<std::string> lines;
  add_keys_of_kinds(scenario, &lines);
  add_tensor_word(scenario, &lines);
  add_up_projection(scenario, &lines);
  add_keys_of_passes(scenario, &lines);
  add_conditional_keys(scenario, &lines);
  return lines;
}

}  // namespace tandem
