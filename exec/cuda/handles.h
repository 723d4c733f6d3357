// Owners of CUDA streams, events, graphs and memory, which free what they own when they are
// destroyed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "exec/cuda/check.h"

namespace tandem {

struct DestroyHandle {
  void operator()(CUstream_st* stream) const { cudaStreamDestroy(stream); }
  void operator()(CUevent_st* event) const { cudaEventDestroy(event); }
  void operator()(CUgraph_st* graph) const { cudaGraphDestroy(graph); }
  void operator()(CUgraphExec_st* graph) const { cudaGraphExecDestroy(graph); }
};
using Stream = std::unique_ptr<CUstream_st, DestroyHandle>;
using Event = std::unique_ptr<CUevent_st, DestroyHandle>;
using CapturedGraph = std::unique_ptr<CUgraph_st, DestroyHandle>;
using ExecutableGraph = std::unique_ptr<CUgraphExec_st, DestroyHandle>;

struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};
// Memory of the device; null if its size is 0.
template <class T>
using DeviceArray = std::unique_ptr<T[], FreeDevice>;

struct FreeMapped {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};
// Host memory that is mapped into the device at the same address.
template <class T>
using Mapped = std::unique_ptr<T, FreeMapped>;

// Makes a stream that does not synchronize with the legacy default stream.
inline Result<Stream> make_stream(int priority) {
  cudaStream_t stream = nullptr;
  RETURN_IF_CUDA_FAILS(cudaStreamCreateWithPriority, &stream, cudaStreamNonBlocking, priority);
  return Stream(stream);
}

inline Result<Event> make_event(bool timed) {
  cudaEvent_t event = nullptr;
  RETURN_IF_CUDA_FAILS(cudaEventCreateWithFlags, &event,
                       timed ? cudaEventDefault : cudaEventDisableTiming);
  return Event(event);
}

// Makes more events until there are `count`.
inline Status make_events(std::vector<Event>* events, std::size_t count, bool timed) {
  while (events->size() < count) {
    ASSIGN_OR_RETURN(Event event, make_event(timed));
    events->push_back(std::move(event));
  }
  return Done{};
}

template <class T>
Result<DeviceArray<T>> make_array(std::int64_t count) {
  void* memory = nullptr;
  if (count > 0)
    RETURN_IF_CUDA_FAILS(cudaMalloc, &memory, static_cast<std::size_t>(count) * sizeof(T));
  return DeviceArray<T>(static_cast<T*>(memory));
}

template <class T>
Result<Mapped<T>> make_mapped() {
  void* memory = nullptr;
  RETURN_IF_CUDA_FAILS(cudaHostAlloc, &memory, sizeof(T), cudaHostAllocMapped);
  return Mapped<T>(new (memory) T());
}

}  // namespace tandem
