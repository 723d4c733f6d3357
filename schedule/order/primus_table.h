// Reads and writes the schedule table of AMD's Primus, whose pipeline launcher runs it in Megatron
// on ROCm. The table has one row a rank, "Rank 0: (F|0|0),(SF|0|0),...", as Primus's
// print_schedule_table() logs it. A node is (kind|microbatch|chunk). Kinds: F forward, B input
// gradient, W weight gradient, BW whole backward; SF, RF, SB and RB send or receive for F or B.
//
// Source: AMD-AGI/Primus, commit fd1eeabb. primus/core/pipeline_parallel/scheduler defines the
// table, primus/backends/megatron/core/pipeline_parallel/primuspipe runs it.
#pragma once

#include <string>

#include "base/result.h"
#include "schedule/order/order.h"

namespace tandem {

// Reads an order in PyTorch's form (order_text.h) or, if the file has a row of a Primus table, in
// Primus's form. In a Primus file, other lines are skipped, and so are colours and text before
// "Rank". Brackets [ ] around nodes mean that the passes in them run together (Action::with_next).
// Sends and receives tell looped stages from a V. They must be exactly those that the order needs,
// a receive before its pass and a send after it; the result has none of them. The Errors name file
// and line. `fault`: as in read_pytorch().
Result<Order> read_order_file(const std::string& path, std::string* fault = nullptr);

// Returns a Python module that Primus imports. The module puts the order's table, with sends and
// receives, in place of one of Primus's algorithms; read_order_file() reads it back. Errors: orders
// that Primus cannot run (two chains, vocabulary passes, passes that run together, stages neither
// looped nor in a V).
// REQUIRES: validate(order).ok().
Result<std::string> to_primus(const Order& order);

}  // namespace tandem
