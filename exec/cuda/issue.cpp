// Issues the calls of an iteration: one by one, or captured once as a CUDA graph that is launched
// in each iteration. Declared in exec/cuda/device.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "exec/cuda/device.h"
#include "exec/payload/payload_layout.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TANDEM_NVTX 1
#endif

namespace tandem {
namespace {

// Marks the calls that the host issues during its life with an op's name, for profilers.
class NvtxRange {
 public:
#ifdef TANDEM_NVTX
  explicit NvtxRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~NvtxRange() { nvtxRangePop(); }
#else
  explicit NvtxRange(const std::string&) {}
#endif
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

// Returns whether the call receives a message into its stream's `take`, or takes the time for it.
bool receives_payload(GpuVerb verb) {
  return verb == GpuVerb::Recv || verb == GpuVerb::Move || verb == GpuVerb::Collective ||
         verb == GpuVerb::Emulate;
}

// Returns whether the call does an op's work.
bool acts_on_op(GpuVerb verb) {
  return receives_payload(verb) || verb == GpuVerb::Compute || verb == GpuVerb::Send;
}

bool is_checked(std::span<const GpuCall> calls) {
  return std::ranges::any_of(calls, [](const GpuCall& call) {
    return call.verb == GpuVerb::Fill || call.verb == GpuVerb::Check;
  });
}

}  // namespace

Status Device::issue(std::span<const GpuCall> calls, int iteration, bool by_graph) {
  constexpr Nanoseconds kStall_ns = 5'000'000'000;  // far more than issuing a call takes
  RETURN_IF_CUDA_FAILS(cudaSetDevice, number_);
  RETURN_IF_ERROR(parts_->payloads.begin(iteration, parts_->setup.get()));
  by_graph_ = by_graph;
  held_ = true;
  if (by_graph && (!parts_->graph || !std::ranges::equal(calls, parts_->graph_calls)))
    RETURN_IF_ERROR(capture(calls));
  parts_->gate.expect();
  if (by_graph) {
    RETURN_IF_CUDA_FAILS(cudaGraphLaunch, parts_->graph.get(), parts_->partitions.stream(0));
    return Done{};
  }
  if (!parts_->gate.is_open())
    watch_ = std::make_unique<GateWatch>(&parts_->gate,
                                         std::min(kStall_ns, job_.options.timeout_ns / 2));
  for (const CheckedCall& step : with_checks(calls)) {
    const GpuCall& call = *step.call;
    if (step.check != nullptr)
      RETURN_IF_ERROR(parts_->payloads.poison(*step.check, take(call), stream(call)));
    RETURN_IF_ERROR(issue_one(call, /*captures=*/false));
    if (watch_) watch_->issued();
  }
  return Done{};
}

// Pairs each Check with the call that receives its message: the last such call before it on its
// stream. The message's buffer is poisoned before that call (Payloads::poison). Leaves out Checks
// of messages that only take time.
std::vector<Device::CheckedCall> Device::with_checks(std::span<const GpuCall> calls) const {
  std::vector<CheckedCall> steps;
  std::vector<std::ptrdiff_t> receiving(job_.plan->streams.size(), -1);  // by stream; into steps
  for (const GpuCall& call : calls) {
    std::ptrdiff_t& last = receiving[call.stream];
    if (call.verb == GpuVerb::Check) {
      if (last < 0 || only_takes_time(*steps[last].call)) continue;
      steps[last].check = &call;
    }
    if (receives_payload(call.verb)) last = std::ssize(steps);
    steps.push_back({&call});
  }
  return steps;
}

// Returns whether the call takes its priced duration, and moves no bytes.
bool Device::only_takes_time(const GpuCall& call) const {
  return call.verb == GpuVerb::Emulate ||
         (call.verb == GpuVerb::Move && job_.options.transfers == GpuTransfers::Priced);
}

// Issues a call. An Error names its op and rank.
Status Device::issue_one(const GpuCall& call, bool captures) {
  const Status issued = acts_on_op(call.verb) ? carry_out(call) : prepare(call, captures);
  if (issued.ok()) return issued;
  const bool has_op = call.local_rank >= 0;
  const std::int32_t local_rank =
      has_op ? call.local_rank : job_.plan->streams[call.stream].local_rank;
  const std::string name =
      has_op ? op_names_[local_rank][call.op] : std::string(verb_name(call.verb));
  return Error{fmt::format("{}, in {} of rank {}", issued.error().text(), name,
                           index(job_.plan->local_ranks[local_rank])),
               issued.error().kind};
}

// Issues a call that does no op's work.
Status Device::prepare(const GpuCall& call, bool captures) {
  switch (call.verb) {
    case GpuVerb::Gate:
      RETURN_IF_CUDA_FAILS(hold_gate, stream(call), parts_->gate.words());
      return Done{};
    case GpuVerb::Wait: {
      const Event& event = (captures ? parts_->dependencies : parts_->events)[call.event];
      RETURN_IF_CUDA_FAILS(cudaStreamWaitEvent, stream(call), event.get(), 0);
      return Done{};
    }
    case GpuVerb::Record:
      return record(call, captures);
    case GpuVerb::Fill:
      return parts_->payloads.fill(call, give(call), stream(call));
    case GpuVerb::Check:
      return parts_->payloads.check(call, take(call), stream(call));
    case GpuVerb::GroupBegin:
      return parts_->communicators.begin_group();
    default:
      CHECK(call.verb == GpuVerb::GroupEnd);
      return parts_->communicators.end_group();
  }
}

// Issues a call that does an op's work.
Status Device::carry_out(const GpuCall& call) {
  const NvtxRange range(op_names_[call.local_rank][call.op]);
  switch (call.verb) {
    case GpuVerb::Compute:
      return compute(call);
    case GpuVerb::Move:
      return move(call);
    case GpuVerb::Emulate:
      return take_time(call, std::max<int>(1, op(call).sms));
    default:
      CHECK(call.verb == GpuVerb::Send || call.verb == GpuVerb::Recv ||
            call.verb == GpuVerb::Collective);
      return communicate(call);
  }
}

// Records an event. While a graph is captured, a CUDA event can either be timed or be waited for by
// other streams. So each event of the plan is two CUDA events there: one of `events` for its time,
// one of `dependencies` for the waits.
Status Device::record(const GpuCall& call, bool captures) {
  cudaEvent_t event = parts_->events[call.event].get();
  if (!captures) {
    RETURN_IF_CUDA_FAILS(cudaEventRecord, event, stream(call));
    return Done{};
  }
  RETURN_IF_CUDA_FAILS(cudaEventRecordWithFlags, event, stream(call), cudaEventRecordExternal);
  RETURN_IF_CUDA_FAILS(cudaEventRecord, parts_->dependencies[call.event].get(), stream(call));
  return Done{};
}

Status Device::compute(const GpuCall& call) {
  const Op& own = op(call);
  if (job_.options.compute == Compute::Timed)
    return take_time(call, parts_->partitions.share().sms[call.local_rank]);
  if (own.duration_ns == 0) return Done{};
  return parts_->multipliers[call.local_rank].run(own.kernel, stream(call));
}

std::int64_t Device::launches(const GpuCall& call) const {
  const Op& own = op(call);
  if (job_.options.compute == Compute::Timed || own.duration_ns == 0) return 1;
  return parts_->multipliers[call.local_rank].launches(own.kernel);
}

Status Device::take_time(const GpuCall& call, int blocks) {
  const Nanoseconds duration_ns = op(call).duration_ns;
  if (duration_ns > 0) RETURN_IF_CUDA_FAILS(spin, stream(call), blocks, duration_ns);
  return Done{};
}

Status Device::communicate(const GpuCall& call) {
  return parts_->communicators.communicate(op(call), communicator(call), give(call), take(call),
                                           stream(call));
}

Status Device::move(const GpuCall& call) {
  switch (job_.options.transfers) {
    case GpuTransfers::Nccl:
      return parts_->communicators.move(op(call), communicator(call), give(call), take(call),
                                        stream(call));
    case GpuTransfers::Copy: {
      const auto words =
          static_cast<std::size_t>(payload_layout(op(call), /*members=*/2, /*own=*/0).give_words);
      RETURN_IF_CUDA_FAILS(cudaMemcpyAsync, take(call), give(call), words * sizeof(float),
                           cudaMemcpyDeviceToDevice, stream(call));
      return Done{};
    }
    default:  // Priced
      return take_time(call, 1);
  }
}

Status Device::capture(std::span<const GpuCall> calls) {
  CHECK(!is_checked(calls));
  RETURN_IF_CUDA_FAILS(cudaSetDevice, number_);
  RETURN_IF_ERROR(make_events(&parts_->dependencies, parts_->events.size(), /*timed=*/false));
  RETURN_IF_ERROR(make_events(&parts_->ends, job_.plan->streams.size(), /*timed=*/false));
  parts_->graph.reset();
  ASSIGN_OR_RETURN(const CapturedGraph graph, capture_graph(calls));
  cudaGraphExec_t made = nullptr;
  RETURN_IF_CUDA_FAILS(cudaGraphInstantiate, &made, graph.get(),
                       cudaGraphInstantiateFlagUseNodePriority);
  parts_->graph.reset(made);
  parts_->graph_calls.assign(calls.begin(), calls.end());
  RETURN_IF_CUDA_FAILS(cudaGraphUpload, made, parts_->partitions.stream(0));
  RETURN_IF_CUDA_FAILS(cudaStreamSynchronize, parts_->partitions.stream(0));
  return Done{};
}

// Captures the calls as a graph. The capture mode is relaxed, as NCCL makes its calls from a thread
// of its own.
Result<CapturedGraph> Device::capture_graph(std::span<const GpuCall> calls) {
  cudaStream_t first = parts_->partitions.stream(0);
  RETURN_IF_CUDA_FAILS(cudaStreamBeginCapture, first, cudaStreamCaptureModeRelaxed);
  const Status captured = capture_all(calls);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(first, &graph);
  CapturedGraph own(graph);
  if (!captured.ok()) return captured.error();
  if (ended != cudaSuccess) return cuda_failed("cudaStreamEndCapture", ended);
  return own;
}

// Captures the calls. Stream 0 begins the capture: all other streams fork from it by an event
// first, and join it again before the capture ends.
Status Device::capture_all(std::span<const GpuCall> calls) {
  const std::vector<Event>& ends = parts_->ends;
  const std::vector<Stream>& streams = parts_->partitions.streams();
  cudaStream_t first = streams[0].get();
  RETURN_IF_CUDA_FAILS(cudaEventRecord, ends[0].get(), first);
  for (std::size_t i = 1; i < streams.size(); ++i)
    RETURN_IF_CUDA_FAILS(cudaStreamWaitEvent, streams[i].get(), ends[0].get(), 0);
  for (const GpuCall& call : calls) RETURN_IF_ERROR(issue_one(call, /*captures=*/true));
  for (std::size_t i = 1; i < streams.size(); ++i) {
    RETURN_IF_CUDA_FAILS(cudaEventRecord, ends[i].get(), streams[i].get());
    RETURN_IF_CUDA_FAILS(cudaStreamWaitEvent, first, ends[i].get(), 0);
  }
  RETURN_IF_CUDA_FAILS(stamp_done, first, parts_->gate.words());
  return Done{};
}

}  // namespace tandem
