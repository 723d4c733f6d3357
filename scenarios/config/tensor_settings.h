// Tensor settings: how each GEMM's collective overlaps, by one word, GEMM by GEMM, or from a file.
#pragma once

#include <array>
#include <map>
#include <string>

#include "base/result.h"
#include "workload/model/model.h"

namespace tandem {

// What a scenario says of it. GEMMs said by name go over the file, the file over the method.
struct TensorSettings {
  TensorMethod method = TensorMethod::Off;
  std::string file;     // in the form of Transformer Engine's userbuffers settings
  std::string setting;  // of several in the file
  std::map<std::string, std::string> gemms;  // METHOD[:SMS[:SPLITS]], by name; empty: not said
};

using TensorOverlap = std::array<GemmOverlap, kTensorGemms>;

// Each GEMM with the method where it has a form: bulk goes with all others. The SMs are those of
// NeMo's setting for an H100, hidden 8192, tp 4, bf16: bulk 2 to 24, pipelined 16 and 24 in 4
// parts, ring 1.
TensorOverlap overlap_by(TensorMethod method);

// The method leaves fc1 and fc2 out where experts stand for the whole MLP. `folder`: what the file
// is relative to. Errors begin with the key or the file.
Result<TensorOverlap> tensor_overlap(const TensorSettings& settings, const Model& model,
                                     const std::string& folder);

}  // namespace tandem
