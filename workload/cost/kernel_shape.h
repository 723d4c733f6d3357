// Kernel: the work of a compute op, whatever device it runs on.
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
  bool in_16_bits = false;  // even under fp8: products of two activations, the head's, a router's
  bool scan = false;        // runs inside the kernels of a Mamba-2 scan

  double flops() const { return 2.0 * batch * m * n * k; }
  bool operator==(const Gemm&) const = default;
};

// Returns text such as "1x4096x5120x1536 ...": batch x m x n x k of each GEMM, followed by `a` if
// it has in_16_bits, or by `s` if it has both flags. parse_gemms is the inverse; it returns nullopt
// for other text.
std::string gemms_text(const std::vector<Gemm>& gemms);
std::optional<std::vector<Gemm>> parse_gemms(std::string_view text);

// The shape of a fused attention, on which its rate depends. 0 keys: unknown; it is then priced at
// the rate of endless rows.
struct AttentionShape {
  std::int64_t keys = 0;       // keys of a row that a window does not mask
  std::int64_t head_size = 0;  // of queries
  bool backward = false;
  bool in_fp8 = false;
  // With a window: the share of the FLOPs of the same rows without it, and the keys of these.
  double window_share = 1;
  std::int64_t keys_without_window = 0;

  bool operator==(const AttentionShape&) const = default;
};

// A compute op's work: its GEMMs, its fused attention, then memory-bound passes over `memory_bytes`
// in all. The CPU takes `launch_s` to issue it while the device computes; if that is longer, the
// device waits for the CPU.
struct Kernel {
  std::string name;
  std::vector<Gemm> gemms;
  double attention_flops = 0;  // attention in one kernel (FlashAttention)
  AttentionShape attention;
  double memory_bytes = 0;
  double launch_s = 0;
  // The share of its duration that memory bounds, set when it is priced. Communication beside it
  // that uses memory bandwidth stretches this share.
  double memory_share = 0;
  // Work of the CPU beside the kernel: it moves `moved` bytes over its link to the GPU, and then
  // reads and writes `updated` bytes of its memory.
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
