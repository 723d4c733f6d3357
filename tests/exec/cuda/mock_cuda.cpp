// The mocks' common part: calls, handles, the gate, events.
#include "tests/exec/cuda/mock_cuda.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

// For LeakSanitizer: what a GPU that hangs may still write to is kept for good.
extern "C" const char* __lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() { return "leak:tandem::Device::open"; }

namespace tandem {

MockCuda& MockCuda::get() {
  static MockCuda only;
  return only;
}

void MockCuda::reset() {
  const std::lock_guard lock(mutex_);
  fails_at = -1;
  fails_named.clear();
  polls = 2;
  never_settles = false;
  hangs_at = queue_room = breaks_at = std::numeric_limits<std::int64_t>::max();
  abort_blocks = false;
  sms = 132;
  has_peers = false;
  calls.clear();
  faults.clear();
  made = not_blocking = 0;
  asked = 0;
  captures = has_copied = false;
  loaded.clear();
  capture = {};
  graphs.clear();
  handles_.clear();
  events_.clear();
  streams_.clear();
  comms_.clear();
  gate_ = nullptr;
  stamps_ = false;
  gates_ = 0;
  placed_ = clock_ = 0;
  depth() = 0;
}

int& MockCuda::depth() {
  thread_local int depth = 0;
  return depth;
}

std::size_t MockCuda::all_calls() const {
  const std::lock_guard lock(mutex_);
  return calls.size();
}

int MockCuda::count(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count(calls, name, &MockedCall::name));
}

int MockCuda::live(const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(
      handles_, [&](const auto& one) { return one.second.live && one.second.kind == kind; }));
}

std::string MockCuda::left() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int> kinds;
  for (const auto& [address, handle] : handles_) kinds[handle.kind] += handle.live ? 1 : 0;
  std::string text;
  for (const auto& [kind, number] : kinds) {
    if (number > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, kind);
  }
  return text;
}

bool MockCuda::call(const char* name, const void* handle) {
  const std::lock_guard lock(mutex_);
  const bool fails = static_cast<std::int64_t>(calls.size()) == fails_at || fails_named == name;
  calls.push_back({name, handle, depth(), fails});
  return fails;
}

bool MockCuda::queue(const char* name, cudaStream_t stream) {
  if (!is_live("cudaStream", stream)) fault(fmt::format("{}: no such stream", name));
  if (is_closed() && !captures) {
    MockedStream& own = this->stream(stream);
    if (own.gate != gates_) own = {own.first_sm, own.sms, 0, gates_};
    if (++own.held > queue_room) {
      constexpr int kMost_ms = 20'000;
      for (int i = 0; i < kMost_ms && is_closed(); ++i) usleep(1000);
      if (is_closed()) fault(fmt::format("{}: waits for a gate that nobody opens", name));
    }
  }
  return call(name, stream);
}

bool MockCuda::wait(const char* name, const void* handle) {
  if (is_closed()) fault(fmt::format("{}: waits for the device behind the closed gate", name));
  if (captures) fault(fmt::format("{}: waits for the device inside a capture", name));
  return call(name, handle);
}

void MockCuda::fault(const std::string& what) {
  const std::lock_guard lock(mutex_);
  faults.push_back(what);
}

void* MockCuda::make(const char* kind, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  constexpr std::size_t kLeast = 256;
  Handle handle{kind};
  handle.memory.reset(std::calloc(1, std::max(bytes, kLeast)));
  void* address = handle.memory.get();
  handles_[address] = std::move(handle);
  ++made;
  return address;
}

// The address stays taken, so that what is used afterwards is found.
void MockCuda::give_back(const char* kind, const void* handle) {
  const std::lock_guard lock(mutex_);
  const auto at = handles_.find(handle);
  if (at == handles_.end() || at->second.kind != kind)
    return fault(fmt::format("gives back a {} that was never made", kind));
  if (!at->second.live) return fault(fmt::format("gives back a {} twice", kind));
  at->second.live = false;
}

bool MockCuda::is_live(const char* kind, const void* handle) {
  const std::lock_guard lock(mutex_);
  const auto at = handles_.find(handle);
  return at != handles_.end() && at->second.kind == kind && at->second.live;
}

bool MockCuda::is_closed() const {
  const std::lock_guard lock(mutex_);
  if (gate_ == nullptr) return false;
  return std::atomic_ref(gate_->opened).load() < wanted_;
}

bool MockCuda::hangs() const {
  const std::lock_guard lock(mutex_);
  return placed_ > hangs_at;
}

void MockCuda::hold(GateWords* gate) {
  const std::lock_guard lock(mutex_);
  if (captures) {
    capture.gate = gate;
    return;
  }
  gate_ = gate;
  wanted_ = std::atomic_ref(gate->wanted).load();
  stamps_ = false;
  ++gates_;
  placed_ = 0;
}

MockedEvent& MockCuda::event(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  if (!is_live("cudaEvent", event)) fault("found an event that is none");
  return events_[event];
}
MockedStream& MockCuda::stream(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  return streams_[stream];
}
MockedComm& MockCuda::comm(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  if (!is_live("ncclComm", comm)) fault("found a communicator that is none");
  return comms_[comm];
}

void MockCuda::happen(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  this->event(event) = {++clock_, gates_, placed_++};
}

bool MockCuda::has_happened(const MockedEvent& event) {
  const std::lock_guard lock(mutex_);
  if (stamps_ && !is_closed() && gate_ != nullptr && placed_ <= hangs_at) {
    std::atomic_ref(gate_->done).store(std::atomic_ref(gate_->wanted).load());
    stamps_ = false;
  }
  if (event.at < 0) return true;  // as CUDA has it
  if (event.gate < gates_) return true;
  return !is_closed() && event.place < hangs_at;
}

void MockCuda::launch(const Captured& graph) {
  const std::lock_guard lock(mutex_);
  if (graph.gate != nullptr) hold(graph.gate);
  for (cudaEvent_t event : graph.events) happen(event);
  stamps_ = graph.stamps;
}

}  // namespace tandem
