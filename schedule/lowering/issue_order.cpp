// Sorts the ops of each body by their starts in a replay of the whole program, in time nearly
// linear in ops.
#include "schedule/lowering/issue_order.h"

#include <compare>
#include <cstdint>
#include <vector>

#include "schedule/program/nearly_sorted.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/replay.h"

namespace tandem {
namespace {

// The time when a rank issues an op.
struct Issue {
  Nanoseconds start_ns = 0;
  std::uint32_t settled = 0;  // Replay::settled; decides between equal starts
  std::uint32_t op = 0;

  auto operator<=>(const Issue&) const = default;
};

}  // namespace

Status sort_by_issue_order(Program* program) {
  const RankFolding folding = fold(*program);
  ASSIGN_OR_RETURN(const Replay times, replay(*program, folding));
  std::vector<Issue> issues;
  std::vector<std::uint32_t> place;  // by op: its index after sorting
  std::vector<Op> ops;
  for (std::size_t p = 0; p < folding.folded_ranks.size(); ++p) {
    Body& body = program->bodies[folding.folded_ranks[p].body];
    const std::size_t first = times.first[p];
    issues.clear();
    for (std::uint32_t i = 0; i < body.ops.size(); ++i)
      issues.push_back({times.events[first + i].start_ns, times.settled[first + i], i});
    sort_nearly_sorted(&issues);
    place.resize(issues.size());
    for (std::uint32_t i = 0; i < issues.size(); ++i) place[issues[i].op] = i;
    ops.clear();
    ops.reserve(issues.size());
    for (const Issue& issue : issues) ops.push_back(body.ops[issue.op]);
    body.ops.swap(ops);
    for (std::uint32_t& wait : body.waits) wait = place[wait];
  }
  return Done{};
}

}  // namespace tandem
