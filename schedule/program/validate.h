// Validation of a Program: every rank can play it to its end.
#pragma once

#include "base/result.h"
#include "schedule/program/program.h"

namespace tandem {

// An Error names the op: where ranks of a communicator issue different ops, where a send has no
// receive, where a wait leads forward, and the cycle where the program would wait for itself.
Status validate(const Program& program);

// All that validate() asks but whether the issue order ends, which sort_by_issue_order() sees to.
Status validate_but_order(const Program& program);

// An Error where all durations of one rank of each body together pass 100 years: sums of integer
// nanoseconds would overflow.
Status check_durations(const Program& program);

// "forward 3 of stage 2 (lane compute)": how errors and traces name an op.
std::string describe(const Body& body, const Op& op);

}  // namespace tandem
