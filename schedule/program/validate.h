// Validation: checks that every rank can play a Program to its end.
#pragma once

#include "base/result.h"
#include "schedule/program/program.h"

namespace tandem {

// The reason why a Program is not valid, and the op, communicator or rank at fault; -1: none.
struct ProgramFault {
  Error why;
  int body = -1, op = -1;  // the op's number in that body
  int communicator = -1;
  int rank = -1;
};
using Validity = Result<Done, ProgramFault>;

// Returns an Error that names the op if ranks of a communicator issue different ops, a send has no
// receive, an op waits for a later op, or the program would deadlock (it names the cycle).
// REQUIRES: bodies and communicators that ranks name, and ranks that communicators name, exist.
Status validate(const Program& program);
// Does the same, and also says which op, communicator or rank is at fault.
Validity validity(const Program& program);

// Checks the same except for deadlocks of the issue order, which sort_by_issue_order() excludes.
Status validate_but_order(const Program& program);

// Returns an Error if all durations of one rank of each body together exceed 100 years, as sums of
// integer nanoseconds would overflow, or if one is below 0.
Status check_durations(const Program& program);

// Returns "forward 3 of stage 2 (lane compute)": the name of an op in errors and traces.
std::string describe(const Body& body, const Op& op);

}  // namespace tandem
