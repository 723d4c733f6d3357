// Makes a cost table from a profile: the times of the run's GEMMs, attention, passes over memory
// and collectives, by shape. Other jobs are then priced by it.
#pragma once

#include "base/result.h"
#include "traces/profile/profile.h"
#include "workload/cost/cost_table.h"

namespace tandem {

struct ProfileCosts {
  CostTable table;
  std::int64_t other_dtype = 0;    // GEMMs of another precision than the table's, left out
  std::int64_t unknown_calls = 0;  // calls whose arguments do not suffice for a row
};

// Returns a row for each shape. Compute is timed by the kernels that a call of PyTorch on the CPU
// launched (torch_calls.h). The table's precision is that of the GEMMs that took longest; under
// fp8, GEMMs in 16 bits become rows of products of activations. Collectives have rows if their
// sizes are known and all of their ranks are in the profile; they count from the last rank's
// arrival. `gpus_per_node` says which ones cross nodes; 0 leaves collectives out. An Error if no
// GEMM has a shape: profiles have them with record_shapes=True.
Result<ProfileCosts> cost_table_of(const Profile& profile, int gpus_per_node);

}  // namespace tandem
