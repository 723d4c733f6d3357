// The optimizer's state: Adam's, and Muon's.
#pragma once

#include "workload/model/model.h"
#include "workload/model/muon.h"

namespace tandem {

// Returns how many of the parameters `held` are on a GPU; fewer if ZeRO cuts them.
double zero_share(const HeldParameters& held, const OrderedPlan& plan, bool is_cut);

// Parameters, those of them that Muon has, and what the fullest GPU updates of these.
struct UpdatedParameters {
  HeldParameters held, muon, own;
};

// Returns the bytes of both optimizers' state.
double state_bytes(const OrderedPlan& plan, const UpdatedParameters& of);

// Returns what Muon's step holds while no activations are there: its arrays, and gradients in fp32
// where they are narrower (Float16OptimizerWithFloat16Params of Megatron-LM). 0 without Muon.
double muon_step_bytes(const OrderedPlan& plan, const HeldParameters& held, const MuonShare& muon);

}  // namespace tandem
