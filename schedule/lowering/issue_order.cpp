#include "schedule/lowering/issue_order.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "schedule/program/lanes.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/replay.h"

namespace tandem {
namespace {

using Queue = std::vector<std::uint32_t>;

// All in one queue. REQUIRES: at least one, each in that order.
template <class Before>
Queue merged(std::vector<Queue> queues, Before before) {
  while (queues.size() > 1) {
    std::vector<Queue> pairs((queues.size() + 1) / 2);
    for (std::size_t i = 0; i + 1 < queues.size(); i += 2) {
      pairs[i / 2].resize(queues[i].size() + queues[i + 1].size());
      std::ranges::merge(queues[i], queues[i + 1], pairs[i / 2].begin(), before);
    }
    if (queues.size() % 2 == 1) pairs.back() = std::move(queues.back());
    queues = std::move(pairs);
  }
  return std::move(queues.front());
}

}  // namespace

Status sort_by_issue_order(Program* program) {
  const RankFolding folding = fold(*program);
  ASSIGN_OR_RETURN(const Replay times, replay(*program, folding));
  std::vector<Op> ops;
  for (std::size_t p = 0; p < folding.folded_ranks.size(); ++p) {
    Body& body = program->bodies[folding.folded_ranks[p].body];
    const std::size_t first = times.first[p];
    const Queue order = merged(LaneQueues(body).lanes, [&](std::uint32_t a, std::uint32_t b) {
      const Nanoseconds at = times.events[first + a].start_ns,
                        bt = times.events[first + b].start_ns;
      return at != bt ? at < bt : times.settled[first + a] < times.settled[first + b];
    });
    std::vector<std::uint32_t> place(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    ops.clear();
    ops.reserve(order.size());
    for (const std::uint32_t op : order) ops.push_back(body.ops[op]);
    body.ops.swap(ops);
    for (std::uint32_t& wait : body.waits) wait = place[wait];
  }
  return Done{};
}

}  // namespace tandem
