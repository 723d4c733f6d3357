// A libnccl.so.2 that has the functions of version STUB_NCCL and does nothing: whether a plugin
// built with another version opens and says what it has found. Versions are those of NCCL's own
// headers in which a function stands for the first time.
#define STUB_FUNCTION(name)                                      \
  extern "C" __attribute__((visibility("default"))) int name() { \
    constexpr int kInternalError = 3;                            \
    return kInternalError;                                       \
  }

extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = STUB_NCCL;
  return 0;
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetErrorString(int) {
  return "stub";
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(void*) { return ""; }

STUB_FUNCTION(ncclGetUniqueId)
STUB_FUNCTION(ncclCommInitRank)
STUB_FUNCTION(ncclCommInitAll)
STUB_FUNCTION(ncclCommDestroy)
STUB_FUNCTION(ncclCommAbort)
STUB_FUNCTION(ncclCommGetAsyncError)
STUB_FUNCTION(ncclCommCount)
STUB_FUNCTION(ncclCommCuDevice)
STUB_FUNCTION(ncclCommUserRank)
STUB_FUNCTION(ncclRedOpCreatePreMulSum)
STUB_FUNCTION(ncclRedOpDestroy)
STUB_FUNCTION(ncclReduce)
STUB_FUNCTION(ncclBcast)
STUB_FUNCTION(ncclBroadcast)
STUB_FUNCTION(ncclAllReduce)
STUB_FUNCTION(ncclReduceScatter)
STUB_FUNCTION(ncclAllGather)
STUB_FUNCTION(ncclSend)
STUB_FUNCTION(ncclRecv)
STUB_FUNCTION(ncclGroupStart)
STUB_FUNCTION(ncclGroupEnd)
#if STUB_NCCL >= 21400
STUB_FUNCTION(ncclCommInitRankConfig)
STUB_FUNCTION(ncclCommFinalize)
#endif
#if STUB_NCCL >= 21800
STUB_FUNCTION(ncclCommSplit)
#endif
#if STUB_NCCL >= 21900
STUB_FUNCTION(ncclMemAlloc)
STUB_FUNCTION(ncclMemFree)
STUB_FUNCTION(ncclCommRegister)
STUB_FUNCTION(ncclCommDeregister)
#endif
#if STUB_NCCL >= 22200
STUB_FUNCTION(ncclGroupSimulateEnd)
#endif
#if STUB_NCCL >= 22300
STUB_FUNCTION(ncclCommInitRankScalable)
#endif
#if STUB_NCCL >= 22700
STUB_FUNCTION(ncclCommWindowRegister)
STUB_FUNCTION(ncclCommWindowDeregister)
STUB_FUNCTION(ncclCommShrink)
#endif
#if STUB_NCCL >= 22800
STUB_FUNCTION(ncclAlltoAll)
STUB_FUNCTION(ncclGather)
STUB_FUNCTION(ncclScatter)
#endif
