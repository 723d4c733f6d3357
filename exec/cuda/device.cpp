// Opens a GPU for a plan, and reports which of the plan's events have happened, and when; issue.cpp
// issues the calls in between. Opened are streams, events, buffers for messages, matrices for real
// compute (Multiplier), NCCL's communicators, and the gate: a kernel that holds all streams until
// the host has issued a whole iteration, so that launch overhead is not measured.
#include "exec/cuda/device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>

#include "base/check.h"
#include "launch/clock.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// Returns whether the code says "not ready yet". Then clears CUDA's last error, which is the same
// code, so that NCCL does not take it for a failure of its own.
bool is_not_yet(cudaError_t code) {
  if (code == cudaErrorNotReady) (void)cudaGetLastError();
  return code == cudaErrorNotReady;
}

// Polls until the stream has carried out all of its calls. Returns false if time runs out. Failures
// of NCCL are for the caller to ask (Communicators::check).
Result<bool> finished(cudaStream_t stream, Nanoseconds until_ns) {
  constexpr useconds_t kPoll_us = 100;
  for (;;) {
    const cudaError_t code = cudaStreamQuery(stream);
    if (code == cudaSuccess) return true;
    if (!is_not_yet(code)) return cuda_failed("cudaStreamQuery", code);
    if (now_ns() > until_ns) return false;
    usleep(kPoll_us);
  }
}

// Returns the bytes of device memory that may be taken. Leaves 5 % of the memory for NCCL and
// cuBLASLt.
Result<double> free_bytes() {
  constexpr double kReservedShare = 0.05;
  std::size_t free = 0, all = 0;
  RETURN_IF_CUDA_FAILS(cudaMemGetInfo, &free, &all);
  return std::max(0.0, static_cast<double>(free) - kReservedShare * static_cast<double>(all));
}

// Makes an array of zeros, which the stream sets.
Result<DeviceArray<float>> make_zeros(std::int64_t words, cudaStream_t stream) {
  ASSIGN_OR_RETURN(DeviceArray<float> array, make_array<float>(words));
  if (words > 0)
    RETURN_IF_CUDA_FAILS(cudaMemsetAsync, array.get(), 0, sizeof(float) * words, stream);
  return array;
}

std::vector<std::string> op_names(const Body& body) {
  std::vector<std::string> names;
  for (const Op& op : body.ops) names.push_back(describe(body, op));
  return names;
}

}  // namespace

Result<std::unique_ptr<Device>> Device::make(int number) {
  RETURN_IF_CUDA_FAILS(cudaSetDevice, number);
  RETURN_IF_CUDA_FAILS(cudaFree, nullptr);  // starts the device's context
  std::unique_ptr<Device> device(new Device(number));
  RETURN_IF_ERROR(device->find_facts());
  return device;
}

// Frees everything if the streams become idle. Otherwise leaks parts_, as freeing memory would wait
// for kernels that may never end.
Device::~Device() {
  if (!parts_) return;
  constexpr Nanoseconds kMostWait_ns = 10'000'000'000, kMostWaitAfterAbort_ns = 500'000'000;
  watch_.reset();
  parts_->gate.open_for_good();
  (void)cudaSetDevice(number_);
  if (!aborted_ && is_idle(kMostWait_ns)) return;
  abort();
  if (!is_idle(kMostWaitAfterAbort_ns)) (void)parts_.release();
}

// Returns whether the streams have carried out all of their calls within the time.
bool Device::is_idle(Nanoseconds within_ns) const {
  const Nanoseconds until_ns = now_ns() + within_ns;
  for (const Stream& stream : parts_->partitions.streams()) {
    const auto done = finished(stream.get(), until_ns);
    if (!done.ok() || !*done) return false;
  }
  return true;
}

Result<GpuShare> Device::open(GpuJob job) {
  CHECK(!parts_);
  job_ = std::move(job);
  parts_ = std::make_unique<Parts>();
  RETURN_IF_CUDA_FAILS(cudaSetDevice, number_);
  for (const Rank rank : job_.plan->local_ranks)
    op_names_.push_back(op_names(job_.program->body_of(rank)));
  RETURN_IF_ERROR(open_streams());
  RETURN_IF_ERROR(make_events(&parts_->events, job_.plan->event_streams.size(), /*timed=*/true));
  RETURN_IF_ERROR(open_messages());
  RETURN_IF_ERROR(parts_->payloads.open(job_));
  GpuShare share = parts_->partitions.share();
  if (job_.options.compute == Compute::Gemm) {
    RETURN_IF_ERROR(check_precision());
    RETURN_IF_ERROR(plan_multipliers(share.sms));
    RETURN_IF_ERROR(open_multipliers());
    if (std::ranges::any_of(parts_->multipliers, &Multiplier::rounded))
      share.note += std::string(share.note.empty() ? "" : "; ") +
                    "fp8: sides of matrices are rounded up to multiples of 16";
  }
  RETURN_IF_ERROR(parts_->communicators.open(job_));
  RETURN_IF_ERROR(connect());
  return share;
}

