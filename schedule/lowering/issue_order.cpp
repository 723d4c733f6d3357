#include "schedule/lowering/issue_order.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "schedule/program/rank_folding.h"
#include "schedule/program/replay.h"

namespace tandem {

Status sort_by_issue_order(Program* program) {
  const RankFolding folding = fold(*program);
  ASSIGN_OR_RETURN(const Replay times, replay(*program, folding));
  for (std::size_t p = 0; p < folding.folded_ranks.size(); ++p) {
    Body& body = program->bodies[folding.folded_ranks[p].body];
    const std::size_t first = times.first[p];
    std::vector<std::uint32_t> order(body.ops.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Nanoseconds at = times.events[first + a].start_ns,
                        bt = times.events[first + b].start_ns;
      return at != bt ? at < bt : times.settled[first + a] < times.settled[first + b];
    });
    std::vector<std::uint32_t> place(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    std::vector<Op> ops;
    ops.reserve(order.size());
    for (const std::uint32_t op : order) ops.push_back(body.ops[op]);
    body.ops = std::move(ops);
    for (std::uint32_t& wait : body.waits) wait = place[wait];
  }
  return Done{};
}

}  // namespace tandem
