// cuBLASLt, mocked: products in fp32 and bf16 are multiplied, others are not.
#include <cuda_bf16.h>

#include <cstring>
#include <map>

#include "tests/exec/cuda/mock_cuda.h"

using tandem::MockCuda;

namespace {

MockCuda& mock() { return MockCuda::get(); }

struct MockedLayout {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, stride = 0;
  std::int32_t batch = 1;
};
std::map<const void*, MockedLayout>& layouts() {
  static std::map<const void*, MockedLayout> all;
  return all;
}

float value(const void* numbers, cudaDataType_t type, std::int64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(numbers)[i];
  return static_cast<float>(static_cast<const __nv_bfloat16*>(numbers)[i]);
}

cublasStatus_t destroyed(const char* call, const char* kind, const void* handle) {
  const bool fails = mock().call(call, handle);
  mock().give_back(kind, handle);
  return fails ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}

}  // namespace

#define MOCKED(...)                                                    \
  do {                                                                 \
    if (mock().call(__VA_ARGS__)) return CUBLAS_STATUS_INTERNAL_ERROR; \
  } while (false)

extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t) { return "a mocked failure"; }
std::size_t cublasLtGetVersion() { return 130100; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  MOCKED("cublasLtCreate");
  *handle = static_cast<cublasLtHandle_t>(mock().make("cublasLt"));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroyed("cublasLtDestroy", "cublasLt", handle);
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t,
                                        cudaDataType_t) {
  MOCKED("cublasLtMatmulDescCreate");
  *made = static_cast<cublasLtMatmulDesc_t>(mock().make("cublasLtMatmulDesc"));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroyed("cublasLtMatmulDescDestroy", "cublasLtMatmulDesc", description);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
                                              const void*, std::size_t) {
  MOCKED("cublasLtMatmulDescSetAttribute");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t) {
  MOCKED("cublasLtMatrixLayoutCreate");
  *made = static_cast<cublasLtMatrixLayout_t>(mock().make("cublasLtMatrixLayout"));
  layouts()[*made] = {type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroyed("cublasLtMatrixLayoutDestroy", "cublasLtMatrixLayout", layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, std::size_t bytes) {
  MOCKED("cublasLtMatrixLayoutSetAttribute");
  MockedLayout& own = layouts()[layout];
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) std::memcpy(&own.batch, value, bytes);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) std::memcpy(&own.stride, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  MOCKED("cublasLtMatmulPreferenceCreate");
  *made = static_cast<cublasLtMatmulPreference_t>(mock().make("cublasLtMatmulPreference"));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroyed("cublasLtMatmulPreferenceDestroy", "cublasLtMatmulPreference", preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  MOCKED("cublasLtMatmulPreferenceSetAttribute");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t[], int* found) {
  MOCKED("cublasLtMatmulAlgoGetHeuristic");
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

// d = a^T b, column by column.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void*, const void*,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t stream) {
  if (mock().queue("cublasLtMatmul", stream)) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (mock().captures) return CUBLAS_STATUS_SUCCESS;
  const MockedLayout &of_a = layouts()[a_layout], &of_b = layouts()[b_layout],
                     &of_d = layouts()[d_layout];
  for (std::int64_t batch = 0; batch < of_d.batch; ++batch) {
    for (std::int64_t at = 0; at < of_d.rows * of_d.columns; ++at) {
      const std::int64_t row = at % of_d.rows, column = at / of_d.rows;
      float sum = 0;
      for (std::int64_t k = 0; k < of_a.rows; ++k)
        sum += value(a, of_a.type, batch * of_a.stride + row * of_a.rows + k) *
               value(b, of_b.type, batch * of_b.stride + column * of_b.rows + k);
      const std::int64_t to = batch * of_d.stride + at;
      if (of_d.type == CUDA_R_32F) static_cast<float*>(d)[to] = sum;
      if (of_d.type == CUDA_R_16BF) static_cast<__nv_bfloat16*>(d)[to] = __nv_bfloat16(sum);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