Status Device::open_streams() {
  const GpuPlan& plan = *job_.plan;
  RETURN_IF_ERROR(parts_->gate.open_words());
  ASSIGN_OR_RETURN(parts_->setup, make_stream(0));
  RETURN_IF_ERROR(parts_->partitions.open(plan, number_, facts_.sms, job_.options.share_gpu));
  RETURN_IF_CUDA_FAILS(load_kernels, parts_->setup.get(), parts_->gate.words());
  for (const Stream& stream : parts_->partitions.streams()) {
    RETURN_IF_CUDA_FAILS(load_kernels, stream.get(), parts_->gate.words());
    job_.on_progress();
  }
  return parts_->partitions.check_sms(plan);
}

Status Device::open_messages() {
  double needed = 0;
  for (const GpuStream& stream : job_.plan->streams)
    needed += sizeof(float) *
              (static_cast<double>(stream.give_words) + static_cast<double>(stream.take_words));
  ASSIGN_OR_RETURN(const double free, free_bytes());
  if (needed > free)
    return Error{
        fmt::format("found messages of {:.3g} GB on {} streams, expected at most {:.3g} "
                    "GB, what is free of the memory of {}",
                    needed / GB, job_.plan->streams.size(), free / GB, facts_.name)};
  cudaStream_t setup = parts_->setup.get();
  for (const GpuStream& stream : job_.plan->streams) {
    Messages& own = parts_->messages.emplace_back();
    ASSIGN_OR_RETURN(own.give, make_zeros(stream.give_words, setup));
    ASSIGN_OR_RETURN(own.take, make_zeros(stream.take_words, setup));
  }
  RETURN_IF_CUDA_FAILS(cudaStreamSynchronize, setup);
  return Done{};
}

Status Device::check_precision() const {
  int major = 0, minor = 0;
  RETURN_IF_CUDA_FAILS(cudaDeviceGetAttribute, &major, cudaDevAttrComputeCapabilityMajor, number_);
  RETURN_IF_CUDA_FAILS(cudaDeviceGetAttribute, &minor, cudaDevAttrComputeCapabilityMinor, number_);
  if (job_.options.precision == "fp8" && std::pair(major, minor) < std::pair(8, 9))
    return Error{
        fmt::format("found precision fp8 on {} of compute capability {}.{}, expected 8.9 "
                    "or newer",
                    facts_.name, major, minor)};
  return Done{};
}

// Plans the matrices of each local rank, and checks that the memory holds them all.
Status Device::plan_multipliers(std::span<const int> sms) {
  const std::vector<Rank>& local_ranks = job_.plan->local_ranks;
  double needed = 0;
  for (std::size_t i = 0; i < local_ranks.size(); ++i) {
    ASSIGN_OR_RETURN(Multiplier own,
                     Multiplier::plan(*job_.program, job_.program->body_of(local_ranks[i]),
                                      job_.options, sms[i], facts_.sms));
    needed += own.bytes();
    parts_->multipliers.push_back(std::move(own));
  }
  ASSIGN_OR_RETURN(const double free, free_bytes());
  if (needed > free)
    return Error{fmt::format(
        "found matrices of {:.3g} GB for {} ranks at --gemm-scale {:g}, "
        "expected at most {:.3g} GB, what is free of the memory of {}: a "
        "lower --gemm-scale makes them smaller",
        needed / GB, local_ranks.size(), job_.options.gemm_scale, free / GB, facts_.name)};
  return Done{};
}

// Opens each local rank's matrices on its compute stream.
Status Device::open_multipliers() {
  const std::vector<GpuStream>& streams = job_.plan->streams;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].lane != 0) continue;
    cudaStream_t stream = parts_->partitions.stream(static_cast<std::int32_t>(i));
    const auto local_rank = static_cast<std::uint64_t>(streams[i].local_rank);
    RETURN_IF_ERROR(parts_->multipliers[local_rank].open(stream, job_.options.seed + local_rank));
    job_.on_progress();
  }
  return Done{};
}

