// PlainReplay: a Program's times straight from what docs/design.md says, "What a schedule means":
// slow, simple, and written without a look at the engines, which it is to check.
#pragma once

#include <optional>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// When each op of each rank ends; -1: it waits for itself. No op takes SMs.
using PlainEnds = std::vector<std::vector<Nanoseconds>>;

class PlainReplay {
 public:
  explicit PlainReplay(const Program& program) : program_(program) {
    for (const RankRow& row : program.ranks)
      ends_.emplace_back(program.bodies[row.body].ops.size(), -1);
  }

  PlainEnds run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ends_.size(); ++rank)
        for (std::size_t op = 0; op < ends_[rank].size(); ++op) moved |= end(rank, op);
    }
    return ends_;
  }

 private:
  const Body& body(std::size_t rank) const { return program_.bodies[program_.ranks[rank].body]; }

  // When a rank comes to an op; nothing while what is before it has not ended.
  std::optional<Nanoseconds> arrival(std::size_t rank, std::size_t op) const {
    const Body& own = body(rank);
    Nanoseconds at = 0;
    const auto after = [&](std::size_t before) {
      at = std::max(at, ends_[rank][before]);
      return ends_[rank][before] >= 0;
    };
    for (std::size_t before = op; before-- > 0;) {
      if (own.ops[before].lane != own.ops[op].lane) continue;
      if (!after(before)) return std::nullopt;
      break;
    }
    for (const std::uint32_t before : own.waits_of(own.ops[op]))
      if (!after(before)) return std::nullopt;
    return at;
  }

  // The op of `rank` that is the same, of all that go through the communicator, as `op` of `of`.
  std::size_t partner(std::size_t rank, std::int32_t communicator, std::size_t of,
                      std::size_t op) const {
    const auto through = [&](std::size_t member, std::size_t each) {
      const Op& one = body(member).ops[each];
      return one.slot >= 0 && program_.ranks[member].communicators[one.slot] == communicator;
    };
    std::size_t number = 0;
    for (std::size_t each = 0; each < op; ++each) number += through(of, each) ? 1 : 0;
    for (std::size_t each = 0;; ++each)
      if (through(rank, each) && number-- == 0) return each;
  }

  bool end(std::size_t rank, std::size_t op) {
    if (ends_[rank][op] >= 0) return false;
    const Op& own = body(rank).ops[op];
    std::optional<Nanoseconds> start = arrival(rank, op);
    if (start && own.slot >= 0) {
      const std::int32_t number = program_.ranks[rank].communicators[own.slot];
      for (const Rank member : program_.communicators[number].members) {
        const auto other = static_cast<std::size_t>(index(member));
        const auto theirs = arrival(other, partner(other, number, rank, op));
        if (!theirs) return false;
        start = std::max(*start, *theirs);
      }
    }
    if (start) ends_[rank][op] = *start + own.duration_ns;
    return start.has_value();
  }

  const Program& program_;
  PlainEnds ends_;
};

}  // namespace tandem
