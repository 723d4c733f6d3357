// OrderSearch: searches for a fast order of given stages. The result is never slower than the
// orders that the search starts from.
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

// A search that the caller continues by calls of play(). The result depends only on the total
// number of candidates, not on how many a call played.
class OrderSearch {
 public:
  // Starts from those of `starts` (named orders, say) that fit into memory.
  OrderSearch(SearchProblem problem, const std::vector<Order>& starts);
  OrderSearch(OrderSearch&&) noexcept;
  OrderSearch& operator=(OrderSearch&&) noexcept;
  ~OrderSearch();

  // Plays so many more candidates, each a policy of list scheduling.
  void play(int candidates);
  // Improves the best order by moving single actions, for about as long as so many candidates take.
  void refine(int candidates);

  // Returns the least makespan so far, up to rounding; infinity if nothing fits.
  double best() const;
  // Returns the best orders, best first, at most `most` and no two alike. All of them fit.
  std::vector<SearchedOrder> orders(std::size_t most) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
