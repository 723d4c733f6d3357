// CUDA's runtime and the driver's green contexts, mocked.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "exec/cuda/partitions.h"
#include "tests/exec/cuda/mock_cuda.h"

using tandem::MockCuda;

namespace {

MockCuda& mock() { return MockCuda::get(); }

template <class Handle>
Handle made(const char* kind) {
  return static_cast<Handle>(mock().make(kind));
}

cudaError_t destroyed(const char* call, const char* kind, const void* handle) {
  const bool fails = mock().call(call, handle);
  mock().give_back(kind, handle);
  return fails ? cudaErrorUnknown : cudaSuccess;
}

}  // namespace

#define MOCKED(...)                                        \
  do {                                                     \
    if (mock().call(__VA_ARGS__)) return cudaErrorUnknown; \
  } while (false)
#define MOCKED_WAIT(...)                                   \
  do {                                                     \
    if (mock().wait(__VA_ARGS__)) return cudaErrorUnknown; \
  } while (false)
#define MOCKED_QUEUE(...)                                   \
  do {                                                      \
    if (mock().queue(__VA_ARGS__)) return cudaErrorUnknown; \
  } while (false)

extern "C" {

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "a mocked failure"; }

cudaError_t cudaGetDeviceCount(int* count) {
  MOCKED("cudaGetDeviceCount");
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  MOCKED("cudaSetDevice");
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  MOCKED("cudaGetDeviceProperties");
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "mocked GPU");
  properties->multiProcessorCount = mock().sms;
  properties->totalGlobalMem = std::size_t{80} << 30;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  MOCKED("cudaDeviceGetAttribute");
  *value = 9;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  MOCKED("cudaDeviceGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  MOCKED("cudaRuntimeGetVersion");
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  MOCKED("cudaDriverGetVersion");
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  MOCKED_WAIT("cudaDeviceSynchronize");
  return cudaSuccess;
}

