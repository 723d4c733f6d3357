// Explain: says why a measured run takes longer than its simulation, as causes with seconds.
//
// A measured duration is the simulated one times factors: of the kind of kernel, the stage, the
// rank, and the op. Gaps of the compute lane that no op of the Program explains are delays. Each
// cause is put alone into a simulation, which is played again: its seconds are the time that this
// adds. A kind is put into the simulation as priced, a stage into one whose kinds take what was
// measured, all else into one whose stages do, too: a factor counts where it was found. All causes
// together add `interactions_s` more than the sum of them; the rest of the measured time is not
// explained.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/profile/profile.h"
#include "traces/trace.h"

namespace tandem {

struct Cause {
  std::string what;      // "forward kernels take 1.12 times as long"
  double alone_s = 0;    // of the iteration
  std::string evidence;  // ranks, ops, counts
  std::string advice;
};

// A measured rank: the measured over the simulated time of its measured ops of compute, and the sum
// of its delays.
struct ExplainedRank {
  int rank = 0;
  double compute_ratio = 1, delays_s = 0;
};

struct Explanation {
  double simulated_s = 0, measured_s = 0;
  std::vector<Cause> causes;  // the largest first; each at least kLeastCause of the iteration
  double smaller_s = 0;       // of causes that are smaller, together
  double interactions_s = 0;
  double not_explained_s = 0;
  int steps = 1;                     // of the profile; figures are means over them
  std::vector<ExplainedRank> ranks;  // those of the profile
  int ranks_in_all = 0;
  std::vector<std::string> notes;

  bool is_explained() const;  // to kMostUnexplained of the iteration
};

inline constexpr double kLeastCause = 0.005, kMostUnexplained = 0.02;

// Adds causes in order, those that are too small to smaller_s. Returns the sum of all seconds.
// REQUIRES: measured_s is set.
double add_causes(std::vector<Cause> causes, Explanation* explanation);

// Explains a profile of the Program's run. `simulated`: its trace, by any engine. Ops of ranks that
// the profile lacks take the factors of their kind and stage. Error(BadInput) if the profile has
// ranks that the Program has not, or tells no passes, or if the Program's ranks have more than 50
// million ops together.
Result<Explanation> explain(const Program& program, const Trace& simulated,
                            const Profile& measured);

nlohmann::ordered_json to_json(const Explanation& explanation);

}  // namespace tandem
