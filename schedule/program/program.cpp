// The functions of a Program: names and conversions of op kinds, adding an op, and a hash by which
// Programs that are played alike are found.
#include "schedule/program/program.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, kOpKinds> kOpNames = {
    "forward",           "backward",   "backward-input", "backward-weight",
    "optimizer",         "send",       "recv",           "all-reduce",
    "reduce-scatter",    "all-gather", "all-to-all",     "ring-shift",
    "embedding-forward", "output-s",   "output-t",       "embedding-backward"};

constexpr std::pair<OpKind, CommKind> kCollectives[] = {
    {OpKind::AllReduce, CommKind::AllReduce},
    {OpKind::ReduceScatter, CommKind::ReduceScatter},
    {OpKind::AllGather, CommKind::AllGather},
    {OpKind::AllToAll, CommKind::AllToAll},
    {OpKind::RingShift, CommKind::RingShift}};

}  // namespace

std::string_view op_kind_name(OpKind kind) { return kOpNames[static_cast<std::size_t>(kind)]; }

std::optional<OpKind> op_kind_named(std::string_view word) {
  const auto at = std::ranges::find(kOpNames, word);
  if (at == kOpNames.end()) return std::nullopt;
  return static_cast<OpKind>(at - kOpNames.begin());
}

CommKind comm_kind(OpKind kind) {
  CHECK(!is_compute(kind));
  for (const auto& [op, comm] : kCollectives)
    if (op == kind) return comm;
  return CommKind::SendRecv;
}

OpKind op_kind(CommKind kind) {
  for (const auto& [op, comm] : kCollectives)
    if (comm == kind) return op;
  CHECK(false && "a transfer is a Send on one rank and a Recv on the other");
}

std::int64_t Program::first_op(int body) const {
  std::int64_t first = 0;
  for (int i = 0; i < body; ++i) first += static_cast<std::int64_t>(bodies[i].ops.size());
  return first;
}

bool takes_sms(const Program& program) {
  const auto takes = [](const Op& op) { return op.sms > 0; };
  return program.device.sms > 0 && std::ranges::any_of(program.bodies, [&](const Body& body) {
           return std::ranges::any_of(body.ops, takes);
         });
}

namespace {

// Hashes a word at a time and scatters each over all bits before the next one.
class Hasher {
 public:
  void add(std::int64_t value) { state_ = scatter(state_ ^ static_cast<std::uint64_t>(value)); }
  void add(std::int64_t high, std::int64_t low) { add(high << 32 ^ low); }
  void add_real(double value) { add(std::bit_cast<std::int64_t>(value)); }
  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace

std::uint32_t add_op(Op op, std::span<const std::uint32_t> waits, Body* body) {
  CHECK(waits.size() <= kMostWaits);
  op.first_wait = static_cast<std::uint32_t>(body->waits.size());
  op.waits = static_cast<std::uint32_t>(waits.size());
  body->waits.insert(body->waits.end(), waits.begin(), waits.end());
  body->ops.push_back(op);
  return static_cast<std::uint32_t>(body->ops.size() - 1);
}

std::uint64_t hash(const Program& program) {
  Hasher h;
  const bool contends = takes_sms(program);
  if (contends) {
    h.add(program.device.sms);
    h.add_real(program.device.memory_bytes_per_s);
  }
  for (const Body& body : program.bodies) {
    h.add(static_cast<std::int64_t>(body.ops.size()));
    for (const Op& op : body.ops) {
      h.add(static_cast<std::int64_t>(op.kind) << 16 ^ op.lane << 8 ^ op.sms, op.slot);
      h.add(op.part << 16 ^ op.parts, op.stage);
      h.add(op.microbatch, op.exchange);
      h.add(op.bytes);
      h.add(op.duration_ns);
      if (contends) {
        h.add(op.sms);
        h.add_real(op.kernel < 0 ? 0 : program.kernels[op.kernel].memory_share);
      }
      for (const std::uint32_t wait : body.waits_of(op)) h.add(wait);
    }
  }
  for (const RankRow& rank : program.ranks) {
    h.add(rank.body);
    for (const std::int32_t communicator : rank.communicators) h.add(communicator);
  }
  for (const Communicator& communicator : program.communicators) {
    h.add(static_cast<std::int64_t>(communicator.group_kind));
    for (const Rank member : communicator.members) h.add(index(member));
  }
  return h.state();
}

}  // namespace tandem
