#include "validation/microbench/comm_run.h"

#include <fmt/format.h>

#include <set>
#include <sstream>
#include <utility>

#include "base/parallel/parallel.h"
#include "exec/execute.h"
#include "schedule/program/validate.h"
#include "sim/engines.h"

namespace tandem {
namespace {

// The results of one backend.
struct Blocks {
  std::string backend;
  std::string real;             // which parts of the run were real, and not emulated
  bool checked = false;         // the received data was compared with the sent data
  std::vector<double> seconds;  // of one operation, by test and size
};

// Plays on SimGrid, in a process of its own: SimGrid can be used only once in a process.
Result<Blocks> simulated(const CommBench& bench, const Program& program, const Cluster& cluster,
                         const Placement& placement) {
  const auto texts = fork_map(1, 1, [&](int) -> Result<std::string> {
    ASSIGN_OR_RETURN(const Trace trace, simgrid(program, cluster, placement));
    std::string text;
    for (const double seconds : comm_seconds(bench, program, trace))
      text += fmt::format("{:.17g} ", seconds);
    return text;
  });
  if (!texts[0].ok()) return texts[0].error();
  Blocks blocks{"simgrid", "nothing: simulated", false, {}};
  std::istringstream words(*texts[0]);
  for (double seconds = 0; words >> seconds;) blocks.seconds.push_back(seconds);
  return blocks;
}

// Plays on a backend, once: the warm-up is part of the Program.
Result<std::optional<Blocks>> executed(const CommBench& bench, const Program& program,
                                       const Backend& backend, ExecOptions exec) {
  exec.warmup = 0;
  exec.iterations = 1;
  ASSIGN_OR_RETURN(const std::optional<Execution> execution, execute(program, backend, exec));
  if (!execution) return std::optional<Blocks>();
  if (!execution->failure.empty()) return Error{execution->failure, Error::Failed};
  return std::optional(Blocks{execution->backend, execution->real, true,
                              comm_seconds(bench, program, execution->iterations[0])});
}

Result<std::optional<Blocks>> play(const CommBench& bench, const Program& program,
                                   const Backend* backend, const Cluster& cluster,
                                   const Placement& placement, const ExecOptions& exec) {
  if (backend != nullptr) return executed(bench, program, *backend, exec);
  ASSIGN_OR_RETURN(Blocks blocks, simulated(bench, program, cluster, placement));
  return std::optional(std::move(blocks));
}

}  // namespace

Result<std::optional<CommResult>> run_comm_bench(const CommBench& bench, const Backend* backend,
                                                 const Cluster& cluster, const Placement& placement,
                                                 ExecOptions exec) {
  Program program = comm_program(bench);
  price(&program, cluster, placement);
  RETURN_IF_ERROR(validate(program));
  ASSIGN_OR_RETURN(std::optional<Blocks> blocks,
                   play(bench, program, backend, cluster, placement, exec));
  if (!blocks) return std::optional<CommResult>();
  std::vector<int> nodes;
  for (const CommTest& test : bench.tests) {
    std::set<NodeId> own;
    for (const Rank member : test.members) own.insert(cluster.node_of(placement[index(member)]));
    nodes.push_back(static_cast<int>(own.size()));
  }
  return std::optional(CommResult{std::move(blocks->backend), cluster.spec().name,
                                  std::move(blocks->real), blocks->checked,
                                  comm_tables(bench, nodes, blocks->seconds)});
}

}  // namespace tandem
