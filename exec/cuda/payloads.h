// Payloads: fills and checks messages on the device, with the words of exec/payload/payload.h.
// Counts here are in numbers of a message's type: a word is one number of fp32, or two of 16 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/handles.h"
#include "exec/cuda/kernels.h"

namespace tandem {

// Holds the pieces of every message that a plan fills or checks, and the counts of wrong numbers.
class Payloads {
 public:
  Status open(const GpuJob& job);

  // Begins an iteration: forgets the faults of the one before. Waits for the device's memset.
  Status begin(int iteration, cudaStream_t stream);
  Status fill(const GpuCall& call, float* give, cudaStream_t stream) const;
  // Fills the buffer with NaNs before the message of a Check arrives, so that the Check finds
  // numbers that the message did not write.
  Status poison(const GpuCall& check, float* take, cudaStream_t stream) const;
  Status check(const GpuCall& call, const float* take, cudaStream_t stream);
  // Returns the messages with wrong numbers. Waits for a copy on the stream. REQUIRES: the checks
  // have been carried out.
  Result<std::vector<GpuFault>> faults(cudaStream_t stream) const;

 private:
  // The pieces that one op gives, or those that it takes.
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
  DeviceArray<DevicePiece> pieces_;                  // of all messages
  std::int64_t checks_a_plan_ = 0;
  DeviceArray<unsigned long long> wrong_;  // counts of wrong numbers, by index in checks_
  std::vector<GpuFault> checks_;           // Checks issued in the iteration; `wrong` is not set
};

}  // namespace tandem
