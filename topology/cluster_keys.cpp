// Binds the keys of a scenario's [cluster] and of presets to their fields, with units and ranges.
#include "topology/cluster_keys.h"

#include <optional>
#include <string>

#include "base/units.h"

namespace tandem {
namespace {

std::optional<std::string> set_nvlinks(const KeyValue& value, ClusterSpec* spec) {
  const auto* links = std::get_if<std::string>(&value);
  const auto adjacency = parse_nvlink_adjacency(links != nullptr ? *links : "?");
  if (!adjacency.ok()) return "each GPU's links to each, as in '0222 2022 2202 2220'";
  spec->nvlinks = adjacency.value();
  return std::nullopt;
}

// Sets one share for every precision.
std::optional<std::string> set_gemm_efficiency(const KeyValue& value, DeviceSpec* device) {
  const auto place = [](DeviceSpec& d) -> double& { return d.gemm_efficiency; };
  device->own_gemms.clear();
  return keys::number("cluster.gemm_efficiency", place, 1, keys::kShare).set(value, device);
}

// A function from the spec to the field that a key sets.
#define AT(expression) \
  [](ClusterSpec & spec) -> auto& { return spec.expression; }

// Returns the keys of a node, its links and NICs, and the fabric.
std::vector<BoundKey<ClusterSpec>> link_keys() {
  return {keys::whole("cluster.gpus_per_node", AT(gpus_per_node), 1),
          keys::number("cluster.intra_GBps", AT(intra_bytes_per_s), GB, keys::kPositive),
          keys::number("cluster.intra_efficiency", AT(intra_efficiency), 1, keys::kShare),
          keys::number("cluster.intra_latency_us", AT(intra_latency_s), 1e-6, keys::kMicroseconds),
          keys::whole("cluster.nics_per_node", AT(nics_per_node), 1),
          keys::number("cluster.nic_Gbitps", AT(nic_bytes_per_s), Gbit, keys::kPositive),
          keys::number("cluster.inter_efficiency", AT(inter_efficiency), 1, keys::kShare),
          keys::number("cluster.inter_latency_us", AT(inter_latency_s), 1e-6, keys::kMicroseconds),
          keys::choice<Fabric::Kind>("cluster.fabric",
                                     {{"star", Fabric::Star},
                                      {"rail-optimised", Fabric::RailOptimised},
                                      {"fat-tree", Fabric::FatTree}},
                                     AT(fabric.kind)),
          keys::whole("cluster.nodes_per_leaf", AT(fabric.nodes_per_leaf), 1),
          keys::number("cluster.oversubscription", AT(fabric.oversubscription), 1, {.least = 1})};
}

// Returns the keys of the collectives' algorithms, and of their costs beyond those of the links.
std::vector<BoundKey<ClusterSpec>> algorithm_keys() {
  return {
      keys::flag("cluster.nics_on_switch", AT(nics_on_switch)),
      keys::choice<Collectives>("cluster.collectives",
                                {{"ring", Collectives::Ring},
                                 {"hierarchical", Collectives::Hierarchical},
                                 {"auto", Collectives::Auto}},
                                AT(collectives)),
      keys::flag("cluster.in_network_reduction", AT(in_network_reduction)),
      keys::flag("cluster.trees", AT(trees)),
      keys::flag("cluster.nvls", AT(nvls)),
      keys::number("cluster.nvls_efficiency", AT(nvls_efficiency), 1, keys::kShare),
      keys::number("cluster.gather_efficiency", AT(gather_efficiency), 1, keys::kShare),
      keys::number("cluster.alltoall_efficiency", AT(alltoall_efficiency), 1, keys::kShare),
      keys::number("cluster.pair_efficiency", AT(pair_efficiency), 1, keys::kShare),
      {"cluster.nvlinks", set_nvlinks},
      keys::number("cluster.ring_efficiency", AT(ring_efficiency), 1, keys::kShare),
      keys::number("cluster.communicator_GBps", AT(communicator_bytes_per_s), GB, keys::kPositive),
      keys::number("cluster.ring_fill_steps", AT(ring_fill_steps), 1, keys::kSteps),
      keys::number("cluster.intra_base_us", AT(intra_base_s), 1e-6, keys::kMicroseconds),
      keys::number("cluster.intra_ll_latency", AT(intra_low_latency.latency), 1, keys::kShare),
      keys::number("cluster.intra_ll_rate", AT(intra_low_latency.rate), 1, keys::kShare),
      keys::number("cluster.inter_base_us", AT(inter_base_s), 1e-6, keys::kMicroseconds),
      keys::number("cluster.inter_ll_latency", AT(inter_low_latency.latency), 1, keys::kShare),
      keys::number("cluster.inter_ll_rate", AT(inter_low_latency.rate), 1, keys::kShare)};
}

#undef AT

}  // namespace

const std::vector<BoundKey<ClusterSpec>>& cluster_keys() {
  static const std::vector<BoundKey<ClusterSpec>> kKeys = [] {
    std::vector<BoundKey<ClusterSpec>> keys = link_keys();
    for (BoundKey<ClusterSpec>& key : algorithm_keys()) keys.push_back(std::move(key));
    return keys;
  }();
  return kKeys;
}

#define AT(expression) \
  [](DeviceSpec & device) -> auto& { return device.expression; }

const std::vector<BoundKey<DeviceSpec>>& device_keys() {
  static const std::vector<BoundKey<DeviceSpec>> kKeys = {
      keys::number("cluster.memory_GiB", AT(memory_bytes), GiB, keys::kPositive),
      keys::number(
          "cluster.memory_reserve_GiB",
          [](DeviceSpec& d) -> double& { return d.own_memory_reserve_bytes.emplace(); }, GiB),
      keys::number("cluster.gemm_workspace_MiB", AT(gemm_workspace_bytes), 1024.0 * 1024),
      keys::number("cluster.memory_GBps", AT(memory_bytes_per_s), GB, keys::kPositive),
      keys::number("cluster.host_link_GBps", AT(host_link_bytes_per_s), GB, keys::kPositive),
      keys::number("cluster.host_memory_GBps", AT(host_memory_bytes_per_s), GB, keys::kPositive),
      keys::whole("cluster.sms", AT(sms), 1),
      {"cluster.gemm_efficiency", set_gemm_efficiency},
      keys::number("cluster.gemm_ramp_k", AT(gemm_ramp_k)),
      keys::number("cluster.gemm_whole_wave", AT(gemm_whole_wave), 1, {.least = 0, .most = 1}),
      keys::number("cluster.gemm_launch_us", AT(gemm_launch_s), 1e-6, keys::kMicroseconds),
      keys::number("cluster.training_clock", AT(training_clock), 1, keys::kShare),
      keys::number("cluster.attention_efficiency", AT(attention_efficiency), 1, keys::kShare),
      keys::number("cluster.attention_ramp_keys", AT(attention_ramp_keys)),
      keys::number("cluster.attention_softmax_size", AT(attention_softmax_size)),
      keys::number("cluster.attention_launch_us", AT(attention_launch_s), 1e-6,
                   keys::kMicroseconds),
      keys::number("cluster.deepep_launch_us", AT(deepep_launch_s), 1e-6, keys::kMicroseconds),
      keys::number("cluster.deepep_copy_us", AT(deepep_copy_s), 1e-6, keys::kMicroseconds),
      keys::number("cluster.deepep_sm_GBps", AT(deepep_sm_bytes_per_s), GB, keys::kPositive)};
  return kKeys;
}

#undef AT

}  // namespace tandem
