#include "exec/cuda/gpu_executor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "exec/supervise/diagnose.h"
#include "launch/clock.h"
#include "launch/start_barrier.h"
#include "schedule/program/lanes.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

constexpr useconds_t kPoll_us = 200;  // between looks at the device

// What a queue holds behind a closed gate is finite, and whoever asks for more waits for the gate.
constexpr std::int64_t kQueueCalls = 900;

class GpuExecutor {
 public:
  GpuExecutor(const Program& program, const ExecOptions& options, const GpuPlan& plan, Gpu* gpu,
              Control* control, RunStates states)
      : program_(program),
        options_(options),
        plan_(plan),
        gpu_(*gpu),
        control_(control),
        states_(states),
        plain_(without_checks(plan.calls)),
        queue_use_(queue_use(program, plan, options.transfers)) {
    for (const Rank rank : plan.local_ranks) queues_.emplace_back(program.body_of(rank));
  }

  Status run() {
    ASSIGN_OR_RETURN(std::vector<GpuCommId> ids, communicator_ids());
    ASSIGN_OR_RETURN(const GpuShare share,
                     gpu_.open({&program_, &plan_, options_, std::move(ids)}));
    std::strncpy(header(0).note, note(share).c_str(), sizeof header(0).note - 1);
    header(0).shares_queues = shares_queues() ? 1 : 0;
    header(0).heeds_stop = 1;
    RETURN_IF_ERROR(compare_clocks(&RunState::Header::before));
    const int warmup = std::max(1, options_.warmup);
    for (int number = 0; number < warmup + options_.iterations; ++number)
      RETURN_IF_ERROR(play(number, number - warmup));
    if (control_ != nullptr) RETURN_IF_ERROR(control_->barrier());
    return compare_clocks(&RunState::Header::after);
  }

 private:
  const Body& body(std::size_t local_rank) const {
    return program_.body_of(plan_.local_ranks[local_rank]);
  }
  RunState::Header& header(std::size_t local_rank) { return states_[local_rank]->header(); }
  const GpuOpEvents& events(std::size_t local_rank, std::uint32_t op) const {
    return plan_.op_events[local_rank][op];
  }

  Result<std::vector<GpuCommId>> communicator_ids();
  std::string note(const GpuShare& share) const;
  bool fits_gate() const;
  bool shares_queues() const { return queue_use_.all() > kHardwareQueues; }
  Status compare_clocks(ClockReading RunState::Header::*reading);

  Status play(int number, int iteration);
  Status start(int number);
  Status wait_for_end();
  Status look(std::size_t local_rank);
  Status check_payloads();
  void set_arrivals();
  Nanoseconds ready_ns(std::size_t local_rank, std::uint32_t op) const;
  Error stuck() const;

  const Program& program_;
  const ExecOptions& options_;
  const GpuPlan& plan_;
  Gpu& gpu_;
  Control* control_;
  RunStates states_;
  std::vector<LaneQueues> queues_;  // by local rank
  std::vector<GpuCall> plain_;      // the plan's calls without checks
  GpuQueueUse queue_use_;
  std::vector<std::span<OwnTimes>> times_;  // by local rank: of the iteration
  Nanoseconds gate_ns_ = 0;                 // when the gate was opened, on this process's clock
  Nanoseconds moved_ns_ = 0;                // when an op was seen to have ended last
};

// Rank 0 makes those of all communicators of the Program, so that all have them.
Result<std::vector<GpuCommId>> GpuExecutor::communicator_ids() {
  std::vector<GpuCommId> ids(plan_.communicators.size());
  if (control_ == nullptr) return ids;
  std::vector<GpuCommId> all(program_.communicators.size());
  if (control_->rank() == 0) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (program_.communicators[i].members.size() < 2) continue;
      ASSIGN_OR_RETURN(all[i], gpu_.make_id());
    }
  }
  RETURN_IF_ERROR(control_->broadcast(std::as_writable_bytes(std::span(all))));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = all[plan_.communicators[i].communicator];
  return ids;
}

bool GpuExecutor::fits_gate() const {
  std::array<std::int64_t, kHardwareQueues> calls{};
  for (const GpuCall& call : plain_)
    calls[call.stream % kHardwareQueues] += call.verb == GpuVerb::Compute ? gpu_.launches(call) : 1;
  return std::ranges::max(calls) <= kQueueCalls;
}

