// Blocks: the kernels of one GPU's share of a layer's two halves, of the embedding and of the head.
#pragma once

#include <initializer_list>
#include <string>

#include "workload/kernel.h"
#include "workload/model.h"

namespace tandem {

// What one GPU computes between two tensor-parallel collectives, for one microbatch. A full
// backward is both gradients after what is recomputed.
struct Block {
  Kernel forward;
  Kernel core;             // of `forward`, what selective recompute repeats; attention only
  Kernel input_gradient;   // products with activations' gradients, and all memory-bound passes
  Kernel weight_gradient;  // products for parameters, and their accumulation
};

Block attention_block(const Model& model, const Plan& plan);
Block mlp_block(const Model& model, const Plan& plan);
Block embedding_block(const Model& model, const Plan& plan);
Block head_block(const Model& model, const Plan& plan);  // last norm, LM head, cross entropy

// One kernel that does what all of them do.
Kernel merge(std::string name, std::initializer_list<Kernel> parts);

// What the optimizer's step does to `parameters` of them.
Kernel optimizer_kernel(double parameters);

}  // namespace tandem
