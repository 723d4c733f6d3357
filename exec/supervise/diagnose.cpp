// Walk along the wait-for graph, as deadlock detection does. Nodes are ops. An op that has not
// ended has an edge to one op that blocks it: the one before it on its lane, one that it waits for,
// or its partner's op of the same communication if that has not begun. The walk begins at the first
// op that has not ended, and stops at a cycle, at an op without a partner, or at an op that nothing
// blocks.
#include "exec/supervise/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "schedule/program/lanes.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// An op of a rank.
struct OpPlace {
  std::int32_t rank = 0;
  std::uint32_t op = 0;
  bool operator==(const OpPlace&) const = default;
};

// The reason why an op has not ended. GoesOn: nothing blocks it. NotBegun: nothing keeps it from
// beginning.
struct Reason {
  enum Kind { Blocked, NoPartner, GoesOn, NotBegun } kind = GoesOn;
  OpPlace next;           // Blocked: the op that blocks it
  std::int32_t rank = 0;  // NoPartner: the rank that has no op of this communication
};

class Diagnosis {
 public:
  Diagnosis(const Program& program, std::span<const RankProgress> progress)
      : program_(program), progress_(progress), queues_(lane_queues(program)) {
    for (const Body& body : program.bodies) slots_.push_back(ops_by_slot(body));
  }

