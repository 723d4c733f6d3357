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
// Pictures draw a compute op as this kind. Passes of the vocabulary become forwards (E, S) and
// weight gradients (T, G).
constexpr OpKind drawn_as(OpKind kind) {
  if (!is_vocabulary(kind)) return kind;
  return kind <= OpKind::OutputS ? OpKind::Forward : OpKind::BackwardWeight;
}
std::string_view op_kind_name(OpKind kind);
std::optional<OpKind> op_kind_named(std::string_view word);  // nothing: no kind has the name
CommKind comm_kind(OpKind kind);                             // REQUIRES: !is_compute(kind)
OpKind op_kind(CommKind kind);                               // REQUIRES: kind is a collective

// One node of the program. Its lane and slot are numbers in its body. There are millions of ops:
// what an engine reads of each is in its first 24 bytes of 48.
struct Op {
  OpKind kind = OpKind::Forward;
  std::uint8_t lane = 0;
  std::int16_t slot = -1;        // the communicator, through RankRow::communicators; -1: compute
  std::uint32_t first_wait = 0;  // into Body::waits
  std::uint32_t waits : 24 = 0;
  std::int32_t way : 8 = 0;  // communication: its Traffic::way, as priced
  std::int16_t sms = 0;      // communication: taken from compute while in flight
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

// The ops of each rank that has this body. Lane 0 is the compute lane. An op waits only for ops
// before it in `ops`. A lane's ops are those that name it, in order.
struct Body {
  std::vector<Lane> lanes;
  std::vector<Slot> slots;
  std::vector<Op> ops;
  std::vector<std::uint32_t> waits;

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

// The resources of a device that compute and communication share. 0: not known. Then no op takes
// SMs or memory bandwidth.
struct SharedDevice {
  int sms = 0;
  double memory_bytes_per_s = 0;

  bool operator==(const SharedDevice&) const = default;
};

// The costs of communication in training beyond those of the same operation alone in a benchmark.
// Its bytes take `slowdown` times as long (of tensor groups inside a node, of all others between
// nodes), and each operation takes `overhead_s` longer. A kernel other than NCCL's has a limit of
// its own, and posts all its messages at once, so that no latency a step remains.
struct CommCost {
  double slowdown = 1, overhead_s = 0;
  double limit_bytes_per_s = 0;  // of an operation's bytes; 0: what links carry
  bool posts_at_once = false;
};

struct Program {
  std::string name;
  SharedDevice device;
  std::vector<Kernel> kernels;
  std::vector<Body> bodies;
  std::vector<std::int32_t> split_from;  // by copied body, the last ones: its original (split.h)
  std::vector<RankRow> ranks;
  std::vector<Communicator> communicators;
  std::array<CommCost, kGroupKinds> comm_costs;  // for pricing; text forms have only the prices

  const Body& body_of(Rank rank) const { return bodies[ranks[index(rank)].body]; }
  // Returns the number of a body's first op, counting the ops of all bodies before it. It is the
  // first in the `op` column.
  std::int64_t first_op(int body) const;
};

// Returns whether any op takes SMs from the compute beside it, on a device whose SMs are known. If
// none does, no time depends on `device`.
bool takes_sms(const Program& program);

// Returns a hash of everything that times depend on. Programs of equal hash are played alike.
std::uint64_t hash(const Program& program);

}  // namespace tandem
