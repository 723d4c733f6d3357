// Checks which GEMMs may be combined with which overlap of their collective.
#pragma once

#include "base/result.h"
#include "workload/model/model.h"

namespace tandem {

// The most SMs that a communication may take: more than any GPU has.
constexpr int kMostSms = 1024;

// Returns Errors that name the scenario's keys.
Status check_tensor_overlap(const Model& model, const Plan& plan);

}  // namespace tandem