  // Names the ranks that have an exit reason, and who waits for them.
  std::string of_exit_reasons() const {
    std::string text;
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(progress_.size()); ++rank) {
      if (progress_[rank].exit_reason.empty()) continue;
      text +=
          fmt::format("{}rank {} {}", text.empty() ? "" : "; ", rank, progress_[rank].exit_reason);
      const char* before = " in ";
      for (const OpPlace at : begun(rank)) {
        text += before + this->text(at);
        before = " and ";
      }
      text += waiters_for(rank);
    }
    return text;
  }

  // Says where the walk stops; empty: all ops have ended.
  std::string of_waiting() const {
    const std::optional<OpPlace> first = first_not_ended();
    if (!first) return "";
    std::vector<OpPlace> path = {*first};
    for (;;) {
      const OpPlace at = path.back();
      const Reason why = reason(at);
      switch (why.kind) {
        case Reason::Blocked: {
          const bool closes = std::ranges::count(path, why.next) > 0;
          path.push_back(why.next);
          if (closes) return cycle(std::move(path));
          break;
        }
        case Reason::NoPartner:
          return fmt::format("rank {} waits in {} for rank {}, which has no partner for it",
                             at.rank, text(at), why.rank);
        case Reason::GoesOn:
          return fmt::format("rank {} is still in {}{}", at.rank, text(at), waiters_for(at.rank));
        case Reason::NotBegun:
          return fmt::format("rank {} has not begun {}{}", at.rank, text(at), waiters_for(at.rank));
      }
    }
  }

 private:
  const Body& body(std::int32_t rank) const { return program_.bodies[program_.ranks[rank].body]; }
  const LaneQueues& queues(std::int32_t rank) const { return queues_[program_.ranks[rank].body]; }
  const Op& op(OpPlace at) const { return body(at.rank).ops[at.op]; }
  std::string text(OpPlace at) const { return describe(body(at.rank), op(at)); }

  bool has_ended(OpPlace at) const {
    return queues(at.rank).place[at.op] < progress_[at.rank].done[op(at).lane];
  }
  bool has_begun(OpPlace at) const {
    const RankProgress& own = progress_[at.rank];
    const std::uint8_t lane = op(at).lane;
    const std::uint32_t place = queues(at.rank).place[at.op];
    return place < own.done[lane] || (place == own.done[lane] && own.begun[lane]);
  }

  // Returns a lane's first op that has not ended; nothing if all have.
  std::optional<OpPlace> next_op(std::int32_t rank, std::size_t lane) const {
    const std::vector<std::uint32_t>& ops = queues(rank).lanes[lane];
    const std::uint32_t done = progress_[rank].done[lane];
    if (done >= ops.size()) return std::nullopt;
    return OpPlace{rank, ops[done]};
  }

  // Returns the first rank's first op that has not ended; nothing if all have.
  std::optional<OpPlace> first_not_ended() const {
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(progress_.size()); ++rank) {
      for (std::size_t lane = 0; lane < queues(rank).lanes.size(); ++lane) {
        if (const std::optional<OpPlace> next = next_op(rank, lane)) return next;
      }
    }
    return std::nullopt;
  }

  // Returns the ops that a rank has begun and not ended.
  std::vector<OpPlace> begun(std::int32_t rank) const {
    std::vector<OpPlace> places;
    for (std::size_t lane = 0; lane < queues(rank).lanes.size(); ++lane) {
      const std::optional<OpPlace> next = next_op(rank, lane);
      if (next && progress_[rank].begun[lane]) places.push_back(*next);
    }
    return places;
  }

  // Returns the op of `member` that takes part in the communication `at`.
  std::optional<OpPlace> partner_of(OpPlace at, std::int32_t member) const {
    const std::vector<std::uint32_t>& own = slots_[program_.ranks[at.rank].body][op(at).slot];
    const auto place = std::ranges::find(own, at.op) - own.begin();
    const std::vector<std::int32_t>& slots = program_.ranks[member].communicators;
    const auto slot = std::ranges::find(slots, program_.ranks[at.rank].communicators[op(at).slot]);
    if (slot == slots.end()) return std::nullopt;  // only if the Program was not validated
    const std::vector<std::uint32_t>& others =
        slots_[program_.ranks[member].body][slot - slots.begin()];
    if (place >= static_cast<std::ptrdiff_t>(others.size())) return std::nullopt;
    return OpPlace{member, others[place]};
  }

  const std::vector<Rank>& members_of(OpPlace at) const {
    return program_.communicators[program_.ranks[at.rank].communicators[op(at).slot]].members;
  }

  Reason reason(OpPlace at) const {
    if (!has_begun(at)) {
      const std::optional<OpPlace> first = next_op(at.rank, op(at).lane);
      CHECK(first);
      if (*first != at) return {Reason::Blocked, *first};
      for (const std::uint32_t wait : body(at.rank).waits_of(op(at))) {
        if (!has_ended({at.rank, wait})) return {Reason::Blocked, {at.rank, wait}};
      }
      return {Reason::NotBegun};
    }
    if (is_compute(op(at).kind)) return {Reason::GoesOn};
    for (const Rank member : members_of(at)) {
      if (index(member) == at.rank) continue;
      const std::optional<OpPlace> other = partner_of(at, index(member));
      if (!other) return {Reason::NoPartner, {}, index(member)};
      if (!has_begun(*other)) return {Reason::Blocked, *other};
    }
    return {Reason::GoesOn};
  }

  // Names the ranks that wait for `rank`: those in a communication with it that `rank` has not
  // ended.
  std::string waiters_for(std::int32_t rank) const {
    constexpr int kNamed = 3;
    std::string text;
    int waiters = 0;
    for (std::int32_t other = 0; other < static_cast<std::int32_t>(progress_.size()); ++other) {
      if (other == rank || !progress_[other].exit_reason.empty()) continue;
      for (const OpPlace at : begun(other)) {
        if (is_compute(op(at).kind) || std::ranges::count(members_of(at), Rank{rank}) == 0)
          continue;
        const std::optional<OpPlace> partner = partner_of(at, rank);
        if (!partner || has_ended(*partner)) continue;
        if (++waiters <= kNamed)
          text += fmt::format("; rank {} waits for it in {}", other, this->text(at));
        break;
      }
    }
    if (waiters > kNamed) text += fmt::format("; and {} more", waiters - kNamed);
    return text;
  }

  // Describes the cycle that the path's last op closes, by its ops that wait for another rank.
  std::string cycle(std::vector<OpPlace> path) const {
    path.erase(path.begin(), std::ranges::find(path, path.back()));
    path.pop_back();
    std::vector<OpPlace> ops;
    for (const OpPlace at : path) {
      if (has_begun(at)) ops.push_back(at);
    }
    if (ops.empty())
      return fmt::format("rank {}: {} waits for itself", path.front().rank, text(path.front()));
    std::string cycle;
    for (std::size_t i = 0; i < ops.size(); ++i)
      cycle += fmt::format("{} waits in {} for rank {}",
                           i == 0 ? fmt::format("rank {}", ops[i].rank) : ", which", text(ops[i]),
                           ops[(i + 1) % ops.size()].rank);
    return cycle;
  }

  const Program& program_;
  std::span<const RankProgress> progress_;
  std::vector<LaneQueues> queues_;
  std::vector<std::vector<std::vector<std::uint32_t>>> slots_;  // ops, by body and slot
};

}  // namespace

std::string diagnose(const Program& program, std::span<const RankProgress> progress) {
  CHECK(progress.size() == program.ranks.size());
  const Diagnosis diagnosis(program, progress);
  const std::string exit_reasons = diagnosis.of_exit_reasons();
  return exit_reasons.empty() ? diagnosis.of_waiting() : exit_reasons;
}

}  // namespace tandem
