// Contention: how much communication slows down the compute beside it on a device.
//
// A communication op with Op::sms > 0 holds these SMs, and memory bandwidth for its bytes, while it
// is in flight: from its rendezvous to its end. While it waits for a peer it holds none (a real
// kernel spins on them). An op without SMs (of a copy engine, or of a NIC by itself) takes neither
// SMs nor bandwidth.
//
// Let ops in flight hold S of the device's n SMs and the share M of its memory bandwidth, and let
// mu be the share of a compute op's time that is bound by memory. Its duration is then multiplied
// by
//
//     n / (n - S) x ((1 - mu) + mu / (1 - M))
//
// For example with n = 100, S = 20, M = 0.2 and mu = 0.5: 1.25 x (0.5 + 0.5 x 1.25) = 1.41. The
// whole op has fewer SMs; its memory-bound part also has less bandwidth.
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

// Returns the resources that an op of a communicator of `members` ranks takes: its SMs, and the
// bandwidth that its bytes need when it is alone (also if other flows slow it down). A rank reads
// every byte that it sends once, and writes every byte that it receives once.
Taken taken_by(const Op& op, int members, const SharedDevice& device);

// Returns the factor above, with mu = memory_share. Compute keeps at least one SM and a tenth of
// the bandwidth.
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
