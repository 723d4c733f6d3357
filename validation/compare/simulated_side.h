// SimulatedSide: the simulated ranks that stand for those of a profile.
#pragma once

#include <string>

#include "schedule/program/program.h"
#include "traces/profile/profile.h"
#include "traces/trace.h"

namespace tandem {

// One simulated side of the comparison: its profile, and the engine or file that made it.
struct SimulatedSide {
  Profile profile;
  std::string by;
  std::string note;  // says which ranks of the measured profile this one lacks; empty: none
  int world = 0;     // ranks of the whole job; 0: as many as the profile says
};

// Picks the simulated ranks that stand for the profile's ranks: a rank with the same number, or, if
// the simulation did not play it, the played rank with its body. If the profile's ranks are not the
// Program's, all ranks are taken, with a note.
SimulatedSide played_side(const Program& program, const Trace& trace, const Profile& measured,
                          const std::string& by);

}  // namespace tandem
