// The interface between a rank that plays and the library that carries its messages.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "launch/control.h"
#include "launch/launch.h"
#include "schedule/program/program.h"

namespace tandem {

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
class Transport : public Control {
 public:
  ~Transport() override = default;  // waits until all ranks do this

  // Makes the program's communicators ready. All ranks call it.
  virtual Status open(const Program& program) = 0;

  // Starts without waiting; the spans stay in use until it has ended. On one communicator one at a
  // time. A send has ended when its receiver has all of it. Gives a ticket.
  virtual Result<int> start(const Message& message) = 0;
  // Whether it has; true once a ticket. Messages move on while this is called.
  virtual Result<bool> has_ended(int ticket) = 0;
};

// What libtandem_mpi.so exports under this name. Starts MPI, which ends the process where it
// cannot.
constexpr const char* kTransportSymbol = "tandem_make_transport";
using MakeTransport = Transport* (*)();

// Opens libtandem_mpi.so, which meets the other ranks. Error::Missing where it cannot be opened;
// BadInput where MPI numbers the ranks in another way than whoever started them.
Result<std::unique_ptr<Transport>> open_mpi(const LaunchedRank& own);

}  // namespace tandem
