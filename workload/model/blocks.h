// Blocks: one GPU's kernels of a layer's two halves, of the embedding and of the head.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "workload/cost/kernel.h"
#include "workload/model/model.h"
#include "workload/model/muon.h"

namespace tandem {

// The parts of a pass over a block, in the order of the forward; a backward goes from the end.
template <class T>
struct PartsOf {
  T norm;      // before the first product; in a mixture of experts with the router
  T in;        // the product that needs its whole input: qkv, fc1
  T between;   // bias and transposition of q, k and v; the activation
  T core;      // attention's core; under a ring of context parallelism one of its `cp` equal parts
  T out;       // the product whose outputs the tensor ranks add up: projection, fc2
  T residual;  // dropout and the residual addition
};
using Parts = PartsOf<Kernel>;
inline constexpr Kernel Parts::*kBlockParts[] = {&Parts::norm, &Parts::in,  &Parts::between,
                                                 &Parts::core, &Parts::out, &Parts::residual};

// A GPU's kernels of a block for one microbatch, in two forms: one kernel a pass, between two
// tensor-parallel collectives; and part by part, for communication between the parts. Both add up
// to the same work. A full backward repeats what is recomputed, then computes both gradients.
struct Block {
  Kernel forward;
  // Kernels that selective recompute may repeat: attention's core, as in Parts::core; the norm;
  // latent attention's queries, keys and values out of the compressed ones. Empty where there is
  // none.
  Kernel core, norm, up_projection;
  double module_launch_s = 0;  // the CPU's, to repeat a norm, an up-projection or an activation
  Kernel input_gradient;       // products with activations' gradients, and all memory-bound passes
  Kernel weight_gradient;      // products for parameters, and their accumulation
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
// (schedule/order/vocabulary.h), and those that stay on the first and the last stage. Algorithm 2
// has the product for the input's gradient in S, algorithm 1 in T. REQUIRES: plan.vocabulary > 0.
struct VocabularyBlocks {
  Kernel lookup, logits, input_gradient, weight_gradient, lookup_gradient;
  Kernel positions, positions_gradient;  // added to what was looked up, with dropout
  Kernel norm, norm_gradient;            // before the head
};
VocabularyBlocks vocabulary_blocks(const Model& model, const Plan& plan,
                                   const FrameworkProfile& profile);

// Returns the product of a multi-token prediction's two inputs, and their norms.
Block mtp_block(const Model& model, const Plan& plan, const FrameworkProfile& profile);

// Kernels of a mixture of experts: the router, and this GPU's experts on the tokens that they get.
// The shared expert has products and activation only.
Block experts_block(const Model& model, const Plan& plan, const FrameworkProfile& profile);
Block shared_expert_block(const Model& model, const Plan& plan, const FrameworkProfile& profile);

// Returns the tokens of a microbatch that one GPU holds: its part of the sequence, s b / cp.
std::int64_t tokens_of(const Model& model, const Plan& plan);
// Returns the tokens that one GPU sends to experts, each top_k times. With sequence parallelism a
// tensor rank sends only its own part.
std::int64_t routed_tokens(const Model& model, const Plan& plan);
// Return the copies of tokens that the busiest rank gets, divided by the mean rank's. expert_load
// is the mean over exchanges, for times; peak_expert_load is the largest of them, for memory.
double expert_load(const Model& model, const Plan& plan);
double peak_expert_load(const Model& model, const Plan& plan);
// Returns whether the experts of all ranks take equally many tokens.
bool equal_expert_loads(const Model& model, const Plan& plan);
// Returns the share of the copies of tokens that experts drop above their capacity: of the tokens
// that model.routing counts, or at least with expert_imbalance.
double dropped_share(const Model& model, const Plan& plan);
// Return the rows (tokens) of each expert's GEMMs on this GPU, and the chunks of a scan; 0 if the
// layer has none. These two are rounded to whole numbers; all other sizes of products are
// proportional to the micro batch.
std::int64_t expert_rows(const Model& layer, const Plan& plan);
std::int64_t scan_chunks(const Model& layer, const Plan& plan);
// Return the columns that one GPU computes: of Q; of K and V together; of the input of the output
// projection. A Mamba-2 scan has its input for Q, and B and C for K and V; a delta net has its
// queries, and its keys and values.
std::int64_t query_columns(const Model& model, const Plan& plan);
std::int64_t key_value_columns(const Model& model, const Plan& plan);
std::int64_t output_columns(const Model& model, const Plan& plan);
// Returns the columns of Q, K and V that tensor ranks gather where they share a key/value head, as
// in Megatron-LM: the weights are cut evenly, the outputs are gathered whole, and each rank takes
// its heads from them. 0: each rank has heads of its own.
std::int64_t gathered_columns(const Model& model, const Plan& plan);

// Returns one kernel that does the work of all of them.
Kernel merge(std::string name, std::initializer_list<Kernel> parts);

// Returns part `part` of `parts` of a kernel, cut by rows of the output and the input. Each part
// has at least one row.
Kernel cut_rows(const Kernel& kernel, int part, int parts);

// Returns the optimizer's step on the held parameters, or under ZeRO on this GPU's cut of them, and
// the quantization of the `linear` parameters (those of linear layers) after it. Empty if no
// parameter is held.
Kernel optimizer_kernel(const OrderedPlan& plan, const HeldParameters& held, double linear,
                        const MuonShare& muon, const FrameworkProfile& profile);

}  // namespace tandem
