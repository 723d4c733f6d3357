#include "job/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <variant>

#include "base/units.h"
#include "job/idle_keys.h"
#include "scenarios/costs.h"
#include "topology/preset.h"
#include "workload/memory/trainer.h"
#include "workload/model/blocks.h"
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

// Warns of long sequences whose attention is not said to be fused: frameworks of today fuse it.
void add_unfused_attention(const Scenario& s, std::vector<std::string>* lines) {
  constexpr int kLongSequence = 4096;
  const bool attends = std::ranges::any_of(kinds_of(s.job.model), [](const LayersOfKind& layers) {
    return layers.kind->mixer == Mixer::Heads || layers.kind->mixer == Mixer::Latent;
  });
  if (s.costs.uniform || s.job.model.seq < kLongSequence || !attends ||
      s.places.contains("train.flash_attention"))
    return;
  lines->push_back(fmt::format(
      "train.flash_attention is not set, so each head has a matrix of {} x {}, as before 2022: set "
      "it to true for a framework of today, or to false for this",
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
  const bool is_slower = slot_bytes_per_s > 0 && slot_bytes_per_s < spec.nic_bytes_per_s;
  if (!is_slower || !s.costs.need_cluster() || !s.places.contains("cluster.nic_Gbitps")) return;
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

// Warns of tokens that experts drop above their capacity, which MFU and tokens/s count.
void add_dropped_tokens(const Scenario& s, std::vector<std::string>* lines) {
  double layers = 0, dropped = 0, capacity = 0;
  bool is_counted = true;
  for (const LayersOfKind& each : kinds_of(s.job.model)) {
    const Model& kind = *each.kind;
    if (!kind.is_moe()) continue;
    const double share = dropped_share(kind, s.job.plan);
    layers += each.layers;
    dropped += each.layers * share;
    if (share == 0) continue;
    capacity = kind.capacity_factor;
    is_counted &= !kind.routed.empty();
  }
  if (dropped == 0) return;
  lines->push_back(fmt::format(
      "{}: model.capacity_factor = {:g} drops {:.3g} % of the tokens' experts{}; MFU and tokens/s "
      "count them",
      s.place_of({"model.capacity_factor", "model.kinds"}), capacity, 100 * dropped / layers,
      is_counted ? "" : " or more"));
}

// Warns of a number that no GPU or NIC has: mostly it is in another unit.
void add_unlikely_numbers(const Scenario& s, std::vector<std::string>* lines) {
  struct Range {
    const char* key;
    double least, most;
    const char* unit;
  };
  constexpr Range kRanges[] = {{"cluster.tflops", 1, 1e5, "TFLOP/s"},
                               {"cluster.memory_GiB", 1, 1e4, "GiB"},
                               {"cluster.memory_GBps", 50, 1e5, "GB/s"},
                               {"cluster.intra_GBps", 0.1, 1e6, "GB/s"},
                               {"cluster.nic_Gbitps", 0.1, 1e5, "Gbit/s"}};
  for (const Range& range : kRanges) {
    const auto setting = s.settings.find(range.key);
    if (setting == s.settings.end()) continue;
    const auto* real = std::get_if<double>(&setting->second.value);
    const auto* whole = std::get_if<std::int64_t>(&setting->second.value);
    const double value = real != nullptr ? *real : static_cast<double>(*whole);
    if (value >= range.least && value <= range.most) continue;
    lines->push_back(
        fmt::format("{}: found {} = {:g}, and hardware has {:g} to {:g} {}: is the "
                    "unit right?",
                    setting->second.where, range.key, value, range.least, range.most, range.unit));
  }
}

// Warns of an fp8 recipe that the tensor cores do not have.
void add_recipe(const Scenario& s, std::vector<std::string>* lines) {
  if (!lacks_recipe(s, s.job.plan)) return;
  lines->push_back(fmt::format(
      "{}: found train.fp8_recipe = mxfp8, which tensor cores of {} do not have: it is simulated "
      "as "
      "if they had",
      s.place_of({"train.fp8_recipe"}), s.cluster.spec.device.name));
}

// Warns of experts in CUDA graphs whose number of tokens the CPU must know before it launches them.
void add_graphs_of_experts(const Scenario& s, std::vector<std::string>* lines) {
  const Plan& plan = s.job.plan;
  const bool varies = std::ranges::any_of(kinds_of(s.job.model), [](const LayersOfKind& layers) {
    return layers.kind->is_moe() && !layers.kind->pad_to_capacity;
  });
  const bool has_graphs = plan.cuda_graphs && plan.cuda_graph_modules.moe;
  if (!varies || !has_graphs || plan.dispatcher == Dispatcher::HybridEp) return;
  lines->push_back(fmt::format(
      "{}: train.cuda_graphs with experts that take any number of tokens: the CPU waits for the "
      "numbers, so Megatron-LM refuses it without model.pad_to_capacity; it runs "
      "train.cuda_graph_scope = attn, moe_router, moe_preprocess",
      s.place_of({"train.cuda_graphs"})));
}

// Warns of selective recompute that changes nothing, which in Megatron-LM takes time
// (checkpoint_core_attention in its core/transformer/attention.py).
void add_idle_recompute(const Scenario& s, std::vector<std::string>* lines) {
  if (s.costs.uniform || !recomputes_nothing(s.job.plan)) return;
  lines->push_back(fmt::format(
      "{}: train.recompute = selective has no effect on time and memory here: flash attention "
      "keeps no scores{}",
      s.place_of({"train.recompute"}),
      trainer_of(s.job.plan) == Trainer::Megatron
          ? "; Megatron-LM would run attention's forward again, which is not simulated"
          : ""));
}

// Warns of an imbalance that no rank can have: the busiest one gets all tokens at most.
void add_imbalance(const Scenario& s, std::vector<std::string>* lines) {
  for (const LayersOfKind& layers : kinds_of(s.job.model)) {
    if (!layers.kind->is_moe() || layers.kind->expert_imbalance <= s.job.plan.ep) continue;
    lines->push_back(fmt::format(
        "{}: model.expert_imbalance = {:g} counts as {}: of parallel.ep = {} ranks the busiest one "
        "gets all tokens at most",
        s.place_of({"model.expert_imbalance", "model.kinds"}), layers.kind->expert_imbalance,
        s.job.plan.ep, s.job.plan.ep));
    return;
  }
}

}  // namespace

std::vector<std::string> doubts_of_any_plan(const Scenario& scenario) {
  std::vector<std::string> lines;
  add_small_sizes(scenario, &lines);
  add_unfused_attention(scenario, &lines);
  add_fast_nics(scenario, &lines);
  add_leaves(scenario, &lines);
  add_dropped_tokens(scenario, &lines);
  add_unlikely_numbers(scenario, &lines);
  add_recipe(scenario, &lines);
  return lines;
}

std::vector<std::string> doubts(const Scenario& scenario) {
  std::vector<std::string> lines;
  add_uneven_stages(scenario, &lines);
  add_group(scenario, &lines);
  add_graphs_of_experts(scenario, &lines);
  add_idle_recompute(scenario, &lines);
  add_imbalance(scenario, &lines);
  for (std::string& line : idle_keys(scenario)) lines.push_back(std::move(line));
  for (std::string& line : doubts_of_any_plan(scenario)) lines.push_back(std::move(line));
  return lines;
}

bool varies_by_seed(const Scenario& scenario) {
  return scenario.variability.jitter > 0 || scenario.variability.stragglers.node_share > 0;
}

}  // namespace tandem
