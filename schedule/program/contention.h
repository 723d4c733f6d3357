// Contention: how much communication slows down the compute beside it on a device.
//
// An op that states SMs holds them while it is in flight, from its rendezvous to its end. While it
// waits for a peer it holds none (a real kernel spins on them). Meanwhile its bytes pass through
// the device's memory. An op that states no SMs (of a copy engine, or of a NIC by itself) takes
// neither SMs nor bandwidth.
//
// Let ops in flight hold S of the device's n SMs and the share M of its memory bandwidth. A compute
// op that memory bounds to the share mu then takes its duration times
//
//     n / (n - S) x ((1 - mu) + mu / (1 - M))
//
// For example with n = 100, S = 20, M = 0.2 and mu = 0.5: 1.25 x (0.5 + 0.5 x 1.25) = 1.41. All of
// the op has fewer SMs; the part that memory bounds has less bandwidth, too.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "schedule/program/program.h"

namespace tandem {

// The resources that communication in flight takes. They are whole numbers, so that adding and
// subtracting an op leaves no residue.
struct Taken {
  int sms = 0;
  std::int64_t memory_bytes_per_s = 0;

  Taken& operator+=(const Taken& other);
  Taken& operator-=(const Taken& other);
};

// Returns what an op of a communicator of `members` takes: the SMs that it states, and the
// bandwidth that its bytes need when it is alone. An op that other flows slow down still takes that
// much. A rank reads every byte that it sends once, and writes every byte that it receives once.
Taken taken_by(const Op& op, int members, const SharedDevice& device);

// Returns the factor above. Compute keeps at least one SM and a tenth of the bandwidth.
double slowdown(const SharedDevice& device, const Taken& taken, double memory_share);

// A compute op under way, slowed down by a factor that may change. The time left is not rounded;
// only its end is.
class SlowedOp {
 public:
  SlowedOp() = default;
  SlowedOp(Nanoseconds now, Nanoseconds duration_ns, double memory_share);

  void set_slowdown(Nanoseconds now, double slowdown);
  double memory_share() const { return memory_share_; }
  Nanoseconds end_ns() const;  // if the factor stays

 private:
  double memory_share_ = 0;
  double left_ns_ = 0;   // left of its duration at since_ns_
  double slowdown_ = 1;  // from since_ns_ on
  Nanoseconds since_ns_ = 0;
};

}  // namespace tandem
