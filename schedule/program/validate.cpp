// Validates a Program in five steps: the device; durations; each body by itself; the ops of a
// communicator's members against each other; and whether ranks that issue their communication in
// the bodies' order could ever wait in a cycle.
#include "schedule/program/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "schedule/program/lanes.h"
#include "schedule/program/rank_folding.h"

namespace tandem {
namespace {

ProgramFault bad_program(std::string message) { return {.why = Error{std::move(message)}}; }

ProgramFault bad_op_at(int body, std::size_t op, std::string message) {
  return {.why = Error{std::move(message)}, .body = body, .op = static_cast<int>(op)};
}

// REQUIRES: `op` is in ops.ops.
ProgramFault bad_op(int body, const Body& ops, const Op& op, std::string_view expected) {
  return bad_op_at(
      body, static_cast<std::size_t>(&op - ops.ops.data()),
      fmt::format("body {}: found {}, expected {}", body, describe(ops, op), expected));
}

ProgramFault bad_communicator(int communicator, std::string_view message) {
  return {.why = Error{fmt::format("communicator {}: {}", communicator, message)},
          .communicator = communicator};
}

ProgramFault bad_rank(int rank, std::string_view message) {
  return {.why = Error{fmt::format("rank {}: {}", rank, message)}, .rank = rank};
}

// Checks the rates and shares by which compute and communication slow each other.
Validity check_device(const Program& program) {
  const SharedDevice& device = program.device;
  constexpr double kMost_bytes_per_s = 1e18;
  if (device.sms < 0 || !(device.memory_bytes_per_s >= 0) ||
      device.memory_bytes_per_s > kMost_bytes_per_s)
    return bad_program(
        fmt::format("found a device of {} SMs and {} bytes/s of memory bandwidth, "
                    "expected no negative number and at most {:g} bytes/s",
                    device.sms, device.memory_bytes_per_s, kMost_bytes_per_s));
  for (const Kernel& kernel : program.kernels) {
    if (!(kernel.memory_share >= 0 && kernel.memory_share <= 1))
      return bad_program(fmt::format("kernel {}: found memory share {}, expected one from 0 to 1",
                                     kernel.name, kernel.memory_share));
  }
  return Done{};
}

// Checks that an op takes SMs only if it communicates, and fewer than the device has.
Validity check_sms(const Program& program, int number, const Op& op) {
  const Body& body = program.bodies[number];
  const int sms = program.device.sms;
  if (is_compute(op.kind) || op.sms < 0)
    return bad_op(
        number, body, op,
        fmt::format("SMs taken by communication only, and none negative, not {}", op.sms));
  if (sms == 0)
    return bad_op(number, body, op,
                  fmt::format("a device whose SMs are known, as it takes {} of them", op.sms));
  if (op.sms >= sms)
    return bad_op(number, body, op,
                  fmt::format("fewer than the device's {} SMs taken, not {}", sms, op.sms));
  return Done{};
}

// Checks a body by itself: its lanes and slots exist, and ops wait only for earlier ops.
Validity check_body(const Program& program, int number) {
  const Body& body = program.bodies[number];
  if (body.lanes.size() > kMostLanes)
    return bad_program(fmt::format("body {}: found {} lanes, expected at most {}", number,
                                   body.lanes.size(), kMostLanes));
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    if (op.lane >= body.lanes.size())
      return bad_op_at(number, i,
                       fmt::format("body {}: found op {} on lane {}, expected a lane below {}",
                                   number, i, op.lane, body.lanes.size()));
    if (is_compute(op.kind) != (op.slot < 0) || op.slot >= static_cast<int>(body.slots.size()))
      return bad_op(number, body, op, "a communicator slot for communication and none for compute");
    if (op.slot >= 0 && body.slots[op.slot].lane != op.lane)
      return bad_op(number, body, op, "all ops of a communicator on its one lane");
    if (is_compute(op.kind) != (op.lane == 0))
      return bad_op(number, body, op, "compute on lane 0 and communication beside it");
    if (op.duration_ns < 0 || op.bytes < 0) return bad_op(number, body, op, "no negative size");
    if (op.part < 0 || op.part >= op.parts)
      return bad_op(number, body, op,
                    fmt::format("a part from 0 to parts - 1, not {} of {}", op.part, op.parts));
    if (op.sms != 0) RETURN_IF_ERROR(check_sms(program, number, op));
    for (const std::uint32_t wait : body.waits_of(op)) {
      if (wait >= i)
        return bad_op(number, body, op, fmt::format("waits for ops before it, not {}", wait));
    }
  }
  return Done{};
}

bool is_transfer(OpKind kind) { return kind == OpKind::Send || kind == OpKind::Recv; }

// Returns whether two ops, of two members of a communicator, belong to one communication. A role is
// the member's index in the communicator: role 0 sends, role 1 receives.
bool match(const Op& a, int role_a, const Op& b, int role_b) {
  if (a.bytes != b.bytes || a.duration_ns != b.duration_ns || a.part != b.part ||
      a.microbatch != b.microbatch)
    return false;
  if (!is_transfer(a.kind)) return a.kind == b.kind;
  const auto fits = [](const Op& op, int role) {
    return op.kind == (role == 0 ? OpKind::Send : OpKind::Recv);
  };
  return role_a != role_b && fits(a, role_a) && fits(b, role_b);
}

// Checks that ranks and communicators list each other, each once, and that a rank's slot has a
// communicator of its kind.
Validity check_membership(const Program& program) {
  std::set<std::pair<int, int>> members;
  std::size_t listed = 0;  // communicators in all ranks' rows
  for (int c = 0; c < static_cast<int>(program.communicators.size()); ++c) {
    const Communicator& communicator = program.communicators[c];
    for (const Rank member : communicator.members) {
      if (!members.insert({index(member), c}).second)
        return bad_communicator(
            c, fmt::format("found rank {} twice, expected it once", index(member)));
    }
  }
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
    const RankRow& row = program.ranks[rank];
    for (std::size_t slot = 0; slot < row.communicators.size(); ++slot) {
      const int c = row.communicators[slot];
      ++listed;
      if (!members.contains({rank, c}))
        return bad_rank(
            rank, fmt::format("found communicator {}, expected one that has it as a member", c));
      const GroupKind found = program.communicators[c].group_kind;
      const GroupKind expected = program.bodies[row.body].slots[slot].group_kind;
      if (found != expected)
        return bad_rank(rank,
                        fmt::format("found the {} communicator {} in slot {} of its body, "
                                    "expected a {} one",
                                    group_kind_name(found), c, slot, group_kind_name(expected)));
    }
  }
  if (listed != members.size())
    return bad_program(
        fmt::format("found {} places in communicators and {} among ranks, expected as many",
                    members.size(), listed));
  return Done{};
}

