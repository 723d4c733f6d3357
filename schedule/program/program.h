// Program: the validated, lowered, priced schedule that simulators and executors play.
//
// Ranks that do the same (the tensor-parallel peers of a stage, the data-parallel replicas) share
// one Body of ops and differ only in their communicators. Two replicas of two stages, for example:
//
//   bodies         0: compute F0 F1 B0 B1, "0>1" Send Send, "1>0" Recv Recv, "data" AllReduce
//                  1: compute F0 B0 F1 B1, "0>1" Recv Recv, "1>0" Send Send, "data" AllReduce
//   ranks          0 and 2: body 0; 1 and 3: body 1
//   communicators  (0, 1), (2, 3) on "0>1"; (1, 0), (3, 2) on "1>0"; (0, 2), (1, 3) on "data"
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "topology/comm_kind.h"
#include "workload/cost/kernel_shape.h"
#include "workload/model/pass.h"

namespace tandem {

enum class OpKind : std::uint8_t {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Optimizer,
  Send,
  Recv,
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  RingShift,
  // Compute of vocabulary parallelism: an order's E, S, T and G.
  EmbeddingForward,
  OutputS,
  OutputT,
  EmbeddingBackward,
};
constexpr int kOpKinds = 16;

constexpr bool is_vocabulary(OpKind kind) { return kind >= OpKind::EmbeddingForward; }
constexpr bool is_compute(OpKind kind) { return kind <= OpKind::Optimizer || is_vocabulary(kind); }
// Returns the kind as which pictures draw a compute op. Passes of the vocabulary are drawn as
// forwards (E, S) and weight gradients (T, G).
constexpr OpKind drawn_as(OpKind kind) {
  if (!is_vocabulary(kind)) return kind;
  return kind <= OpKind::OutputS ? OpKind::Forward : OpKind::BackwardWeight;
}
std::string_view op_kind_name(OpKind kind);
std::optional<OpKind> op_kind_named(std::string_view word);  // nothing: no kind has the name
CommKind comm_kind(OpKind kind);                             // REQUIRES: !is_compute(kind)
OpKind op_kind(CommKind kind);                               // REQUIRES: kind is a collective

// One node of the program. Its lane and slot are indices into its body. There are millions of ops,
// so the fields that an engine reads are in the first 24 of the 48 bytes.
struct Op {
  OpKind kind = OpKind::Forward;
  std::uint8_t lane = 0;
  std::int16_t slot = -1;        // the communicator, through RankRow::communicators; -1: compute
  std::uint32_t first_wait = 0;  // into Body::waits
  std::uint32_t waits : 24 = 0;
  std::int32_t way : 8 = 0;  // communication: its algorithm and protocol (Traffic::way), as priced
  std::int16_t sms = 0;      // communication: SMs taken from compute while in flight
  std::int16_t stage = -1;
  Nanoseconds duration_ns = 0;  // compute: on this device; communication: when alone
  Bytes bytes = 0;
  std::int16_t part = 0;  // this op is part `part` of `parts` of one communication
  std::int16_t parts = 1;
  std::int32_t microbatch = -1;
  std::int32_t kernel = -1;    // into Program::kernels; -1: none
  std::int32_t exchange = -1;  // transfers of one number form one group (batch_p2p); -1: alone
};
static_assert(sizeof(Op) == 48);
constexpr std::uint32_t kMostWaits = (1 << 24) - 1;  // of one op
constexpr std::size_t kMostLanes = UINT8_MAX;        // of a body

// A lane's name: "compute", "tensor", "data", or "0>1" for a pipeline edge from stage 0 to stage 1.
struct Lane {
  std::string name;
};

// A communicator slot of a body. All ops of a slot are on one lane.
struct Slot {
  GroupKind group_kind = GroupKind::Pipeline;
  std::uint8_t lane = 0;
};

// The ops of the ranks that have this body. Lane 0 is the compute lane. The ops of a lane run one
// after another, in the order of `ops`. An op waits only for ops before it in `ops`.
struct Body {
  std::vector<Lane> lanes;
  std::vector<Slot> slots;
  std::vector<Op> ops;
  std::vector<std::uint32_t> waits;  // of all ops, as numbers of ops

  std::span<const std::uint32_t> waits_of(const Op& op) const {
    return {waits.data() + op.first_wait, op.waits};
  }
};

// Adds the op after all others and returns its number. REQUIRES: at most kMostWaits waits.
std::uint32_t add_op(Op op, std::span<const std::uint32_t> waits, Body* body);

// A rank of the job: its body, and its communicator for each slot of the body.
struct RankRow {
  std::int32_t body = 0;
  std::vector<std::int32_t> communicators;
};

// Ranks that communicate together, in ring order. A pipeline edge has the sender first, then the
// receiver.
struct Communicator {
  GroupKind group_kind = GroupKind::Pipeline;
  bool between_nodes = false;
  std::vector<Rank> members;
};

// The resources of a device that compute and communication share. 0: not known, so that no op takes
// SMs or memory bandwidth.
struct SharedDevice {
  int sms = 0;
  double memory_bytes_per_s = 0;

  bool operator==(const SharedDevice&) const = default;
};

// The extra costs of communication in training, compared with the same operation in a benchmark.
struct CommCost {
  // Factor of the time of the bytes: for tensor groups inside a node, for all others between nodes.
  double slowdown = 1;
  double overhead_s = 0;  // for each operation
  // For a kernel other than NCCL's: its own limit of an operation's rate (0: only that of the
  // links), and whether it posts all its messages at once, so that there is no latency for each
  // step.
  double limit_bytes_per_s = 0;
  bool posts_at_once = false;
};

struct Program {
  std::string name;
  SharedDevice device;
  std::vector<Kernel> kernels;
  std::vector<Body> bodies;
  std::vector<std::int32_t> split_from;  // for each copied body, at the end: its original (split.h)
  std::vector<RankRow> ranks;
  std::vector<Communicator> communicators;
  std::array<CommCost, kGroupKinds> comm_costs;  // for pricing; text forms have only the prices

  const Body& body_of(Rank rank) const { return bodies[ranks[index(rank)].body]; }
  // Returns the number of a body's first op in the `op` column of traces, which counts the ops of
  // all bodies before it.
  std::int64_t first_op(int body) const;
};

// Returns whether any op takes SMs from the compute beside it, on a device whose SMs are known. If
// none does, no time depends on `device`.
bool takes_sms(const Program& program);

// Returns a hash of everything that times depend on. Programs of equal hash are played alike.
std::uint64_t hash(const Program& program);

}  // namespace tandem
