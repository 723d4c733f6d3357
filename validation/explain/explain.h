// Explain: says why a measured run takes longer than its simulation, as causes with seconds.
//
// A measured duration is the simulated one times factors: of the kind of kernel, the stage, the
// rank, and the op. The compute lane's gaps that no op of the Program explains are delays. Each
// cause alone is put into the simulation, which is played again: its seconds are what that adds.
// All together add `interactions_s` more; what the measured run takes beyond that is not explained.
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

// A measured rank: its compute over the simulated, of the ops that were measured, and its delays.
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
  int steps = 1;                     // of the profile, whose means count
  std::vector<ExplainedRank> ranks;  // those of the profile
  int ranks_in_all = 0;
  std::vector<std::string> notes;

  bool is_explained() const;  // to kMostUnexplained of the iteration
};

inline constexpr double kLeastCause = 0.005, kMostUnexplained = 0.02;

// Explains a profile of the Program's run. `simulated`: its trace, by any engine. Of ranks that the
// profile lacks, ops take what the factors of their kind and stage say. Error(BadInput) if the
// profile has ranks that the Program has not, or tells no passes, or if all ranks have more than 50
// million ops.
Result<Explanation> explain(const Program& program, const Trace& simulated,
                            const Profile& measured);

nlohmann::ordered_json to_json(const Explanation& explanation);

}  // namespace tandem
