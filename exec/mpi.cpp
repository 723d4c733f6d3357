// The mpi backend: this process guards its rank, a child plays it, and rank 0 puts it all together.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>

#include "base/plugin.h"
#include "exec/clock_map.h"
#include "exec/execute.h"
#include "exec/guard.h"
#include "exec/launch.h"
#include "exec/rank_player.h"
#include "exec/recording.h"
#include "schedule/validate.h"

namespace tandem {
namespace {

// Where the front listens, and the run's number.
struct FrontAddress {
  char address[sizeof(RunState::Header::front)] = "";
  std::uint64_t run = 0;
};

Result<MakeTransport> open_plugin() {
  const auto symbol = plugin_symbol("libtandem_mpi.so", kTransportSymbol, true);
  if (symbol.ok()) return reinterpret_cast<MakeTransport>(*symbol);
  return Error{fmt::format("the mpi backend is unavailable: {}; --backend host needs no MPI",
                           symbol.error().message),
               Error::Missing};
}

// Joins all ranks, and plays once all are there.
Status play(const Program& program, const ExecOptions& options, const LaunchedRank& own,
            FrontAddress front, Transport* transport, RunState* state) {
  if (transport->rank() != own.rank || transport->ranks() != own.ranks)
    return Error{
        fmt::format("found rank {} of {} by MPI, expected rank {} of {} as {} says: is "
                    "it started by another MPI's mpirun?",
                    transport->rank(), transport->ranks(), own.rank, own.ranks, own.family)};
  RETURN_IF_ERROR(transport->broadcast(std::as_writable_bytes(std::span(&front, 1))));
  RunState::Header& header = state->header();
  std::memcpy(header.front, front.address, sizeof header.front);
  header.run = front.run;
  header.phase = Phase::Joined;
  constexpr useconds_t kPoll_us = 1000;
  while (header.go == 0) usleep(kPoll_us);
  header.phase = Phase::Playing;
  RETURN_IF_ERROR(play_rank(program, options, own.local_rank, transport, state));
  header.phase = Phase::Ended;
  return Done{};
}

// Plays in the child; its exit status.
int play_or_say_why(const Program& program, const ExecOptions& options, const LaunchedRank& own,
                    const FrontAddress& front, RunState* state) {
  Status status = Done{};
  std::unique_ptr<Transport> transport;
  try {
    const auto make_transport = open_plugin();
    if (make_transport.ok()) transport.reset((*make_transport)());
    status = transport ? play(program, options, own, front, transport.get(), state)
                       : make_transport.error();
  } catch (const std::bad_alloc&) {
    status =
        Error{"found no memory left, expected a smaller run or a larger machine", Error::Failed};
  }
  if (status.ok()) return 0;
  state->fail(status.error());
  (void)transport.release();  // closing it waits for the others, and they wait for this rank
  return status.error().kind;
}

Recording recording_of(const Program& program, Gathered* gathered, int iteration) {
  Recording recording;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    auto& state = gathered->states[rank];
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

// From 1: the iteration that the slowest rank is in, of those who told; 0: a warm-up.
int iteration_under_way(const ExecOptions& options, const Gathered& gathered) {
  int least = options.warmup + options.iterations;
  for (const auto& state : gathered.states) {
    if (state) least = std::min(least, static_cast<int>(state->header().iteration) + 1);
  }
  return std::max(0, least - options.warmup);
}

// MPI counts words in ints.
Status check_sizes(const Program& program) {
  constexpr Bytes kMost = Bytes{std::numeric_limits<int>::max()} * Bytes{sizeof(float)} / 2;
  for (const Body& body : program.bodies) {
    for (const Op& op : body.ops) {
      if (op.bytes > kMost)
        return Error{fmt::format("found {} bytes in {}, expected at most {} on mpi", op.bytes,
                                 describe(body, op), kMost)};
    }
  }
  return Done{};
}

std::string what_is_real(const ExecOptions& options) {
  const std::string real = options.compute == Compute::Gemm
                               ? "measured: matrix products by OpenBLAS, messages by MPI"
                               : "emulated-compute: priced durations; measured: messages by MPI";
  return real + (options.full_payload ? ", with the time to fill and check all of them" : "");
}

Execution assemble(const Program& program, const ExecOptions& options, Gathered gathered) {
  Execution execution;
  execution.backend = "mpi";
  execution.real = what_is_real(options);
  execution.failure = gathered.failure;
  for (auto& state : gathered.states)
    execution.payloads_checked += state ? state->header().payloads_checked : 0;
  const bool failed = !gathered.failure.empty();
  const int last = failed ? iteration_under_way(options, gathered) : options.iterations;
  const bool all_told = std::ranges::all_of(gathered.states, [](const auto& s) { return bool(s); });
  for (int i = 0; i < std::max(1, last); ++i) {
    Trace& trace =
        execution.iterations.emplace_back(trace_of(program, recording_of(program, &gathered, i)));
    const bool complete = all_told && (!failed || i + 1 < last);
    trace.meta = meta_lines(program, {"mpi", execution.real, options.seed, std::min(i + 1, last),
                                      options.iterations, complete});
  }
  return execution;
}

}  // namespace

Result<std::optional<Execution>> execute_mpi(const Program& program, const ExecOptions& options) {
  const std::optional<LaunchedRank> launched = launched_rank();
  const LaunchedRank own = launched.value_or(LaunchedRank{0, 1, 0, "a start by itself"});
  const int ranks = static_cast<int>(program.ranks.size());
  if (own.ranks != ranks)
    return Error{
        fmt::format("found {} process{} ({}), expected {}, one a rank: mpirun -np {} "
                    "tandem ...",
                    own.ranks, own.ranks == 1 ? "" : "es", own.family, ranks, ranks)};
  RETURN_IF_ERROR(check_sizes(program));
  RunState state(program, program.ranks[own.rank].body, options.iterations);
  HelloWord hello{own.rank, 0, hash(program)};
  FrontAddress front;
  Listener listener;
  if (own.rank == 0) {
    ASSIGN_OR_RETURN(listener, listen_anywhere());
    if (listener.address.size() >= sizeof front.address)
      return Error{fmt::format("found the addresses {}, expected fewer network interfaces",
                               listener.address)};
    std::ranges::copy(listener.address, front.address);
    std::random_device random;
    front.run = hello.run = std::uint64_t{random()} << 32 | random();
  }
  Child child([&] { return play_or_say_why(program, options, own, front, &state); });
  const Outside outside(launched.has_value());
  Gathered gathered;
  std::thread gathering;
  if (own.rank == 0)
    gathering = std::thread([&] { gathered = gather(program, options, hello, listener, outside); });
  const Status guarded = guard(hello, options, listener.address, outside, &state, &child);
  if (own.rank != 0) {
    if (!guarded.ok()) return guarded.error();
    return std::optional<Execution>();
  }
  gathering.join();
  if (gathered.kind != Error::Failed) return Error{gathered.failure, gathered.kind};
  return std::optional(assemble(program, options, std::move(gathered)));
}

Status mpi_available() {
  const auto plugin = open_plugin();
  if (!plugin.ok()) return plugin.error();
  return Done{};
}

}  // namespace tandem
