// Turns failures of CUDA, its driver, NCCL and cuBLASLt into Errors: the call's name and the
// library's own message.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

#include "base/result.h"

namespace tandem {

inline Error cuda_failed(const char* call, cudaError_t code) {
  (void)cudaGetLastError();  // clears the error, so that the next call does not find it
  return Error{std::string(call) + ": " + cudaGetErrorString(code), Error::Failed};
}

// Takes the message from the runtime, which uses the driver's codes. Adds the code's number, as the
// runtime does not know all codes.
inline Error driver_failed(const char* call, CUresult code) {
  return Error{std::string(call) + ": " + cudaGetErrorString(static_cast<cudaError_t>(code)) +
                   " (" + std::to_string(code) + ")",
               Error::Failed};
}

inline Error cublas_failed(const char* call, cublasStatus_t code) {
  return Error{std::string(call) + ": " + cublasLtGetStatusString(code), Error::Failed};
}

// `communicator`: null if none is open yet.
inline Error nccl_failed(const char* call, ncclResult_t code, ncclComm_t communicator) {
  std::string message = std::string(call) + ": " + ncclGetErrorString(code);
  const char* last = ncclGetLastError(communicator);
  if (last != nullptr && *last != 0) message += std::string(", ") + last;
  for (char& c : message) c = c == '\n' ? ' ' : c;
  return Error{message, Error::Failed};
}

}  // namespace tandem

// RETURN_IF_CUDA_FAILS(cudaFree, pointer) calls cudaFree(pointer). If that fails, the enclosing
// function returns an Error that names the call.
#define RETURN_IF_CUDA_FAILS(call, ...)                                  \
  do {                                                                   \
    if (const cudaError_t code = call(__VA_ARGS__); code != cudaSuccess) \
      return ::tandem::cuda_failed(#call, code);                         \
  } while (false)

#define RETURN_IF_DRIVER_FAILS(driver, call, ...)                               \
  do {                                                                          \
    if (const CUresult code = (driver).call(__VA_ARGS__); code != CUDA_SUCCESS) \
      return ::tandem::driver_failed(#call, code);                              \
  } while (false)

#define RETURN_IF_CUBLAS_FAILS(call, ...)                                             \
  do {                                                                                \
    if (const cublasStatus_t code = call(__VA_ARGS__); code != CUBLAS_STATUS_SUCCESS) \
      return ::tandem::cublas_failed(#call, code);                                    \
  } while (false)
