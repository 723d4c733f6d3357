// Plays a run that has a process for each rank. Each process forks: the child joins the others and
// plays, the parent watches it (watch()). On rank 0 a thread of the parent is the coordinator. The
// child shows its progress and times in a RunState that it shares with the parent.
#include "exec/supervise/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

#include "base/memory.h"
#include "exec/recording.h"
#include "exec/supervise/watchdog.h"
#include "launch/clock_map.h"
#include "launch/exit_status.h"
#include "launch/secret.h"

namespace tandem {
namespace {

// The address at which the coordinator listens, and the run's key.
struct CoordinatorAddress {
  char address[sizeof(RunState::Header::coordinator)] = "";
  Digest run{};
};

// Opens the coordinator's listener, and chooses the run's key.
Result<Listener> listen(int ranks, CoordinatorAddress* coordinator) {
  ASSIGN_OR_RETURN(
      Listener listener,
      listen_on(ranks == 1 ? loopback_alone() : chosen_interfaces(environment_with_secret)));
  static_assert(kMostAddress < sizeof coordinator->address);
  std::ranges::copy(listener.address, coordinator->address);
  coordinator->run = random_digest();
  return listener;
}

// Passes rank 0's CoordinatorAddress to all ranks, waits until all have joined, and plays.
Status play(const RanksBackend& backend, const LaunchedRank& own, CoordinatorAddress coordinator,
            Control* control, RunState* state) {
  RunState::Header& header = state->header();
  if (own.rank == 0) header.phase = Phase::Joined;  // the broadcast waits for the others
  RETURN_IF_ERROR(control->broadcast(std::as_writable_bytes(std::span(&coordinator, 1))));
  std::memcpy(header.coordinator, coordinator.address, sizeof header.coordinator);
  header.run = coordinator.run;
  header.phase = Phase::Joined;
  constexpr useconds_t kPoll_us = 1000;
  while (header.go == 0) usleep(kPoll_us);
  header.phase = Phase::Playing;
  RETURN_IF_ERROR(backend.play(own, control, state));
  header.phase = Phase::Ended;
  return Done{};
}

// Joins and plays in the child. Returns its exit status.
int play_in_child(const RanksBackend& backend, const LaunchedRank& own,
                  const CoordinatorAddress& coordinator, RunState* state) {
  Status status = Done{};
  std::unique_ptr<Control> control;
  try {
    auto joined = backend.join(own);
    if (joined.ok()) control = std::move(*joined);
    status = control ? play(backend, own, coordinator, control.get(), state) : joined.error();
  } catch (const std::bad_alloc&) {
    status = out_of_memory();
  }
  if (status.ok()) return 0;
  state->fail(status.error());
  (void)control.release();  // closing it would wait for ranks that wait for this one
  return exit_status(status.error());
}

Recording recording_of(const Program& program, RunEnd* run_end, int iteration) {
  Recording recording;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    auto& state = run_end->states[rank];
    std::vector<OwnTimes>& times =
        recording.emplace_back(program.body_of(static_cast<Rank>(rank)).ops.size());
    if (!state) continue;
    const ClockMap map(state->header().before, state->header().after);
    std::ranges::transform(state->times(iteration), times.begin(), [&](const OwnTimes& own) {
      return OwnTimes{map(own.arrive_ns), map(own.end_ns)};
    });
  }
  return recording;
}

// Returns the iteration of the slowest rank that has answered, counted from 1; 0: a warm-up.
int iteration_under_way(const ExecOptions& options, const RunEnd& run_end) {
  int least = options.warmup + options.iterations;
  for (const auto& state : run_end.states) {
    if (state) least = std::min(least, static_cast<int>(state->header().iteration) + 1);
  }
  return std::max(0, least - options.warmup);
}

// Returns Execution::real: the backend's text and rank 0's note.
std::string what_is_real(const RanksBackend& backend, const RunEnd& run_end) {
  const auto& first = run_end.states.front();
  const std::string note = first ? first->header().note : "";
  return note.empty() ? backend.real : backend.real + "; " + note;
}

}  // namespace

