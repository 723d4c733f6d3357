// A layer's passes: each of its two blocks is one kernel, or goes part by part where communication
// comes between its parts.
#pragma once

#include "workload/model/kernel_table.h"
#include "workload/model/model.h"
#include "workload/model/pass.h"

namespace tandem {

struct LayerPasses {
  Pass forward;
  Pass backward;  // what is recomputed first, then both gradients
  Pass backward_input, backward_weight;
  int quantized = 0;  // products with quantized operands; those of each expert count by themselves
};

// Returns the passes of a layer under plan.recompute. A layer without communication is one kernel.
// With tensor parallelism each block is one kernel between its two collectives, as long as no
// collective overlaps with a GEMM. With such an overlap, under context parallelism, and in a
// mixture of experts, each part of a block (PartsOf) is one kernel or several.
//
// `collective_s` is the time of the collectives around one block: see make_workload.
LayerPasses layer_passes(const Model& model, const Plan& plan, double collective_s,
                         KernelTable* kernels);

}  // namespace tandem
