// Payloads: messages that are filled and checked on the device, with the words of
// exec/payload/payload.h. Counts here are of numbers: one of fp32, or two of 16 bits, for a word.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/handles.h"
#include "exec/cuda/kernels.h"

namespace tandem {

// Knows the pieces of every message that a plan fills or checks, and counts wrong numbers.
class Payloads {
 public:
  Status open(const GpuJob& job);

  // Begins an iteration: forgets the faults of the one before. Waits for the device's memset.
  Status begin(int iteration, cudaStream_t stream);
  Status fill(const GpuCall& call, float* give, cudaStream_t stream) const;
  // Poisons the buffer before the message of a Check comes, so that numbers that it does not
  // write are found.
  Status poison(const GpuCall& check, float* take, cudaStream_t stream) const;
  Status check(const GpuCall& call, const float* take, cudaStream_t stream);
  // Waits for a copy on the stream. REQUIRES: the checks have been carried out.
  Result<std::vector<GpuFault>> faults(cudaStream_t stream) const;

 private:
  // The pieces of one op, given or taken.
  struct Message {
    std::int32_t first = -1;  // into pieces_; -1: the plan does not fill or check it
    DevicePieces pieces;
    std::int32_t communicator = 0;
    std::int64_t numbers = 0;  // of all pieces
  };

  void add(const GpuJob& job, const GpuCall& call, std::vector<DevicePiece>* pieces);
  const Message& given(const GpuCall& call) const { return given_[call.local_rank][call.op]; }
  const Message& taken(const GpuCall& call) const { return taken_[call.local_rank][call.op]; }
  std::uint64_t key(const GpuCall& call, const Message& message) const;

  const Program* program_ = nullptr;
  const GpuPlan* plan_ = nullptr;
  std::uint64_t seed_ = 0;
  int iteration_ = 0;
  std::vector<std::vector<Message>> given_, taken_;  // by local rank and op
  DeviceArray<DevicePiece> pieces_;
  std::int64_t most_checks_ = 0;
  DeviceArray<unsigned long long> wrong_;  // wrong numbers, by check of the iteration
  std::vector<GpuFault> checks_;           // checks of the iteration; `wrong` is not read yet
};

}  // namespace tandem
