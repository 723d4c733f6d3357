#include "exec/host/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "exec/compute/gemm.h"
#include "exec/host/host_loop.h"
#include "launch/clock.h"

namespace tandem {
namespace {

// Returns which parts of a run are measured and which are emulated, for the trace's meta lines.
std::string what_is_real(const ExecOptions& options) {
  if (options.compute == Compute::Timed)
    return "measured: when ops ran, and their payloads; emulated-compute: priced durations; "
           "emulated-link: priced durations";
  const std::string scale =
      options.gemm_scale == 1 ? "" : fmt::format(" of {:g} times the sizes", options.gemm_scale);
  return fmt::format(
      "measured: when ops ran, and their payloads; compute: matrix products{} on "
      "this machine's cores; emulated-link: priced durations",
      scale);
}

// Opens a unit for each rank, which carries out its compute ops; none if compute is timed.
Result<std::vector<std::unique_ptr<GemmUnit>>> open_units(const Program& program,
                                                          const ExecOptions& options) {
  std::vector<std::unique_ptr<GemmUnit>> units;
  if (options.compute == Compute::Timed) return units;
  const int ranks = static_cast<int>(program.ranks.size());
  for (int rank = 0; rank < ranks; ++rank) {
    ASSIGN_OR_RETURN(units.emplace_back(),
                     GemmUnit::open(program, program.ranks[rank].body, options.gemm_scale,
                                    options.seed + static_cast<std::uint64_t>(rank), rank, ranks));
  }
  return units;
}

Result<std::optional<Execution>> on_host(const Program& program, const ExecOptions& options) {
  ASSIGN_OR_RETURN(Execution execution, execute_host(program, options));
  return std::optional(std::move(execution));
}

}  // namespace

Result<Execution> execute_host(const Program& program, const ExecOptions& options) {
  ASSIGN_OR_RETURN(const auto units, open_units(program, options));
  const ExactSleep exact_sleep;
  Execution execution;
  execution.backend = "host";
  execution.real = what_is_real(options);
  HostLoop loop(program, options, units);
  for (int i = 0; i < options.warmup + options.iterations; ++i) {
    execution.failure = loop.play(i);
    if (i < options.warmup && execution.failure.empty()) continue;
    Trace& trace = execution.iterations.emplace_back(trace_of(program, loop.recording()));
    trace.meta = meta_lines(program, {execution.backend, execution.real, options.seed,
                                      std::max(0, i - options.warmup + 1), options.iterations,
                                      execution.failure.empty()});
    if (!execution.failure.empty()) break;
  }
  execution.payloads_checked = loop.payloads_checked();
  execution.late = loop.late();
  return execution;
}

Backend host_backend() {
  return {.name = "host",
          .ranks_are = "one process plays all ranks, links are emulated",
          .state = [] { return std::string("ready"); },
          .execute = on_host};
}

}  // namespace tandem
