// Calls of PyTorch's operators on the CPU: what the GPU computes for one, by its name and the
// shapes of its tensors, which torch.profiler records with record_shapes.
#pragma once

#include <optional>
#include <string_view>

#include "workload/cost/cost_table.h"

namespace tandem {

// Says whether the call is a product of matrices, attention in one kernel, or a pass over tensors
// that can be priced. Operators that call others are not, so that no kernel counts twice.
bool is_priced_call(std::string_view name);

// A call's arguments in a profile: JSON, or "" where it has none.
struct TorchArguments {
  std::string_view shapes;  // "[[4096, 1024], [1024, 1024]]"
  std::string_view types;   // ["c10::BFloat16", "c10::BFloat16"]
  std::string_view values;  // ["", "", "", "0.", "True"]: "" for tensors
};

struct PricedCall {
  CostRow row;             // without its times
  std::string_view dtype;  // of the matrices: "fp32", "bf16", "fp16", "fp8"
};

// Returns nothing if the arguments do not suffice: shapes that do not fit, a type of other numbers.
std::optional<PricedCall> priced_call(std::string_view name, const TorchArguments& arguments);

}  // namespace tandem