// Returns the first message of each communicator, kind and size, by number of the communicator.
std::vector<const GpuCall*> Device::first_messages() const {
  const GpuTransfers transfers = job_.options.transfers;
  std::set<std::tuple<std::int32_t, OpKind, Bytes>> seen;
  std::vector<const GpuCall*> first;
  for (const GpuCall& call : job_.plan->calls) {
    const bool copies = call.verb == GpuVerb::Move && transfers == GpuTransfers::Copy;
    if (!is_by_nccl(call, transfers) && !copies) continue;
    const Op& own = op(call);
    if (seen.insert({communicator(call), own.kind, own.bytes}).second) first.push_back(&call);
  }
  std::ranges::stable_sort(first, {}, [this](const GpuCall* call) { return communicator(*call); });
  return first;
}

// Carries out the first messages before the gate is used. At the first message of a size NCCL
// connects members and loads kernels; at the first copy CUDA loads kernels. Both may wait for other
// ranks and for the device: behind a closed gate that would be a deadlock.
Status Device::connect() {
  for (const GpuCall* call : first_messages()) {
    RETURN_IF_ERROR(call->verb == GpuVerb::Move ? move(*call) : communicate(*call));
    ASSIGN_OR_RETURN(const bool ended, finished(stream(*call), now_ns() + job_.options.timeout_ns));
    RETURN_IF_ERROR(parts_->communicators.check());
    if (!ended)
      return Error{fmt::format("found no answer to {} within {:g} s, expected all members of "
                               "communicator {} to play the same program",
                               describe(body(*call), op(*call)),
                               to_seconds(job_.options.timeout_ns), communicator(*call)),
                   Error::Failed};
    job_.on_progress();
  }
  return Done{};
}

Result<Nanoseconds> Device::open_gate() {
  // If issuing stalled the watch has opened the gate (gate.h): then the iteration was not held.
  if (watch_) {
    watch_->end();
    held_ = !watch_->opened();
    watch_.reset();
  }
  return held_ ? parts_->gate.open() : now_ns();
}

Result<bool> Device::has_happened(std::int32_t event) {
  constexpr Nanoseconds kCheckInterval_ns = 10'000'000;
  if (const Nanoseconds now = now_ns(); now - checked_ns_ >= kCheckInterval_ns) {
    checked_ns_ = now;
    RETURN_IF_ERROR(parts_->communicators.check());
  }
  const cudaError_t code = cudaEventQuery(parts_->events[event].get());
  if (is_not_yet(code)) return false;
  if (code != cudaSuccess) return cuda_failed("cudaEventQuery", code);
  return !by_graph_ || graph_came_to(event);
}

// Returns whether the graph launched last has recorded the event. Until then the event keeps its
// time of the launch before. The times of launches 1 and 2 lie in this order:
//   gate 1 < event 1 <= done 1 < gate 2 < event 2 <= done 2
// While launch 2 runs, plan.done still has the time done 1. So the gate has its new time if that is
// later than done 1. Another event has its new time if the gate has, and it is not earlier than the
// gate's.
bool Device::graph_came_to(std::int32_t event) const {
  if (parts_->gate.done()) return true;  // the whole graph
  const GpuPlan& plan = *job_.plan;
  if (event == plan.done) return false;
  // Returns nothing if one of the events has never been recorded.
  const auto ms_between = [&](std::int32_t first, std::int32_t second) -> std::optional<float> {
    float ms = 0;
    const cudaError_t code =
        cudaEventElapsedTime(&ms, parts_->events[first].get(), parts_->events[second].get());
    if (code == cudaSuccess) return ms;
    (void)cudaGetLastError();
    return std::nullopt;
  };
  const bool gate_is_new = ms_between(plan.done, plan.gate).value_or(-1) > 0;
  if (!gate_is_new || event == plan.gate) return gate_is_new;
  return ms_between(plan.gate, event).value_or(-1) >= 0;
}

Result<Nanoseconds> Device::ns_since_gate(std::int32_t event) {
  float ms = 0;
  RETURN_IF_CUDA_FAILS(cudaEventElapsedTime, &ms, parts_->events[job_.plan->gate].get(),
                       parts_->events[event].get());
  return std::max<Nanoseconds>(0, std::llround(static_cast<double>(ms) * 1e6));
}

Result<std::vector<GpuFault>> Device::faults() {
  return parts_->payloads.faults(parts_->setup.get());
}

void Device::abort() {
  if (aborted_ || !parts_) return;
  aborted_ = true;
  watch_.reset();
  parts_->gate.open_for_good();
  parts_->communicators.abort();
}

const Body& Device::body(const GpuCall& call) const {
  return job_.program->body_of(job_.plan->local_ranks[call.local_rank]);
}

}  // namespace tandem
