// Kernel: the shape of a compute op, whatever it runs on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// `batch` products of (m x k) by (k x n).
struct Gemm {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool wide = false;  // in 16 bits under fp8 too: of activations alone, the head's, a router's
  bool scan = false;  // of a Mamba-2 scan's chunks, inside its own kernels

  double flops() const { return 2.0 * batch * m * n * k; }
  bool operator==(const Gemm&) const = default;
};

// "1x4096x5120x1536 ...": batch x m x n x k each, an `a` behind one of activations, an `s` behind
// one of a scan, which is of activations too. Printing and reading are inverse; nothing for a text
// that is none.
std::string gemms_text(const std::vector<Gemm>& gemms);
std::optional<std::vector<Gemm>> parse_gemms(std::string_view text);

// How a fused attention goes over its matrix: what its rate depends on. 0 keys: not known, as fast
// as with endless rows.
struct AttentionShape {
  std::int64_t keys = 0;       // a row's, that are not masked away by a window
  std::int64_t head_size = 0;  // of queries
  bool backward = false;

  bool operator==(const AttentionShape&) const = default;
};

// A compute op's work: its GEMMs, its fused attention, then memory-bound passes over `memory_bytes`
// in all. The CPU takes `launch_s` to issue it, beside the device: where that is longer, the device
// waits for the CPU.
struct Kernel {
  std::string name;
  std::vector<Gemm> gemms;
  double attention_flops = 0;  // of attention in one kernel (FlashAttention), always in 16 bits
  AttentionShape attention;
  double memory_bytes = 0;
  double launch_s = 0;
  // Of its duration, what memory bounds: set where it is priced. Communication that uses memory
  // bandwidth beside it stretches this share.
  double memory_share = 0;
  // What the CPU does beside it: bytes over its link to the GPU, and of its memory that it reads
  // and writes. One after the other, as nothing overlaps them.
  struct HostBytes {
    double moved = 0, updated = 0;

    bool operator==(const HostBytes&) const = default;
  };
  HostBytes host_bytes;

  bool empty() const {
    return gemms.empty() && attention_flops == 0 && memory_bytes == 0 && host_bytes.moved == 0;
  }
  double flops() const;  // of GEMMs and attention
  bool operator==(const Kernel&) const = default;
};

}  // namespace tandem
