// The kernels, and the functions that launch them. kernels.h says what each one does.
#include "exec/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "base/random.h"

namespace tandem {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr int kCopyThreads = 512;
constexpr int kMostBlocks = 1024;  // of payload kernels; their blocks loop over more data

__device__ std::uint64_t device_ns() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

// Waits until the device's clock shows end_ns. Sleeps 500 ns at a time, and 20 ns in the last 2 us.
__device__ void wait_until(std::uint64_t end_ns) {
  constexpr std::int64_t kClose_ns = 2000;
  for (;;) {
    const std::int64_t left_ns = static_cast<std::int64_t>(end_ns - device_ns());
    if (left_ns <= 0) return;
    __nanosleep(left_ns > kClose_ns ? 500 : 20);
  }
}

// Waits until the host has opened the gate for the iteration.
__global__ void gate_kernel(volatile GateWords* gate) {
  if (threadIdx.x != 0) return;
  const std::uint32_t wanted = gate->wanted;
  while (gate->opened < wanted) __nanosleep(200);
}

__global__ void done_kernel(volatile GateWords* gate) {
  if (threadIdx.x == 0) gate->done = gate->wanted;
}

__global__ void spin_kernel(std::int64_t duration_ns) {
  wait_until(device_ns() + static_cast<std::uint64_t>(duration_ns));
}

// Keeps each block running for 100 us, so that all blocks run at once and cover all SMs.
__global__ void record_sms_kernel(std::uint32_t* bits) {
  constexpr std::uint64_t kTogether_ns = 100'000;
  wait_until(device_ns() + kTogether_ns);
  std::uint32_t sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0 && sm < kSmWords * 32) atomicOr(&bits[sm / 32], 1u << (sm % 32));
}

// Copies `count` units of 16 bytes in all, the same `window` units over and over.
__global__ void copy_kernel(const uint4* __restrict__ from, uint4* __restrict__ to,
                            std::int64_t count, std::int64_t window) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t left = count; left > 0; left -= window) {
    const std::int64_t units = left < window ? left : window;
#pragma unroll 4
    for (std::int64_t i = own; i < units; i += stride) to[i] = from[i];
  }
}

// Writes (b + 1/2) / 2^23 - 1 for 24 random bits b: uniform in (-1, 1).
template <class T>
__global__ void random_kernel(T* to, std::int64_t count, std::uint64_t key) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const std::uint64_t bits = scatter(key + static_cast<std::uint64_t>(i)) >> 40;
    to[i] = static_cast<T>((static_cast<float>(bits) + 0.5f) * 0x1p-23f - 1.0f);
  }
}

// Returns the same as payload_word() of exec/payload/payload.h: one random number of 64 bits gives
// eight words, a byte each, the first from the lowest byte.
__device__ float payload_word(std::uint64_t key, std::int32_t member, std::int64_t i) {
  const std::uint64_t base = scatter(key + scatter(static_cast<std::uint64_t>(member)));
  const std::uint64_t draw = scatter(base + static_cast<std::uint64_t>(i / 8));
  return static_cast<float>(draw >> (8 * (i % 8)) & 0xff);
}

// Returns number i that a piece should hold: the payload word, or its addend() if T has 16 bits.
template <class T>
__device__ float expected_word(const DevicePiece& piece, std::int32_t members, std::uint64_t key,
                               std::int64_t i) {
  const auto share_of = [&](std::int32_t member) {
    const float word = payload_word(key, member, piece.first + i);
    return sizeof(T) == sizeof(float) ? word : addend(word, member);
  };
  if (piece.member != DevicePiece::kSum) return share_of(piece.member);
  float sum = 0;  // of whole numbers, and below 2^24: exact in any order of adding
  for (std::int32_t member = 0; member < members; ++member) sum += share_of(member);
  return sum;
}

// Calls each(piece, i) for every number i of the pieces. The grid's y goes over pieces, x over
// numbers.
template <class Each>
__device__ void for_numbers(const DevicePieces& all, Each each) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int32_t p = static_cast<std::int32_t>(blockIdx.y); p < all.count;
       p += static_cast<std::int32_t>(gridDim.y)) {
    const DevicePiece piece = all.pieces[p];
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < piece.numbers; i += stride)
      each(piece, i);
  }
}

template <class T>
__global__ void fill_kernel(DevicePieces all, std::uint64_t key, T* buffer) {
  for_numbers(all, [&](const DevicePiece& piece, std::int64_t i) {
    buffer[piece.offset + i] = static_cast<T>(expected_word<T>(piece, all.members, key, i));
  });
}

// Sets all bits, which is a NaN in every floating-point type.
template <class Bits>
__global__ void poison_kernel(DevicePieces all, Bits* buffer) {
  for_numbers(all, [&](const DevicePiece& piece, std::int64_t i) {
    buffer[piece.offset + i] = static_cast<Bits>(~Bits{0});
  });
}

// Counts wrong numbers. A NaN differs from every number.
template <class T>
__global__ void check_kernel(DevicePieces all, std::uint64_t key, const T* buffer,
                             unsigned long long* wrong) {
  unsigned long long own = 0;
  for_numbers(all, [&](const DevicePiece& piece, std::int64_t i) {
    const float found = static_cast<float>(buffer[piece.offset + i]);
    own += found != expected_word<T>(piece, all.members, key, i) ? 1 : 0;
  });
  if (own > 0) atomicAdd(wrong, own);
}

