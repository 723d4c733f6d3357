// GemmUnit: carries out compute ops as real matrix products, by OpenBLAS on a pinned thread.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "schedule/program/program.h"

namespace tandem {

// Does the work of a Program's kernels on random matrices, in a thread of its own, one op at a
// time. A kernel's GEMMs keep their shapes, with each side times `scale`. A fused attention becomes
// products of 512 x 512 matrices, or smaller ones, with as many FLOPs. Memory-bound kernels copy
// their bytes. FLOPs go with the third power of `scale`, bytes with the second.
class GemmUnit {
 public:
  // Opens libopenblas.so.0, multiplies every shape once and checks the result (Freivalds 1977), and
  // pins the thread to core number `core` modulo the cores that this process may use. Returns
  // Error::Missing if there is no OpenBLAS, Error::Failed if a product is wrong, and
  // Error(BadInput) if a compute op that takes time has no kernel, or if the matrices of `units`
  // such units need more than a quarter of the machine's memory.
  static Result<std::unique_ptr<GemmUnit>> open(const Program& program, int body, double scale,
                                                std::uint64_t seed, int core, int units = 1);
  virtual ~GemmUnit() = default;

  // Starts op `op` of the body. REQUIRES: none is under way.
  virtual void start(std::uint32_t op) = 0;
  // ended() returns whether the op started last has ended, end_ns() when it ended, by now_ns().
  virtual bool ended() const = 0;
  virtual Nanoseconds end_ns() const = 0;
  // Returns how long the thread ran on a core for that op (CPU time).
  virtual Nanoseconds busy_ns() const = 0;
  // Returns an eventfd that becomes readable when an op ends. Reading it resets it.
  virtual int event() const = 0;
};

}  // namespace tandem
