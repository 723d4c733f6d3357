// The optimizer's state: Adam's, and Muon's.
#pragma once

#include "workload/model/model.h"
#include "workload/model/muon.h"

namespace tandem {

struct UpdatedParameters {
  HeldParameters held;  // all parameters on a GPU
  HeldParameters muon;  // of these, Muon's
  HeldParameters own;   // Muon's parameters that the fullest GPU updates
};

// Returns the bytes of both optimizers' state.
double state_bytes(const OrderedPlan& plan, const UpdatedParameters& parameters);

// Returns the bytes that Muon's step holds, when activations are already freed: its temporary
// arrays, and fp32 copies of narrower gradients (Float16OptimizerWithFloat16Params of Megatron-LM).
// 0 without Muon.
double muon_step_bytes(const OrderedPlan& plan, const HeldParameters& held, const MuonShare& muon);

}  // namespace tandem
