// Workload: what each stage of the pipeline computes, sends and holds, priced. Lowering's input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "topology/traffic.h"
#include "workload/kernel.h"
#include "workload/model.h"

namespace tandem {

// A kernel and the tensor-parallel collective that follows it (bytes 0: none). Sequence parallelism
// has collectives before kernels too: each is a piece of its own, without a kernel.
struct Piece {
  int kernel = -1;  // into Workload::kernels; -1: none, work of `duration_ns` all the same
  Nanoseconds duration_ns = 0;
  CommKind collective = CommKind::AllReduce;
  Bytes collective_bytes = 0;

  // False: nothing but a collective. What computes may take no time, but is an op.
  bool computes() const { return kernel >= 0 || collective_bytes == 0; }
  bool operator==(const Piece&) const = default;
};

// One stage's pieces per microbatch, in order, on one GPU; and its sizes. No list is empty: a stage
// with nothing to do in one (the weight gradient of an embedding without layers) has a piece that
// takes no time.
struct StageWork {
  int layers = 0;
  std::vector<Piece> forward;
  std::vector<Piece> backward;         // what is recomputed first, then both gradients
  std::vector<Piece> backward_input;   // the same, split: the input's gradient ...
  std::vector<Piece> backward_weight;  // ... and the weights'
  Bytes gradient_bytes = 0;            // what the data-parallel all-reduce carries
};

// A whole job's work. Everything is per GPU: tensor-parallel shares are already taken.
struct Workload {
  std::vector<Kernel> kernels;  // no two are equal
  std::vector<StageWork> stages;
  std::vector<Piece> optimizer;        // by pipeline rank, stage s on rank s mod pp; empty: none
  Bytes pipeline_bytes = 0;            // an activation (or its gradient) from stage to stage
  Bytes pipeline_gather_bytes = 0;     // all-gathered by the tensor ranks after a transfer; 0: none
  Bytes embedding_gradient_bytes = 0;  // shared by first and last stage; 0: none
  Bytes gradient_norm_bytes = 0;       // 0: no such all-reduce
};

// The analytic workload of a model under a plan, priced by `cost`.
//
// Per layer, with tp > 1: attention, all-reduce, MLP, all-reduce; backward what full recompute
// repeats of that (with its all-reduces), then MLP and attention, each with one. With sequence
// parallelism each block has an all-gather before and a reduce-scatter after it instead. The gather
// of a saved input for its weight gradient runs beside the input gradient and is left out. With
// tp = 1 a layer is one piece.
//
// `block_collective_ns` is what the collectives round one block take (two blocks a layer and pass;
// topology knows): while they run, the CPU launches on, so only what a launch takes beyond them
// holds a block up. 0: launches wait for collectives, which makes small models with tp > 1 too
// slow.
//
// REQUIRES: check(model, plan) and check(cost); cost.precision = plan.precision.
Workload make_workload(const Model& model, const Plan& plan, const CostModel& cost,
                       Nanoseconds block_collective_ns = 0);

// Seconds an action, nothing else costs anything: costs.source = "uniform". No optimizer, no sizes.
struct UniformCosts {
  double forward_s = 0, backward_s = 0, input_s = 0, weight_s = 0;
};
Workload uniform_workload(const UniformCosts& costs, int stages);

// Bytes on the fullest GPU. `live[rank]` gives, per stage of that pipeline rank, how many
// microbatches' activations are alive at once (an order's property).
struct MemoryUse {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  int rank = 0;  // the pipeline rank it is

  double total() const { return weights + gradients + optimizer + activations; }
};

// One pipeline rank's stages and the largest number of microbatches alive in each at the rank's
// peak.
struct LiveActivations {
  struct Entry {
    Stage stage;  // its place in the model's chain, also in an order of two chains
    int microbatches = 0;
  };
  std::vector<std::vector<Entry>> ranks;
};

// REQUIRES: check(model, plan); at least one rank, stages of the plan.
MemoryUse peak_memory(const Model& model, const Plan& plan, const LiveActivations& live);

// Activations that one layer keeps from a microbatch's forward to its backward, on one GPU. For
// fp16, kv_heads = heads, f = 4h and no gated MLP, by Korthikanti et al. 2022 (arXiv 2205.05198),
// table 2: s b h (10 + 24/t + 5as/ht), s b h (34 + 5as/h) / t with sequence parallelism, without
// the term in a s / h under selective recompute, and 2 s b h under full.
double activation_bytes_per_layer(const Model& model, const Plan& plan);

}  // namespace tandem
