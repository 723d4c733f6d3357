// Communicators: messages by NCCL that never wait forever.
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

// The NCCL communicators of a plan. A communicator with several members does not block: a call that
// has to wait for others says so, and is asked again until options.timeout_ns has passed. One with
// a single member waits for nobody, and blocks: otherwise NCCL would start a thread for each
// operation.
//
// Inside a group only transfers may be called. If one fails, the group stays open, and only abort()
// or the destructor may follow.
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
  // Carries out op's message to or from the other members. `communicator`: its number in the
  // Program.
  Status communicate(const Op& op, std::int32_t communicator, const float* give, float* take,
                     cudaStream_t stream);
  // Sends op's message from this process to itself. REQUIRES: the communicator has one member.
  Status move(const Op& op, std::int32_t communicator, const float* give, float* take,
              cudaStream_t stream);

  // Returns an Error if a communicator has failed meanwhile.
  Status check() const;
  // Aborts what is under way among several members, in all communicators at once: one after the
  // other, NCCL would wait in the first for kernels of the others. Waits for a second or two at
  // most. Leaves communicators with one member alone: nobody waits for them, and NCCL would wait
  // for their streams. Nothing else may be called afterwards.
  void abort();

 private:
  struct Own {
    std::int32_t number = 0;  // in the Program
    std::string ranks;        // "ranks 0, 1"
    int place = 0;
    int members = 1;
    ncclComm_t nccl = nullptr;
  };

  Own& of(std::int32_t communicator);
  Error failed(const Own& own, const char* call, ncclResult_t code) const;
  // Polls until the communicator has done what it was asked for. `call`: named in the Error.
  Status settle(const Own& own, const char* call) const;
  // Handles what an NCCL call on the communicator returned.
  Status took(Own* own, const char* call, ncclResult_t code);
  Status start(const GpuJob& job, const GpuCommunicator& planned, GpuCommId id);
  Status all_to_all(Own* own, std::size_t each, const float* give, float* take,
                    cudaStream_t stream);
  void leave_groups();
  Status close();

  const Program* program_ = nullptr;
  ReductionTypes reductions_;
  Nanoseconds timeout_ns_ = 0;
  int depth_ = 0;              // groups that are open
  std::vector<Own*> grouped_;  // communicators with calls in the open group
  std::vector<Own> all_;       // by number
};

}  // namespace tandem
