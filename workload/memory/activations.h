// Activations: the bytes that a layer, the embedding and the head keep of a microbatch on one GPU,
// by Korthikanti et al. 2022 (arXiv 2205.05198).
#pragma once

#include <algorithm>

#include "workload/model/model.h"

namespace tandem {

// Returns what one layer keeps from its forward to its backward. REQUIRES: layers that are alike.
double layer_activations(const Model& model, const Plan& plan, Recompute recompute);

// The arrays that a layer sends to the CPU's memory in its forward, and takes back for its
// backward.
struct Offloaded {
  double freed = 0;    // bytes that the GPU does not keep meanwhile
  double largest = 0;  // of these, the bytes of the module that frees the most
  double copied = 0;   // bytes over the link, each way
};

// Returns what a layer offloads under the plan, if it is one of those that do.
Offloaded offloaded_activations(const Model& model, const Plan& plan, Recompute recompute);

// Returns what a layer's backward needs beyond what was kept; once a GPU, as layers go one by one.
double recomputed_activations(const Model& model, const Plan& plan);

double embedding_activations(const Model& model, const Plan& plan);
// head_activations with plan.vocabulary is what the last stage keeps, and output_activations what
// every rank keeps from S to T.
double head_activations(const Model& model, const Plan& plan);
double output_activations(const Model& model, const Plan& plan);

// Returns the largest value of `of` over kinds of layers.
template <class Of>
double most_of_layers(const Model& model, const Of& of) {
  double most = 0;
  for (const auto& [kind, count] : kinds_of(model)) most = std::max(most, of(*kind));
  return most;
}

// Returns the activations of the layer that is at work in the second of two passes, where they run
// together layer by layer; otherwise 0.
double traded_activations(const Model& model, const OrderedPlan& plan);

}  // namespace tandem
