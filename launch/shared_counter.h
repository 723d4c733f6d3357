// SharedCounter: lets the processes that an mpirun or srun started divide work by counting
// together.
//
// This process itself never starts MPI, so that it may fork. It forks a child before anything else.
// The child joins the others by MPI and answers over a socket.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"
#include "launch/launch.h"

namespace tandem {

class SharedCounter {
 public:
  // Joins the other ranks. Error::Missing without MPI; BadInput if MPI numbers the ranks
  // differently than the launcher's environment.
  static Result<SharedCounter> join(const LaunchedRank& own);
  SharedCounter(SharedCounter&& other) noexcept;
  SharedCounter& operator=(SharedCounter&&) = delete;
  ~SharedCounter();  // ends its child; without leave() before, all ranks are ended

  // Returns 0, 1, 2, ...: each number goes to one rank only.
  Result<std::int64_t> next();
  // Waits until all ranks are there. Returns the greatest of their numbers.
  Result<std::int64_t> meet(std::int64_t own);
  // Waits until all ranks are there. It must be the last call.
  Status leave();

 private:
  SharedCounter(int socket, pid_t child) : socket_(socket), child_(child) {}
  Result<std::int64_t> ask(char kind, std::int64_t own);

  int socket_;
  pid_t child_;
};

// The counter that libtandem_mpi.so makes. It is called only in the child, and starts MPI.
class Counter {
 public:
  virtual ~Counter() = default;  // waits until all ranks do this

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual Result<std::int64_t> next() = 0;
  virtual Result<std::int64_t> greatest(std::int64_t own) = 0;
  // Lets the other ranks' calls make progress while this rank makes none.
  virtual Status progress() = 0;
};
constexpr const char* kCounterSymbol = "tandem_make_counter";
using MakeCounter = Counter* (*)();

}  // namespace tandem
