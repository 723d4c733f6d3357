// Replays a Program by the Replayer (Kahn's algorithm), each op with its own duration. If the
// replay stops early, it names the cycle of ops that wait for each other.
#include "schedule/program/replay.h"

#include <fmt/format.h>

#include <string>

#include "schedule/program/cycle.h"
#include "schedule/program/replayer.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// Tells the Replayer when an op ends: after its own duration, which for compute has jitter.
struct OwnDurations {
  const RankFolding& folding;
  const Jitter& jitter;

  Nanoseconds compute_ends(std::int32_t folded_rank, std::uint32_t number, const Op& op,
                           Nanoseconds start) const {
    if (jitter.sigma == 0) return start + op.duration_ns;
    const Rank rank = folding.folded_ranks[folded_rank].rank;
    return start + jitter.apply(op.duration_ns, index(rank), number);
  }
  static Nanoseconds operation_ends(std::int32_t, const Op& op, Nanoseconds start) {
    return start + op.duration_ns;
  }
};

// Explains why a replay stopped before its end: a walk from a stuck op to the op that it waits for,
// and so on, leads into a cycle.
class Deadlock {
 public:
  Deadlock(const Program& program, const RankFolding& folding,
           const Replayer<OwnDurations>& replayer)
      : program_(program), folding_(folding), replayer_(replayer) {}

  // REQUIRES: some op has not ended.
  std::string text() const {
    const std::vector<Place> cycle = cycle_from(first_stuck(), [&](const Place& at) {
      const Place next = blocker(at);
      return next.folded_rank < 0 ? at : next;
    });
    if (blocker(cycle.front()).folded_rank < 0)
      return fmt::format("found {} waiting for a participant that never comes, expected one",
                         text_of(cycle.front()));
    return "found a deadlock, expected an order that ends: " +
           cycle_text(cycle, [&](const Place& at) { return text_of(at); });
  }

 private:
  struct Place {
    std::int32_t folded_rank = -1;
    std::uint32_t op = 0;
    auto operator<=>(const Place&) const = default;
  };

  const Body& body(std::int32_t folded_rank) const {
    return program_.bodies[folding_.folded_ranks[folded_rank].body];
  }

  // Returns an op that this op waits for: one of its waits, the op before it on its lane, or the op
  // that another participant must do before it arrives.
  Place blocker(const Place& place) const {
    const Body& ops = body(place.folded_rank);
    const Op& op = ops.ops[place.op];
    for (const std::uint32_t wait : ops.waits_of(op)) {
      if (!replayer_.has_ended(place.folded_rank, wait)) return {place.folded_rank, wait};
    }
    for (std::uint32_t before = replayer_.first_not_ended(place.folded_rank, op.lane);
         before != place.op;) {
      const std::uint32_t behind = replayer_.op_behind(place.folded_rank, before);
      if (behind == place.op) return {place.folded_rank, before};
      before = behind;
    }
    const std::int32_t c = folding_.folded_ranks[place.folded_rank].comm_classes[op.slot];
    for (const auto& [other, lane] : replayer_.members(c)) {
      const std::uint32_t next = replayer_.first_not_ended(other, lane);
      if (!replayer_.has_arrived(other, lane) && next != kNoOp) return {other, next};
    }
    return {};  // a participant lacks the op, which validate() reports
  }

  Place first_stuck() const {
    for (std::int32_t p = 0;; ++p) {
      for (std::uint32_t op = 0; op < body(p).ops.size(); ++op) {
        if (!replayer_.has_ended(p, op)) return {p, op};
      }
    }
  }

  std::string text_of(const Place& place) const {
    return fmt::format("{} on rank {}",
                       describe(body(place.folded_rank), body(place.folded_rank).ops[place.op]),
                       index(folding_.folded_ranks[place.folded_rank].rank));
  }

  const Program& program_;
  const RankFolding& folding_;
  const Replayer<OwnDurations>& replayer_;
};

}  // namespace

Result<Replay> replay(const Program& program, const RankFolding& folding, const Jitter& jitter) {
  OwnDurations durations{folding, jitter};
  Replayer<OwnDurations> replayer(program, folding, /*numbered=*/true, &durations);
  replayer.run();
  if (replayer.have_all_ended()) return replayer.take();
  return Error{Deadlock(program, folding, replayer).text(), Error::BadInput};
}

}  // namespace tandem
