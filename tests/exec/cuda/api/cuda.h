// What exec/cuda uses of CUDA's driver (13.0), green contexts, declared for the mocks.
#pragma once

#include "cuda_runtime_api.h"

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_UNKNOWN = 999 };
enum CUdevResourceType { CU_DEV_RESOURCE_TYPE_SM = 1 };
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1, CU_GREEN_CTX_DEFAULT_STREAM = 1;

using CUdevice = int;
using CUstream = CUstream_st*;
using CUgreenCtx = struct CUgreenCtx_st*;
using CUdevResourceDesc = struct CUdevResourceDesc_st*;
struct CUdevResource {
  CUdevResourceType type;
  struct {
    unsigned smCount;
  } sm;
};

extern "C" {
CUresult cuDeviceGet(CUdevice* device, int number);
CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type);
CUresult cuDevSmResourceSplitByCount(CUdevResource* parts, unsigned* count,
                                     const CUdevResource* all, CUdevResource* rest, unsigned flags,
                                     unsigned least);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* parts,
                                   unsigned count);
CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc description, CUdevice device,
                          unsigned flags);
CUresult cuGreenCtxDestroy(CUgreenCtx context);
CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int priority);
}
