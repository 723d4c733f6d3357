// Control over TCP, for runs without MPI: rank 0 listens, the others connect.
#pragma once

#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "launch/control.h"
#include "launch/launch.h"
#include "launch/rendezvous.h"

namespace tandem {

// Joins the run. Rank 0 listens at the rendezvous' port or one of the next, and returns at once.
// Its first operation waits for the others, a second longer than `timeout_ns`: by then a
// coordinator knows who is missing, and says so. The others try to reach rank 0 until `timeout_ns`
// are over. Both ends prove that they know the secret before anything else is said
// (launch/admission.h). Later operations wait without end for ranks that live. After a rank is lost
// they return an Error after 5 seconds, since its watchdog knows more and reports first. A single
// rank needs no rendezvous. Error::Missing without libcrypto.
Result<std::unique_ptr<Control>> join_tcp(const LaunchedRank& own, const Rendezvous& rendezvous,
                                          Nanoseconds timeout_ns);

}  // namespace tandem
