// The text forms of an Order: PyTorch's CSV (with or without communication) and a grid to look at.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"
#include "schedule/order/vocabulary.h"

namespace tandem {

// "2F0", "3UNSHARD", "0SEND_F1".
std::string to_text(const Action& action);

// One cell: an action, or "(a;b)OVERLAP_F_B". The grammar is anchored: "2BW0" (an old form) is
// refused with a hint. Empty text gives no actions.
Result<std::vector<Action>> parse_cell(std::string_view cell);

// One row a rank, one cell an action, no header; a first line "# chains: 2" where there are two.
// With vocabulary parallelism, which PyTorch's form knows nothing of, a line "# vocabulary: 1" (or
// 2: the algorithm), and cells 0E0, 0S0, 0T0, 0G0 of the lowest of a rank's stages.
std::string to_pytorch(const Order& order);

// Reads a file in that form; errors name file, line and cell. The order is validated, and named as
// the file without its folder and extension. Where it is not valid, `fault` (if given) gets what
// explain() says of it.
Result<Order> read_pytorch(const std::string& path, std::string* fault = nullptr);

// The same order with UNSHARD/RESHARD/REDUCE_GRAD and SEND/RECV put in, as PyTorch's lowering does
// (3 stages unsharded at a time, sends swept in rank order). What the order says of communication
// already is dropped first. What vocabulary passes exchange has no form there and is left out.
// REQUIRES: validate(order).ok().
Order with_communication(const Order& order);

// Seconds of the replayed actions, to draw the grid with.
struct GridCosts {
  double forward = 1, backward = 2, input = 1, weight = 1;
  VocabularyCosts vocabulary = {};
};

// F,I,W or F,I,W,C in any one unit. Errors: other numbers of them, negative ones, and times that no
// grid can be drawn with.
Result<OrderCosts> order_costs(std::span<const double> times);

// An Error where the grid of an order of these sizes is larger than anyone would look at: asked
// before the order is made.
Status check_grid(double ranks, double stages, double microbatches);

// The order replayed without communication, a row a rank, a column a time slot: "." is idle, "B0--"
// takes more than one slot, "0F3&" runs together with the next. REQUIRES: validate(order).ok().
//
// `colour`: the cells on grounds of colour, for a terminal; without it they are the same text.
std::string to_grid(const Order& order, const GridCosts& costs = {}, bool colour = false);

// What is wrong, to look at: each rank's actions in their order, not in time, the bad step in
// brackets; long rows are cut to what stands around it. "" for a valid order.
std::string explain(const Order& order);

}  // namespace tandem
