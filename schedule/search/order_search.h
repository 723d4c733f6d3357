// OrderSearch: an order made for the stages at hand, never slower than those it begins with.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "schedule/order/order.h"
#include "schedule/search/search_problem.h"

namespace tandem {

struct SearchedOrder {
  Order order;
  double makespan = 0;
};

// The candidates that about three seconds are enough for, whatever the machine: so many actions.
int default_candidates(const SearchProblem& problem);

// A search that goes on as long as somebody asks it to. What it finds depends on the candidates
// that it was given alone, in whatever portions.
class OrderSearch {
 public:
  // Begins with `starts` (named orders, say), of those that fit.
  OrderSearch(SearchProblem problem, const std::vector<Order>& starts);
  OrderSearch(OrderSearch&&) noexcept;
  OrderSearch& operator=(OrderSearch&&) noexcept;
  ~OrderSearch();

  // Plays so many candidates more: policies.
  void play(int candidates);
  // Moves actions of the best order one by one, for about as long as so many candidates take.
  void refine(int candidates);

  // A makespan that the best does not exceed but for rounding; infinity where nothing fits.
  double best() const;
  // The best orders, best first, at most `most` and no two alike. All of them fit.
  std::vector<SearchedOrder> orders(std::size_t most) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
