// Cluster: the hardware as a graph of GPUs, NICs, switches and links, and the routes through it.
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

// Constants that replace DeviceSpec's for GEMMs in one precision.
struct OwnGemms {
  double efficiency = 0, ramp_k = 0, training_clock = 1;

  bool operator==(const OwnGemms&) const = default;
};

// The performance of one GPU. Rates are dense peaks from the data sheet.
struct DeviceSpec {
  std::string name;
  double memory_bytes = 0;
  double memory_bytes_per_s = 0;
  int sms = 0;
  std::map<std::string, double> flops_per_s;  // by precision: "fp16", "bf16", "fp8", "fp32"

  // The time of a GEMM that runs alone. `gemm_efficiency`: the share of the peak that the largest
  // tiles reach as K grows without bound. `gemm_ramp_k`: a tile's prologue and epilogue cost as
  // much as this much of K. `gemm_whole_wave`: this share of the last wave costs as if the wave
  // were full; the rest is proportional to its tiles, because SMs that are done early leave clock
  // and bandwidth to the others. `gemm_launch_s`: from the end of the last kernel to the first
  // instruction. The defaults are fitted to 183 shapes on an A100-PCIe (MooreThreads/SimuMax).
  double gemm_efficiency = 0.761;
  double gemm_ramp_k = 124;
  double gemm_whole_wave = 0.59;
  double gemm_launch_s = 3e-6;
  // The share of gemm_efficiency that remains in training: at the power limit clocks are lower than
  // where a kernel is measured alone.
  double training_clock = 1;
  std::map<std::string, OwnGemms> own_gemms;  // by precision; others have those above
  // The framework profile whose constants price models on this GPU if the scenario names none
  // (workload/frameworks/framework_profile.h).
  std::string profile = "megatron-a100";
  // The time of a fused attention forward that runs alone. `attention_efficiency`: the share of the
  // 16-bit peak that it reaches with heads of 128 and endlessly long rows. `attention_ramp_keys`:
  // the number of keys in a row at which it reaches half of that share. `attention_softmax_size`:
  // the softmax costs as much as this many more columns in each head. `attention_launch_s`: its
  // launch.
  double attention_efficiency = 0.55;
  double attention_ramp_keys = 0;
  double attention_softmax_size = 0;
  double attention_launch_s = 0;
  // The time of DeepEP's dispatch and combine. `deepep_launch_s`: what an exchange takes beside its
  // copies. `deepep_copy_s`: what an SM takes to copy a token, beside its bytes.
  // `deepep_sm_bytes_per_s`: what an SM moves; 0: not known.
  double deepep_launch_s = 0, deepep_copy_s = 0, deepep_sm_bytes_per_s = 0;
  // The memory that no tensor gets. nullopt: computed from the plan (workload/memory/reserve.h).
  std::optional<double> own_memory_reserve_bytes;
  // The GPU's link to its CPU, one direction, and its part of the CPU's memory bandwidth. 0: not
  // known.
  double host_link_bytes_per_s = 0, host_memory_bytes_per_s = 0;
  // The memory that GEMM libraries hold as tensors, whatever the model.
  double gemm_workspace_bytes = 0;
};

// One direction of a cable. `bytes_per_s` is the rate of a long transfer: the line rate times the
// share of it that NCCL reaches. `latency_ns`: of a listed cable, its latency. Otherwise half of a
// message's latency, since a message crosses two links of its kind.
struct Link {
  std::string name;
  double bytes_per_s = 0;
  Nanoseconds latency_ns = 0;
};

// The network between nodes. Star: every NIC hangs on one non-blocking core. RailOptimised: NIC i
// of every node hangs on leaf i of its pod. FatTree: all NICs of a node hang on the node's leaf.
// Leaves hang on spines with the given oversubscription.
struct Fabric {
  enum Kind { Star, RailOptimised, FatTree };

  Kind kind = Star;
  int nodes_per_leaf = 0;       // RailOptimised, FatTree
  double oversubscription = 1;  // bandwidth of a leaf's downlinks over that of its uplinks
};

// The algorithm of collectives between nodes. Ring: flat rings over all ranks. Hierarchical: rings
// on the nodes, and rings between the ranks of equal place. Auto: for each group the one of the two
// that is faster for a large message.
enum class Collectives { Ring, Hierarchical, Auto };

// NCCL's low-latency protocols (LL, LL128) beside its plain one. In them a collective has `latency`
// times its latency and `rate` times its rate. With 1 and 1 there is one protocol.
struct LowLatency {
  double latency = 1;
  double rate = 1;
};

// A cable of a cluster that is listed cable by cable. It makes two links, `from` to `to` and back.
struct ListedCable {
  std::string from, to;
  double bytes_per_s = 0;
  double latency_s = 0;
  double efficiency = 0;  // share of bytes_per_s that is reached; 0: the spec's
};

