// Gives each local rank an equal share of the GPU's SMs by a green context (CUDA 12.4). If that
// fails, all ranks use plain streams on all SMs.
#include "exec/cuda/partitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>

#include "exec/cuda/kernels.h"

namespace tandem {
namespace {

template <class Function>
Status look_up(const char* name, unsigned version, Function* function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  RETURN_IF_CUDA_FAILS(cudaGetDriverEntryPointByVersion, name, &address, version, cudaEnableDefault,
                       &found);
  if (found != cudaDriverEntryPointSuccess || address == nullptr)
    return Error{fmt::format("the driver has no {}", name), Error::Missing};
  *function = reinterpret_cast<Function>(address);
  return Done{};
}

// Returns a stream's priority: communication goes before compute.
Result<int> priority_of(const GpuStream& stream) {
  int lowest = 0, highest = 0;
  RETURN_IF_CUDA_FAILS(cudaDeviceGetStreamPriorityRange, &lowest, &highest);
  return stream.lane == 0 ? lowest : highest;
}

// Splits the SMs evenly among the local ranks. The driver rounds the size of a part up to its
// granularity, and may then find too few parts. So it is asked for smaller and smaller parts, until
// there is one for each rank.
Result<std::vector<CUdevResource>> split(const GreenDriver& driver, CUdevice device,
                                         unsigned local_ranks) {
  CUdevResource all{};
  RETURN_IF_DRIVER_FAILS(driver, cuDeviceGetDevResource, device, &all, CU_DEV_RESOURCE_TYPE_SM);
  std::vector<CUdevResource> parts(local_ranks);
  for (unsigned sms = all.sm.smCount / local_ranks; sms > 0; --sms) {
    unsigned count = local_ranks;
    CUdevResource rest{};
    const CUresult code =
        driver.cuDevSmResourceSplitByCount(parts.data(), &count, &all, &rest, 0, sms);
    if (code == CUDA_SUCCESS && count == local_ranks) return parts;
  }
  return Error{fmt::format("found {} SMs for {} ranks, expected enough for a partition each",
                           all.sm.smCount, local_ranks)};
}

using SmSet = std::bitset<std::size_t{32} * kSmWords>;

// Reads the set of SMs that record_sms() has written as kSmWords words.
SmSet sms_of(const std::uint32_t* words) {
  SmSet sms;
  for (std::size_t sm = 0; sm < sms.size(); ++sm) sms[sm] = (words[sm / 32] >> (sm % 32) & 1) != 0;
  return sms;
}

// Says which local ranks share SMs, or use more than they were given; empty: none. A module with
// dynamic parallelism, once loaded, makes green contexts use more.
std::string overlap(const GpuPlan& plan, const std::vector<int>& given,
                    const std::vector<SmSet>& used) {
  for (std::size_t a = 0; a < used.size(); ++a) {
    const int rank = index(plan.local_ranks[a]);
    for (std::size_t b = used.size() - 1; b > a; --b) {
      if (const SmSet both = used[a] & used[b]; both.any())
        return fmt::format("green contexts: ranks {} and {} share {} SMs", rank,
                           index(plan.local_ranks[b]), both.count());
    }
    if (used[a].count() > static_cast<std::size_t>(given[a]))
      return fmt::format("green contexts give rank {} {} SMs, expected {}", rank, used[a].count(),
                         given[a]);
  }
  return "";
}

}  // namespace

Result<GreenDriver> GreenDriver::load() {
  // The CUDA versions that introduced the functions: 12040 is 12.4.
  constexpr unsigned kOld = 4000, kGreen = 12040, kGreenStreams = 12050;
  GreenDriver driver;
  RETURN_IF_ERROR(look_up("cuDeviceGet", kOld, &driver.cuDeviceGet));
  RETURN_IF_ERROR(look_up("cuDeviceGetDevResource", kGreen, &driver.cuDeviceGetDevResource));
  RETURN_IF_ERROR(
      look_up("cuDevSmResourceSplitByCount", kGreen, &driver.cuDevSmResourceSplitByCount));
  RETURN_IF_ERROR(look_up("cuDevResourceGenerateDesc", kGreen, &driver.cuDevResourceGenerateDesc));
  RETURN_IF_ERROR(look_up("cuGreenCtxCreate", kGreen, &driver.cuGreenCtxCreate));
  RETURN_IF_ERROR(look_up("cuGreenCtxDestroy", kGreen, &driver.cuGreenCtxDestroy));
  RETURN_IF_ERROR(look_up("cuGreenCtxStreamCreate", kGreenStreams, &driver.cuGreenCtxStreamCreate));
  return driver;
}

Partitions::~Partitions() { close(); }

void Partitions::close() {
  streams_.clear();
  for (CUgreenCtx context : contexts_) driver_.cuGreenCtxDestroy(context);
  contexts_.clear();
  share_ = {};
}

Status Partitions::open(const GpuPlan& plan, int device, int device_sms, bool own_sms) {
  if (!own_sms || plan.local_ranks.size() < 2) return open_plain(plan, device_sms);
  const Status green = open_green(plan, device);
  if (green.ok()) return green;
  close();
  RETURN_IF_ERROR(open_plain(plan, device_sms));
  share_.note = "plain streams: " + green.error().text();
  return Done{};
}

Status Partitions::open_green(const GpuPlan& plan, int device) {
  ASSIGN_OR_RETURN(driver_, GreenDriver::load());
  CUdevice handle = 0;
  RETURN_IF_DRIVER_FAILS(driver_, cuDeviceGet, &handle, device);
  ASSIGN_OR_RETURN(std::vector<CUdevResource> parts,
                   split(driver_, handle, static_cast<unsigned>(plan.local_ranks.size())));
  for (CUdevResource& part : parts) {
    CUdevResourceDesc description = nullptr;
    RETURN_IF_DRIVER_FAILS(driver_, cuDevResourceGenerateDesc, &description, &part, 1);
    CUgreenCtx context = nullptr;
    RETURN_IF_DRIVER_FAILS(driver_, cuGreenCtxCreate, &context, description, handle,
                           CU_GREEN_CTX_DEFAULT_STREAM);
    contexts_.push_back(context);
    share_.sms.push_back(static_cast<int>(part.sm.smCount));
  }
  for (const GpuStream& own : plan.streams) {
    ASSIGN_OR_RETURN(const int priority, priority_of(own));
    CUstream stream = nullptr;
    RETURN_IF_DRIVER_FAILS(driver_, cuGreenCtxStreamCreate, &stream, contexts_[own.local_rank],
                           CU_STREAM_NON_BLOCKING, priority);
    streams_.emplace_back(stream);
  }
  return try_events();
}

Status Partitions::open_plain(const GpuPlan& plan, int device_sms) {
  for (const GpuStream& own : plan.streams) {
    ASSIGN_OR_RETURN(const int priority, priority_of(own));
    ASSIGN_OR_RETURN(Stream stream, make_stream(priority));
    streams_.push_back(std::move(stream));
  }
  const int local_ranks = static_cast<int>(plan.local_ranks.size());
  share_.sms.assign(plan.local_ranks.size(), std::max(1, device_sms / local_ranks));
  return Done{};
}

// Tries out whether events work across the streams. CUDA demands that "event and stream must be on
// the same CUDA context". Its manual does not say whether a green context counts as the device's
// context, which our events and NCCL's belong to.
Status Partitions::try_events() const {
  ASSIGN_OR_RETURN(const Event first, make_event(/*timed=*/true));
  ASSIGN_OR_RETURN(const Event last, make_event(/*timed=*/true));
  RETURN_IF_CUDA_FAILS(cudaEventRecord, first.get(), streams_.front().get());
  RETURN_IF_CUDA_FAILS(cudaStreamWaitEvent, streams_.back().get(), first.get(), 0);
  RETURN_IF_CUDA_FAILS(cudaEventRecord, last.get(), streams_.back().get());
  RETURN_IF_CUDA_FAILS(cudaEventSynchronize, last.get());
  float ms = 0;
  RETURN_IF_CUDA_FAILS(cudaEventElapsedTime, &ms, first.get(), last.get());
  return Done{};
}

Status Partitions::check_sms(const GpuPlan& plan) {
  constexpr int kBlocks = 1024;  // more than any device has SMs
  const std::size_t local_ranks = plan.local_ranks.size();
  std::vector<std::uint32_t> words(local_ranks * kSmWords);
  const std::size_t bytes = words.size() * sizeof words[0];
  ASSIGN_OR_RETURN(const DeviceArray<std::uint32_t> bits,
                   make_array<std::uint32_t>(static_cast<std::int64_t>(words.size())));
  RETURN_IF_CUDA_FAILS(cudaMemset, bits.get(), 0, bytes);
  RETURN_IF_CUDA_FAILS(cudaDeviceSynchronize);  // streams do not wait for the legacy one
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const std::int32_t local_rank = plan.streams[i].local_rank;
    RETURN_IF_CUDA_FAILS(record_sms, streams_[i].get(), kBlocks,
                         bits.get() + std::size_t{kSmWords} * local_rank);
  }
  for (const Stream& stream : streams_) RETURN_IF_CUDA_FAILS(cudaStreamSynchronize, stream.get());
  RETURN_IF_CUDA_FAILS(cudaMemcpy, words.data(), bits.get(), bytes, cudaMemcpyDeviceToHost);
  if (contexts_.empty()) return Done{};  // plain streams: all ranks use all SMs
  std::vector<SmSet> used;
  for (std::size_t i = 0; i < local_ranks; ++i) used.push_back(sms_of(&words[i * kSmWords]));
  share_.note = overlap(plan, share_.sms, used);
  share_.disjoint = share_.note.empty();
  return Done{};
}

}  // namespace tandem
