// Tensor settings: how each GEMM of tensor parallelism overlaps with its collective. They are set
// by one method for all GEMMs, by a file, or for each GEMM.
#pragma once

#include <array>
#include <map>
#include <string>

#include "base/result.h"
#include "workload/frameworks/framework_profile.h"
#include "workload/model/model.h"

namespace tandem {

// The settings of a scenario. A GEMM's own key takes precedence over the file, and the file over
// the method.
struct TensorSettings {
  TensorMethod method = TensorMethod::Off;
  std::string file;                          // in the form of Transformer Engine's userbuffers
  std::string setting;                       // which of the file's settings, if it has several
  std::map<std::string, std::string> gemms;  // METHOD[:SMS[:SPLITS]] by GEMM; empty: not set
};

// Whether any of these keys sets tensor overlap, if only to "off".
bool sets_tensor_overlap(const std::map<std::string, std::string>& places);

using TensorOverlap = std::array<GemmOverlap, kTensorGemms>;

// Returns each GEMM's overlap with this method. GEMMs that can only overlap in bulk do so with any
// method but "off". The numbers of SMs are those of NeMo's setting for an H100, hidden 8192, tp 4,
// bf16: bulk 2 to 24, pipelined 16 and 24 in 4 parts, ring 1.
TensorOverlap overlap_by(TensorMethod method);

// Returns the overlap that the framework has if no key sets any (the profile's bulk_gradients): in
// a linear layer behind an all-gather, the saved input is gathered during the GEMM of the input's
// gradient, and that gradient is reduced during the GEMM of the weights' gradient.
TensorOverlap unasked_overlap(const Model& model, const Plan& plan,
                              const FrameworkProfile& profile);

// Returns each GEMM's overlap with these settings. If experts replace the whole MLP, the method
// does not apply to fc1 and fc2. The file is relative to `folder`. Errors begin with the key or the
// file.
Result<TensorOverlap> tensor_overlap(const TensorSettings& settings, const Model& model,
                                     const std::string& folder);

}  // namespace tandem
