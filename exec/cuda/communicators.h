// Communicators: messages by NCCL, without ever waiting forever.
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

// The NCCL communicators of a plan. Those with several members do not block: a call that has to
// wait for others says so, and is asked again until options.timeout_ns has passed. One with one
// member waits for nobody, and blocks: else NCCL would start a thread for each operation.
//
// Of a group nothing may be asked but transfers until it has ended. What fails inside leaves it
// open, and only abort() or the destructor may follow.
class Communicators {
 public:
  Communicators() = default;
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // A new one's id, which all its members need.
  static Result<GpuCommId> make_id();

  // Those with several members, and of those with one the ones that Moves go through. Waits for the
  // other members, in the order of their numbers.
  Status open(const GpuJob& job);

  Status begin_group();
  Status end_group();
  // Op's message to or from the other members. `communicator`: of the Program.
  Status communicate(const Op& op, std::int32_t communicator, const float* give, float* take,
                     cudaStream_t stream);
  // From this process to itself. REQUIRES: the communicator has one member.
  Status move(const Op& op, std::int32_t communicator, const float* give, float* take,
              cudaStream_t stream);

  // An Error where one of them has failed since.
  Status check() const;
  // Takes back what is under way among several members, all at once: NCCL waits in the first for
  // kernels of the others, else. Waits for a second or two at most. What has one member is left
  // alone: nobody waits for it, and NCCL would wait for its stream. Nothing else is called
  // afterwards.
  void abort();

 private:
  struct Own {
    std::int32_t number = 0;  // of the Program
    std::string ranks;        // "ranks 0, 1"
    int place = 0;
    int members = 1;
    ncclComm_t nccl = nullptr;
  };

  Own& of(std::int32_t communicator);
  Error failed(const Own& own, const char* call, ncclResult_t code) const;
  // Until the communicator has carried out what it was asked for.
  Status settle(const Own& own, const char* call) const;
  // What an NCCL call on it gave.
  Status took(Own* own, const char* call, ncclResult_t code);
  Status start(const GpuJob& job, const GpuCommunicator& planned, GpuCommId id);
  Status transfers(const Op& op, Own* own, const float* give, float* take, cudaStream_t stream);
  Status all_to_all(Own* own, std::size_t each, const float* give, float* take,
                    cudaStream_t stream);
  void leave_groups();
  Status close();

  const Program* program_ = nullptr;
  ReductionTypes reductions_;
  Nanoseconds timeout_ns_ = 0;
  int depth_ = 0;              // groups that have begun
  std::vector<Own*> grouped_;  // with calls in the group
  std::vector<Own> all_;       // by number
};

}  // namespace tandem
