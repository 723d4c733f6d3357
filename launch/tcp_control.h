// Control over TCP, for runs without MPI: rank 0 listens, the others connect.
#pragma once

#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "launch/control.h"
#include "launch/launch.h"
#include "launch/rendezvous.h"

namespace tandem {

// Joins the run. Both ends of a connection prove first that they know the secret
// (launch/admission.h). A single rank needs no rendezvous. Error::Missing without libcrypto.
//
// Rank 0 listens at the rendezvous' port or one of the next, and returns at once. Its first
// operation waits for the other ranks, a second longer than `timeout_ns`: by then the coordinator
// (exec/supervise) has reported which ranks are missing. The other ranks try to reach rank 0 until
// `timeout_ns` are over. Later operations wait without end for ranks that live. If a rank is lost,
// they return an Error after 5 seconds: its watchdog knows more and reports first.
Result<std::unique_ptr<Control>> join_tcp(const LaunchedRank& own, const Rendezvous& rendezvous,
                                          Nanoseconds timeout_ns);

}  // namespace tandem
