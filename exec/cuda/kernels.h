// The program's own CUDA kernels. Each function launches one on a stream, and does not wait for it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tandem {

// The words by which host and device tell each other about the gate, in host memory that is mapped
// into the device. They hold numbers of iterations, counted from 1, that only grow. The gate kernel
// reads here which iteration it waits for, so that a graph can launch it with the same parameters
// in every iteration.
struct GateWords {
  std::uint32_t wanted = 0;  // written by the host: the iteration that was issued last
  std::uint32_t opened = 0;  // written by the host: the iteration that may run
  std::uint32_t done = 0;    // written by the device: the iteration that has been carried out
};
// In `opened`: the gate is open for all iterations to come.
constexpr std::uint32_t kAllOpened = ~std::uint32_t{0};

// The formats of floating-point numbers.
enum class Number : std::uint8_t { Fp32, Fp16, Bf16, Fp8 };  // Fp8: e4m3
constexpr int bytes_of(Number number) {
  return number == Number::Fp32 ? 4 : number == Number::Fp8 ? 1 : 2;
}

// Returns the number that a member contributes to a checked sum of 16-bit numbers: the lowest bit
// of its payload word (exec/payload/payload.h), and 0 from member 256 on. So sums are 256 at most,
// which bf16 holds exactly, in any order of adding.
constexpr std::int32_t kMostAddends = 256;
constexpr float addend(float word, std::int32_t member) {
  return member < kMostAddends ? static_cast<float>(static_cast<int>(word) % 2) : 0.0f;
}

// A PayloadPiece (exec/payload/payload_layout.h) on the device. Sizes count numbers of the
// message's type: a payload word is one number of fp32, or two of 16 bits.
struct DevicePiece {
  static constexpr std::int32_t kSum = -1;
  std::int64_t offset = 0;
  std::int64_t numbers = 0;
  std::int64_t first = 0;
  std::int32_t member = 0;
};

struct DevicePieces {
  const DevicePiece* pieces = nullptr;  // in memory of the device
  std::int32_t count = 0;
  std::int32_t members = 1;       // of the communicator: kSum sums over all of them
  std::int64_t most_numbers = 0;  // of the longest piece
  Number number = Number::Fp32;
};

// Holds the stream until gate->opened reaches gate->wanted.
cudaError_t hold_gate(cudaStream_t stream, GateWords* gate);
// Writes to gate->done that the stream has come here.
cudaError_t stamp_done(cudaStream_t stream, GateWords* gate);

// Runs `blocks` blocks of one warp, each for the duration.
cudaError_t spin(cudaStream_t stream, int blocks, std::int64_t duration_ns);

// Sets the bits of the SMs that blocks of the stream run on. `bits`: kSmWords words.
constexpr int kSmWords = 32;
cudaError_t record_sms(cudaStream_t stream, int blocks, std::uint32_t* bits);

// Copies `bytes` bytes in all: copies the same `window` bytes over and over until they add up.
// REQUIRES: both are multiples of 16.
cudaError_t copy_bytes(cudaStream_t stream, int blocks, const void* from, void* to,
                       std::int64_t bytes, std::int64_t window);

// Writes numbers that are uniform in (-1, 1).
cudaError_t fill_random(cudaStream_t stream, Number number, void* to, std::int64_t count,
                        std::uint64_t key);

// fill_pieces() writes the pieces' payload (exec/payload/payload.h), poison_pieces() overwrites
// them with NaNs, and check_pieces() adds to *wrong how many numbers differ from the payload.
cudaError_t fill_pieces(cudaStream_t stream, const DevicePieces& pieces, std::uint64_t key,
                        void* buffer);
cudaError_t poison_pieces(cudaStream_t stream, const DevicePieces& pieces, void* buffer);
cudaError_t check_pieces(cudaStream_t stream, const DevicePieces& pieces, std::uint64_t key,
                         const void* buffer, unsigned long long* wrong);

// Launches each kernel once with nothing to do. CUDA loads a kernel at its first launch, which may
// wait for everything that the device is doing. REQUIRES: the gate is open.
cudaError_t load_kernels(cudaStream_t stream, GateWords* gate);

}  // namespace tandem
