// Hands execute_ranks() two functions: one opens the plugin's Transport, by which the ranks of a
// job meet, and the other plays a rank over it. Also starts the ranks by mpirun.
#include "exec/mpi/mpi.h"

#include <fmt/format.h>

#include <limits>
#include <memory>

#include "base/plugin.h"
#include "exec/mpi/rank_executor.h"
#include "exec/mpi/transport.h"
#include "exec/supervise/ranks.h"
#include "launch/launch.h"
#include "launch/rendezvous.h"
#include "launch/secret.h"
#include "launch/tcp_control.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

Result<MakeTransport> open_plugin() {
  const auto symbol = plugin_symbol("libtandem_mpi.so", kTransportSymbol, /*global=*/true);
  if (symbol.ok()) return reinterpret_cast<MakeTransport>(*symbol);
  return symbol.error();
}

Error unavailable(const Error& why) {
  return Error{
      fmt::format("the mpi backend is unavailable: {}; --backend host needs no MPI", why.text()),
      Error::Missing};
}

// Refuses messages that are too long for MPI, which counts words as int.
Status check_sizes(const Program& program) {
  constexpr Bytes kMost = Bytes{std::numeric_limits<int>::max()} * Bytes{sizeof(float)};
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

// Starts the ranks by mpirun, and waits for their ends. Returns true when they have played, or the
// Error that mpirun's exit status stands for; false, and starts nothing, if this process is itself
// a rank of mpirun, which forbids that.
Result<bool> start_by_mpirun(int ranks, const ExecOptions&) {
  const std::optional<LaunchedRank> launched = launched_rank();
  if (launched && launched->family != "Slurm" && launched->family != "torchrun") return false;
  RETURN_IF_ERROR(mpi_available());
  const Result<int> mpirun_status = run_mpirun(ranks);
  return ranks_ended(mpirun_status);
}

std::string mpi_state() {
  const Status mpi = mpi_available();
  return mpi.ok() ? "ready" : mpi.error().text();
}

constexpr BackendNeed kMpiNeeds[] = {
    {"mpirun", "mpirun", /*is_program=*/true, "run --backend mpi"}};

}  // namespace

// Declared in exec/mpi/transport.h.
Result<std::unique_ptr<Transport>> open_mpi(const LaunchedRank& own) {
  ASSIGN_OR_RETURN(const MakeTransport make_transport, open_plugin());
  if (own.ranks == 1) prepare_only_rank();  // Open MPI then starts without its daemon
  std::unique_ptr<Transport> transport(make_transport());
  if (transport->rank() == own.rank && transport->ranks() == own.ranks) return transport;
  const Error other_mpi{
      fmt::format("found rank {} of {} by MPI, expected rank {} of {} as {} says: is it started by "
                  "another MPI's mpirun?",
                  transport->rank(), transport->ranks(), own.rank, own.ranks, own.family)};
  (void)transport.release();  // closing it would wait for the others
  return other_mpi;
}

Result<std::optional<Execution>> execute_mpi(const Program& program, const ExecOptions& options) {
  Transport* transport = nullptr;  // set by `join` and used by `play`, both in the forked child
  const auto join = [&](const LaunchedRank& own) -> Result<std::unique_ptr<Control>> {
    auto opened = open_mpi(own);
    if (!opened.ok() && opened.error().kind == Error::Missing) return unavailable(opened.error());
    if (!opened.ok()) return opened.error();
    transport = opened->get();
    return std::unique_ptr<Control>(std::move(*opened));
  };
  const auto play = [&](const LaunchedRank& own, Control*, RunState* state) {
    return play_rank(program, options, own.local_rank, transport, state);
  };
  RETURN_IF_ERROR(check_sizes(program));
  return execute_ranks(program, options,
                       {.name = "mpi",
                        .real = what_is_real(options),
                        .launcher = fmt::format("mpirun -np {} tandem ...", program.ranks.size()),
                        .rendezvous_by = "MPI",
                        .join = join,
                        .play = play});
}

Status mpi_available() {
  const auto plugin = open_plugin();
  if (!plugin.ok()) return unavailable(plugin.error());
  return Done{};
}

Result<std::unique_ptr<Control>> join_ranks(const LaunchedRank& own, Nanoseconds timeout_ns) {
  if (own.ranks == 1) return join_tcp(own, {}, timeout_ns);
  // environment_with_secret: the environment, with TANDEM_SECRET, which was taken out of it.
  ASSIGN_OR_RETURN(Rendezvous rendezvous, rendezvous_of(environment_with_secret));
  if (!rendezvous.host.empty()) {
    ASSIGN_OR_RETURN(rendezvous.secret, job_secret(environment_with_secret));
    return join_tcp(own, rendezvous, timeout_ns);
  }
  auto transport = open_mpi(own);
  if (transport.ok()) return std::unique_ptr<Control>(std::move(*transport));
  if (transport.error().kind != Error::Missing) return transport.error();
  return Error{fmt::format("found no MASTER_ADDR and no MPI ({}), expected mpirun -x MASTER_ADDR "
                           "-x MASTER_PORT ... or libtandem_mpi.so",
                           transport.error().text()),
               Error::Missing};
}

Backend mpi_backend() {
  return {.name = "mpi",
          .ranks_are = "a process a rank",
          .own_processes = true,
          .needs = kMpiNeeds,
          .state = mpi_state,
          .execute = execute_mpi,
          .start = start_by_mpirun};
}

}  // namespace tandem
