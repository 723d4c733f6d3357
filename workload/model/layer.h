// A layer's passes: its two blocks at a piece, or part by part where communication comes between.
#pragma once

#include "workload/cost/kernel_table.h"
#include "workload/model/model.h"
#include "workload/model/pass.h"

namespace tandem {

struct LayerPasses {
  Pass forward;
  Pass backward;  // what is recomputed first, then both gradients
  Pass backward_input, backward_weight;
  int quantized = 0;  // products with quantized operands, each expert's its own
};

// Of a layer under plan.recompute. A layer is one kernel where nothing is communicated in it. Else
// each block is: with tensor parallelism between its two collectives, as long as none of them
// overlaps. Where one does, or under context parallelism, or in a mixture of experts, a block is
// its parts (PartsOf), and parts of parts.
//
// `collective_s` is what the collectives round one block take: see make_workload.
LayerPasses layer_passes(const Model& model, const Plan& plan, double collective_s,
                         KernelTable* kernels);

}  // namespace tandem
