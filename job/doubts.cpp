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

std::vector<std::string> doubts(const Scenario& scenario) {
  std::vector<std::string> lines;
  add_uneven_stages(scenario, &lines);
  add_group(scenario, &lines);
  add_small_sizes(scenario, &lines);
  add_fast_nics(scenario, &lines);
  add_leaves(scenario, &lines);
  add_dropped_tokens(scenario, &lines);
  return lines;
}

bool varies_by_seed(const Scenario& scenario) {
  return scenario.variability.jitter > 0 || scenario.variability.stragglers.node_share > 0;
}

}  // namespace tandem
