// Mocks of CUDA's runtime, NCCL, cuBLASLt and our kernels: what is linked in their place carries
// out every call at once, on the host, notes it, and lets a test have any one of them fail.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "exec/cuda/check.h"
#include "exec/cuda/kernels.h"

namespace tandem {

struct MockedCall {
  std::string name;              // "ncclCommAbort"
  const void* handle = nullptr;  // what it is of
  int depth = 0;                 // of NCCL's groups in its thread
  bool fails = false;            // because the test wants it
  std::string what = {};         // of an operation of NCCL: "60 bf16"
};

// An event of a device.
struct MockedEvent {
  std::int64_t at = -1;    // microseconds of the mock's own clock; -1: never recorded
  std::uint64_t gate = 0;  // how many gates stood before it
  std::int64_t place = 0;  // among the events behind that gate
};

struct MockedStream {
  int first_sm = 0, sms = 0;  // where its kernels run
  std::int64_t held = 0;      // calls that wait for the gate
  std::uint64_t gate = 0;     // that they are held by
};

struct MockedComm {
  int members = 1, place = 0;
  bool blocking = true;
  ncclResult_t state = ncclSuccess;
  int polls = 0;  // until it is no longer in progress
  int sends = 0, recvs = 0;
};

// What the mocks know. C functions find it here; tests reset it.
class MockCuda {
 public:
  static MockCuda& get();
  void reset();

  // What a test wants.
  std::int64_t fails_at = -1;  // the call of this number, from 0
  std::string fails_named;     // or every call of this name
  int polls = 2;               // that a communicator is in progress after each operation
  bool never_settles = false;  // it stays so for good
  std::int64_t breaks_at = std::numeric_limits<std::int64_t>::max();  // asked so often for its
                                                                      // state, it has failed
  std::int64_t hangs_at = std::numeric_limits<std::int64_t>::max();   // events from this one on,
                                                                      // behind a gate, never happen
  std::int64_t queue_room = std::numeric_limits<std::int64_t>::max();  // calls a stream takes
  std::atomic<bool> abort_blocks = false;  // the end of a group of ncclCommAbort, until it is unset
  int sms = 132;
  bool has_peers = false;  // others give what nobody here knows: payloads are not checked

  // What it noted.
  std::vector<MockedCall> calls;
  std::vector<std::string> faults;  // what the libraries forbid, or would wait for without end
  int made = 0;                     // handles and memory
  std::int64_t asked = 0;           // how often for a communicator's state
  int not_blocking = 0;             // communicators that were made so
  int live(const std::string& kind) const;
  std::string left() const;  // by kind, what nobody gave back: "2 cudaEvent"; empty: all is
  int count(const std::string& name) const;
  std::size_t all_calls() const;  // how many
  static int& depth();            // of NCCL's groups in this thread

  // For the mocks themselves. Whether the call is to fail.
  bool call(const char* name, const void* handle = nullptr);
  // A call that a stream takes: it may have to wait for the gate.
  bool queue(const char* name, cudaStream_t stream);
  // A call that waits for the device.
  bool wait(const char* name, const void* handle = nullptr);
  void fault(const std::string& what);
  void* make(const char* kind, std::size_t bytes = 1);
  void give_back(const char* kind, const void* handle);
  bool is_live(const char* kind, const void* handle);

  bool is_closed() const;  // the gate
  bool hangs() const;      // something behind it never ends
  void hold(GateWords* gate);
  void happen(cudaEvent_t event);
  bool has_happened(const MockedEvent& event);
  MockedEvent& event(cudaEvent_t event);
  MockedStream& stream(cudaStream_t stream);
  MockedComm& comm(ncclComm_t comm);

  bool captures = false;
  bool has_copied = false;       // from device to device
  std::set<std::string> loaded;  // kernels
  struct Captured {
    GateWords* gate = nullptr;
    bool stamps = false;
    std::vector<cudaEvent_t> events;
  };
  Captured capture;
  std::map<const void*, Captured> graphs;  // captured and instantiated
  void launch(const Captured& graph);

 private:
  struct Handle {
    std::string kind;
    std::unique_ptr<void, decltype(&std::free)> memory{nullptr, std::free};
    bool live = true;
  };
  mutable std::recursive_mutex mutex_;
  std::map<const void*, Handle> handles_;
  std::map<const void*, MockedEvent> events_;
  std::map<const void*, MockedStream> streams_;
  std::map<const void*, MockedComm> comms_;
  GateWords* gate_ = nullptr;
  std::uint32_t wanted_ = 0;  // the iteration that it holds
  bool stamps_ = false;       // a graph that says so has been launched
  std::uint64_t gates_ = 0;   // that have stood
  std::int64_t placed_ = 0;   // events behind the last
  std::int64_t clock_ = 0;
};

}  // namespace tandem
