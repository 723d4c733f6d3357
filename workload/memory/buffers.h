// Buffers of communication, by kind.
#pragma once

#include <span>

#include "workload/model/model.h"

namespace tandem {

// A kind of buffers. DeepSpeed's are not among them, as they depend on a rank's parameters
// (workload/memory/trainer.h).
struct BufferKind {
  const char* name;
  double (*bytes)(const Model& model, const Plan& plan);
};
std::span<const BufferKind> buffer_kinds();

}  // namespace tandem
