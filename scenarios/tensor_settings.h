// Tensor settings: how each GEMM of tensor parallelism overlaps with its collective; set by one
// word, for each GEMM, or from a file.
#pragma once

#include <array>
#include <map>
#include <string>

#include "base/result.h"
#include "workload/frameworks/framework_profile.h"
#include "workload/model/model.h"

namespace tandem {

// The settings of a scenario. A GEMM's own key goes before the file, and the file before the
// method.
struct TensorSettings {
  TensorMethod method = TensorMethod::Off;
  std::string file;                          // as Transformer Engine's userbuffers settings
  std::string setting;                       // which of the file's settings, if it has several
  std::map<std::string, std::string> gemms;  // METHOD[:SMS[:SPLITS]] by GEMM; empty: not set
};

// Says whether keys set it, "off" among them.
bool sets_tensor_overlap(const std::map<std::string, std::string>& places);

using TensorOverlap = std::array<GemmOverlap, kTensorGemms>;

// Returns how each GEMM overlaps by this method. GEMMs that can only overlap in bulk do so with any
// method but "off". The numbers of SMs are those of NeMo's setting for an H100, hidden 8192, tp 4,
// bf16: bulk 2 to 24, pipelined 16 and 24 in 4 parts, ring 1.
TensorOverlap overlap_by(TensorMethod method);

// Returns what overlaps without being asked, by the profile's bulk_gradients: in linear layers
// behind a gather the saved input is gathered beside the input's gradient, which is reduced beside
// the weights'.
TensorOverlap unasked_overlap(const Model& model, const Plan& plan,
                              const FrameworkProfile& profile);

// Returns how each GEMM overlaps by these settings. The method leaves out fc1 and fc2 where experts
// replace the whole MLP. The file is relative to `folder`. Errors begin with the key or the file.
Result<TensorOverlap> tensor_overlap(const TensorSettings& settings, const Model& model,
                                     const std::string& folder);

}  // namespace tandem