// Checks that communicators that send and receive have two members. REQUIRES: check_membership().
Validity check_edges(const Program& program) {
  std::vector<std::vector<bool>> transfers;  // by body and slot: whether it has transfers
  for (const Body& body : program.bodies) {
    transfers.emplace_back(body.slots.size());
    for (const Op& op : body.ops)
      if (is_transfer(op.kind)) transfers.back()[op.slot] = true;
  }
  for (const RankRow& rank : program.ranks) {
    for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot) {
      if (!transfers[rank.body][slot]) continue;
      const int c = rank.communicators[slot];
      if (const std::size_t members = program.communicators[c].members.size(); members != 2)
        return bad_communicator(
            c, fmt::format("found {} ranks, expected 2 that send and receive", members));
    }
  }
  return Done{};
}

// A body and one of its slots.
struct BodySlot {
  int body = -1, slot = -1;
  auto operator<=>(const BodySlot&) const = default;
};

// A member of a communicator, and the slot by which it takes part.
struct CommMember {
  int role;  // index in the communicator
  int rank;
  BodySlot slot;
};

// Checks that two members issue the same ops in the same order. `ops_of`: the ops of each body and
// slot.
Validity check_same_ops(const Program& program,
                        const std::vector<std::vector<std::vector<std::uint32_t>>>& ops_of,
                        const CommMember& a, const CommMember& b) {
  const Body& body_a = program.bodies[a.slot.body];
  const Body& body_b = program.bodies[b.slot.body];
  const auto& ops_a = ops_of[a.slot.body][a.slot.slot];
  const auto& ops_b = ops_of[b.slot.body][b.slot.slot];
  for (std::size_t i = 0; i < std::max(ops_a.size(), ops_b.size()); ++i) {
    if (i >= ops_b.size())
      return bad_op(a.slot.body, body_a, body_a.ops[ops_a[i]],
                    fmt::format("its partner on rank {}", b.rank));
    if (i >= ops_a.size())
      return bad_op(b.slot.body, body_b, body_b.ops[ops_b[i]],
                    fmt::format("its partner on rank {}", a.rank));
    const Op &op_a = body_a.ops[ops_a[i]], &op_b = body_b.ops[ops_b[i]];
    if (!match(op_a, a.role, op_b, b.role))
      return bad_op(b.slot.body, body_b, op_b,
                    fmt::format("the partner of {} of body {}: the members of a communicator issue "
                                "the same ops in the same order",
                                describe(body_a, op_a), a.slot.body));
  }
  return Done{};
}

// Checks that all members of a communicator issue the same ops in the same order. Communicators of
// the same bodies and slots are checked once.
Validity check_communicators(const Program& program) {
  RETURN_IF_ERROR(check_membership(program));
  RETURN_IF_ERROR(check_edges(program));
  std::vector<std::vector<std::vector<std::uint32_t>>> ops_of;
  for (const Body& body : program.bodies) ops_of.push_back(ops_by_slot(body));
  std::set<std::pair<BodySlot, BodySlot>> checked;
  for (int id = 0; id < static_cast<int>(program.communicators.size()); ++id) {
    CommMember first = {};
    int role = 0;
    for (const Rank member : program.communicators[id].members) {
      const RankRow& rank = program.ranks[index(member)];
      const auto at = std::find(rank.communicators.begin(), rank.communicators.end(), id);
      if (at == rank.communicators.end())
        return bad_communicator(
            id, fmt::format("found rank {} as a member, expected it among that rank's "
                            "communicators",
                            index(member)));
      const CommMember here = {
          role, index(member), {rank.body, static_cast<int>(at - rank.communicators.begin())}};
      if (role++ == 0)
        first = here;
      else if (checked.insert({first.slot, here.slot}).second)
        RETURN_IF_ERROR(check_same_ops(program, ops_of, first, here));
    }
  }
  return Done{};
}

