// Which GEMMs may meet which overlap of their collective.
#pragma once

#include "base/result.h"
#include "workload/model/model.h"

namespace tandem {

// SMs that a communication may take: beyond any GPU.
constexpr int kMostSms = 1024;

// Errors carry the scenario's keys.
Status check_tensor_overlap(const Model& model, const Plan& plan);

}  // namespace tandem
