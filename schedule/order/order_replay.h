// OrderReplay: plays an order and gives the time of each action. Transfers delay their receivers,
// and wait for each other only where that is asked for. PassEnds: the times of an order that is
// being played.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"
#include "schedule/order/order_text.h"

namespace tandem {

// The start and end of each action, in the costs' unit. If the order deadlocks, `reached` says how
// far each rank comes. An action that computes nothing takes no time and waits for nothing. Actions
// that run together wait until all of them are ready, and then run one after another.
struct OrderReplay {
  struct Span {
    double start = -1, end = -1;  // -1: not reached
  };

  std::vector<std::vector<Span>> spans;  // by rank and position
  std::vector<int> reached;              // by rank: the first position not played
  double makespan = 0;

  bool finished(int rank) const { return reached[rank] == static_cast<int>(spans[rank].size()); }
};

// Plays the order. REQUIRES: each stage and microbatch has one F, and one B or one I and one W, on
// the stage's one rank. With vocabulary passes each rank has each of them once a microbatch.
OrderReplay replay_order(const Order& order, const GridCosts& costs);
// Plays the order with times by stage. A transfer to another rank takes the sending stage's time.
// Transfers do not queue. REQUIRES: an entry for each stage.
OrderReplay replay_stages(const Order& order, std::span<const OrderCosts> stages,
                          const VocabularyCosts& vocabulary = {});
// Does the same, but the transfers from a stage to another go one after another, as on the engines.
OrderReplay replay_queued(const Order& order, std::span<const OrderCosts> stages);

// Return the duration of an action that computes; of OrderCosts: of F, B, I or W.
double cost_of(const GridCosts& costs, ActionKind kind);
double cost_of(const OrderCosts& costs, ActionKind kind);

// Returns the first position after `position` that is not part of its compound cell.
int end_of_cell(const std::vector<Action>& actions, int position);

// A time that is not known yet.
inline constexpr double kNotYet = std::numeric_limits<double>::infinity();

// How the transfers from a stage to another share their edge: all at once, each in its own time, or
// one after another.
enum class EdgeSharing { AtOnce, InTurn };

// The ends of an order's forwards and input gradients so far, and what they say about other
// actions. REQUIRES: the order outlives this.
class PassEnds {
 public:
  // `stages`: their `transfer` is the time of an output's transfer to another rank.
  PassEnds(const Order& order, std::span<const OrderCosts> stages,
           EdgeSharing sharing = EdgeSharing::AtOnce);

  // Notes the end of an F, B or I, and sends its output. Other actions have no output. REQUIRES: of
  // a rank's actions the ends come in their order.
  void note(const Action& action, double end);
  // Return the end of the stage's F, and of its B or I; kNotYet: it has not run.
  double end_of_forward(int stage, Microbatch microbatch) const {
    return forward_[order_.slot(stage, microbatch)].end;
  }
  double end_of_gradient(int stage, Microbatch microbatch) const {
    return gradient_[order_.slot(stage, microbatch)].end;
  }
  // Returns when an output that stage `from` sends at `sent` is at stage `to`.
  double arrival(int from, int to, double sent) const {
    return rank_of_stage_[from] == rank_of_stage_[to] ? sent : sent + transfers_[from];
  }
  // Returns when the inputs of an F, B, I or W are there: for F the output of the stage before, for
  // B and I the stage's own F and the gradient of the stage after, for W the stage's own I.
  double ready(const Action& action) const;

 private:
  struct Output {
    double end = kNotYet;   // of its pass
    double sent = kNotYet;  // when its transfer begins
  };

  const Order& order_;
  const EdgeSharing sharing_;
  std::vector<int> rank_of_stage_;
  std::vector<double> transfers_;                           // by stage
  std::vector<Output> forward_, gradient_;                  // by stage and microbatch
  std::vector<double> edge_to_next_free_, edge_back_free_;  // by stage: the last transfer's end
};

// A pass of vocabulary parallelism that every rank does for a microbatch.
struct AllRanksPass {
  int ranks_left = 0;  // that have not done it
  double last_end = 0;

  void note(double end) {
    --ranks_left;
    last_end = std::max(last_end, end);
  }
  double end_on_all() const { return ranks_left > 0 ? kNotYet : last_end; }
};

}  // namespace tandem
