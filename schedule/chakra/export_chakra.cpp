// Turns each op of a rank into one node, or two (a ring shift), in the order of start times in a
// replay. The two ends of a transfer match by a tag, the members of a collective by the name of a
// process group.
#include "schedule/chakra/export_chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/check.h"

namespace tandem {
namespace {

constexpr Nanoseconds kMicrosecond = 1000;
constexpr Bytes kLeastBytes = 1;  // ASTRA-sim's networks abort at an empty message

std::uint64_t to_us(Nanoseconds ns) {
  return static_cast<std::uint64_t>((ns + kMicrosecond / 2) / kMicrosecond);
}

ChakraCollective collective_of(OpKind kind) {
  switch (comm_kind(kind)) {
    case CommKind::AllReduce:
      return ChakraCollective::AllReduce;
    case CommKind::ReduceScatter:
      return ChakraCollective::ReduceScatter;
    case CommKind::AllGather:
      return ChakraCollective::AllGather;
    case CommKind::AllToAll:
      return ChakraCollective::AllToAll;
    case CommKind::SendRecv:
    case CommKind::RingShift:
      break;
  }
  CHECK(false);
  return ChakraCollective::AllReduce;
}

bool is_transfer(OpKind kind) {
  const CommKind comm = comm_kind(kind);
  return comm == CommKind::SendRecv || comm == CommKind::RingShift;
}

// Returns the bytes that ASTRA-sim's roofline model counts: for each GEMM its operands and result,
// m k + k n + m n elements of two bytes, and the memory traffic of other work.
double memory_bytes(const Kernel& kernel) {
  constexpr double kElement_bytes = 2;
  double bytes = kernel.memory_bytes;
  for (const Gemm& gemm : kernel.gemms) {
    const auto m = static_cast<double>(gemm.m), n = static_cast<double>(gemm.n),
               k = static_cast<double>(gemm.k);
    bytes += kElement_bytes * static_cast<double>(gemm.batch) * (m * k + k * n + m * n);
  }
  return bytes;
}

// Returns the rank that is `step` places after `rank` in the ring.
std::int32_t neighbour(const Communicator& ring, Rank rank, int step) {
  const auto at = std::find(ring.members.begin(), ring.members.end(), rank);
  const auto size = static_cast<std::ptrdiff_t>(ring.members.size());
  return index(ring.members[(at - ring.members.begin() + step + size) % size]);
}

}  // namespace

ChakraExport::ChakraExport(const Program& program) : program_(&program), folding_(fold(program)) {}

Result<ChakraExport> ChakraExport::of(const Program& program) {
  ChakraExport made(program);
  ASSIGN_OR_RETURN(made.replay_, replay(program, made.folding_));
  // Finds which folded rank stands for each rank: the one with the same body, and with
  // communicators of the same classes in its slots.
  std::map<std::pair<std::int32_t, std::vector<std::int32_t>>, std::int32_t> classes;
  for (std::size_t p = 0; p < made.folding_.folded_ranks.size(); ++p) {
    const FoldedRank& folded = made.folding_.folded_ranks[p];
    classes[{folded.body, folded.comm_classes}] = static_cast<std::int32_t>(p);
  }
  std::vector<std::int32_t> class_of(program.communicators.size());
  for (std::size_t c = 0; c < made.folding_.comm_classes.size(); ++c) {
    for (const std::int32_t communicator : made.folding_.comm_classes[c].communicators)
      class_of[communicator] = static_cast<std::int32_t>(c);
  }
  for (const RankRow& rank : program.ranks) {
    std::vector<std::int32_t> own;
    own.reserve(rank.communicators.size());
    for (const std::int32_t communicator : rank.communicators)
      own.push_back(class_of[communicator]);
    made.folded_rank_of_.push_back(classes.at({rank.body, std::move(own)}));
  }
  made.add_groups_and_edges();
  return made;
}

// Numbers the communicators of collectives, which become process groups. Lists the directed pairs
// of ranks between which transfers go.
void ChakraExport::add_groups_and_edges() {
  struct SlotUse {
    bool sends = false, shifts = false, collective = false;
  };
  std::vector<std::vector<SlotUse>> uses;  // by body and slot
  for (const Body& body : program_->bodies) {
    std::vector<SlotUse>& of_slot = uses.emplace_back(body.slots.size());
    for (const Op& op : body.ops) {
      if (is_compute(op.kind)) continue;
      of_slot[op.slot].sends |= op.kind == OpKind::Send;
      of_slot[op.slot].shifts |= op.kind == OpKind::RingShift;
      of_slot[op.slot].collective |= !is_transfer(op.kind);
    }
  }
  std::vector<bool> collective(program_->communicators.size());
  for (std::size_t rank = 0; rank < program_->ranks.size(); ++rank) {
    const RankRow& row = program_->ranks[rank];
    const auto from = static_cast<std::int32_t>(rank);
    for (std::size_t slot = 0; slot < row.communicators.size(); ++slot) {
      const std::int32_t c = row.communicators[slot];
      const SlotUse& use = uses[row.body][slot];
      const Communicator& communicator = program_->communicators[c];
      if (use.collective) collective[c] = true;
      if (use.sends) edges_.push_back({from, index(communicator.members[1]), c});
      if (use.shifts) edges_.push_back({from, neighbour(communicator, Rank{from}, 1), c});
    }
  }
  std::sort(edges_.begin(), edges_.end());
  std::int32_t groups = 0;
  for (const bool used : collective) group_of_.push_back(used ? ++groups : 0);
}

std::size_t ChakraExport::first_event(Rank rank) const {
  return replay_.first[folded_rank_of_[index(rank)]];
}

// Returns the tag of the edge's transfer of that number. Both ends number transfers in the same
// way. Edges between the same two ranks have different tags: of two, one has 0, 2, 4 and the other
// 1, 3, 5.
std::int64_t ChakraExport::tag(const RankPair& edge, std::int64_t sequence) const {
  const auto is_earlier = [&](const RankPair& other) {
    return std::pair(other.from, other.to) < std::pair(edge.from, edge.to);
  };
  const auto begin = std::partition_point(edges_.begin(), edges_.end(), is_earlier);
  const auto end = std::partition_point(begin, edges_.end(), [&](const RankPair& other) {
    return std::pair(other.from, other.to) == std::pair(edge.from, edge.to);
  });
  return sequence * (end - begin) + (std::lower_bound(begin, end, edge) - begin);
}

ChakraNode ChakraExport::node_of(const Op& op, std::uint64_t duration_us) const {
  ChakraNode node{.name = std::string(op_kind_name(op.kind)), .duration_us = duration_us};
  if (op.microbatch >= 0) node.name += fmt::format(" {}", op.microbatch);
  if (op.stage >= 0) node.name += fmt::format(" of stage {}", op.stage);
  if (op.parts > 1) node.name += fmt::format(", part {} of {}", op.part, op.parts);
  if (op.stage >= 0) node.stage = op.stage;
  if (op.microbatch >= 0) node.microbatch = op.microbatch;
  if (!is_compute(op.kind)) return node;
  node.type = ChakraType::Compute;
  node.kind = op_kind_name(op.kind);
  node.num_ops = node.tensor_size = 0;
  if (op.kernel < 0) return node;
  const Kernel& kernel = program_->kernels[op.kernel];
  if (!kernel.name.empty()) node.name += ": " + kernel.name;
  node.num_ops = std::llround(kernel.flops());
  node.tensor_size = std::llround(memory_bytes(kernel));
  return node;
}

void ChakraExport::add_communication(const Op& op, Rank rank, std::int64_t sequence,
                                     ChakraNode node, std::vector<ChakraNode>* nodes) const {
  const std::int32_t c = program_->ranks[index(rank)].communicators[op.slot];
  const Communicator& communicator = program_->communicators[c];
  const auto here = static_cast<std::int32_t>(index(rank));
  node.group_kind = group_kind_name(communicator.group_kind);
  node.comm_size = std::max(op.bytes, kLeastBytes);
  const auto transfer = [&](ChakraType type, const RankPair& edge) {
    ChakraNode end = node;
    end.type = type;
    end.id = nodes->size();
    end.comm_src = edge.from;
    end.comm_dst = edge.to;
    end.comm_tag = tag(edge, sequence);
    nodes->push_back(std::move(end));
  };
  if (op.kind == OpKind::Send || op.kind == OpKind::RingShift) {
    const std::int32_t to =
        op.kind == OpKind::Send ? index(communicator.members[1]) : neighbour(communicator, rank, 1);
    transfer(ChakraType::Send, {here, to, c});
  }
  if (op.kind == OpKind::Recv || op.kind == OpKind::RingShift) {
    const std::int32_t from = op.kind == OpKind::Recv ? index(communicator.members[0])
                                                      : neighbour(communicator, rank, -1);
    transfer(ChakraType::Recv, {from, here, c});
  }
  if (is_transfer(op.kind)) return;
  node.type = ChakraType::Collective;
  node.id = nodes->size();
  node.comm_type = static_cast<std::int64_t>(collective_of(op.kind));
  // ASTRA-sim counts an all-gather by the bytes that each rank puts in.
  const auto members = static_cast<Bytes>(communicator.members.size());
  if (op.kind == OpKind::AllGather)
    node.comm_size = std::max((op.bytes + members - 1) / members, kLeastBytes);
  node.pg_name = fmt::format("{}", group_of_[c]);
  nodes->push_back(std::move(node));
}

// The ids of the nodes that each op became: one, or two for a ring shift.
struct ChakraExport::NodeIds {
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  std::vector<Range> of_op;