std::string GpuExecutor::note(const GpuShare& share) const {
  const GpuFacts& facts = gpu_.facts();
  std::string text = fmt::format("{}, driver {}, CUDA {}, NCCL {}, cuBLAS {}", facts.name,
                                 facts.driver, facts.runtime, facts.nccl, facts.cublas);
  if (plan_.all_play_here() && share.disjoint)
    text += fmt::format(", {} SMs a rank",
                        fmt::join(std::set(share.sms.begin(), share.sms.end()), " or "));
  if (!share.note.empty()) text += ", " + share.note;
  if (options_.launch == GpuLaunch::Gated && !fits_gate())
    text += fmt::format(", launched directly: the device queues {} calls", kQueueCalls);
  if (shares_queues())
    text += fmt::format(", {} streams and {} of NCCL's share {} queues and may hold each other up",
                        queue_use_.streams, queue_use_.nccl_streams, kHardwareQueues);
  return text;
}

Status GpuExecutor::compare_clocks(ClockReading RunState::Header::*reading) {
  if (control_ == nullptr) return Done{};
  ASSIGN_OR_RETURN(header(0).*reading, control_->compare_clocks());
  return Done{};
}

// `number`: from 0, warm-up included; `iteration`: of those that are kept, or negative.
Status GpuExecutor::play(int number, int iteration) {
  times_.clear();
  for (RunState* state : states_) {
    state->header().iteration = static_cast<std::uint32_t>(number);
    std::ranges::fill(state->done(), 0);
    std::ranges::fill(state->begun(), 0);
    times_.push_back(state->times(std::max(iteration, 0)));
    std::ranges::fill(times_.back(), OwnTimes{});
  }
  const Status started = start(number);
  const Status ended = started.ok() ? wait_for_end() : started;
  set_arrivals();
  if (!ended.ok() || number > 0) return ended;
  return check_payloads();
}

Status GpuExecutor::start(int number) {
  const bool direct = number == 0 || options_.launch == GpuLaunch::Direct ||
                      (options_.launch == GpuLaunch::Gated && !fits_gate());
  const std::span<const GpuCall> calls = number == 0 ? plan_.calls : plain_;
  const auto begin = [&]() -> Status {
    if (control_ != nullptr) RETURN_IF_ERROR(wait_for_start(control_, header(0).before.ahead_ns));
    ASSIGN_OR_RETURN(gate_ns_, gpu_.open_gate());
    return Done{};
  };
  if (direct) RETURN_IF_ERROR(begin());
  RETURN_IF_ERROR(gpu_.issue(calls, number));
  return direct ? Done{} : begin();
}

// Looks at the device until all has ended, and notes how far it is.
Status GpuExecutor::wait_for_end() {
  Nanoseconds longest = 0;
  for (const Body& each : program_.bodies) {
    for (const Op& op : each.ops) longest = std::max(longest, op.duration_ns);
  }
  moved_ns_ = now_ns();
  for (;; usleep(kPoll_us)) {
    ASSIGN_OR_RETURN(const bool done, gpu_.has_happened(plan_.done));
    for (std::size_t local_rank = 0; local_rank < states_.size(); ++local_rank)
      RETURN_IF_ERROR(look(local_rank));
    if (done) return Done{};
    if (header(0).stop != 0) return Error{"was told to stop", Error::Failed};
    if (control_ == nullptr && now_ns() - moved_ns_ > options_.timeout_ns + longest) return stuck();
  }
}

