// Control over TCP, where there is no MPI: rank 0 listens, the others connect.
#pragma once

#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "launch/control.h"
#include "launch/launch.h"
#include "launch/rendezvous.h"

namespace tandem {

// Rank 0 listens, at the rendezvous' port or one of the next, and is there at once; the first
// operation waits for the others, a second longer than `timeout_ns`: a coordinator knows by then,
// and says it. The others try to reach rank 0 until `timeout_ns` are over. Both ends prove that
// they know the secret before anything else is said (launch/admission.h). Later operations wait
// without end for ranks that live; where one is lost they give an Error after some seconds, as its
// watchdog knows more and goes first. One rank alone needs no rendezvous. Error::Missing without
// libcrypto.
Result<std::unique_ptr<Control>> join_tcp(const LaunchedRank& own, const Rendezvous& rendezvous,
                                          Nanoseconds timeout_ns);

}  // namespace tandem
