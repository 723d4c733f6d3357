// Gemm: compute ops as real matrix products, by OpenBLAS on a pinned thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "schedule/program/program.h"

namespace tandem {

// Does the work of a Program's kernels, on random matrices, in a thread of its own. One op at a
// time. A kernel's GEMMs are multiplied as they are, times `scale`; the FLOPs of a fused attention
// as products of 512 x 512 matrices or less; memory-bound passes copy their bytes. FLOPs go with
// the third power of `scale`, bytes with the second.
class GemmUnit {
 public:
  // Opens libopenblas.so.0: Error::Missing where it cannot. Error(BadInput) where a compute op that
  // takes time has no kernel, and where the matrices of `units` such units need more than a quarter
  // of the machine's memory. `core`: that the thread is pinned to, modulo those allowed. Every
  // shape is multiplied once, and its result checked (Freivalds 1977): Error(Failed) where it is
  // wrong.
  static Result<std::unique_ptr<GemmUnit>> open(const Program& program, int body, double scale,
                                                std::uint64_t seed, int core, int units = 1);
  virtual ~GemmUnit() = default;

  // Starts op `op` of the body. REQUIRES: none is under way.
  virtual void start(std::uint32_t op) = 0;
  // Whether the op started last has ended, and when, by now_ns().
  virtual bool ended() const = 0;
  virtual Nanoseconds end_ns() const = 0;
  // How long its thread was on a core for it.
  virtual Nanoseconds busy_ns() const = 0;
  // A descriptor that becomes readable when an op ends: an eventfd, which reading resets.
  virtual int event() const = 0;
};

}  // namespace tandem
