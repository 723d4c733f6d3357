// Explains a bubble: replays the order with and without transfers, and walks the idle gaps of the
// rank that works most. Each gap has up to three parts:
//
//   waiting    no later action of the rank has its input yet
//   memory     only forwards have their input, and the rank's activations are at their peak
//   postponed  some later action could run, but the order puts another one first
#include "schedule/order/bubble.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/order/order_replay.h"

namespace tandem {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();

PassEnds ends_of(const Order& order, std::span<const OrderCosts> stages,
                 const OrderReplay& replay) {
  PassEnds ends(order, stages);
  for (int rank = 0; rank < order.pp(); ++rank) {
    for (std::size_t i = 0; i < order.ranks[rank].size(); ++i)
      ends.note(order.ranks[rank][i], replay.spans[rank][i].end);
  }
  return ends;
}

// Finds the next action of each stage and kind, seen from a place in a rank's order.
class Upcoming {
 public:
  explicit Upcoming(const std::vector<Action>& actions) : next_(actions.size()) {
    std::map<std::pair<Stage, ActionKind>, int> last;
    for (int i = static_cast<int>(actions.size()) - 1; i >= 0; --i) {
      for (const auto& [stage_and_kind, position] : last) next_[i].push_back(position);
      last[{actions[i].stage, actions[i].kind}] = i;
    }
  }

  // Returns the positions of the next actions after `position`.
  const std::vector<int>& after(std::size_t position) const { return next_[position]; }

 private:
  std::vector<std::vector<int>> next_;
};

// The idle time of a rank between its first and its last action.
struct Gaps {
  double waiting = 0, memory = 0, postponed = 0;

  double sum() const { return waiting + memory + postponed; }
};

Gaps gaps_of(const std::vector<Action>& actions, const std::vector<OrderReplay::Span>& spans,
             const PassEnds& ends, int peak) {
  Gaps gaps;
  const Upcoming upcoming(actions);
  int live = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const double from = i == 0 ? kNoTime : spans[i - 1].end;  // no gap before the first action
    const double to = spans[i].start;
    if (to > from) {
      // The times from which on some later action could run, or could run but for memory. Action i
      // is not among them: it waits until `to`.
      double runnable = kNoTime, blocked_by_memory = kNoTime;
      for (const int next : upcoming.after(i)) {
        const bool blocked = actions[next].kind == ActionKind::Forward && live >= peak;
        double& since = blocked ? blocked_by_memory : runnable;
        since = std::min(since, std::max(from, ends.ready(actions[next])));
      }
      runnable = std::min(runnable, to);
      blocked_by_memory = std::min(blocked_by_memory, runnable);
      gaps.waiting += blocked_by_memory - from;
      gaps.memory += runnable - blocked_by_memory;
      gaps.postponed += to - runnable;
    }
    if (actions[i].kind == ActionKind::Forward) ++live;
    if (produces_gradient(actions[i].kind)) --live;
  }
  return gaps;
}

// Returns the stage of the rank that works longest; of equal ones the first.
int longest_stage(std::span<const OrderCosts> stages, const std::vector<int>& rank_of, int rank) {
  int longest = -1;
  for (int s = 0; s < static_cast<int>(stages.size()); ++s)
    if (rank_of[s] == rank && (longest < 0 || stages[s].work() > stages[longest].work()))
      longest = s;
  return longest;
}

}  // namespace

Bubble explain_bubble(const Order& given, std::span<const OrderCosts> stages) {
  CHECK(static_cast<int>(stages.size()) == given.stages);
  const Order order = without_communication(given);
  std::vector<OrderCosts> without_transfers(stages.begin(), stages.end());
  for (OrderCosts& stage : without_transfers) stage.transfer = 0;
  const std::vector<int> rank_of = stage_to_rank(order);
  std::vector<double> work(order.pp());
  double all = 0;
  for (int s = 0; s < order.stages; ++s) {
    work[rank_of[s]] += order.microbatches * stages[s].work();
    all += order.microbatches * stages[s].work();
  }
  const OrderReplay replay = replay_stages(order, without_transfers);
  const PassEnds ends = ends_of(order, without_transfers, replay);
  const std::vector<std::vector<int>> peaks = peak_live(order);

  Bubble bubble{.makespan = replay_queued(order, stages).makespan, .work = all / order.pp()};
  const double most = std::ranges::max(work);
  double least = kNoTime;
  for (int rank = 0; rank < order.pp(); ++rank) {
    if (work[rank] < most * (1 - 1e-9) || order.ranks[rank].empty()) continue;
    const Gaps gaps = gaps_of(order.ranks[rank], replay.spans[rank], ends,
                              std::accumulate(peaks[rank].begin(), peaks[rank].end(), 0));
    if (gaps.sum() >= least) continue;
    least = gaps.sum();
    bubble.rank = rank;
    bubble.own_work = work[rank];
    bubble.waiting = gaps.waiting;
    bubble.memory = gaps.memory;
    bubble.postponed = gaps.postponed;
    bubble.fill = replay.spans[rank].front().start;
    bubble.drain = replay.makespan - replay.spans[rank].back().end;
  }
  bubble.transfers = bubble.makespan - replay.makespan;
  bubble.imbalance = bubble.own_work - bubble.work;
  bubble.stage = longest_stage(stages, rank_of, bubble.rank);
  if (all > 0)
    bubble.longest_stage_ratio =
        stages[bubble.stage].work() * order.microbatches * order.stages / all;
  return bubble;
}

}  // namespace tandem
