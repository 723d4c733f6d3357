// SearchProblem: the input of an order search, which is the times, bytes and ranks of stages.
#pragma once

#include <vector>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"

namespace tandem {

// The bytes of activations that a stage keeps for one microbatch.
struct StageBytes {
  double live = 0;   // from its F to its I or B
  double stash = 0;  // from its I to its W; more than `live` under recompute
};

// One chain of stages on pipeline ranks. Times are in any one unit. All vectors of stages are as
// long as `rank_of_stage`.
struct SearchProblem {
  int microbatches = 1;
  std::vector<int> rank_of_stage;   // every rank from 0 to pp - 1 has a stage
  std::vector<OrderCosts> costs;    // by stage; `transfer` is for outputs to another rank
  std::vector<StageBytes> bytes;    // by stage
  std::vector<double> limit_bytes;  // by rank, for all its microbatches; infinity: no limit

  int stages() const { return static_cast<int>(rank_of_stage.size()); }
  int pp() const { return static_cast<int>(limit_bytes.size()); }
};

// Returns whether each rank can hold one microbatch of all its stages, so that some order fits.
bool can_fit(const SearchProblem& problem);

// The factor by which rounding may enlarge a sum of bytes that are added and subtracted in turn.
inline constexpr double kRoundingOfBytes = 1 + 1e-9;

// Return the peak bytes of activations on one rank, or on each rank of an order.
double peak_of_rank(const SearchProblem& problem, const std::vector<Action>& actions);
std::vector<double> peak_bytes(const SearchProblem& problem, const Order& order);
// Returns whether the order's peaks are within the ranks' limits.
bool fits(const SearchProblem& problem, const Order& order);

// Returns when the order ends, as replay_stages() plays it.
double makespan(const SearchProblem& problem, const Order& order);

// Return the rank of each stage, with `vpp` stages a rank. In order: stage = chunk * pp + rank. In
// a V: every second chunk goes back up the ranks.
std::vector<int> stages_in_order(int pp, int vpp);
std::vector<int> stages_in_a_v(int pp, int vpp);

// Returns the named orders of one chain whose stages lie on the problem's ranks and that accept its
// sizes, made for its costs.
std::vector<Order> named_orders_for(const SearchProblem& problem);

}  // namespace tandem
