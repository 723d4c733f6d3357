// OrderMoves: an order whose actions are moved on their ranks, one by one, while that is worth it.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "schedule/order/order.h"
#include "schedule/search/search_problem.h"

namespace tandem {

// Local improvement of one order. A move takes an action of the critical path before one that
// stands ahead of it on its rank, or a W ahead of it behind it: nothing else can shorten the
// iteration (van Laarhoven, Aarts and Lenstra, "Job Shop Scheduling by Simulated Annealing", 1992).
// Late acceptance, as for policies.
class OrderMoves {
 public:
  // REQUIRES: validate(start), one chain, no action together with the next; the problem outlives
  // it.
  OrderMoves(const SearchProblem& problem, Order start, std::uint64_t seed);

  // Plays one move.
  void step();

  const Order& best() const { return best_; }
  double best_makespan() const { return best_value_.first; }

 private:
  using Value = std::pair<double, double>;  // the makespan, and the ends of all ranks
  struct Place {
    int rank = 0, position = 0;
  };

  std::size_t slot(const Action& action) const {
    return static_cast<std::size_t>(index(action.stage)) * problem_.microbatches +
           static_cast<std::size_t>(index(action.microbatch));
  }
  double ready(const Action& action) const;
  bool play();
  void find_critical();
  void move(int rank, int from, int to);
  bool keeps_limit(int rank) const;
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }

  const SearchProblem& problem_;
  Order at_, best_;
  Value value_, at_value_, best_value_;
  std::array<Value, 100> history_;
  std::size_t steps_ = 0;
  std::mt19937_64 random_;
  std::vector<double> forward_end_, input_end_;     // by stage and microbatch
  std::vector<int> forward_at_, input_at_;          // their positions
  std::vector<std::vector<double>> starts_, ends_;  // by rank and position
  std::vector<Place> critical_;  // actions that start when the one ahead of them on their rank ends
};

}  // namespace tandem
