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
  device->own_gemm_efficiency.clear();
  return keys::number("", "", place, 1, keys::kShare).set(value, device);
}

// The keys of a node, its links and NICs, and the fabric.
#define AT(expression) \
  [](ClusterSpec & spec) -> auto& { return spec.expression; }

std::vector<Key<ClusterSpec>> link_keys() {
  return {
      keys::whole("gpus_per_node", "integer", AT(gpus_per_node), 1),
      keys::number("intra_GBps", "number: GB/s of a GPU to its node's switch, per direction",
                   AT(intra_bytes_per_s), GB, keys::kPositive),
      keys::number("intra_efficiency", "number: the share of it that NCCL reaches; default 1",
                   AT(intra_efficiency), 1, keys::kShare),
      keys::number("intra_latency_us", "number: us a message inside a node", AT(intra_latency_s),
                   1e-6, keys::kMicroseconds),
      keys::whole("nics_per_node", "integer: NICs, shared evenly by the GPUs", AT(nics_per_node),
                  1),
      keys::number("nic_Gbitps", "number: Gbit/s of a NIC, per direction", AT(nic_bytes_per_s),
                   Gbit, keys::kPositive),
      keys::number("inter_efficiency", "number: the share of it that NCCL reaches; default 1",
                   AT(inter_efficiency), 1, keys::kShare),
      keys::number("inter_latency_us", "number: us a message between nodes", AT(inter_latency_s),
                   1e-6, keys::kMicroseconds),
      keys::choice<Fabric::Kind>(
          "fabric", "text: star (non-blocking), rail-optimised or fat-tree; default star",
          {{"star", Fabric::Star},
           {"rail-optimised", Fabric::RailOptimised},
           {"fat-tree", Fabric::FatTree}},
          AT(fabric.kind)),
      keys::whole("nodes_per_leaf", "integer: nodes below a leaf switch (rail-optimised, fat-tree)",
                  AT(fabric.nodes_per_leaf), 1),
      keys::number("oversubscription", "number: a leaf's downlinks over its uplinks; default 1",
                   AT(fabric.oversubscription), 1, {.least = 1})};
}

// The keys of the collectives' algorithms and of their costs beside the links.
std::vector<Key<ClusterSpec>> algorithm_keys() {
  return {
      keys::flag(
          "nics_on_switch",
          "true or false: traffic between nodes crosses the GPU's link to its switch as well, one "
          "wire for both; default false",
          AT(nics_on_switch)),
      keys::choice<Collectives>(
          "collectives",
          "text: ring (over all ranks), hierarchical (on the nodes, and between them "
          "among ranks of equal place), or auto: the faster of both, group by "
          "group; default ring",
          {{"ring", Collectives::Ring},
           {"hierarchical", Collectives::Hierarchical},
           {"auto", Collectives::Auto}},
          AT(collectives)),
      keys::flag("in_network_reduction",
                 "true or false: switches between nodes reduce (SHARP): all-reduce sends each byte "
                 "up once and gets it down once; default false",
                 AT(in_network_reduction)),
      keys::flag(
          "trees",
          "true or false: an all-reduce over nodes may go in double binary trees, where that "
          "is faster for its size; default false",
          AT(trees)),
      keys::flag("nvls",
                 "true or false: an all-reduce may be reduced by the nodes' own switches (NVLS), "
                 "where that is faster for its size; default false",
                 AT(nvls)),
      keys::number("nvls_efficiency",
                   "number: the share of the rate inside a node that NVLS reaches; default 1",
                   AT(nvls_efficiency), 1, keys::kShare),
      keys::number(
          "gather_efficiency",
          "number: of what an all-reduce's rings reach inside a node, what all-gathers and "
          "reduce-scatters do; default 1",
          AT(gather_efficiency), 1, keys::kShare),
      keys::number("alltoall_efficiency", "number: of the same, what all-to-alls do; default 1",
                   AT(alltoall_efficiency), 1, keys::kShare),
      keys::number("pair_efficiency",
                   "number: what two GPUs of a node reach of what all of them do, in any of these; "
                   "default 1",
                   AT(pair_efficiency), 1, keys::kShare),
      {"nvlinks",
       "text: where no switch joins a node's GPUs, the NVLinks of each to each, as in '0222 "
       "2022 2202 2220'; intra_GBps is then the best joined pair's, and so are, "
       "in links_file, the links of a node's GPUs to its hub; default a switch",
       set_nvlinks},
      keys::number("ring_efficiency",
                   "number: a further share that rings between nodes reach, of the NICs and of "
                   "communicator_GBps; default 1",
                   AT(ring_efficiency), 1, keys::kShare),
      keys::number(
          "communicator_GBps",
          "number: GB/s that one communicator moves out of a node, or into it, at most, in "
          "whatever operation; several have as much each, until the NICs are full; default "
          "what the NICs carry",
          AT(communicator_bytes_per_s), GB, keys::kPositive),
      keys::number(
          "ring_fill_steps",
          "number: steps that a ring inside a node takes longer to fill and drain, a pass; "
          "default 0",
          AT(ring_fill_steps), 1, keys::kSteps),
      keys::number("intra_base_us",
                   "number: us that an all-reduce inside a node takes before its first step, twice "
                   "what "
                   "scattering or gathering does; default 0",
                   AT(intra_base_s), 1e-6, keys::kMicroseconds),
      keys::number("intra_ll_latency",
                   "number: the share of the latency that a collective inside a node takes in the "
                   "low-latency protocol; default 1: there is none",
                   AT(intra_low_latency.latency), 1, keys::kShare),
      keys::number("intra_ll_rate", "number: the share of the rate that it reaches then; default 1",
                   AT(intra_low_latency.rate), 1, keys::kShare),
      keys::number("inter_base_us", "number: as cluster.intra_base_us, of a collective over nodes",
                   AT(inter_base_s), 1e-6, keys::kMicroseconds),
      keys::number("inter_ll_latency",
                   "number: as cluster.intra_ll_latency, of a collective over nodes",
                   AT(inter_low_latency.latency), 1, keys::kShare),
      keys::number("inter_ll_rate", "number: as cluster.intra_ll_rate, of a collective over nodes",
                   AT(inter_low_latency.rate), 1, keys::kShare)};
}

