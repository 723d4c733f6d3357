// The socket between a rank that plays and the library that carries its messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "schedule/program.h"

namespace tandem {

// Another rank's clock as rank 0 read it: at `at_ns` of that clock it was `ahead_ns` ahead of rank
// 0's, give or take half the round trip.
struct ClockReading {
  Nanoseconds at_ns = 0;
  Nanoseconds ahead_ns = 0;
  Nanoseconds round_trip_ns = 0;
};

// What this rank gives and takes in one communication. Of n ranks a reduce-scatter takes an n-th
// of what each gives, an all-gather gives an n-th of what it takes; in the others both are equal. A
// sender takes nothing, a receiver gives nothing.
struct Message {
  OpKind kind = OpKind::Send;
  std::int32_t communicator = 0;
  std::span<const float> give;
  std::span<float> take;
};

// One thread calls it. All ranks of the program are open in it, and each has its number.
class Transport {
 public:
  virtual ~Transport() = default;  // waits until all ranks do this

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Makes the program's communicators ready. All ranks call it.
  virtual Status open(const Program& program) = 0;

  // Starts without waiting; the spans stay in use until it has ended. On one communicator one at a
  // time. A send has ended when its receiver has all of it. Gives a ticket.
  virtual Result<int> start(const Message& message) = 0;
  // Whether it has; true once a ticket. Messages move on while this is called.
  virtual Result<bool> has_ended(int ticket) = 0;

  // All ranks call these.
  virtual Status broadcast(std::span<std::byte> bytes) = 0;  // from rank 0
  virtual Status barrier() = 0;                              // leaves the core to others meanwhile
  virtual Result<ClockReading> compare_clocks() = 0;
};

// What libtandem_mpi.so exports under this name. Starts MPI, which ends the process where it
// cannot.
constexpr const char* kTransportSymbol = "tandem_make_transport";
using MakeTransport = Transport* (*)();

}  // namespace tandem
