// Product: a strided batch of matrix products by cuBLASLt, with an algorithm that is chosen
// beforehand.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "exec/cuda/handles.h"
#include "exec/cuda/kernels.h"

namespace tandem {

// c = a b: `batch` products of (m x k) by (k x n). a and c are row-major. b is column-major, as the
// weights of a layer are, and as cuBLASLt demands for FP8.
struct ProductShape {
  Number number = Number::Bf16;  // of a, b and c; with Fp8, c is in Bf16
  std::int64_t batch = 1, m = 0, n = 0, k = 0;

  auto operator<=>(const ProductShape&) const = default;
  double flops() const;
  double a_numbers() const, b_numbers() const;
  double c_bytes() const;
};

struct DestroyCublas {
  void operator()(cublasLtContext* own) const { cublasLtDestroy(own); }
  void operator()(cublasLtMatmulDescOpaque_t* own) const { cublasLtMatmulDescDestroy(own); }
  void operator()(cublasLtMatrixLayoutOpaque_t* own) const { cublasLtMatrixLayoutDestroy(own); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* own) const {
    cublasLtMatmulPreferenceDestroy(own);
  }
};
using CublasLt = std::unique_ptr<cublasLtContext, DestroyCublas>;
Result<CublasLt> open_cublas();

constexpr std::int64_t kWorkspaceBytes = 32 << 20;  // the most that an algorithm may ask for

// Memory of the device for a product. The workspace is shared by all products of one stream.
struct ProductMemory {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;
};

class Product {
 public:
  // `sms`: how many SMs the product may use; 0: all. Error::Failed if cuBLASLt has no algorithm.
  static Result<Product> open(cublasLtHandle_t handle, const ProductShape& shape, int sms);

  const ProductShape& shape() const { return shape_; }
  Status run(cublasLtHandle_t handle, const ProductMemory& memory, cudaStream_t stream) const;
  // Compares some entries of c with dot products that the host computes. Error::Failed if one is
  // wrong. Waits for the stream. REQUIRES: run() has been called with this memory and stream, and
  // nothing after it.
  Status check(const ProductMemory& memory, std::uint64_t seed, cudaStream_t stream) const;

 private:
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyCublas>;

  static Result<Layout> layout(Number number, std::int64_t rows, std::int64_t columns,
                               std::int64_t batch);
  Status choose(cublasLtHandle_t handle);

  ProductShape shape_;
  std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyCublas> description_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
};

std::string describe(const ProductShape& shape);

}  // namespace tandem
