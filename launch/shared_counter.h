// SharedCounter: the processes that an mpirun or srun started share work by counting together.
//
// This process itself never knows MPI, so it may fork: a child that is forked before all else joins
// the others, and is asked over a socket.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"
#include "launch/launch.h"

namespace tandem {

class SharedCounter {
 public:
  // Meets the others. Error::Missing without MPI; BadInput where MPI numbers the ranks in another
  // way than whoever started them.
  static Result<SharedCounter> join(const LaunchedRank& own);
  SharedCounter(SharedCounter&& other) noexcept;
  SharedCounter& operator=(SharedCounter&&) = delete;
  ~SharedCounter();  // its child is ended; before leave() the launcher then ends all ranks

  // 0, 1, 2, ...: each number goes to one rank only.
  Result<std::int64_t> next();
  // Waits until all ranks are there; gives the greatest of their numbers.
  Result<std::int64_t> meet(std::int64_t own);
  // The last call: waits until all ranks are there.
  Status leave();

 private:
  SharedCounter(int socket, pid_t child) : socket_(socket), child_(child) {}
  Result<std::int64_t> ask(char what, std::int64_t own);

  int socket_;
  pid_t child_;
};

// What libtandem_mpi.so exports under this name; it is called in the child alone, and starts MPI.
class Counter {
 public:
  virtual ~Counter() = default;  // waits until all ranks do this

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual Result<std::int64_t> next() = 0;
  virtual Result<std::int64_t> greatest(std::int64_t own) = 0;
  // Lets the others' calls move on; for the time between this rank's own.
  virtual Status progress() = 0;
};
constexpr const char* kCounterSymbol = "tandem_make_counter";
using MakeCounter = Counter* (*)();

}  // namespace tandem
