// A product is opened once: cuBLASLt's heuristic chooses its algorithm, and check() compares 64 of
// its entries with the host's dot products. Then it runs as often as the ops need it.
#include "exec/cuda/product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"

namespace tandem {
namespace {

// Returns the type of c where a and b have this type.
Number result_of(Number number) { return number == Number::Fp8 ? Number::Bf16 : number; }

struct NumberType {
  const char* name;
  cudaDataType_t type;
};
constexpr NumberType kNumberTypes[] = {  // by Number
    {"fp32", CUDA_R_32F},
    {"fp16", CUDA_R_16F},
    {"bf16", CUDA_R_16BF},
    {"fp8", CUDA_R_8F_E4M3}};
const NumberType& type_of(Number number) { return kNumberTypes[static_cast<int>(number)]; }

// Returns how far an entry of c may be off, as a share of |c| + sqrt(k). A product of two numbers
// uniform in (-1, 1) has the variance 1/9, so a sum of k such products has the standard deviation
// sqrt(k) / 3, and a wrong entry is off by about as much, which is well above the tolerance.
// Rounding stays below it: TF32 and FP16 round to 2^-11, BF16 to 2^-8, and FP8 sums are cut to 14
// bits.
double tolerance(Number number) {
  return number == Number::Fp32 || number == Number::Fp16 ? 3e-3 : 1.5e-2;
}

template <class T>
double value_at(const std::byte* numbers, std::int64_t i) {
  T number;
  std::memcpy(&number, numbers + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return static_cast<double>(static_cast<float>(number));
}

double value(Number number, const std::byte* numbers, std::int64_t i) {
  switch (number) {
    case Number::Fp32:
      return value_at<float>(numbers, i);
    case Number::Fp16:
      return value_at<__half>(numbers, i);
    case Number::Bf16:
      return value_at<__nv_bfloat16>(numbers, i);
    default:
      return value_at<__nv_fp8_e4m3>(numbers, i);
  }
}

// Copies `count` numbers from the device, from number `first` on.
Result<std::vector<std::byte>> copied(Number number, const void* from, std::int64_t first,
                                      std::int64_t count) {
  const std::int64_t each = bytes_of(number);
  std::vector<std::byte> numbers(static_cast<std::size_t>(count * each));
  RETURN_IF_CUDA_FAILS(cudaMemcpy, numbers.data(),
                       static_cast<const std::byte*>(from) + first * each, numbers.size(),
                       cudaMemcpyDeviceToHost);
  return numbers;
}

}  // namespace

double ProductShape::flops() const {
  return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
         static_cast<double>(k);
}
double ProductShape::a_numbers() const {
  return static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(k);
}
double ProductShape::b_numbers() const {
  return static_cast<double>(batch) * static_cast<double>(n) * static_cast<double>(k);
}
double ProductShape::c_bytes() const {
  return static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
         bytes_of(result_of(number));
}

std::string describe(const ProductShape& shape) {
  return fmt::format("{} x ({} x {} by {} x {}) in {}", shape.batch, shape.m, shape.k, shape.k,
                     shape.n, type_of(shape.number).name);
}

Result<CublasLt> open_cublas() {
  cublasLtHandle_t handle = nullptr;
  RETURN_IF_CUBLAS_FAILS(cublasLtCreate, &handle);
  return CublasLt(handle);
}

// Makes a layout as cuBLASLt sees matrices: column after column, matrix after matrix.
Result<Product::Layout> Product::layout(Number number, std::int64_t rows, std::int64_t columns,
                                        std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  RETURN_IF_CUBLAS_FAILS(cublasLtMatrixLayoutCreate, &made, type_of(number).type,
                         static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                         rows);
  Layout layout(made);
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t stride = rows * columns;
  RETURN_IF_CUBLAS_FAILS(cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                         &count, sizeof count);
  RETURN_IF_CUBLAS_FAILS(cublasLtMatrixLayoutSetAttribute, made,
                         CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return layout;
}

// cuBLASLt takes all matrices as column-major. So it sees our row-major a and c as a^T and c^T, and
// is asked for c^T = b^T a^T. Our b is column-major: cuBLASLt sees b itself, and is told to
// transpose it (TRANSA, as b^T is its first operand).
Result<Product> Product::open(cublasLtHandle_t handle, const ProductShape& shape, int sms) {
  Product product;
  product.shape_ = shape;
  cublasLtMatmulDesc_t description = nullptr;
  RETURN_IF_CUBLAS_FAILS(
      cublasLtMatmulDescCreate, &description,
      shape.number == Number::Fp32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
  product.description_.reset(description);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  RETURN_IF_CUBLAS_FAILS(cublasLtMatmulDescSetAttribute, description, CUBLASLT_MATMUL_DESC_TRANSA,
                         &transposed, sizeof transposed);
  const std::int32_t target = sms;
  if (target > 0)
    RETURN_IF_CUBLAS_FAILS(cublasLtMatmulDescSetAttribute, description,
                           CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, sizeof target);
  ASSIGN_OR_RETURN(product.a_, layout(shape.number, shape.k, shape.m, shape.batch));
  ASSIGN_OR_RETURN(product.b_, layout(shape.number, shape.k, shape.n, shape.batch));
  ASSIGN_OR_RETURN(product.c_, layout(result_of(shape.number), shape.n, shape.m, shape.batch));
  RETURN_IF_ERROR(product.choose(handle));
  return product;
}

// Chooses the algorithm that cuBLASLt expects to be fastest within kWorkspaceBytes.
Status Product::choose(cublasLtHandle_t handle) {
  cublasLtMatmulPreference_t made = nullptr;
  RETURN_IF_CUBLAS_FAILS(cublasLtMatmulPreferenceCreate, &made);
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyCublas> preference(made);
  const std::size_t workspace = kWorkspaceBytes;
  RETURN_IF_CUBLAS_FAILS(cublasLtMatmulPreferenceSetAttribute, made,
                         CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(
      handle, description_.get(), b_.get(), a_.get(), c_.get(), c_.get(), made, 1, &found, &count);
  if (code != CUBLAS_STATUS_SUCCESS || count == 0) {
    Error error = cublas_failed("cublasLtMatmulAlgoGetHeuristic", code);
    if (code == CUBLAS_STATUS_SUCCESS)
      error.message = "cublasLtMatmulAlgoGetHeuristic: found no algorithm";
    error.message += " for " + describe(shape_);
    return error;
  }
  algorithm_ = found.algo;
  return Done{};
}

Status Product::run(cublasLtHandle_t handle, const ProductMemory& memory,
                    cudaStream_t stream) const {
  const float one = 1, zero = 0;
  RETURN_IF_CUBLAS_FAILS(cublasLtMatmul, handle, description_.get(), &one, memory.b, b_.get(),
                         memory.a, a_.get(), &zero, memory.c, c_.get(), memory.c, c_.get(),
                         &algorithm_, memory.workspace, std::size_t{kWorkspaceBytes}, stream);
  return Done{};
}

Status Product::check(const ProductMemory& memory, std::uint64_t seed, cudaStream_t stream) const {
  constexpr std::uint64_t kEntries = 64;
  RETURN_IF_CUDA_FAILS(cudaStreamSynchronize, stream);
  const ProductShape& s = shape_;
  const Number result = result_of(s.number);
  for (std::uint64_t entry = 0; entry < kEntries; ++entry) {
    auto random_below = [&, draw = 3 * entry](std::int64_t most) mutable {
      return static_cast<std::int64_t>(scatter(seed + draw++) % static_cast<std::uint64_t>(most));
    };
    const std::int64_t batch = random_below(s.batch), row = random_below(s.m),
                       column = random_below(s.n);
    ASSIGN_OR_RETURN(const auto a, copied(s.number, memory.a, (batch * s.m + row) * s.k, s.k));
    ASSIGN_OR_RETURN(const auto b, copied(s.number, memory.b, (batch * s.n + column) * s.k, s.k));
    ASSIGN_OR_RETURN(const auto c, copied(result, memory.c, (batch * s.m + row) * s.n + column, 1));
    double expected = 0;
    for (std::int64_t i = 0; i < s.k; ++i)
      expected += value(s.number, a.data(), i) * value(s.number, b.data(), i);
    const double got = value(result, c.data(), 0);
    const double bound =
        tolerance(s.number) * (std::abs(expected) + std::sqrt(static_cast<double>(s.k)));
    if (!(std::abs(got - expected) <= bound))
      return Error{fmt::format("found a wrong product of {}: {:g} in row {}, column {}, expected "
                               "{:g} within {:.2g}",
                               describe(s), got, row, column, expected, bound),
                   Error::Failed};
  }
  return Done{};
}

}  // namespace tandem
