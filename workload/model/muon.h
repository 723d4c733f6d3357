// Muon as Megatron-LM runs it: which matrices it updates on which GPU, and what that takes.
#pragma once

#include <vector>

#include "base/result.h"
#include "workload/cost/kernel_shape.h"
#include "workload/model/model.h"

namespace tandem {

// The part of a stage that Muon updates: matrices of linear layers. Adam has embeddings, the head,
// norms, biases and convolutions. Under ZeRO 1 a GPU updates whole matrices, and the buffers of
// weights and gradients are padded until all GPUs have as much as the fullest.
struct MuonShare {
  HeldParameters held;     // by Muon's matrices, on a GPU
  HeldParameters updated;  // by the GPU that updates the most parameters
  HeldParameters padding;  // of a GPU's buffers
  // Newton-Schulz's products of the busiest GPU, and the bytes of its passes over memory.
  std::vector<Gemm> gemms;
  double pass_bytes = 0;
  double scratch_bytes = 0;  // of the temporary arrays for the largest matrix
};

// Returns the share of each stage; all are empty without plan.muon.
std::vector<MuonShare> muon_shares(const Model& model, const OrderedPlan& plan);

// Adds the parameters and scratch of another stage on the same GPU, for memory. Leaves out gemms
// and pass_bytes: the optimizer's step of each stage is priced by itself.
void add_share(const MuonShare& stage, MuonShare* rank);

// Returns the bytes of a parameter's momentum, and of its fp32 copy if the parameter is narrower.
double muon_state_bytes(const Plan& plan);

// Checks that Megatron-LM runs Muon with the rest of the plan.
Status check_muon(const Plan& plan);

}  // namespace tandem
