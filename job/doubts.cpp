#include "job/doubts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "topology/preset.h"
#include "workload/model/model.h"

namespace tandem {
namespace {

// The side of a GEMM tile: for smaller sizes the cost model is meaningless. It was fitted to runs
// with seq >= 1024 and vocab >= 50257.
constexpr int kLeastSize = 128;

void add_uneven_stages(const Scenario& s, std::vector<std::string>* lines) {
  if (s.costs.uniform || !s.job.plan.layers_per_stage.empty()) return;
  // Megatron-LM has the same stages if the embedding and the head count as layers
  // (--account-for-embedding-in-pipeline-split and -loss-).
  const int stages = s.job.plan.stages();
  if (s.job.model.layers % stages == 0 || (s.job.model.layers + 2) % stages == 0) return;
  const std::vector<int> split = split_layers(s.job.model, s.job.plan);
  lines->push_back(fmt::format(
      "{}: found {} layers on pp x vpp = {} x {} stages, which are uneven: the first has {}, the "
      "last {}; Megatron-LM refuses that, and parallel.layers_per_stage says what is meant",
      s.place_of({"parallel.vpp", "parallel.pp", "model.layers"}), s.job.model.layers,
      s.job.plan.pp, s.job.plan.vpp, split.front(), split.back()));
}

void add_group(const Scenario& s, std::vector<std::string>* lines) {
  if (s.job.order.group == 0 || traits_of(s.job.order).groups) return;
  lines->push_back(
      fmt::format("{}: found schedule.group = {} with schedule.order = {}, which has no groups: it "
                  "counts for {} alone",
                  s.place_of({"schedule.group"}), s.job.order.group, s.job.order.name,
                  order_list([](const OrderTraits& order) { return order.groups; })));
}

void add_small_sizes(const Scenario& s, std::vector<std::string>* lines) {
  if (s.costs.uniform || s.costs.table) return;
  for (const auto& [key, size] :
       {std::pair{"model.seq", s.job.model.seq}, std::pair{"model.vocab", s.job.model.vocab}}) {
    if (size >= kLeastSize) continue;
    lines->push_back(
        fmt::format("{}: found {} = {}, below what the cost model was made for, {} and more",
                    s.place_of({key}), key, size, kLeastSize));
  }
}

template <Mixer kMixer>
bool has_mixer(const Scenario& s) {
  return std::ranges::any_of(kinds_of(s.job.model), [](const LayersOfKind& layers) {
    return layers.kind->mixer == kMixer;
  });
}

// Warns of long sequences whose attention is not said to be fused: frameworks of today fuse it.
void add_unfused_attention(const Scenario& s, std::vector<std::string>* lines) {
  constexpr int kLongSequence = 4096;
  const bool attends = has_mixer<Mixer::Heads>(s) || has_mixer<Mixer::Latent>(s);
  if (s.costs.uniform || s.job.model.seq < kLongSequence || !attends ||
      s.places.contains("train.flash_attention"))
    return;
  lines->push_back(fmt::format(
      "train.flash_attention is not set, so each head keeps a matrix of {} x {}, as before 2022: "
      "set it to true for a framework of today, or to false to mean this",
      s.job.model.seq, s.job.model.seq));
}

// Returns the preset's source for its GPUs' link to the host, in brackets; empty if there is none.
std::string host_link_source(const std::string& preset) {
  if (preset.empty()) return "";
  const auto sources = preset_sources(preset);
  if (!sources.ok()) return "";
  for (const auto& [key, source] : *sources) {
    if (key.ends_with(".host_link_GBps")) return fmt::format(" ({})", source);
  }
  return "";
}

// Warns of a NIC that is set to be faster than its PCIe slot, which is assumed to be as fast as the
// GPU's link to the host.
void add_fast_nics(const Scenario& s, std::vector<std::string>* lines) {
  const ClusterSpec& spec = s.cluster.spec;
  const double slot_bytes_per_s = spec.device.host_link_bytes_per_s;
  if (!s.costs.need_cluster() || !s.places.contains("cluster.nic_Gbitps") ||
      slot_bytes_per_s == 0 || spec.nic_bytes_per_s <= slot_bytes_per_s)
    return;
  if (!s.cluster.preset.empty()) {  // a machine of a preset may have faster slots for its NICs
    const auto preset = load_preset(s.cluster.preset);
    if (preset.ok() && spec.nic_bytes_per_s <= preset->nic_bytes_per_s) return;
  }
  lines->push_back(
      fmt::format("{}: cluster.nic_Gbitps = {:g} is simulated as set, but a slot like that of {} "
                  "carries at most "
                  "{:g} Gbit/s{}",
                  s.place_of({"cluster.nic_Gbitps"}), spec.nic_bytes_per_s / Gbit,
                  spec.device.name.empty() ? "the GPU" : spec.device.name, slot_bytes_per_s / Gbit,
                  host_link_source(s.cluster.preset)));
}

// Warns of keys of leaf switches if the cluster has no leaf switches.
void add_leaves(const Scenario& s, std::vector<std::string>* lines) {
  if (!s.costs.need_cluster() || s.cluster.spec.fabric.kind != Fabric::Star) return;
  for (const char* key : {"cluster.nodes_per_leaf", "cluster.oversubscription"}) {
    if (s.places.contains(key))
      lines->push_back(
          fmt::format("{}: {} has no effect: cluster.fabric = star has no leaves and "
                      "never blocks",
                      s.place_of({key}), key));
  }
}

// A key that does nothing unless another key has a value. It stands for all that begin with it.
struct ConditionalKey {
  const char* key;
  const char* condition;
  bool (*holds)(const Scenario&);  // or the key has the value that means nothing
};

bool moves_gradients_or_parameters_early(const Scenario& s) {
  return s.job.data.grad_reduce || s.job.data.param_gather;
}

constexpr ConditionalKey kConditionalKeys[] = {
    {"model.q_lora_rank", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.kv_lora_rank", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.qk_nope_head_dim", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.qk_rope_head_dim", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.v_head_dim", "model.mixer = latent", has_mixer<Mixer::Latent>},
    {"model.mamba_", "model.mixer = mamba", has_mixer<Mixer::Mamba>},
    {"model.linear_", "model.mixer = linear", has_mixer<Mixer::Linear>},
    {"schedule.budget", "schedule.order = auto",
     [](const Scenario& s) {
       const auto order = s.settings.find("schedule.order");
       return order != s.settings.end() && order->second.text() == "auto";
     }},
    {"train.recompute_modules", "train.recompute = selective",
     [](const Scenario& s) { return s.job.plan.recompute == Recompute::Selective; }},
    {"train.cuda_graph_scope", "train.cuda_graphs = true",
     [](const Scenario& s) { return s.job.plan.cuda_graphs; }},
    {"train.fp8_param_gather", "train.precision = fp8 or nvfp4",
     [](const Scenario& s) {
       return !s.job.plan.fp8_param_gather || is_quantized(s.job.plan.precision);
     }},
    {"train.reshard_after_forward", "train.zero = 3",
     [](const Scenario& s) { return s.job.plan.zero == 3; }},
    {"overlap.bucket_MB", "overlap.grad_reduce or overlap.param_gather",
     moves_gradients_or_parameters_early},
    {"overlap.data_sms", "overlap.grad_reduce or overlap.param_gather",
     moves_gradients_or_parameters_early},
    {"overlap.delay_wgrad", "model.experts",
     [](const Scenario& s) { return !s.job.plan.delay_wgrad || s.job.model.is_moe(); }},
    {"overlap.expert_sms", "model.experts", [](const Scenario& s) { return s.job.model.is_moe(); }},
    {"costs.p2p_s", "costs.source = uniform",
     [](const Scenario& s) { return s.costs.uniform.has_value(); }},
    {"variability.straggler_factor", "straggler_ranks, _nodes, _stages or _share",
     [](const Scenario& s) { return s.variability.stragglers.any(); }},
    {"variability.slow_link_", "variability.slow_link",
     [](const Scenario& s) { return !s.variability.slow_link.name.empty(); }}};

void add_conditional_keys(const Scenario& s, std::vector<std::string>* lines) {
  for (const ConditionalKey& row : kConditionalKeys) {
    const auto set = s.places.lower_bound(row.key);
    if (set == s.places.end() || !set->first.starts_with(row.key) || row.holds(s)) continue;
    lines->push_back(fmt::format("{}: {} has no effect without {}", s.place_of({set->first}),
                                 set->first, row.condition));
  }
}

// Warns that experts with a capacity below the mean load drop tokens, which MFU and tokens/s count.
void add_dropped_tokens(const Scenario& s, std::vector<std::string>* lines) {
  const double capacity = s.job.model.capacity_factor;
  if (!s.job.model.is_moe() || capacity == 0 || capacity >= 1) return;
  lines->push_back(
      fmt::format("{}: model.capacity_factor = {:g} drops {:g} % of the tokens' "
                  "experts or more; MFU and tokens/s count them",
                  s.place_of({"model.capacity_factor"}), capacity, 100 * (1 - capacity)));
}

}  // namespace

std::vector<std::string> doubts_of_any_plan(const Scenario& scenario) {
  std::vector<std::string> lines;
  add_small_sizes(scenario, &lines);
  add_unfused_attention(scenario, &lines);
  add_fast_nics(scenario, &lines);
  add_leaves(scenario, &lines);
  add_dropped_tokens(scenario, &lines);
  return lines;
}

std::vector<std::string> doubts(const Scenario& scenario) {
  std::vector<std::string> lines;
  add_uneven_stages(scenario, &lines);
  add_group(scenario, &lines);
  add_conditional_keys(scenario, &lines);
  for (std::string& line : doubts_of_any_plan(scenario)) lines.push_back(std::move(line));
  return lines;
}

bool varies_by_seed(const Scenario& scenario) {
  return scenario.variability.jitter > 0 || scenario.variability.stragglers.node_share > 0;
}

}  // namespace tandem
