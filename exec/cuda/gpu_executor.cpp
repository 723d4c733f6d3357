// Plays iterations of a GpuPlan. All calls of an iteration are issued behind a closed gate, a
// kernel that holds all streams. The gate opens on all ranks at one time. Then the host polls the
// events, which give each op's times, until all have happened. The first iteration has no gate, and
// checks payloads. If the device's queues cannot hold all calls behind the gate, the later
// iterations are launched as a CUDA graph, or directly.
#include "exec/cuda/gpu_executor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
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

// CUDA calls that NCCL makes for an operation (2.28, src/enqueue.cc): a wait, a kernel and a record
// in the stream that the caller gives, and a wait and a record in the communicator's own stream.
constexpr std::int64_t kNcclCalls = 3, kNcclOwnCalls = 2;

// The number of communicator ids made and broadcast at once: NCCL keeps a socket and a thread for
// each id until all members have joined.
constexpr std::size_t kIdsAtOnce = 64;

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
        nccl_communicators_(nccl_communicators(program, plan, options.transfers)) {
    for (const Rank rank : plan.local_ranks) queues_.emplace_back(program.body_of(rank));
  }

  Status run() {
    ASSIGN_OR_RETURN(const GpuShare share,
                     gpu_.open({&program_, &plan_, options_,
                                [this](std::int32_t number) { return id_of(number); },
                                [this] { ++header(0).steps; }}));  // progress for the watchdog
    while (ids_.size() < program_.communicators.size()) RETURN_IF_ERROR(agree_on_ids());
    add_note(note(share));
    header(0).shares_queues = shares_queues() ? 1 : 0;
    header(0).heeds_stop = 1;  // wait_for_end() polls header(0).stop
    ASSIGN_OR_RETURN(header(0).before, compare_clocks());
    const int warmup = std::max(1, options_.warmup);
    RETURN_IF_ERROR(play(0, -warmup));
    RETURN_IF_ERROR(choose_launch());
    for (int number = 1; number < warmup + options_.iterations; ++number)
      RETURN_IF_ERROR(play_or_fall_back(number, number - warmup));
    if (control_ != nullptr) RETURN_IF_ERROR(control_->barrier());
    ASSIGN_OR_RETURN(header(0).after, compare_clocks());
    return Done{};
  }

 private:
  const Body& body(std::size_t local_rank) const {
    return program_.body_of(plan_.local_ranks[local_rank]);
  }
  RunState::Header& header(std::size_t local_rank) { return states_[local_rank]->header(); }
  const GpuOpEvents& events(std::size_t local_rank, std::uint32_t op) const {
    return plan_.op_events[local_rank][op];
  }

  // Returns whether `own` is true on any rank. All processes call it.
  Result<bool> any(bool own) { return control_ == nullptr ? own : control_->any(own); }
  Result<ClockReading> compare_clocks() {
    return control_ == nullptr ? ClockReading{} : control_->compare_clocks();
  }
  bool shares_queues() const {
    return plan_.streams.size() + nccl_communicators_.size() > kHardwareQueues;
  }

  // Returns a communicator's id, which only members in several processes need.
  Result<GpuCommId> id_of(std::int32_t communicator) {
    if (control_ == nullptr) return GpuCommId{};
    while (ids_.size() <= static_cast<std::size_t>(communicator)) RETURN_IF_ERROR(agree_on_ids());
    return ids_[communicator];
  }

  // Makes the ids of the next communicators on rank 0 and broadcasts them to all ranks. This cannot
  // deadlock, as all ranks open communicators in the same order: a rank that waits here has opened
  // all its earlier communicators, so rank 0 does not wait for it in any of them, and comes here
  // too.
  Status agree_on_ids() {
    const std::size_t first = ids_.size();
    ids_.resize(std::min(first + kIdsAtOnce, program_.communicators.size()));
    if (control_ == nullptr) return Done{};
    const std::span batch = std::span(ids_).subspan(first);
    for (std::size_t i = 0; i < batch.size() && control_->rank() == 0; ++i) {
      if (program_.communicators[first + i].members.size() < 2) continue;
      ASSIGN_OR_RETURN(batch[i], gpu_.make_id());
    }
    return control_->broadcast(std::as_writable_bytes(batch));
  }

  // Returns the most calls that an iteration puts into one hardware queue.
  std::int64_t longest_queue() const {
    std::array<std::int64_t, kHardwareQueues> calls{};
    const auto calls_of = [&](std::size_t stream) -> std::int64_t& {
      return calls[stream % kHardwareQueues];
    };
    for (const GpuCall& call : plain_) {
      const auto stream = static_cast<std::size_t>(call.stream);
      if (!is_by_nccl(call, options_.transfers)) {
        calls_of(stream) += call.verb == GpuVerb::Compute ? gpu_.launches(call) : 1;
        continue;
      }
      calls_of(stream) += kNcclCalls;
      const std::vector<std::int32_t>& all = nccl_communicators_;
      const auto own = std::ranges::lower_bound(all, communicator_of(program_, plan_, call));
      calls_of(plan_.streams.size() + static_cast<std::size_t>(own - all.begin())) += kNcclOwnCalls;
    }
    return std::ranges::max(calls);
  }

  // Chooses how iterations after the first are launched. If the queues of one rank are too short,
  // all ranks change: NCCL wants all members of a communicator to capture, or none. A graph that
  // the user asked for is captured by issue().
  Status choose_launch() {
    launch_ = options_.launch;
    if (launch_ != GpuLaunch::Gated) return Done{};
    ASSIGN_OR_RETURN(const bool is_full, any(longest_queue() > options_.gate_calls));
    if (!is_full) return Done{};
    return launch_otherwise(fmt::format("its queues hold {} calls", options_.gate_calls));
  }

  // Chooses a launch without the gate. Over several GPUs that is a graph if it can be captured, as
  // NCCL starts a thread for each operation that is launched directly on a nonblocking
  // communicator. On one GPU it is a direct launch, as a graph may not keep the ranks on their own
  // SMs.
  Status launch_otherwise(const std::string& why) {
    launch_ = GpuLaunch::Direct;
    std::string launch = "launched directly";
    if (!plan_.all_ranks_are_local()) {
      const Status captured = gpu_.capture(plain_);
      ASSIGN_OR_RETURN(const bool failed, any(!captured.ok()));
      if (!failed) {
        launch_ = GpuLaunch::Graph;
        launch = "launched as a graph";
      } else if (captured.ok()) {
        launch += ", as another rank has no graph";
      } else {
        launch += ", without a graph (" + captured.error().text() + ")";
      }
    }
    add_note(fmt::format(", {}: {}", launch, why));
    return Done{};
  }

  void add_note(const std::string& text) {
    char* const note = header(0).note;
    std::strncat(note, text.c_str(), sizeof header(0).note - 1 - std::strlen(note));
  }

  std::string note(const GpuShare& share) const {
    const GpuFacts& facts = gpu_.facts();
    std::string text = fmt::format("{}, driver {}, CUDA {}, NCCL {}, cuBLAS {}", facts.name,
                                   facts.driver, facts.runtime, facts.nccl, facts.cublas);
    if (plan_.all_ranks_are_local() && share.disjoint)
      text += fmt::format(", {} SMs a rank",
                          fmt::join(std::set(share.sms.begin(), share.sms.end()), " or "));
    if (!share.note.empty()) text += ", " + share.note;
    if (shares_queues())
      text +=
          fmt::format(", {} streams and {} of NCCL's share {} queues and may hold each other up",
                      plan_.streams.size(), nccl_communicators_.size(), kHardwareQueues);
    return text;
  }

  // Plays an iteration. If the device's queues were too short for the gate, plays it again without.
  Status play_or_fall_back(int number, int iteration) {
    RETURN_IF_ERROR(play(number, iteration));
    if (launch_ != GpuLaunch::Gated) return Done{};
    ASSIGN_OR_RETURN(const bool is_full, any(!gpu_.held()));
    if (!is_full) return Done{};
    RETURN_IF_ERROR(launch_otherwise("its queues were full before all was asked for"));
    return play(number, iteration);
  }

  // Plays an iteration. `number` counts all iterations from 0. `iteration` counts those after the
  // warm-up from 0, and is negative during the warm-up.
  Status play(int number, int iteration) {
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

  // Issues an iteration's calls, and opens the gate together with all other ranks: before issuing
  // if the launch is direct, else afterwards.
  Status start(int number) {
    const bool is_first = number == 0;
    const std::vector<GpuCall>& calls = is_first ? plan_.calls : plain_;
    if (is_first || launch_ == GpuLaunch::Direct) {
      RETURN_IF_ERROR(open_gate());
      return gpu_.issue(calls, number, /*by_graph=*/false);
    }
    RETURN_IF_ERROR(gpu_.issue(calls, number, launch_ == GpuLaunch::Graph));
    return open_gate();
  }

  // Opens the gate when all ranks have come here.
  Status open_gate() {
    if (control_ != nullptr) RETURN_IF_ERROR(wait_for_start(control_, header(0).before.ahead_ns));
    ASSIGN_OR_RETURN(gate_ns_, gpu_.open_gate());
    return Done{};
  }

  // Polls the device until all ops have ended. Notes the times of ops on the way.
  Status wait_for_end() {
    Nanoseconds longest_op_ns = 0;
    for (const Body& each : program_.bodies) {
      for (const Op& op : each.ops) longest_op_ns = std::max(longest_op_ns, op.duration_ns);
    }
    progress_ns_ = now_ns();
    for (;; usleep(kPoll_us)) {
      ASSIGN_OR_RETURN(const bool done, gpu_.has_happened(plan_.done));
      for (std::size_t local_rank = 0; local_rank < states_.size(); ++local_rank)
        RETURN_IF_ERROR(note_progress(local_rank));
      if (done) return Done{};
      if (header(0).stop != 0) return Error{"was told to stop", Error::Failed};
      const Nanoseconds idle_ns = now_ns() - progress_ns_;
      if (control_ == nullptr && idle_ns > options_.timeout_ns + longest_op_ns) return stuck();
    }
  }

  // Notes the times of the ops that have begun or ended since the last call.
  Status note_progress(std::size_t local_rank) {
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
        ++header(local_rank).steps;
        progress_ns_ = now_ns();
      }
    }
    return Done{};
  }

  // Returns when the last op that this op waits for on its own rank had ended.
  Nanoseconds ready_ns(std::size_t local_rank, std::uint32_t op) const {
    const Op& own = body(local_rank).ops[op];
    const LaneQueues& queues = queues_[local_rank];
    Nanoseconds ready = gate_ns_;
    if (const std::uint32_t place = queues.place[op]; place > 0)
      ready = std::max(ready, times_[local_rank][queues.lanes[own.lane][place - 1]].end_ns);
    for (const std::uint32_t wait : body(local_rank).waits_of(own))
      ready = std::max(ready, times_[local_rank][wait].end_ns);
    return ready;
  }

  // Sets the arrivals of members at communications among local ranks. The members share one begin
  // event, which gives only the arrival of the last member. Each other member arrived when the last
  // op that it waited for had ended. Example: the shared event began at 9.1 ms. Rank 0's inputs had
  // ended at 5 ms and rank 1's at 9 ms: rank 0 arrived at 5 ms, rank 1, the last, at 9.1 ms.
  void set_arrivals() {
    if (!plan_.all_ranks_are_local()) return;
    std::map<std::int32_t, Nanoseconds> latest;  // by begin event: the last member's ready_ns()
    // Calls act(times, begin event, ready_ns) for each communication op that has begun.
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

  Status check_payloads() {
    for (const GpuCall& call : plan_.calls)
      header(static_cast<std::size_t>(std::max(call.local_rank, 0))).payloads_checked +=
          call.verb == GpuVerb::Check;
    ASSIGN_OR_RETURN(const std::vector<GpuFault> faults, gpu_.faults());
    if (faults.empty()) return Done{};
    const GpuFault& first = faults.front();
    return Error{
        fmt::format("received other bytes in {} of rank {} than should have been sent: {} of {} "
                    "words checked are wrong",
                    describe(body(first.local_rank), body(first.local_rank).ops[first.op]),
                    index(plan_.local_ranks[first.local_rank]), first.wrong, first.checked),
        Error::Failed};
  }

  Error stuck() const {
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

  const Program& program_;
  const ExecOptions& options_;
  const GpuPlan& plan_;
  Gpu& gpu_;
  Control* control_;
  RunStates states_;
  std::vector<LaneQueues> queues_;  // by local rank
  std::vector<GpuCall> plain_;      // the plan's calls without checks
  std::vector<std::int32_t> nccl_communicators_;
  std::vector<std::span<OwnTimes>> times_;  // by local rank: times of this iteration
  std::vector<GpuCommId> ids_;              // ids of the Program's first communicators
  GpuLaunch launch_ = GpuLaunch::Gated;     // of all iterations but the first
  Nanoseconds gate_ns_ = 0;                 // when the gate was opened, on this process's clock
  Nanoseconds progress_ns_ = 0;             // when polling began, or last found an op ended
};

}  // namespace

Status play_gpu(const Program& program, const ExecOptions& options, const GpuPlan& plan, Gpu* gpu,
                Control* control, RunStates states) {
  const Status played = GpuExecutor(program, options, plan, gpu, control, states).run();
  if (played.ok()) return played;
  Error error = played.error();  // if it plays one rank, the coordinator names that rank
  const bool names_rank = error.message.find("rank") != std::string::npos;
  if (plan.all_ranks_are_local() && error.kind == Error::Failed && !names_rank)
    error.message += fmt::format(" (ranks 0 to {})", plan.local_ranks.size() - 1);
  for (RunState* state : states) state->fail(error);  // before other ranks notice
  gpu->abort();
  return error;
}

}  // namespace tandem