Execution assemble(const Program& program, const ExecOptions& options, const RanksBackend& backend,
                   RunEnd run_end) {
  Execution execution;
  execution.backend = backend.name;
  execution.real = what_is_real(backend, run_end);
  execution.failure = run_end.failure;
  bool all_answered = true;
  for (const auto& state : run_end.states) {
    all_answered &= state.has_value();
    if (!state) continue;
    const RunState::Header& own = state->header();
    execution.payloads_checked += own.payloads_checked;
    execution.shares_queues |= own.shares_queues != 0;
    if (own.late.share >= execution.late.share) execution.late = own.late;
  }
  // The last iteration of a failed run is partial. `iteration` counts from 1, and is 0 for a
  // warm-up that failed, of which the partial Trace is then the only one. RunState counts the
  // iterations that it keeps from 0, so both 0 and 1 are `kept` 0.
  const bool failed = !run_end.failure.empty();
  const int last = failed ? iteration_under_way(options, run_end) : options.iterations;
  for (int iteration = std::min(1, last); iteration <= last; ++iteration) {
    const int kept = std::max(0, iteration - 1);
    Trace& trace =
        execution.iterations.emplace_back(trace_of(program, recording_of(program, &run_end, kept)));
    const bool is_partial = failed && iteration == last;
    trace.meta = meta_lines(program, {backend.name, execution.real, options.seed, iteration,
                                      options.iterations, all_answered && !is_partial});
  }
  return execution;
}

Result<std::optional<Execution>> execute_ranks(const Program& program, const ExecOptions& options,
                                               const RanksBackend& backend) {
  environment_secret();  // takes it out of the environment, before this forks
  const std::optional<LaunchedRank> launched = launched_rank();
  const LaunchedRank own = launched.value_or(
      LaunchedRank{.rank = 0, .ranks = 1, .local_rank = 0, .family = "a start by itself"});
  const int ranks = static_cast<int>(program.ranks.size());
  if (own.ranks != ranks)
    return Error{fmt::format("found {} process{} ({}), expected {}, one a rank: {}", own.ranks,
                             own.ranks == 1 ? "" : "es", own.family, ranks, backend.launcher)};
  RunState state(program, program.ranks[own.rank].body, options.iterations);
  const HelloMessage hello{own.rank, 0, hash(program)};
  ASSIGN_OR_RETURN(const Hmac hmac, Hmac::open());
  CoordinatorAddress coordinator;
  Listener listener;
  if (own.rank == 0) {
    ASSIGN_OR_RETURN(listener, listen(ranks, &coordinator));
  }
  ChildProcess child([&] { return play_in_child(backend, own, coordinator, &state); });
  const ExternalStop external_stop(launched.has_value());
  const auto watch_child = [&] {
    return watch(hello, options, coordinator.address, coordinator.run, hmac, external_stop, &state,
                 &child);
  };
  if (own.rank != 0) {
    RETURN_IF_ERROR(watch_child());
    return std::optional<Execution>();
  }
  RunEnd run_end;
  std::thread coordinating([&] {
    AdmissionListener admission(std::move(listener), Secret(coordinator.run), hmac,
                                program.ranks.size());
    run_end = coordinate(program, options, hello, std::move(admission), external_stop,
                         backend.rendezvous_by);
  });
  (void)watch_child();  // the coordinator knows more of a failure
  coordinating.join();
  // Error::Failed: the run began and failed, or did not fail at all. Both have Traces.
  if (run_end.kind != Error::Failed) return Error{run_end.failure, run_end.kind};
  return std::optional(assemble(program, options, backend, std::move(run_end)));
}

Result<bool> ranks_ended(const Result<int>& status) {
  if (!status.ok()) return status.error();
  if (*status != 0) return ended_with(*status, "");
  return true;
}

}  // namespace tandem
