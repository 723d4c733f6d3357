// The few names in which SimGrid 3.32, 3.36 and 4.x differ.
#pragma once

#include <simgrid/version.h>
#include <simgrid/s4u.hpp>

namespace tandem::simgrid_version {

// Calls `callback(comm)` whenever a communication ends, whatever its state.
template <class Callback>
void on_comm_end(Callback callback) {
#if SIMGRID_VERSION < 33400
  simgrid::s4u::Activity::on_completion_cb([callback](simgrid::s4u::Activity const& activity) {
    if (const auto* comm = dynamic_cast<const simgrid::s4u::Comm*>(&activity)) callback(*comm);
  });
#else
  simgrid::s4u::Comm::on_completion_cb(callback);
#endif
}

inline void start(simgrid::s4u::Comm& comm) {
#if SIMGRID_VERSION < 33600
  comm.vetoable_start();
#else
  comm.start();
#endif
}

// SimGrid 4.x keeps platforms in a "root" that the engine makes; before, the caller makes the zone.
inline simgrid::s4u::NetZone* star_zone(simgrid::s4u::Engine& engine) {
#if SIMGRID_VERSION >= 40000
  return engine.get_netzone_root()->add_netzone_star("cluster");
#else
  (void)engine;
  return simgrid::s4u::create_star_zone("cluster");
#endif
}

}  // namespace tandem::simgrid_version