// Launches a kernel. Returns what the launch gave, not an error that an earlier call has left.
template <class... Parameters, class... Arguments>
cudaError_t launch(cudaStream_t stream, dim3 blocks, int threads, void (*kernel)(Parameters...),
                   Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// Makes SMs that run the kernel set aside the most shared memory that they can. By default an SM
// that runs a kernel without shared memory gives all of it to the L1 cache. A kernel that needs
// shared memory, as NCCL's do, then cannot start on that SM until the first one has ended: on an
// H200, transfers waited for spin kernels of milliseconds. The matrix products that a spin kernel
// stands for ask for much shared memory themselves.
template <class... Parameters>
cudaError_t leave_shared_memory(void (*kernel)(Parameters...)) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

// Returns a one-dimensional grid.
dim3 line(int blocks) { return dim3(static_cast<unsigned>(blocks)); }

// Returns the grid for for_numbers(), of kMostBlocks blocks at most.
dim3 blocks_of(const DevicePieces& pieces) {
  const std::int64_t y = std::clamp(pieces.count, 1, kMostBlocks);
  const std::int64_t x = (pieces.most_numbers + kThreads - 1) / kThreads;
  const std::int64_t most = std::max<std::int64_t>(1, kMostBlocks / y);
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>(x, 1, most)),
              static_cast<unsigned>(y));
}

// Calls use(T{}), where T is the type of a message's numbers.
template <class Use>
cudaError_t with_type(Number number, const Use& use) {
  if (number == Number::Fp16) return use(__half{});
  if (number == Number::Bf16) return use(__nv_bfloat16{});
  return use(float{});
}

}  // namespace

cudaError_t hold_gate(cudaStream_t stream, GateWords* gate) {
  return launch(stream, line(1), kWarp, gate_kernel, gate);
}

cudaError_t stamp_done(cudaStream_t stream, GateWords* gate) {
  return launch(stream, line(1), kWarp, done_kernel, gate);
}

cudaError_t spin(cudaStream_t stream, int blocks, std::int64_t duration_ns) {
  return launch(stream, line(blocks), kWarp, spin_kernel, duration_ns);
}

cudaError_t record_sms(cudaStream_t stream, int blocks, std::uint32_t* bits) {
  return launch(stream, line(blocks), kWarp, record_sms_kernel, bits);
}

cudaError_t copy_bytes(cudaStream_t stream, int blocks, const void* from, void* to,
                       std::int64_t bytes, std::int64_t window) {
  constexpr std::int64_t kUnit = sizeof(uint4);
  return launch(stream, line(blocks), kCopyThreads, copy_kernel, static_cast<const uint4*>(from),
                static_cast<uint4*>(to), bytes / kUnit, window / kUnit);
}

cudaError_t fill_random(cudaStream_t stream, Number number, void* to, std::int64_t count,
                        std::uint64_t key) {
  const dim3 blocks = line(4096);  // enough to fill any device; each block loops over the rest
  switch (number) {
    case Number::Fp32:
      return launch(stream, blocks, kThreads, random_kernel<float>, static_cast<float*>(to), count,
                    key);
    case Number::Fp16:
      return launch(stream, blocks, kThreads, random_kernel<__half>, static_cast<__half*>(to),
                    count, key);
    case Number::Bf16:
      return launch(stream, blocks, kThreads, random_kernel<__nv_bfloat16>,
                    static_cast<__nv_bfloat16*>(to), count, key);
    default:
      return launch(stream, blocks, kThreads, random_kernel<__nv_fp8_e4m3>,
                    static_cast<__nv_fp8_e4m3*>(to), count, key);
  }
}

cudaError_t fill_pieces(cudaStream_t stream, const DevicePieces& pieces, std::uint64_t key,
                        void* buffer) {
  return with_type(pieces.number, [&](auto zero) {
    using T = decltype(zero);
    return launch(stream, blocks_of(pieces), kThreads, fill_kernel<T>, pieces, key,
                  static_cast<T*>(buffer));
  });
}

cudaError_t poison_pieces(cudaStream_t stream, const DevicePieces& pieces, void* buffer) {
  const dim3 blocks = blocks_of(pieces);
  if (bytes_of(pieces.number) == 2)
    return launch(stream, blocks, kThreads, poison_kernel<std::uint16_t>, pieces,
                  static_cast<std::uint16_t*>(buffer));
  return launch(stream, blocks, kThreads, poison_kernel<std::uint32_t>, pieces,
                static_cast<std::uint32_t*>(buffer));
}

cudaError_t check_pieces(cudaStream_t stream, const DevicePieces& pieces, std::uint64_t key,
                         const void* buffer, unsigned long long* wrong) {
  return with_type(pieces.number, [&](auto zero) {
    using T = decltype(zero);
    return launch(stream, blocks_of(pieces), kThreads, check_kernel<T>, pieces, key,
                  static_cast<const T*>(buffer), wrong);
  });
}

cudaError_t load_kernels(cudaStream_t stream, GateWords* gate) {
  constexpr std::int64_t kUnit = sizeof(uint4);
  if (const cudaError_t set = leave_shared_memory(spin_kernel); set != cudaSuccess) return set;
  for (const cudaError_t launched :
       {hold_gate(stream, gate), stamp_done(stream, gate), spin(stream, 1, 0),
        copy_bytes(stream, 1, nullptr, nullptr, 0, kUnit)}) {
    if (launched != cudaSuccess) return launched;
  }
  for (const Number number : {Number::Fp32, Number::Fp16, Number::Bf16}) {
    DevicePieces none;
    none.number = number;
    for (const cudaError_t launched :
         {fill_pieces(stream, none, 0, nullptr), poison_pieces(stream, none, nullptr),
          check_pieces(stream, none, 0, nullptr, nullptr)}) {
      if (launched != cudaSuccess) return launched;
    }
  }
  return cudaSuccess;
}

}  // namespace tandem