#undef AT

}  // namespace

const std::vector<Key<ClusterSpec>>& cluster_keys() {
  static const std::vector<Key<ClusterSpec>> kKeys = [] {
    std::vector<Key<ClusterSpec>> keys = link_keys();
    for (Key<ClusterSpec>& key : algorithm_keys()) keys.push_back(std::move(key));
    return keys;
  }();
  return kKeys;
}

#define AT(expression) \
  [](DeviceSpec & device) -> auto& { return device.expression; }

const std::vector<Key<DeviceSpec>>& device_keys() {
  static const std::vector<Key<DeviceSpec>> kKeys = {
      keys::number("memory_GiB", "number: GiB of a GPU's memory", AT(memory_bytes), GiB,
                   keys::kPositive),
      keys::number(
          "memory_reserve_GiB",
          "number: GiB of it that CUDA's context, NCCL's buffers and fragmentation take: a plan "
          "fits "
          "into the rest; default the GPU's, 6 % of its memory",
          [](DeviceSpec& d) -> double& { return d.own_memory_reserve_bytes.emplace(); }, GiB),
      keys::number("gemm_workspace_MiB",
                   "number: MiB of it that GEMM libraries hold as tensors; default the GPU's, 0 "
                   "for one of your own",
                   AT(gemm_workspace_bytes), 1024.0 * 1024),
      keys::number("memory_GBps", "number: GB/s of a GPU's memory", AT(memory_bytes_per_s), GB,
                   keys::kPositive),
      keys::number("host_link_GBps",
                   "number: GB/s of a GPU's link to its CPU, one direction, for "
                   "train.optimizer_offload; default the GPU's",
                   AT(host_link_bytes_per_s), GB, keys::kPositive),
      keys::number("host_memory_GBps",
                   "number: GB/s of its part of the CPU's memory; default the GPU's",
                   AT(host_memory_bytes_per_s), GB, keys::kPositive),
      keys::whole("sms", "integer: streaming multiprocessors of a GPU", AT(sms), 1),
      {"gemm_efficiency",
       "number: the share of its peak that a GPU's large GEMMs reach, taken for every precision; "
       "default the GPU's, 0.761 for one of your own",
       set_gemm_efficiency},
      keys::number("gemm_ramp_k",
                   "number: what a GEMM's tile costs beside its products, in K of 16-bit numbers; "
                   "default the GPU's, 124 for one of your own",
                   AT(gemm_ramp_k)),
      keys::number("gemm_whole_wave",
                   "number: the share of a last wave of tiles that costs as if it were full; "
                   "default the GPU's, 0.59 for one of your own",
                   AT(gemm_whole_wave), 1, {.least = 0, .most = 1}),
      keys::number("gemm_launch_us",
                   "number: us between two GEMMs; default the GPU's, 3 for one of your own",
                   AT(gemm_launch_s), 1e-6, keys::kMicroseconds),
      keys::number(
          "training_clock",
          "number: what training, at its power limit, leaves of the rate of GEMMs that run "
          "alone; default the GPU's, 1 for one of your own",
          AT(training_clock), 1, keys::kShare),
      keys::number("attention_efficiency",
                   "number: the share of its 16-bit peak that a GPU's fused attention reaches "
                   "forward, with heads of 128 and long rows; default the GPU's, 0.55 for one of "
                   "your own",
                   AT(attention_efficiency), 1, keys::kShare),
      keys::number("attention_ramp_keys",
                   "number: keys a row at which fused attention reaches half of that; default the "
                   "GPU's, 0 for one of your own",
                   AT(attention_ramp_keys)),
      keys::number("attention_softmax_size",
                   "number: what a head's softmax costs, in numbers of a head's size; default the "
                   "GPU's, 0 for one of your own",
                   AT(attention_softmax_size)),
      keys::number("attention_launch_us",
                   "number: us between two fused attentions; default the GPU's, 0 for one of your "
                   "own",
                   AT(attention_launch_s), 1e-6, keys::kMicroseconds),
      keys::number("deepep_launch_us",
                   "number: us that an exchange by DeepEP takes beside its copies; default the "
                   "GPU's, 0 for one of your own",
                   AT(deepep_launch_s), 1e-6, keys::kMicroseconds),
      keys::number("deepep_copy_us",
                   "number: us that an SM of DeepEP's takes for a copy of a token beside its "
                   "bytes; default the GPU's, 0 for one of your own",
                   AT(deepep_copy_s), 1e-6, keys::kMicroseconds),
      keys::number("deepep_sm_GBps",
                   "number: GB/s that an SM of DeepEP's moves; default the GPU's; without it links "
                   "alone limit DeepEP",
                   AT(deepep_sm_bytes_per_s), GB, keys::kPositive)};
  return kKeys;
}

#undef AT

}  // namespace tandem
