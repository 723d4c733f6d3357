// OrderSearch: finds an order for given stages, never slower than those it begins with.
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

// Returns the number of candidates that take about three seconds. It is computed from the number of
// actions alone, so that it is the same on every machine.
int default_candidates(const SearchProblem& problem);

// A search that goes on as long as somebody asks it to. Its result depends only on the total number
// of candidates, not on the portions in which they were asked for.
class OrderSearch {
 public:
  // Begins with those of `starts` (named orders, say) that fit.
  OrderSearch(SearchProblem problem, const std::vector<Order>& starts);
  OrderSearch(OrderSearch&&) noexcept;
  OrderSearch& operator=(OrderSearch&&) noexcept;
  ~OrderSearch();

  // Plays so many more candidates, which are policies.
  void play(int candidates);
  // Moves actions of the best order one by one, for about as long as so many candidates take.
  void refine(int candidates);

  // Returns a makespan that the best order does not exceed except by rounding; infinity if nothing
  // fits.
  double best() const;
  // Returns the best orders, best first, at most `most` and no two alike. All of them fit.
  std::vector<SearchedOrder> orders(std::size_t most) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