// Memory of the device is the host's here.
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  MOCKED("cudaMemGetInfo");
  *free = *all = std::size_t{80} << 30;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  MOCKED_WAIT("cudaMalloc");
  *memory = mock().make("cudaMalloc", bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) {
    MOCKED("cudaFree");
    return cudaSuccess;
  }
  return destroyed("cudaFree", "cudaMalloc", memory);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  MOCKED_WAIT("cudaHostAlloc");
  *memory = mock().make("cudaHostAlloc", bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  return destroyed("cudaFreeHost", "cudaHostAlloc", memory);
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  MOCKED_WAIT("cudaMemset");
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  MOCKED_QUEUE("cudaMemsetAsync", stream);
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  MOCKED_WAIT("cudaMemcpy");
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind == cudaMemcpyDeviceToDevice) {
    if (!mock().has_copied && (mock().is_closed() || mock().captures))
      mock().fault("cudaMemcpyAsync: the first copy on the device comes behind the closed gate");
    mock().has_copied = true;
  }
  MOCKED_QUEUE("cudaMemcpyAsync", stream);
  if (!mock().captures) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  MOCKED("cudaStreamCreateWithPriority");
  *stream = made<cudaStream_t>("cudaStream");
  mock().stream(*stream).sms = mock().sms;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return destroyed("cudaStreamDestroy", "cudaStream", stream);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  MOCKED_WAIT("cudaStreamSynchronize", stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  MOCKED("cudaStreamQuery", stream);
  return mock().is_closed() || mock().hangs() ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  MOCKED_QUEUE("cudaStreamWaitEvent", stream);
  mock().event(event);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  MOCKED("cudaEventCreateWithFlags");
  *event = made<cudaEvent_t>("cudaEvent");
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return destroyed("cudaEventDestroy", "cudaEvent", event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  MOCKED_QUEUE("cudaEventRecord", stream);
  if (!mock().captures) mock().happen(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  MOCKED_QUEUE("cudaEventRecordWithFlags", stream);
  if (flags != cudaEventRecordExternal || !mock().captures)
    mock().fault("cudaEventRecordWithFlags: found no capture, or an event inside it");
  mock().capture.events.push_back(event);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  MOCKED("cudaEventQuery", event);
  return mock().has_happened(mock().event(event)) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  MOCKED_WAIT("cudaEventSynchronize", event);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  MOCKED("cudaEventElapsedTime", to);
  const tandem::MockedEvent &a = mock().event(from), &b = mock().event(to);
  if (a.at < 0 || b.at < 0) return cudaErrorInvalidResourceHandle;
  if (!mock().has_happened(a) || !mock().has_happened(b)) return cudaErrorNotReady;
  *ms = static_cast<float>(b.at - a.at) * 1e-3f;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  MOCKED("cudaStreamBeginCapture", stream);
  mock().captures = true;
  mock().capture = {};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const bool fails = mock().call("cudaStreamEndCapture", stream);
  mock().captures = false;
  *graph = nullptr;
  if (fails) return cudaErrorStreamCaptureInvalidated;
  *graph = made<cudaGraph_t>("cudaGraph");
  mock().graphs[*graph] = mock().capture;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made_of, cudaGraph_t graph, unsigned long long) {
  MOCKED("cudaGraphInstantiate", graph);
  *made_of = made<cudaGraphExec_t>("cudaGraphExec");
  mock().graphs[*made_of] = mock().graphs[graph];
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) {
  MOCKED_QUEUE("cudaGraphUpload", stream);
  if (!mock().is_live("cudaGraphExec", graph)) mock().fault("cudaGraphUpload: no such graph");
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  MOCKED_QUEUE("cudaGraphLaunch", stream);
  mock().launch(mock().graphs[graph]);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return destroyed("cudaGraphDestroy", "cudaGraph", graph);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return destroyed("cudaGraphExecDestroy", "cudaGraphExec", graph);
}

}  // extern "C"

namespace {

// The driver has no names to link to: it is looked up.
CUresult mock_device(CUdevice* device, int number) {
  if (mock().call("cuDeviceGet")) return CUDA_ERROR_UNKNOWN;
  *device = number;
  return CUDA_SUCCESS;
}
CUresult mock_resource(CUdevice, CUdevResource* resource, CUdevResourceType) {
  if (mock().call("cuDeviceGetDevResource")) return CUDA_ERROR_UNKNOWN;
  resource->sm.smCount = static_cast<unsigned>(mock().sms);
  return CUDA_SUCCESS;
}
// Multiples of 8.
CUresult mock_split(CUdevResource* parts, unsigned* count, const CUdevResource* all, CUdevResource*,
                    unsigned, unsigned least) {
  if (mock().call("cuDevSmResourceSplitByCount")) return CUDA_ERROR_UNKNOWN;
  const unsigned each = (least + 7) / 8 * 8;
  *count = std::min(*count, all->sm.smCount / each);
  for (unsigned i = 0; i < *count; ++i) parts[i].sm.smCount = each;
  return CUDA_SUCCESS;
}
CUresult mock_describe(CUdevResourceDesc* description, CUdevResource* part, unsigned) {
  if (mock().call("cuDevResourceGenerateDesc")) return CUDA_ERROR_UNKNOWN;
  *description = reinterpret_cast<CUdevResourceDesc>(part);
  return CUDA_SUCCESS;
}
CUresult mock_context(CUgreenCtx* context, CUdevResourceDesc description, CUdevice, unsigned) {
  if (mock().call("cuGreenCtxCreate")) return CUDA_ERROR_UNKNOWN;
  void* own = mock().make("cuGreenCtx", 2 * sizeof(int));
  const auto each = static_cast<int>(reinterpret_cast<CUdevResource*>(description)->sm.smCount);
  const int sms[] = {(mock().live("cuGreenCtx") - 1) * each, each};
  std::memcpy(own, sms, sizeof sms);
  *context = static_cast<CUgreenCtx>(own);
  return CUDA_SUCCESS;
}
CUresult mock_destroy(CUgreenCtx context) {
  return destroyed("cuGreenCtxDestroy", "cuGreenCtx", context) == cudaSuccess ? CUDA_SUCCESS
                                                                              : CUDA_ERROR_UNKNOWN;
}
CUresult mock_stream(CUstream* stream, CUgreenCtx context, unsigned, int) {
  if (mock().call("cuGreenCtxStreamCreate")) return CUDA_ERROR_UNKNOWN;
  *stream = made<CUstream>("cudaStream");
  int sms[2];
  std::memcpy(sms, context, sizeof sms);
  mock().stream(*stream) = {sms[0], sms[1]};
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                        unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* found) {
  MOCKED("cudaGetDriverEntryPointByVersion");
  const std::map<std::string, void*> known = {
      {"cuDeviceGet", reinterpret_cast<void*>(mock_device)},
      {"cuDeviceGetDevResource", reinterpret_cast<void*>(mock_resource)},
      {"cuDevSmResourceSplitByCount", reinterpret_cast<void*>(mock_split)},
      {"cuDevResourceGenerateDesc", reinterpret_cast<void*>(mock_describe)},
      {"cuGreenCtxCreate", reinterpret_cast<void*>(mock_context)},
      {"cuGreenCtxDestroy", reinterpret_cast<void*>(mock_destroy)},
      {"cuGreenCtxStreamCreate", reinterpret_cast<void*>(mock_stream)}};
  const auto at = known.find(symbol);
  *found = at == known.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  *function = at == known.end() ? nullptr : at->second;
  return cudaSuccess;
}