  // Adds the op's nodes to the dependencies `to`, each once: Chakra's older feeder waits for ever
  // for a dependency that is written twice.
  void add(std::uint32_t op, std::vector<std::uint64_t>* to) const {
    for (std::uint64_t id = of_op[op].begin; id < of_op[op].end; ++id) {
      if (std::find(to->begin(), to->end(), id) == to->end()) to->push_back(id);
    }
  }
};

ChakraTrace ChakraExport::rank(Rank rank) const {
  const Body& body = program_->body_of(rank);
  const std::size_t first = first_event(rank);
  std::vector<std::uint32_t> by_start(body.ops.size());
  std::iota(by_start.begin(), by_start.end(), 0U);
  // Ops of equal start are in topological order.
  std::sort(by_start.begin(), by_start.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto key = [&](std::uint32_t op) {
      return std::tuple(replay_.events[first + op].start_ns, replay_.settled[first + op], op);
    };
    return key(a) < key(b);
  });
  std::vector<std::int64_t> sequence(body.ops.size());    // by op: its number on its slot
  std::vector<std::int64_t> slot_ops(body.slots.size());  // by slot: its ops so far
  std::vector<std::int64_t> before(body.ops.size(), -1);  // by op: the op before it on its lane
  std::vector<std::int64_t> last(body.lanes.size(), -1);  // by lane: its last op so far
  for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
    if (const std::int16_t slot = body.ops[op].slot; slot >= 0) sequence[op] = slot_ops[slot]++;
    before[op] = std::exchange(last[body.ops[op].lane], op);
  }
  ChakraTrace trace{.rendezvous = true};
  NodeIds ids{std::vector<NodeIds::Range>(body.ops.size())};
  for (const std::uint32_t i : by_start) {
    const Op& op = body.ops[i];
    const EventTimes& played = replay_.events[first + i];
    ChakraNode node = node_of(op, to_us(played.end_ns) - to_us(played.start_ns));
    const auto waits = body.waits_of(op);
    for (const std::uint32_t wait : waits) ids.add(wait, &node.data_deps);
    if (before[i] >= 0 && std::find(waits.begin(), waits.end(), before[i]) == waits.end())
      ids.add(static_cast<std::uint32_t>(before[i]), &node.ctrl_deps);
    ids.of_op[i].begin = node.id = trace.nodes.size();
    if (is_compute(op.kind)) {
      trace.nodes.push_back(std::move(node));
    } else {
      add_communication(op, rank, sequence[i], std::move(node), &trace.nodes);
    }
    ids.of_op[i].end = trace.nodes.size();
  }
  return trace;
}

