// The interface between a playback and the solver that shares the links' bandwidth among flows.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tandem {

// Receives the solver's events in order of time.
class FlowListener {
 public:
  virtual ~FlowListener() = default;
  virtual void on_wake(Nanoseconds now) = 0;  // at the time that wake_at asked for
  virtual void on_flow_end(std::int32_t flow, Nanoseconds now) = 0;
};

// A link's bandwidth from `at_ns` on.
struct LinkChange {
  Nanoseconds at_ns = 0;
  std::int32_t link = 0;
  double bytes_per_s = 0;
};

// Links and the routes over them, all known before the first flow.
struct FlowNetwork {
  std::vector<double> bytes_per_s;                // by link
  std::vector<std::vector<std::int32_t>> routes;  // links, by route
  std::vector<double> route_limits;  // bytes/s that a flow over the route gets at most; 0: none
  std::vector<LinkChange> changes;   // in order of time
};

// A clock and the flows in flight. Flows that share a link share its bandwidth max-min fairly; no
// flow gets more than its route's limit.
class FlowSolver {
 public:
  virtual ~FlowSolver() = default;

  // Starts a flow. REQUIRES: called from a FlowListener, or before run().
  virtual void start(std::int32_t flow, std::int32_t route, double bytes) = 0;
  // Asks for on_wake at `time`. A later call replaces an earlier one that is still outstanding.
  virtual void wake_at(Nanoseconds time) = 0;
  // Runs until no flow is in flight and no wake is outstanding.
  virtual void run(FlowListener* listener) = 0;
};

// The name and type of the function that libtandem_simgrid.so exports.
constexpr const char* kSolverSymbol = "tandem_make_flow_solver";
using MakeFlowSolver = FlowSolver* (*)(const FlowNetwork& network);

}  // namespace tandem