// Plays the program as if a rank did all its ops one after another, and blocked in each
// communication until all participants have arrived. Returns how many ops each folded rank ends.
// p: a folded rank; c: a class of communicators.
std::vector<std::uint32_t> play_blocking(const Program& program, const RankFolding& folding) {
  std::vector<std::uint32_t> cursor(folding.folded_ranks.size());
  std::vector<std::int32_t> arrived(folding.comm_classes.size());
  std::vector<std::int32_t> runnable;
  for (std::size_t p = folding.folded_ranks.size(); p-- > 0;)
    runnable.push_back(static_cast<int>(p));
  while (!runnable.empty()) {
    const std::int32_t p = runnable.back();
    runnable.pop_back();
    const Body& body = program.bodies[folding.folded_ranks[p].body];
    while (cursor[p] < body.ops.size()) {
      const Op& op = body.ops[cursor[p]];
      if (op.slot >= 0) {
        const std::int32_t c = folding.folded_ranks[p].comm_classes[op.slot];
        if (++arrived[c] < static_cast<std::int32_t>(folding.comm_classes[c].members.size())) break;
        arrived[c] = 0;
        for (const ClassMember& class_member : folding.comm_classes[c].members) {
          if (class_member.folded_rank == p) continue;
          ++cursor[class_member.folded_rank];
          runnable.push_back(class_member.folded_rank);
        }
      }
      ++cursor[p];
    }
  }
  return cursor;
}

// Checks that play_blocking() ends all ops. Then no two communicators can wait for each other,
// which NCCL requires of several communicators on one device.
Validity check_issue_order(const Program& program) {
  const RankFolding folding = fold(program);
  const std::vector<std::uint32_t> cursor = play_blocking(program, folding);
  constexpr int kMostNamed = 8;
  std::string stuck;
  int count = 0;
  for (std::size_t p = 0; p < folding.folded_ranks.size(); ++p) {
    const Body& body = program.bodies[folding.folded_ranks[p].body];
    if (cursor[p] == body.ops.size() || ++count > kMostNamed) continue;
    stuck += fmt::format("{}rank {} issues {}", stuck.empty() ? "" : ", ",
                         index(folding.folded_ranks[p].rank), describe(body, body.ops[cursor[p]]));
  }
  if (count == 0) return Done{};
  if (count > kMostNamed) stuck += fmt::format(", and {} ranks more", count - kMostNamed);
  return bad_program(
      "found communicators whose issue orders form a cycle, expected one common order: " + stuck);
}

Validity check_but_order(const Program& program) {
  RETURN_IF_ERROR(check_device(program));
  for (int body = 0; body < static_cast<int>(program.bodies.size()); ++body)
    RETURN_IF_ERROR(check_body(program, body));
  if (const Status durations = check_durations(program); !durations.ok())
    return ProgramFault{durations.error()};
  return check_communicators(program);
}

Status status_of(const Validity& validity) {
  if (!validity.ok()) return validity.error().why;
  return Done{};
}

}  // namespace

std::string describe(const Body& body, const Op& op) {
  std::string text{op_kind_name(op.kind)};
  if (op.microbatch >= 0) text += fmt::format(" {}", op.microbatch);
  if (op.stage >= 0) text += fmt::format(" of stage {}", op.stage);
  if (op.lane < body.lanes.size()) text += fmt::format(" (lane {})", body.lanes[op.lane].name);
  return text;
}

Status check_durations(const Program& program) {
  constexpr double kMost_s = 100 * 365.25 * 86400;
  // A duration below 0 is a sum that has overflowed.
  constexpr double kOverflowed_s = 0x1p63 * 1e-9;
  double sum_s = 0;
  for (const Body& body : program.bodies) {
    for (const Op& op : body.ops)
      sum_s += op.duration_ns < 0 ? kOverflowed_s : 1e-9 * static_cast<double>(op.duration_ns);
  }
  if (sum_s <= kMost_s) return Done{};
  return Error{
      fmt::format("found ops that take {:.3g} s together, expected at most {:.3g} s: a rate "
                  "or a duration is out of all measure",
                  sum_s, kMost_s)};
}

Status validate_but_order(const Program& program) { return status_of(check_but_order(program)); }

Validity validity(const Program& program) {
  RETURN_IF_ERROR(check_but_order(program));
  return check_issue_order(program);
}

Status validate(const Program& program) { return status_of(validity(program)); }

}  // namespace tandem
