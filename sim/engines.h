// The simulators: Program -> Trace.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/lowering/price.h"
#include "schedule/program/program.h"
#include "sim/flows.h"
#include "topology/cluster.h"
#include "traces/trace.h"

namespace tandem {

enum class Engine { Ideal, SimGrid };
std::string name(Engine engine);  // "ideal", "simgrid"

struct SimOptions {
  // Each compute op takes its duration times a log-normal factor of mean 1 and this standard
  // deviation (of its logarithm), drawn from (seed, rank, op): the same on every engine.
  double jitter = 0;
  std::uint64_t seed = 1;
  bool fold = true;  // one rank for each class of equal ranks; unfolds by itself where jitter > 0
  // simgrid: operations alone on their links, or even there, skip the solver; see playback.h.
  bool closed_forms = true;
  // simgrid: links whose bandwidth changes, in order of time; unfolds by itself, and all goes
  // through the solver.
  std::vector<LinkChange> link_changes;
  // simgrid: told now and then how many ops were played since it was told last.
  std::function<void(std::int64_t ops)> on_progress = [](std::int64_t) {};

  bool folded() const { return fold && jitter == 0 && link_changes.empty(); }
};

// No link contention: every communication takes its duration when alone. One pass over the ops, in
// order of time only where communication takes SMs from the compute beside it.
Result<Trace> ideal(const Program& program, const SimOptions& options = {});

// Flows that share a link share its bandwidth, as SimGrid's fluid model has it. Opens the plugin
// libtandem_simgrid.so; Error::Missing where it cannot. One use a process: fork for more.
Result<Trace> simgrid(const Program& program, const Cluster& cluster, const Placement& placement,
                      const SimOptions& options = {});

// By the one or the other.
Result<Trace> play(Engine engine, const Program& program, const Cluster& cluster,
                   const Placement& placement, const SimOptions& options = {});

// Whether the plugin opens; else why not.
Status simgrid_available();

// Opens what the engine needs for all processes that are forked from now on: SimGrid and its
// libraries take longer to open than a small run to play.
void open_ahead(Engine engine);

}  // namespace tandem
