// The simgrid engine: a Playback whose flows SimGrid solves. SimGrid itself is in a plugin.
// Declared in sim/engines.h.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/plugin.h"
#include "sim/engines.h"
#include "sim/lockstep.h"
#include "sim/playback.h"
#include "sim/trace_of.h"

namespace tandem {
namespace {

Result<MakeFlowSolver> open_plugin() {
  const auto symbol = plugin_symbol("libtandem_simgrid.so", kSolverSymbol);
  if (symbol.ok()) return reinterpret_cast<MakeFlowSolver>(*symbol);
  return Error{fmt::format("the simgrid engine is unavailable: {}; --engine ideal needs no SimGrid",
                           symbol.error().text()),
               Error::Missing};
}

}  // namespace

Status simgrid_available() {
  const auto plugin = open_plugin();
  if (!plugin.ok()) return plugin.error();
  return Done{};
}

void open_ahead(Engine engine) {
  if (engine == Engine::SimGrid) (void)open_plugin();  // the run itself reports what is missing
}

Result<Trace> simgrid(const Program& program, const Cluster& cluster, const Placement& placement,
                      const SimOptions& options) {
  ASSIGN_OR_RETURN(const MakeFlowSolver make_solver, open_plugin());
  // If ranks stay in lock step (lockstep.h), the folded Program is played on a smaller network in
  // which one link stands for a class of links. Otherwise all ranks are played on the cluster's own
  // links.
  std::optional<LockStep> folded;
  if (options.folded()) folded = lock_step(program, cluster, placement);
  const RankFolding folding = folded ? folded->folding : unfold(program);
  std::vector<double> link_bytes_per_s;
  if (folded) {
    link_bytes_per_s = folded->link_bytes_per_s;
  } else {
    for (int i = 0; i < cluster.links(); ++i)
      link_bytes_per_s.push_back(cluster.link(static_cast<LinkId>(i)).bytes_per_s);
  }
  const TrafficOf traffic_on = [&](std::int32_t comm_class, const CommUse& use) {
    if (folded) return folded->traffic.at({comm_class, use});
    return traffic_of(program, folding.comm_classes[comm_class].communicators.front(), use, cluster,
                      placement);
  };
  Playback playback(program, folding, traffic_on, link_bytes_per_s,
                    {.jitter = {options.jitter, options.seed},
                     // A closed form assumes that a link's bandwidth does not change.
                     .closed_forms = options.closed_forms && options.link_changes.empty(),
                     .on_progress = options.on_progress});
  FlowNetwork network = playback.network();
  network.changes = options.link_changes;
  const std::unique_ptr<FlowSolver> solver(make_solver(network));
  ASSIGN_OR_RETURN(Replay played, playback.run(solver.get()));
  return trace_of(program, folding, std::move(played), "simgrid", options);
}

}  // namespace tandem
