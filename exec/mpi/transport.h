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

// The data that this rank gives and takes in one communication. In a reduce-scatter of n ranks,
// `take` has an n-th of the size of `give`; in an all-gather, `give` has an n-th of the size of
// `take`; in other collectives both have one size. A sender takes nothing, a receiver gives
// nothing.
struct Message {
  OpKind kind = OpKind::Send;
  std::int32_t communicator = 0;
  std::span<const float> give;
  std::span<float> take;
};

// Carries a rank's messages. One thread calls it. Each rank of the program has one Transport.
class Transport : public Control {
 public:
  ~Transport() override = default;  // waits until all ranks do this

  // Prepares the program's communicators. All ranks must call it.
  virtual Status open(const Program& program) = 0;

  // Starts a message without waiting, and returns a ticket. The spans stay in use until the message
  // has ended. A communicator carries one message at a time. A send ends when its receiver has all
  // of the message.
  virtual Result<int> start(const Message& message) = 0;
  // Returns whether the message has ended. The ticket is void after it has returned true. Messages
  // make progress only during these calls.
  virtual Result<bool> has_ended(int ticket) = 0;
};

// The function of libtandem_mpi.so that makes a Transport. It starts MPI, which ends the process if
// it cannot start.
constexpr const char* kTransportSymbol = "tandem_make_transport";
using MakeTransport = Transport* (*)();

// Opens libtandem_mpi.so, which meets the other ranks. Error::Missing if it cannot be opened;
// BadInput if MPI numbers the ranks in another way than whoever started them.
Result<std::unique_ptr<Transport>> open_mpi(const LaunchedRank& own);

}  // namespace tandem
