// OpenBLAS, opened on demand: no build needs it, and no start pays for it.
#pragma once

#include "base/result.h"

namespace tandem {

// The functions that we use, as cblas.h declares them; its enumerations are ints.
struct OpenBlas {
  static constexpr int kRowMajor = 101, kNoTranspose = 111;
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                const float* a, int lda, const float* b, int ldb, float beta, float* c,
                int ldc) = nullptr;

  // c = a b, all by rows: (m x k) by (k x n).
  void multiply(int m, int n, int k, const float* a, const float* b, float* c) const {
    sgemm(kRowMajor, kNoTranspose, kNoTranspose, m, n, k, 1, a, k, b, n, 0, c, n);
  }
};

// Each caller's product runs on the caller's thread alone. Error::Missing where there is none.
Result<OpenBlas> open_openblas();

}  // namespace tandem
