// Activations: the bytes that a layer, the embedding and the head keep of a microbatch on one GPU,
// by Korthikanti et al. 2022 (arXiv 2205.05198).
#pragma once

#include <algorithm>

#include "workload/model/model.h"

namespace tandem {

// Returns what one layer keeps from its forward to its backward. REQUIRES: layers that are alike.
double layer_activations(const Model& model, const Plan& plan, Recompute recompute);

// Returns what one layer keeps from its input gradient (I) to its weight gradient (W): about what
// it kept before, without attention's matrices. W needs the inputs of products and the gradients of
// their outputs: 14 and 18 s b h of a GPT layer, which kept s b h (34 + 5as/h) ("Zero Bubble
// Pipeline Parallelism", arXiv 2401.10241, table 1). Recompute and offloading save nothing of it,
// as I has made it anew, or taken it back.
double stashed_activations(const Model& model, const Plan& plan);

// The arrays that a layer sends to the CPU's memory in its forward, and takes back for its
// backward.
struct Offloaded {
  double freed = 0;    // bytes that the GPU does not keep meanwhile
  double largest = 0;  // of these, the bytes of the module that frees the most
  double copied = 0;   // bytes over the link, each way
};

// Returns what an offloading layer offloads under the plan.
Offloaded offloaded_activations(const Model& model, const Plan& plan, Recompute recompute);

// Returns the bytes that recompute makes anew for a layer's backward. They count once for each GPU,
// because layers are recomputed one at a time.
double recomputed_activations(const Model& model, const Plan& plan);

double embedding_activations(const Model& model, const Plan& plan);
// With plan.vocabulary, head_activations are the last stage's, and output_activations are kept by
// every rank from pass S to pass T.
double head_activations(const Model& model, const Plan& plan);
double output_activations(const Model& model, const Plan& plan);
// Returns what the head keeps from its I to its W: its inputs, and the gradient of the logits.
double stashed_head_activations(const Model& model, const Plan& plan);
// Returns how many more bytes the head's backward needs than its loss does.
double head_backward_bytes(const Model& model, const Plan& plan);

// Returns the largest value of bytes_of_kind(kind) over the kinds of layers.
template <class BytesOfKind>
double most_of_layers(const Model& model, const BytesOfKind& bytes_of_kind) {
  double most = 0;
  for (const auto& [kind, count] : kinds_of(model)) most = std::max(most, bytes_of_kind(*kind));
  return most;
}

// Returns the activations of one more layer if the order runs a forward and a backward together,
// layer by layer (plan.trades_layers); otherwise 0.
double traded_activations(const Model& model, const OrderedPlan& plan);

}  // namespace tandem
