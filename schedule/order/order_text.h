// The text forms of an Order: PyTorch's CSV (with or without communication), and a grid to look at.
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

// Returns "2F0", "3UNSHARD" or "0SEND_F1", say.
std::string to_text(const Action& action);

// Parses one cell: an action, or "(a;b)OVERLAP_F_B". The whole cell must match: "2BW0" (an old
// form) is refused with a hint. Empty text gives no actions.
Result<std::vector<Action>> parse_cell(std::string_view cell);

// Writes one row a rank and one cell an action, without a header. With two chains the first line is
// "# chains: 2". With vocabulary parallelism, which PyTorch's form does not know, there is a line
// "# vocabulary: 1" (or 2: the algorithm), and cells such as 0E0, 0S0, 0T0, 0G0 name the lowest of
// the rank's stages.
std::string to_pytorch(const Order& order);

// Reads a file in that form. The Errors name file, line and cell. The order is validated, and named
// as the file without its folder and extension. If it is not valid, `fault` (if given) gets
// explain_fault()'s text.
Result<Order> read_pytorch(const std::string& path, std::string* fault = nullptr);

// Reads rows of cells of that form. A row of one cell such as "# chains: 2" is that line of a file.
// The Errors name row and cell, both from 1. The order is validated, and named "rows".
Result<Order> order_in_rows(const std::vector<std::vector<std::string>>& rows);

// Returns the same order with UNSHARD/RESHARD/REDUCE_GRAD and SEND/RECV put in, as PyTorch's
// lowering does (3 stages unsharded at a time, sends swept in rank order). Communication that is
// already in the order is dropped first. Exchanges of vocabulary passes have no form there and are
// left out. REQUIRES: validate(order).ok().
Order with_communication(const Order& order);

// Times of actions, in any one unit, by which the grid is drawn.
struct GridCosts {
  double forward = 1, backward = 2, input = 1, weight = 1;
  VocabularyCosts vocabulary = {};
};

// Makes costs of F,I,W or F,I,W,C in any one unit. Errors: another count of numbers, negative ones,
// no compute at all, and times whose grid would be too wide.
Result<OrderCosts> order_costs(std::span<const double> times);

// Returns an Error if the grid of an order of these sizes is larger than anyone would look at. It
// is asked before the order is made.
Status check_grid(double ranks, double stages, double microbatches);

// Does the same for an order that is made. The grid is also too wide if its passes take very long
// or short beside the vocabulary's, and cannot show a pass that takes no time.
Status check_grid(const Order& order, const GridCosts& costs);

// Draws the order, replayed without communication: a row a rank, a column a time slot. "." is idle,
// "B0--" takes more than one slot, "0F3&" runs together with the next. REQUIRES:
// validate(order).ok().
//
// `colour`: cells have coloured grounds, for a terminal. The text is the same.
std::string to_grid(const Order& order, const GridCosts& costs = {}, bool colour = false);

// Shows a fault: each rank's actions in their order, not in time, with the bad step in brackets.
// Long rows are cut to the steps around it. Returns "" for a valid order.
std::string explain_fault(const Order& order);

}  // namespace tandem
