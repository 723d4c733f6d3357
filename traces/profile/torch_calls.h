// Calls of PyTorch's operators on the CPU: what the GPU computes for one, by its name and the
// shapes of its tensors, which torch.profiler records with record_shapes.
#pragma once

#include <optional>
#include <string_view>

#include "workload/cost/cost_table.h"

namespace tandem {

// Products of matrices, attention in one kernel, and passes over tensors: only leaves, which call
// none of the others.
bool is_priced_call(std::string_view name);

// What a profile says of a call's arguments: JSON, "" where it does not.
struct TorchArguments {
  std::string_view shapes;  // "[[4096, 1024], [1024, 1024]]"
  std::string_view types;   // ["c10::BFloat16", "c10::BFloat16"]
  std::string_view values;  // ["", "", "", "0.", "True"]: of those that are no tensors
};

struct PricedCall {
  CostRow row;             // without its times
  std::string_view dtype;  // of the matrices: "fp32", "bf16", "fp16", "fp8"
};

// Nothing where the arguments do not tell: shapes that do not fit, a type of other numbers, a mask.
std::optional<PricedCall> priced_call(std::string_view name, const TorchArguments& arguments);

}  // namespace tandem
