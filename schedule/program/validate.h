// Validation: checks that every rank can play a Program to its end.
#pragma once

#include "base/result.h"
#include "schedule/program/program.h"

namespace tandem {

// The reason why a Program is not valid, and where in it; -1: not there.
struct ProgramFault {
  Error why;
  int body = -1, op = -1;  // a body's number, and the op's in it;
  int communicator = -1;   // or a communicator's,
  int rank = -1;           // or a rank's
};
using Validity = Result<Done, ProgramFault>;

// Returns an Error that names the op if ranks of a communicator issue different ops, a send has no
// receive, a wait leads forward, or the program would wait for itself (it names the cycle).
// REQUIRES: bodies and communicators that ranks name, and ranks that communicators name, exist.
Status validate(const Program& program);
// Does the same, and returns the place too.
Validity validity(const Program& program);

// Checks the same except that the issue order ends; sort_by_issue_order() takes care of that.
Status validate_but_order(const Program& program);

// Returns an Error if all durations of one rank of each body together exceed 100 years: sums of
// integer nanoseconds would overflow.
Status check_durations(const Program& program);

// Returns "forward 3 of stage 2 (lane compute)": the name of an op in errors and traces.
std::string describe(const Body& body, const Op& op);

}  // namespace tandem
