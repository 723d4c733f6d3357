// Communicators: sends and receives messages by NCCL, with a time-out on every call.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "exec/cuda/gpu.h"

namespace tandem {

// The NCCL communicators of a plan. A communicator with several members is nonblocking
// (ncclConfig_t::blocking = 0): a call that has to wait for other members returns ncclInProgress,
// and is polled until options.timeout_ns has passed. A communicator with a single member waits for
// nobody and is blocking, as NCCL starts a thread for each operation of a nonblocking one.
//
// Between begin_group() and end_group() only communicate() and move() may be called. If one of them
// fails, the group stays open, and only abort() or the destructor may follow.
class Communicators {
 public:
  Communicators() = default;
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // Returns the id of a new communicator, which all its members need.
  static Result<GpuCommId> make_id();

  // Opens the communicators with several members, and those with one member that Moves go through.
  // Waits for the other members, in the order of the communicators' numbers.
  Status open(const GpuJob& job);

  Status begin_group();
  Status end_group();
  // Sends op's message to the other members, or receives it, or does both in a collective.
  // `communicator`: its number in the Program.
  Status communicate(const Op& op, std::int32_t communicator, const float* give, float* take,
                     cudaStream_t stream);
  // Sends op's message from this process to itself. REQUIRES: the communicator has one member.
  Status move(const Op& op, std::int32_t communicator, const float* give, float* take,
              cudaStream_t stream);

  // Returns an Error if a communicator has failed meanwhile.
  Status check() const;
  // Aborts all communicators with several members at once; one at a time, the first abort would
  // wait for kernels of the others. Waits for 1.5 s at most. Does not abort communicators with one
  // member: nobody waits for them, and NCCL would wait for their streams. Nothing else may be
  // called afterwards.
  void abort();

 private:
  struct OpenCommunicator {
    std::int32_t number = 0;  // in the Program
    std::string ranks;        // "ranks 0, 1"
    int place = 0;
    int members = 1;
    ncclComm_t nccl = nullptr;
  };

  OpenCommunicator& opened(std::int32_t number);
  Error failed(const OpenCommunicator& own, const char* call, ncclResult_t code) const;
  // Returns whether the communicator has carried out its last call. `call`: named in the Error.
  Result<bool> is_settled(const OpenCommunicator& own, const char* call) const;
  // Polls until it has.
  Status settle(const OpenCommunicator& own, const char* call) const;
  // Handles the code that an NCCL call on the communicator returned: settles the call, or inside a
  // group notes the communicator for end_group().
  Status handle(OpenCommunicator* own, const char* call, ncclResult_t code);
  Status start(const GpuJob& job, const GpuCommunicator& planned, GpuCommId id);
  Status all_to_all(OpenCommunicator* own, std::size_t words_a_member, const float* give,
                    float* take, cudaStream_t stream);
  void leave_groups();
  Status close();

  const Program* program_ = nullptr;
  ReductionTypes reductions_;
  Nanoseconds timeout_ns_ = 0;
  int open_groups_ = 0;                     // nested calls of ncclGroupStart
  std::vector<OpenCommunicator*> grouped_;  // communicators with calls in the open group
  std::vector<OpenCommunicator> opened_;    // in ascending order of numbers
};

}  // namespace tandem
