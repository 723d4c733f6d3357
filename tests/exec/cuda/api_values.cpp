// The constants that exec/cuda and its mocks use, as the headers that this is built with have them.
// API_VALUES: the function's name.
#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>
#include <utility>
#include <vector>

#define VALUE(name) \
  { #name, static_cast < long long>(name) }

namespace tandem {

std::vector<std::pair<std::string, long long>> API_VALUES() {
  return {
      VALUE(cudaSuccess),
      VALUE(cudaErrorInvalidResourceHandle),
      VALUE(cudaErrorNotReady),
      VALUE(cudaErrorLaunchFailure),
      VALUE(cudaErrorStreamCaptureInvalidated),
      VALUE(cudaErrorNoDevice),
      VALUE(cudaErrorInsufficientDriver),
      VALUE(cudaErrorUnknown),
      VALUE(cudaMemcpyHostToDevice),
      VALUE(cudaMemcpyDeviceToHost),
      VALUE(cudaMemcpyDeviceToDevice),
      VALUE(cudaStreamNonBlocking),
      VALUE(cudaStreamCaptureModeRelaxed),
      VALUE(cudaHostAllocMapped),
      VALUE(cudaGraphInstantiateFlagUseNodePriority),
      VALUE(cudaEventDefault),
      VALUE(cudaEventDisableTiming),
      VALUE(cudaEventRecordExternal),
      VALUE(cudaEnableDefault),
      VALUE(cudaDriverEntryPointSuccess),
      VALUE(cudaDriverEntryPointSymbolNotFound),
      VALUE(cudaDevAttrComputeCapabilityMajor),
      VALUE(cudaDevAttrComputeCapabilityMinor),
      VALUE(CUDA_R_32F),
      VALUE(CUDA_R_16F),
      VALUE(CUDA_R_16BF),
      VALUE(CUDA_R_8F_E4M3),
      VALUE(CUDA_SUCCESS),
      VALUE(CUDA_ERROR_UNKNOWN),
      VALUE(CU_STREAM_NON_BLOCKING),
      VALUE(CU_GREEN_CTX_DEFAULT_STREAM),
      VALUE(CU_DEV_RESOURCE_TYPE_SM),
      VALUE(ncclSuccess),
      VALUE(ncclSystemError),
      VALUE(ncclInternalError),
      VALUE(ncclInvalidArgument),
      VALUE(ncclInvalidUsage),
      VALUE(ncclRemoteError),
      VALUE(ncclInProgress),
      VALUE(ncclSum),
      VALUE(ncclFloat),
      VALUE(ncclHalf),
      VALUE(ncclBfloat16),
      VALUE(CUBLAS_STATUS_SUCCESS),
      VALUE(CUBLAS_STATUS_INTERNAL_ERROR),
      VALUE(CUBLAS_STATUS_EXECUTION_FAILED),
      VALUE(CUBLAS_OP_T),
      VALUE(CUBLAS_COMPUTE_32F_FAST_TF32),
      VALUE(CUBLAS_COMPUTE_32F),
      VALUE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT),
      VALUE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
      VALUE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
      VALUE(CUBLASLT_MATMUL_DESC_TRANSA),
      VALUE(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET),
      {"sizeof(ncclUniqueId)", sizeof(ncclUniqueId)},
  };
}

}  // namespace tandem
