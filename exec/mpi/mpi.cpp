// The mpi backend: ranks meet and send messages by MPI, which a plugin wraps.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "base/plugin.h"
#include "exec/execute.h"
#include "exec/mpi/rank_executor.h"
#include "exec/mpi/transport.h"
#include "exec/supervise/ranks.h"
#include "launch/launch.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

Result<MakeTransport> open_plugin() {
  const auto symbol = plugin_symbol("libtandem_mpi.so", kTransportSymbol, true);
  if (symbol.ok()) return reinterpret_cast<MakeTransport>(*symbol);
  return symbol.error();
}

Error unavailable(const Error& why) {
  return Error{
      fmt::format("the mpi backend is unavailable: {}; --backend host needs no MPI", why.text()),
      Error::Missing};
}

// Refuses messages that are too long for MPI, which counts words in ints.
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

}  // namespace

Result<std::unique_ptr<Transport>> open_mpi(const LaunchedRank& own) {
  ASSIGN_OR_RETURN(const MakeTransport make_transport, open_plugin());
  if (own.ranks == 1) prepare_only_rank();
  std::unique_ptr<Transport> transport(make_transport());
  if (transport->rank() == own.rank && transport->ranks() == own.ranks) return transport;
  const Error strange{
      fmt::format("found rank {} of {} by MPI, expected rank {} of {} as {} says: is it started by "
                  "another MPI's mpirun?",
                  transport->rank(), transport->ranks(), own.rank, own.ranks, own.family)};
  (void)transport.release();  // closing it would wait for the others
  return strange;
}

Result<std::optional<Execution>> execute_mpi(const Program& program, const ExecOptions& options) {
  Transport* transport = nullptr;  // the child's
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
  return execute_ranks(
      program, options,
      {"mpi", what_is_real(options), fmt::format("mpirun -np {} tandem ...", program.ranks.size()),
       "MPI", join, play});
}

Status mpi_available() {
  const auto plugin = open_plugin();
  if (!plugin.ok()) return unavailable(plugin.error());
  return Done{};
}

}  // namespace tandem