// Notes the ops that have ended since the last look.
Status GpuExecutor::look(std::size_t local_rank) {
  const auto done = states_[local_rank]->done();
  const auto begun = states_[local_rank]->begun();
  for (std::size_t lane = 0; lane < done.size(); ++lane) {
    const std::vector<std::uint32_t>& queue = queues_[local_rank].lanes[lane];
    while (done[lane] < queue.size()) {
      const std::uint32_t op = queue[done[lane]];
      const GpuOpEvents& own = events(local_rank, op);
      OwnTimes& times = times_[local_rank][op];
      if (times.arrive_ns < 0) {
        ASSIGN_OR_RETURN(const bool has_begun, gpu_.has_happened(own.begin));
        if (!has_begun) break;
        ASSIGN_OR_RETURN(const Nanoseconds begin, gpu_.ns_since_gate(own.begin));
        times.arrive_ns = gate_ns_ + begin;
        begun[lane] = 1;
      }
      ASSIGN_OR_RETURN(const bool has_ended, gpu_.has_happened(own.end));
      if (!has_ended) break;
      ASSIGN_OR_RETURN(const Nanoseconds end, gpu_.ns_since_gate(own.end));
      times.end_ns = std::max(gate_ns_ + end, times.arrive_ns);
      begun[lane] = 0;
      ++done[lane];
      ++header(local_rank).ended;
      moved_ns_ = now_ns();
    }
  }
  return Done{};
}

// When what an op waits for had ended, on its own rank.
Nanoseconds GpuExecutor::ready_ns(std::size_t local_rank, std::uint32_t op) const {
  const Op& own = body(local_rank).ops[op];
  const LaneQueues& queues = queues_[local_rank];
  Nanoseconds ready = gate_ns_;
  if (const std::uint32_t place = queues.place[op]; place > 0)
    ready = std::max(ready, times_[local_rank][queues.lanes[own.lane][place - 1]].end_ns);
  for (const std::uint32_t wait : body(local_rank).waits_of(own))
    ready = std::max(ready, times_[local_rank][wait].end_ns);
  return ready;
}

// One event tells when the last rank came to a communication whose members all play here. The
// others came when what they waited for had ended.
void GpuExecutor::set_arrivals() {
  if (!plan_.all_play_here()) return;
  std::map<std::int32_t, Nanoseconds> latest;  // by event of the beginning
  const auto for_comms = [&](auto act) {
    for (std::size_t local_rank = 0; local_rank < times_.size(); ++local_rank) {
      const std::vector<Op>& ops = body(local_rank).ops;
      for (std::uint32_t op = 0; op < ops.size(); ++op) {
        if (!is_compute(ops[op].kind) && times_[local_rank][op].arrive_ns >= 0)
          act(times_[local_rank][op], events(local_rank, op).begin, ready_ns(local_rank, op));
      }
    }
  };
  for_comms([&](const OwnTimes&, std::int32_t begin, Nanoseconds ready) {
    Nanoseconds& time = latest.try_emplace(begin, ready).first->second;
    time = std::max(time, ready);
  });
  for_comms([&](OwnTimes& times, std::int32_t begin, Nanoseconds ready) {
    if (ready < latest.at(begin)) times.arrive_ns = std::min(ready, times.arrive_ns);
  });
}

Status GpuExecutor::check_payloads() {
  for (const GpuCall& call : plan_.calls)
    header(static_cast<std::size_t>(std::max(call.local_rank, 0))).payloads_checked +=
        call.verb == GpuVerb::Check;
  ASSIGN_OR_RETURN(const std::vector<GpuFault> faults, gpu_.faults());
  if (faults.empty()) return Done{};
  const GpuFault& first = faults.front();
  return Error{
      fmt::format("received other bytes in {} than should have been sent: {} of {} words checked "
                  "are wrong",
                  describe(body(first.local_rank), body(first.local_rank).ops[first.op]),
                  first.wrong, first.checked),
      Error::Failed};
}

Error GpuExecutor::stuck() const {
  std::vector<RankProgress> progress;
  for (RunState* state : states_) {
    RankProgress& own = progress.emplace_back();
    own.done.assign(state->done().begin(), state->done().end());
    own.begun.assign(state->begun().begin(), state->begun().end());
  }
  return Error{fmt::format("no op ended within {:g} s: {}", to_seconds(options_.timeout_ns),
                           diagnose(program_, progress)),
               Error::Failed};
}

}  // namespace

Status play_gpu(const Program& program, const ExecOptions& options, const GpuPlan& plan, Gpu* gpu,
                Control* control, RunStates states) {
  const Status played = GpuExecutor(program, options, plan, gpu, control, states).run();
  if (played.ok()) return played;
  for (RunState* state : states) state->fail(played.error());  // before its peers feel it
  gpu->abort();
  return played;
}

}  // namespace tandem