ChakraGroups ChakraExport::groups() const {
  ChakraGroups groups;
  for (std::size_t c = 0; c < group_of_.size(); ++c) {
    if (group_of_[c] == 0) continue;
    std::vector<std::int32_t>& members = groups[fmt::format("{}", group_of_[c])];
    for (const Rank member : program_->communicators[c].members) members.push_back(index(member));
  }
  return groups;
}

std::vector<std::string> ChakraExport::lost() const {
  std::size_t lanes = 0, sends = 0, shifts = 0, exchanges = 0, compute = 0, below = 0,
              transfers = 0, empty = 0;
  for (const RankRow& rank : program_->ranks) {
    const Body& body = program_->bodies[rank.body];
    std::vector<bool> queued(body.lanes.size());  // by lane: has ops for ASTRA-sim's one lane
    for (const Op& op : body.ops) {
      const bool computes = is_compute(op.kind);
      compute += computes ? 1 : 0;
      below += computes && op.duration_ns > 0 && op.duration_ns < kMicrosecond ? 1 : 0;
      sends += op.kind == OpKind::Send ? 1 : 0;
      shifts += op.kind == OpKind::RingShift ? 1 : 0;
      exchanges += op.exchange >= 0 ? 1 : 0;
      transfers += computes ? 0 : 1;
      empty += !computes && op.bytes == 0 ? 1 : 0;
      if (!computes && op.kind != OpKind::Recv) queued[op.lane] = true;
    }
    lanes =
        std::max(lanes, static_cast<std::size_t>(std::count(queued.begin(), queued.end(), true)));
  }
  std::vector<std::string> lines = {
      "an op waits for the one before it on its lane by a control dependency: ASTRA-sim keeps it "
      "where it reads by Chakra's feeder_v3, and passes over it where it reads by the older "
      "feeder"};
  if (lanes > 1)
    lines.push_back(fmt::format(
        "{} lanes of communication of a rank become one: ASTRA-sim plays one compute and one "
        "communication at a time, receives aside; what overlapped on the others now queues",
        lanes));
  if (transfers > 0)
    lines.emplace_back(
        "communication has a duration here, which ASTRA-sim passes over: its network file prices "
        "it");
  if (empty > 0)
    lines.push_back(
        fmt::format("{} of {} communications carry no bytes, as their seconds are stated: they are "
                    "written with "
                    "1 byte, and take their network's latency there",
                    empty, transfers));
  if (sends > 0)
    lines.emplace_back("a send waits for its receive here; ASTRA-sim's goes off without it");
  if (shifts > 0)
    lines.push_back(
        fmt::format("{} ring shifts become a send and a receive each: two nodes", shifts));
  if (exchanges > 0)
    lines.push_back(fmt::format(
        "{} transfers are issued in groups (batched P2P), which become single ones", exchanges));
  if (takes_sms(*program_))
    lines.emplace_back(
        "communication takes SMs from the compute beside it: the traces have compute as it is "
        "alone");
  if (below > 0)
    lines.push_back(fmt::format(
        "{} of {} compute ops are shorter than 1 us: what one loses to whole microseconds the next "
        "one gets, and one written as 0 takes 1 ns in ASTRA-sim",
        below, compute));
  return lines;
}

}  // namespace tandem
