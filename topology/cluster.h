// Cluster: the hardware as a graph of GPUs, switches, NICs and links, and the routes through it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "topology/calibration.h"
#include "topology/cluster_graph.h"
#include "topology/nvlink_adjacency.h"

namespace tandem {

// What one GPU can do. Rates are dense peaks as the data sheet gives them.
struct DeviceSpec {
  std::string name;
  double memory_bytes = 0;
  double memory_bytes_per_s = 0;
  int sms = 0;
  std::map<std::string, double> flops_per_s;  // by precision: "fp16", "bf16", "fp8", "fp32"

  // GEMMs that run alone. What the largest tiles reach of the peak with K infinite; a tile's
  // prologue and epilogue cost as much as so much of K; this share of the last wave costs as if it
  // were full, the rest goes by the tiles in it (SMs that are done early leave clock and bandwidth
  // to the others); and from the last kernel's end to the first instruction. Defaults: fitted to
  // 183 shapes on an A100-PCIe (MooreThreads/SimuMax).
  double gemm_efficiency = 0.761;
  double gemm_ramp_k = 124;
  double gemm_whole_wave = 0.59;
  double gemm_launch_s = 3e-6;
  // What training leaves of gemm_efficiency: at the power limit clocks are lower than where a
  // kernel is measured alone.
  double training_clock = 1;
  // Of a precision with a share of its own, which is of training: no clock comes on top.
  std::map<std::string, double> own_gemm_efficiency;
  // The software whose constants price models on it where none is named
  // (workload/frameworks/framework_profile.h).
  std::string profile = "megatron-a100";
  // Fused attention that runs alone, forward. What it reaches of the 16-bit peak with heads of 128
  // and rows without end; so many keys a row cost as much again as the rows' ends; so much of a
  // head as its softmax; and its launch.
  double attention_efficiency = 0.55;
  double attention_ramp_keys = 0;
  double attention_softmax_size = 0;
  double attention_launch_s = 0;
  // DeepEP's dispatch and combine: what an exchange takes beside its copies; and what an SM that
  // runs them takes for a copy of a token, and moves a second. 0 bytes a second: not known.
  double deepep_launch_s = 0, deepep_copy_s = 0, deepep_sm_bytes_per_s = 0;
  // What no tensor gets: see memory_reserve_bytes. Nothing: kMemoryReserve of the memory.
  std::optional<double> own_memory_reserve_bytes;
  // Its link to its CPU, one direction; and its part of the CPU's memory bandwidth. 0: not known.
  double host_link_bytes_per_s = 0, host_memory_bytes_per_s = 0;
  // What its GEMM libraries hold of it among the tensors, whatever the model.
  double gemm_workspace_bytes = 0;
};

// The share of a GPU's memory that the CUDA context, NCCL's buffers and the allocator's
// fragmentation take. Of an 80 GiB GPU it is 4.8 GiB: some 0.5 for the context, 0.5 to 0.7 for each
// communicator (NVIDIA/nccl issues 864 and 964 on A100s; a job has three to five), and some 2 %
// that an allocator cannot give out.
constexpr double kMemoryReserve = 0.06;

double memory_reserve_bytes(const DeviceSpec& device);

// What is left for weights, gradients, optimizer, activations and buffers: all that asks whether
// something fits asks here.
double usable_memory_bytes(const DeviceSpec& device);
bool fits_memory(const DeviceSpec& device, double bytes);

// One direction of one wire. `bytes_per_s` is what a long transfer gets: the line rate times the
// share of it that NCCL reaches; `latency_ns` is half a message's, to be shown: what a message
// takes is Cluster::latency_ns.
struct Link {
  std::string name;
  double bytes_per_s = 0;
  Nanoseconds latency_ns = 0;
};

// How nodes are joined: every NIC to one non-blocking core; NIC i of every node to leaf i; or every
// NIC of a node to the node's leaf. Leaves hang on spines with the given oversubscription.
struct Fabric {
  enum Kind { Star, RailOptimised, FatTree };