// A cluster in numbers, as a preset file or a scenario's [cluster] gives it.
struct ClusterSpec {
  std::string name;
  DeviceSpec device;
  int gpus_per_node = 0;
  double intra_bytes_per_s = 0;  // between a GPU and its node's switch, per direction
  double intra_efficiency = 1;   // the share of that rate that NCCL reaches
  double intra_latency_s = 0;    // a message between two GPUs of a node
  // The NVLinks between pairs of GPUs, where no switch joins them. intra_bytes_per_s is then the
  // rate of the best joined pair.
  NvlinkAdjacency nvlinks;
  double intra_base_s = 0;  // latency before an all-reduce's first step in a node; a pass has half
  LowLatency intra_low_latency;
  // A pass over a node's ring takes as long as if it had this many more steps, because its pipeline
  // fills and drains anew for every buffer.
  double ring_fill_steps = 0;
  // The node's switch reduces and multicasts (NVLS, Hopper and later). All-reduce may then use it,
  // at `nvls_efficiency` of the GPUs' rate.
  bool nvls = false;
  double nvls_efficiency = 1;
  // The share of an all-reduce's ring rate inside a node that all-gathers and reduce-scatters
  // reach, and the share that all-to-alls reach.
  double gather_efficiency = 1;
  double alltoall_efficiency = 1;
  // Two GPUs of a node reach this share of the rate that all its GPUs reach, in any of these
  // operations. NCCL opens a fixed number of channels to each peer, too few to fill the links with
  // one peer alone.
  double pair_efficiency = 1;
  int nics_per_node = 0;
  int gpus_per_nic = 0;        // GPU i uses NIC i / gpus_per_nic; 0: they share the NICs evenly
  double nic_bytes_per_s = 0;  // per NIC and direction
  double inter_efficiency = 1;
  // The share of inter_efficiency's rate that rings over nodes reach: on some clusters NCCL's rings
  // use fewer NICs than sends do.
  double ring_efficiency = 1;
  // The most that one communicator moves out of a node, or into it, whatever NICs it finds. 0: as
  // much as they carry. Several communicators have this rate each, until the NICs are full.
  double communicator_bytes_per_s = 0;
  double inter_latency_s = 0;  // a message between two nodes
  double inter_base_s = 0;     // as intra_base_s, for all-reduces over nodes
  LowLatency inter_low_latency;
  bool trees = false;  // all-reduces over nodes may use NCCL's double binary trees
  // Traffic between nodes also crosses the GPU's link to its switch, which both kinds then share.
  bool nics_on_switch = false;
  Fabric fabric;
  Collectives collectives = Collectives::Ring;
  // Switches between nodes reduce what passes through them, as SHARP does: an all-reduce sends each
  // byte up once and gets it down once (Graham et al. 2016, "Scalable hierarchical aggregation
  // protocol"). That is no ring, so ring_efficiency does not apply to it.
  bool in_network_reduction = false;
  // Measured times. A row replaces whatever the numbers above say.
  std::vector<CalibrationRow> calibration;
  // All cables of the cluster (topology/listed_cables.h). They replace the node's switch, the NICs
  // and the fabric above. Null: there is no list.
  std::shared_ptr<const std::vector<ListedCable>> cables;
  // The listed nodes are hosts by name. Otherwise nodes called n0, n1, ... leave none out.
  bool has_hosts = false;
};

// Returns the spec with the first `gpus` GPUs of each node alone, each with the NIC that it has in
// the whole node: of 8 GPUs and 2 NICs, 6 GPUs have one NIC for four and one for two. A node that
// Cluster::build() refuses stays as it is.
ClusterSpec with_part_of_node(ClusterSpec spec, int gpus);

// The graph, built from a spec for a number of GPUs. It can be moved, not copied.
class Cluster {
 public:
  // Errors: sizes that are not positive, efficiencies above 1, GPUs that are no multiple of
  // gpus_per_node (fewer than one node's are fine), gpus_per_node that is no multiple of
  // nics_per_node if gpus_per_nic is 0.
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

  // Takes these links out of all routes. An Error, and no change, if a GPU would have no way left
  // to another.
  Status fail_links(std::span<const LinkId> failed);
  bool has_failed(LinkId link) const;

  // Returns whether all nodes are joined in the same way. They are not after links failed, or with
  // listed cables.
  bool nodes_alike() const;

  // Returns the directed links from one GPU to another, in order; none for from == to. It is a
  // shortest path (topology/routes.h): through the node's switch inside a node, through the NICs
  // and the fabric between nodes. Routes are cached without a lock, so each thread needs a Cluster
  // of its own.
  std::vector<LinkId> route(DeviceId from, DeviceId to) const;
  // Fills a vector that the caller uses again.
  void route(DeviceId from, DeviceId to, std::vector<LinkId>* links) const;

  // Returns the GPU by whose NIC `from` sends to a GPU of another node where NCCL may use PXN
  // (Routes::sender()): the one in the place of `to`, if that keeps to a rail, or `from`.
  DeviceId sender(DeviceId from, DeviceId to) const;

  // Returns a message's latency over the route. It is paid once, not per hop, except for each GPU
  // of a node that passes the message on, and except with listed cables, which have a latency each.
  // 0 for from == to.
  Nanoseconds latency_ns(DeviceId from, DeviceId to) const;

  // Returns the graph as plain values, for drawing.
  ClusterGraph graph() const;
  std::string dot() const { return dot_of(graph()); }

 private:
  struct Graph;  // hides Boost.Graph from includers
  explicit Cluster(std::unique_ptr<Graph> graph);
  std::unique_ptr<Graph> graph_;
};

}  // namespace tandem
