// The simulators: each plays a Program and returns its Trace.
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
std::string engine_name(Engine engine);  // "ideal", "simgrid"

struct SimOptions {
  // Standard deviation of the logarithm of a log-normal factor of mean 1, which multiplies each
  // compute op's duration. The factor is drawn from (seed, rank, op): the same on every engine.
  double jitter = 0;
  std::uint64_t seed = 1;
  bool fold = true;  // plays one rank for each class of equal ranks; off by itself where jitter > 0
  // simgrid: operations alone on their links, or sharing them evenly, skip the solver; see
  // playback.h.
  bool closed_forms = true;
  // simgrid: links whose bandwidth changes, in order of time. Where there are any, nothing is
  // folded and all flows go through the solver.
  std::vector<LinkChange> link_changes;
  // simgrid: called now and then with the number of ops played since its last call.
  std::function<void(std::int64_t ops)> on_progress = [](std::int64_t) {};

  bool folded() const { return fold && jitter == 0 && link_changes.empty(); }
};

// Plays without link contention: every communication takes as long as it does alone. This is one
// pass over the ops, or a discrete-event simulation where communication takes SMs from compute.
Result<Trace> ideal(const Program& program, const SimOptions& options = {});

// Plays with link contention: flows that share a link share its bandwidth, by SimGrid's fluid
// model. Opens the plugin libtandem_simgrid.so; Error::Missing if that fails. A process can call it
// once only: fork for more.
Result<Trace> simgrid(const Program& program, const Cluster& cluster, const Placement& placement,
                      const SimOptions& options = {});

// Calls ideal() or simgrid().
Result<Trace> play(Engine engine, const Program& program, const Cluster& cluster,
                   const Placement& placement, const SimOptions& options = {});

// Returns an error that says why if the plugin does not open.
Status simgrid_available();

// Opens the engine's libraries before processes are forked, so that those share them: SimGrid takes
// longer to open than a small run takes to play.
void open_ahead(Engine engine);

}  // namespace tandem