  Kind kind = Star;
  int nodes_per_leaf = 0;       // RailOptimised, FatTree
  double oversubscription = 1;  // leaf downlinks' bandwidth over its uplinks'
};

// How collectives between nodes go: in flat rings over all ranks; in rings on the nodes and rings
// between the ranks of equal place; or the faster of the two for a large message, group by group.
enum class Collectives { Ring, Hierarchical, Auto };

// NCCL's low-latency protocols (LL, LL128) beside its plain one: a collective may take `latency` of
// its latency at `rate` of its rate; with 1 and 1 there is one protocol.
struct LowLatency {
  double latency = 1;
  double rate = 1;
};

// A cable of a cluster that is listed cable by cable: two links, `from` to `to` and back.
struct ListedCable {
  std::string from, to;
  double bytes_per_s = 0;
  double latency_s = 0;
  double efficiency = 0;  // the share of bytes_per_s that is reached; 0: the spec's
};

// A cluster in numbers, as a preset file or a scenario's [cluster] gives it.
struct ClusterSpec {
  std::string name;
  DeviceSpec device;
  int gpus_per_node = 0;
  double intra_bytes_per_s = 0;  // a GPU to its node's switch, per direction
  double intra_efficiency = 1;   // the share of it that NCCL reaches
  double intra_latency_s = 0;    // a message between two GPUs of a node
  // The NVLinks from GPU to GPU where no switch joins them. intra_bytes_per_s is then the rate of
  // the best joined pair.
  NvlinkAdjacency nvlinks;
  double intra_base_s = 0;  // before the first step of an all-reduce in a node; half a pass
  LowLatency intra_low_latency;
  // A pass over a node's ring takes as long as that many steps more: what its pipeline needs to
  // fill and to drain, for every buffer anew.
  double ring_fill_steps = 0;
  // The node's switch reduces and multicasts (NVLS, Hopper and later): another way to all-reduce,
  // at a share of the GPUs' rate.
  bool nvls = false;
  double nvls_efficiency = 1;
  // Inside a node: of what rings of an all-reduce reach, what all-gathers and reduce-scatters do,
  // and what all-to-alls do.
  double gather_efficiency = 1;
  double alltoall_efficiency = 1;
  // What two of its GPUs reach of all its GPUs' rate, in any of them: NCCL has so many channels to
  // a peer, and fewer are missing the more peers there are.
  double pair_efficiency = 1;
  int nics_per_node = 0;       // GPU i uses NIC i * nics_per_node / gpus_per_node
  double nic_bytes_per_s = 0;  // per NIC and direction
  double inter_efficiency = 1;
  // The share of that which a ring over nodes reaches: there are clusters where NCCL's rings use
  // fewer NICs than sends do.
  double ring_efficiency = 1;
  // What one communicator moves out of a node, or into it, at most, whatever NICs it finds; 0: what
  // they carry. Several communicators have as much each, until the NICs are full.
  double communicator_bytes_per_s = 0;
  double inter_latency_s = 0;  // a message between two nodes
  double inter_base_s = 0;     // the same over nodes
  LowLatency inter_low_latency;
  bool trees = false;  // all-reduces over nodes may go in NCCL's double binary trees
  // Traffic between nodes crosses the GPU's link to the switch as well: one wire for both.
  bool nics_on_switch = false;
  Fabric fabric;
  Collectives collectives = Collectives::Ring;
  // Switches between nodes reduce what passes through them, as SHARP does: an all-reduce sends each
  // byte up once and gets it down once (Graham et al. 2016, "Scalable hierarchical aggregation
  // protocol"). That is no ring: ring_efficiency does not hold for it.
  bool in_network_reduction = false;
  // Measured times, which hold where there is one, whatever the numbers above say.
  std::vector<CalibrationRow> calibration;
  // All cables, in place of the node's switch, the NICs and the fabric above
  // (topology/listed_cables.h); nothing: those.
  std::shared_ptr<const std::vector<ListedCable>> cables;
};

// The graph, built from a spec for a number of GPUs. Movable, not copyable.
class Cluster {
 public:
  // Errors: sizes that are not positive, efficiencies above 1, GPUs not a multiple of gpus_per_node
  // (fewer than one node's are fine), gpus_per_node not a multiple of nics_per_node.
  static Result<Cluster> build(const ClusterSpec& spec, int gpus);
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;
  ~Cluster();

  const ClusterSpec& spec() const;
  int gpus() const;
  int nodes() const;
  NodeId node_of(DeviceId device) const;
  int links() const;
  const Link& link(LinkId link) const;

  // No route takes these links any more. Error: a GPU has no way left to another; nothing has
  // changed, then.
  Status fail_links(std::span<const LinkId> failed);

  // Whether all nodes are joined in one way: not where links have failed or cables are listed.
  bool nodes_alike() const;

  // The directed links from one GPU to another, in order; empty for from == to. A shortest path
  // (topology/routes.h): through the node's switch inside a node, through the NICs and the fabric
  // between nodes. What was looked for is remembered: two threads have a Cluster each.
  std::vector<LinkId> route(DeviceId from, DeviceId to) const;
  // The same, into a vector that is used again.
  void route(DeviceId from, DeviceId to, std::vector<LinkId>* links) const;

  // A message's latency over that route: paid once, not per hop, but for another GPU of a node that
  // passes it on, or where cables are listed with a latency each. 0 for from == to.
  Nanoseconds latency_ns(DeviceId from, DeviceId to) const;

  // To be drawn.
  ClusterGraph graph() const;
  std::string dot() const { return dot_of(graph()); }

 private:
  struct Graph;  // Boost.Graph stays behind this wall
  explicit Cluster(std::unique_ptr<Graph> graph);
  std::unique_ptr<Graph> graph_;
};

}  // namespace tandem
