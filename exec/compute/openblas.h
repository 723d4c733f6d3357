// Loads OpenBLAS at its first use, so that builds do not need it, and programs that do not multiply
// never load it.
#pragma once

#include "base/result.h"

namespace tandem {

// The functions that we use, as cblas.h declares them, with ints for its enumerations.
struct OpenBlas {
  static constexpr int kRowMajor = 101, kNoTranspose = 111;
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                const float* a, int lda, const float* b, int ldb, float beta, float* c,
                int ldc) = nullptr;

  // Computes c = a b, (m x k) by (k x n), all stored by rows.
  void multiply(int m, int n, int k, const float* a, const float* b, float* c) const {
    sgemm(kRowMajor, kNoTranspose, kNoTranspose, m, n, k, 1, a, k, b, n, 0, c, n);
  }
};

// Loads the library, and sets it to one thread: each product runs on its caller's thread alone.
// Error::Missing if there is no OpenBLAS.
Result<OpenBlas> open_openblas();

}  // namespace tandem
