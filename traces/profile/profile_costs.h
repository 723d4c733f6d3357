// A cost table out of a profile: what GEMMs, attention, passes over memory and collectives of that
// run took, so that other jobs are priced by them.
#pragma once

#include "base/result.h"
#include "traces/profile/profile.h"
#include "workload/cost/cost_table.h"

namespace tandem {

struct ProfileCosts {
  CostTable table;
  std::int64_t other_dtype = 0;  // GEMMs of another precision than the table's: left out
  std::int64_t not_told = 0;     // calls whose tensors do not tell what was computed
};

// A row for each shape, from the kernels that a call of PyTorch on the CPU launched
// (torch_calls.h); its precision is that of the GEMMs that took longest, under fp8 those in 16 bits
// are rows of activations. Collectives whose sizes are told and whose ranks are all in the profile,
// from when the last one arrived: with `gpus_per_node`, which says what crosses nodes; 0: none of
// them. An Error where no GEMM is told: profiles have them with record_shapes=True.
Result<ProfileCosts> cost_table_of(const Profile& profile, int gpus_per_node);

}  // namespace tandem
