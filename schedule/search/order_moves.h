// OrderMoves: improves an order by moving actions on their ranks, one at a time.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <random>
#include <vector>

#include "schedule/order/order.h"
#include "schedule/search/search_problem.h"

namespace tandem {

// Local search on one order. A move puts an action of the critical path earlier on its rank, or
// moves a W that is before such an action to a place after it. If I3 is critical in W2 F6 I3, the
// results are W2 I3 F6, I3 W2 F6 and F6 I3 W2. No other move can shorten the iteration (van
// Laarhoven, Aarts and Lenstra, "Job Shop Scheduling by Simulated Annealing", 1992). A move is kept
// if the order is no worse than the order some moves ago (late acceptance).
class OrderMoves {
 public:
  // REQUIRES: validate(start) is ok; one chain; no action together with the next; the problem
  // outlives this.
  OrderMoves(const SearchProblem& problem, Order start, std::uint64_t seed);

  // Tries one move.
  void step();

  const Order& best() const { return best_; }
  double best_makespan() const { return best_value_.makespan; }

 private:
  struct Value {
    double makespan = 0;
    double ends = 0;  // sum over all ranks; decides between equal makespans

    auto operator<=>(const Value&) const = default;
  };
  struct Place {
    int rank = 0, position = 0;
  };

  std::size_t slot(const Action& action) const {
    return static_cast<std::size_t>(index(action.stage)) * problem_.microbatches +
           static_cast<std::size_t>(index(action.microbatch));
  }
  // Returns when the action's inputs are there, or kNotYet.
  double ready(const Action& action) const;
  bool replay();
  void find_critical();
  void move(int rank, int from, int to);
  bool keeps_limit(int rank) const;
  int random_below(int count) {
    return static_cast<int>(random_() % static_cast<std::uint64_t>(count));
  }

  const SearchProblem& problem_;
  Order current_, best_;
  Value replayed_value_, current_value_, best_value_;
  std::array<Value, 100> history_;
  std::size_t steps_ = 0;
  std::mt19937_64 random_;
  std::vector<double> forward_end_, input_end_;         // by stage and microbatch
  std::vector<int> forward_position_, input_position_;  // of those actions on their ranks
  std::vector<std::vector<double>> starts_, ends_;      // by rank and position
  std::vector<Place> critical_;  // of the critical path: actions that waited for their rank only
};

}  // namespace tandem
