// Contention: what communication takes from the compute beside it on a device.
//
// An op that states SMs holds them while it is in flight, from its rendezvous to its end; while it
// waits for a peer it holds none (a real kernel spins on them). Its bytes pass through the device's
// memory meanwhile. An op that states none (a copy engine, a NIC by itself) takes neither.
//
// Beside ops in flight that hold S of the device's n SMs and the share M of its memory bandwidth, a
// compute op of which memory bounds the share mu takes, times its duration,
//
//     n / (n - S) x ((1 - mu) + mu / (1 - M))
//
// All of it has fewer SMs; what memory bounds has less bandwidth, too.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "schedule/program/program.h"

namespace tandem {

// What communication in flight takes. Whole numbers: what comes and goes again leaves no residue.
struct Taken {
  int sms = 0;
  std::int64_t memory_bytes_per_s = 0;

  Taken& operator+=(const Taken& other);
  Taken& operator-=(const Taken& other);
};

// What an op of a communicator of `members` takes: the SMs that it states, and the bandwidth that
// its bytes need when it is alone (slowed by other flows, it still takes that). A rank reads every
// byte that it sends once, and writes every byte that it receives once.
Taken taken_by(const Op& op, int members, const SharedDevice& device);

// The factor above. At least one SM and a tenth of the bandwidth are left to compute.
double slowdown(const SharedDevice& device, const Taken& taken, double memory_share);

// A compute op under way, slowed down by a factor that may change. What is left of it is not
// rounded: only its end is.
class SlowedOp {
 public:
  SlowedOp() = default;
  SlowedOp(Nanoseconds now, Nanoseconds duration_ns, double memory_share);

  void set_slowdown(Nanoseconds now, double slowdown);
  double memory_share() const { return memory_share_; }
  Nanoseconds end_ns() const;  // if the stretch stays

 private:
  double memory_share_ = 0;
  double left_ns_ = 0;   // of its duration, at since_ns_
  double slowdown_ = 1;  // since then
  Nanoseconds since_ns_ = 0;
};

}  // namespace tandem
