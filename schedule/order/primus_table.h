// The schedule table of AMD's Primus, whose pipeline launcher runs it in Megatron on ROCm: one row
// a rank, "Rank 0: (F|0|0),(SF|0|0),...", as its print_schedule_table() logs it. A node is what,
// microbatch, chunk. B is the input gradient and BW the whole backward; SF, RF, SB and RB send and
// receive. Of Primus (AMD-AGI/Primus fd1eeabb) primus/core/pipeline_parallel/scheduler has the
// form, and primus/backends/megatron/core/pipeline_parallel/primuspipe runs it.
#pragma once

#include <string>

#include "base/result.h"
#include "schedule/order/order.h"

namespace tandem {

// Reads an order in PyTorch's form (order_text.h) or, if the file has a row of a table, in
// Primus's. There all lines that are no rows are skipped, and colours and text before "Rank"
// ignored. [ ] around nodes joins those that compute (Action::with_next). Sends and receives tell
// looped stages from a V. They must be those that the order needs, a receive before its pass and a
// send after it. They are not kept. The Errors name file and line. `fault`: as read_pytorch() has
// it.
Result<Order> read_order_file(const std::string& path, std::string* fault = nullptr);

// Writes a Python module that Primus imports: it puts the order's table, with sends and receives,
// in place of one of Primus's algorithms. Its rows read back. Errors: what Primus has no form for
// (two chains, vocabulary passes, passes that run together, stages neither looped nor in a V).
// REQUIRES: validate(order).ok().
Result<std::string> to_primus(const Order& order);

}  // namespace tandem
