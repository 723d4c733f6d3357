// Blocks: the kernels of one GPU's share of a layer's two halves, of the embedding and of the head.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "workload/cost/kernel.h"
#include "workload/model/model.h"

namespace tandem {

// One pass over a block, in the order of the forward; a backward goes through it from the end.
template <class T>
struct PartsOf {
  T norm;      // before the first product; in a mixture of experts with its router
  T in;        // the product that wants its input whole: qkv, fc1
  T between;   // bias and transposition of q, k and v; the activation
  T core;      // attention's; under a ring of context parallelism one of its `cp` equal parts
  T out;       // the product that leaves a summand on each tensor rank: projection, fc2
  T residual;  // dropout and the addition
};
using Parts = PartsOf<Kernel>;

// What one GPU computes in a block for one microbatch: at a piece, between two tensor-parallel
// collectives, and part by part, where communication comes between. Both add up to the same. A full
// backward is both gradients after what is recomputed.
struct Block {
  Kernel forward;
  // What selective recompute may repeat: attention's core, as Parts::core; the norm; latent
  // attention's queries, keys and values out of the compressed ones. Empty where there is none.
  Kernel core, norm, up_projection;
  Kernel input_gradient;   // products with activations' gradients, and all memory-bound passes
  Kernel weight_gradient;  // products for parameters, and their accumulation
  Parts forward_parts, input_parts, weight_parts;
};

// REQUIRES: a mixer.
Block attention_block(const Model& model, const Plan& plan, const FrameworkProfile& profile);
Block mlp_block(const Model& model, const Plan& plan,
                const FrameworkProfile& profile);  // REQUIRES: a dense model
Block embedding_block(const Model& model, const Plan& plan, const FrameworkProfile& profile);
Block head_block(const Model& model, const Plan& plan,
                 const FrameworkProfile& profile);  // last norm, LM head, cross entropy

// Vocabulary parallelism: the kernels of E, S, T and G on a GPU's rows of the vocabulary
// (schedule/order/vocabulary.h), and what stays on the first and the last stage. Algorithm 2 has
// the product for the input's gradient in S, algorithm 1 in T. REQUIRES: plan.vocabulary > 0.
struct VocabularyBlocks {
  Kernel lookup, logits, input_gradient, weight_gradient, lookup_gradient;
  Kernel positions, positions_gradient;  // of what was looked up, with dropout
  Kernel norm, norm_gradient;            // before the head
};
VocabularyBlocks vocabulary_blocks(const Model& model, const Plan& plan,
                                   const FrameworkProfile& profile);

// The product of a multi-token prediction's two inputs, and their norms.
Block mtp_block(const Model& model, const Plan& plan, const FrameworkProfile& profile);

// Of a mixture of experts: the router, and this GPU's experts on the tokens that they get; and the
// shared expert, which has products and activation only.
Block experts_block(const Model& model, const Plan& plan, const FrameworkProfile& profile);
Block shared_expert_block(const Model& model, const Plan& plan, const FrameworkProfile& profile);

// Tokens of a microbatch that one GPU holds: its part of the sequence, s b / cp.
std::int64_t tokens_of(const Model& model, const Plan& plan);
// Tokens that one GPU sends to experts, each top_k times: with sequence parallelism a tensor rank
// sends its own part only. And what the busiest rank gets over the mean.
std::int64_t routed_tokens(const Model& model, const Plan& plan);
double expert_load(const Model& model, const Plan& plan);
// Of a layer's products, what is rounded to whole numbers: the rows of each expert on this GPU, and
// the chunks of a scan; 0: it has none. All else is in proportion to the micro batch.
std::int64_t expert_rows(const Model& layer, const Plan& plan);
std::int64_t scan_chunks(const Model& layer, const Plan& plan);
// Columns that one GPU computes: of Q; of K and V together; of what goes into the product behind
// them. Of a Mamba-2 scan its input, B and C; of a delta net its queries, keys and values.
std::int64_t query_columns(const Model& model, const Plan& plan);
std::int64_t key_value_columns(const Model& model, const Plan& plan);
std::int64_t output_columns(const Model& model, const Plan& plan);
// Where tensor ranks share a key/value head, as Megatron-LM has it: Q's, K's and V's weights are
// cut evenly, what they give is gathered whole, and a rank takes its heads of that. The columns of
// what is gathered; 0: nothing, each rank has heads of its own.
std::int64_t gathered_columns(const Model& model, const Plan& plan);

// One kernel that does what all of them do.
Kernel merge(std::string name, std::initializer_list<Kernel> parts);

// Part `part` of `parts` of a kernel, cut by rows: the output's, and its input's. No part has less
// than a row.
Kernel cut_rows(const Kernel& kernel, int part, int parts);

// The optimizer's step on the parameters held, or on their cut of it; behind it those of linear
// layers are quantized again, `linear` of them. Empty where none is held.
Kernel optimizer_kernel(const OrderedPlan& plan, const HeldParameters& held, double linear,
                        const FrameworkProfile& profile);

}  // namespace tandem
