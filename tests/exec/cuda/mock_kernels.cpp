// Our kernels, mocked: those of payloads do their work on the host.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "base/random.h"
#include "exec/payload/payload.h"
#include "tests/exec/cuda/mock_cuda.h"

namespace tandem {
namespace {

MockCuda& device() { return MockCuda::get(); }

// A kernel is loaded when it is launched first, and that may wait for the device.
cudaError_t launched(const char* kernel, cudaStream_t stream) {
  if (device().loaded.insert(kernel).second && (device().is_closed() || device().captures))
    device().fault(std::string(kernel) + ": launched first behind the closed gate");
  return device().queue(kernel, stream) ? cudaErrorLaunchFailure : cudaSuccess;
}

template <class Each>
void for_numbers(const DevicePieces& all, Each each) {
  for (std::int32_t p = 0; p < all.count; ++p) {
    for (std::int64_t i = 0; i < all.pieces[p].numbers; ++i) each(all.pieces[p], i);
  }
}

float expected(const DevicePieces& all, const DevicePiece& piece, std::uint64_t key,
               std::int64_t i) {
  const auto of = [&](std::int32_t member) {
    const float word = payload_word(key, member, piece.first + i);
    return all.number == Number::Fp32 ? word : addend(word, member);
  };
  if (piece.member != DevicePiece::kSum) return of(piece.member);
  float sum = 0;
  for (std::int32_t member = 0; member < all.members; ++member) sum += of(member);
  return sum;
}

// Number `at` of a buffer.
float read(Number number, const void* buffer, std::int64_t at) {
  if (number == Number::Bf16)
    return static_cast<float>(static_cast<const __nv_bfloat16*>(buffer)[at]);
  if (number == Number::Fp16) return static_cast<float>(static_cast<const __half*>(buffer)[at]);
  return static_cast<const float*>(buffer)[at];
}
void write(Number number, void* buffer, std::int64_t at, float value) {
  if (number == Number::Bf16) static_cast<__nv_bfloat16*>(buffer)[at] = __nv_bfloat16(value);
  if (number == Number::Fp16) static_cast<__half*>(buffer)[at] = __half(value);
  if (number == Number::Fp32) static_cast<float*>(buffer)[at] = value;
}

}  // namespace

cudaError_t hold_gate(cudaStream_t stream, GateWords* gate) {
  const cudaError_t code = launched("hold_gate", stream);
  if (code == cudaSuccess) device().hold(gate);
  return code;
}

cudaError_t stamp_done(cudaStream_t stream, GateWords*) {
  device().capture.stamps = true;
  return launched("stamp_done", stream);
}

cudaError_t spin(cudaStream_t stream, int, std::int64_t) { return launched("spin", stream); }

cudaError_t record_sms(cudaStream_t stream, int, std::uint32_t* bits) {
  const MockedStream& own = device().stream(stream);
  for (int sm = own.first_sm; sm < own.first_sm + own.sms; ++sm) bits[sm / 32] |= 1u << (sm % 32);
  return launched("record_sms", stream);
}

cudaError_t copy_bytes(cudaStream_t stream, int, const void*, void*, std::int64_t, std::int64_t) {
  return launched("copy_bytes", stream);
}

cudaError_t fill_random(cudaStream_t stream, Number number, void* to, std::int64_t count,
                        std::uint64_t key) {
  const cudaError_t code = launched("fill_random", stream);
  for (std::int64_t i = 0; i < count && code == cudaSuccess; ++i) {
    const auto bits = scatter(key + static_cast<std::uint64_t>(i)) >> 40;
    const float value = (static_cast<float>(bits) + 0.5f) * 0x1p-23f - 1.0f;
    if (number != Number::Fp8) write(number, to, i, value);
  }
  return code;
}

cudaError_t fill_pieces(cudaStream_t stream, const DevicePieces& pieces, std::uint64_t key,
                        void* buffer) {
  const cudaError_t code = launched("fill_pieces", stream);
  for_numbers(pieces, [&](const DevicePiece& piece, std::int64_t i) {
    write(pieces.number, buffer, piece.offset + i, expected(pieces, piece, key, i));
  });
  return code;
}

cudaError_t poison_pieces(cudaStream_t stream, const DevicePieces& pieces, void* buffer) {
  const cudaError_t code = launched("poison_pieces", stream);
  for_numbers(pieces, [&](const DevicePiece& piece, std::int64_t i) {
    write(pieces.number, buffer, piece.offset + i, std::numeric_limits<float>::quiet_NaN());
  });
  return code;
}

cudaError_t check_pieces(cudaStream_t stream, const DevicePieces& pieces, std::uint64_t key,
                         const void* buffer, unsigned long long* wrong) {
  const cudaError_t code = launched("check_pieces", stream);
  if (device().has_peers) return code;
  for_numbers(pieces, [&](const DevicePiece& piece, std::int64_t i) {
    const float found = read(pieces.number, buffer, piece.offset + i);
    *wrong += found != expected(pieces, piece, key, i) ? 1 : 0;
  });
  return code;
}

cudaError_t load_kernels(cudaStream_t stream, GateWords*) {
  for (const char* kernel : {"hold_gate", "stamp_done", "spin", "copy_bytes", "fill_pieces",
                             "poison_pieces", "check_pieces"})
    device().loaded.insert(kernel);
  return device().wait("load_kernels", stream) ? cudaErrorLaunchFailure : cudaSuccess;
}

}  // namespace tandem
