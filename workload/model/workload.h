// Workload: what each stage of the pipeline computes, sends and holds, priced. Lowering's input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "topology/traffic.h"
#include "workload/cost/kernel.h"
#include "workload/model/model.h"
#include "workload/model/pass.h"

namespace tandem {

// Parameters that are gathered and reduced together: a layer's, the embedding's, the head's. Bytes
// of the whole arrays that one GPU's group holds, uncut by data parallelism; those of experts
// belong to the smaller group of the GPUs that hold the same experts.
struct ParameterUnit {
  Bytes gradient_bytes = 0, parameter_bytes = 0;
  Bytes expert_gradient_bytes = 0, expert_parameter_bytes = 0;

  bool operator==(const ParameterUnit&) const = default;
};

// One stage's work per microbatch on one GPU; and its sizes. No pass is empty: a stage with nothing
// to do in one (the weight gradient of an embedding without layers) has a step that takes no time.
struct StageWork {
  int layers = 0;
  Pass forward;
  Pass backward;                     // what is recomputed first, then both gradients
  Pass backward_input;               // the same, split: the input's gradient ...
  Pass backward_weight;              // ... and the weights'
  std::vector<ParameterUnit> units;  // in the order of the forward
  std::optional<Step> optimizer;     // of what the GPU updates of this stage; nothing: none
  // Largest numbers of its quantized arrays, all-reduced behind each forward and each backward; and
  // those of its weights, before they are gathered behind the optimizer. 0: none.
  Bytes forward_amax_bytes = 0, backward_amax_bytes = 0, weight_amax_bytes = 0;
};

// Vocabulary parallelism's passes of a microbatch, alike on every pipeline rank
// (schedule/order/vocabulary.h says what each is for), and what the ranks send each other. Their
// unit is the first one of the rank's lowest stage.
struct VocabularyWork {
  Pass embedding, s, t, embedding_gradient;
  Bytes activation_bytes = 0;  // what the first stage takes or the last one gives; and gradients
  Bytes softmax_bytes = 0;     // of each token the largest logit, the sum, the target's logit
};

// A whole job's work. Everything is per GPU: its shares of tensor, context and expert parallelism
// are already taken.
struct Workload {
  std::vector<Kernel> kernels;  // no two are equal
  std::vector<StageWork> stages;
  Bytes pipeline_bytes = 0;         // an activation (or its gradient) from stage to stage
  Bytes pipeline_gather_bytes = 0;  // all-gathered by the tensor ranks after a transfer; 0: none
  // Activations that go to the last stage at once, each of these bytes: with plan.mtp_before_loss
  // one a prediction.
  int last_edge_arrays = 1;
  Bytes embedding_gradient_bytes = 0;  // shared by first and last stage; 0: none
  Bytes gradient_norm_bytes = 0;       // 0: no such all-reduce
  // Of every rank, once an iteration and whatever stages it has: data, timers, logging.
  Nanoseconds iteration_overhead_ns = 0;
  std::optional<VocabularyWork> vocabulary;  // with plan.vocabulary

  // That go from one stage to another, or back, of a chain of so many.
  int arrays_between(int from, int to, int stages_of_chain) const {
    return (std::max(from, to) + 1) % stages_of_chain == 0 ? last_edge_arrays : 1;
  }
};

// The analytic workload of a model under a plan, priced by `cost`.
//
// Per layer, with tp > 1: attention, all-reduce, MLP, all-reduce; backward what full recompute
// repeats of that (with its all-reduces), then MLP and attention, each with one. With sequence
// parallelism each block has an all-gather before and a reduce-scatter after it instead. The gather
// of a saved input for its weight gradient runs beside the input gradient and is left out, but
// where plan.tensor_overlap states it. With tp = 1 a layer is one kernel.
//
// Where communication comes between a block's parts they are steps of their own: under
// tensor_overlap (workload/model/tensor_overlap.h), context parallelism (workload/model/context.h),
// in a mixture of experts (workload/model/moe.h). A pass then ends with a norm's gradient or an
// addition, which waits for the communication before it.
//
// `block_collective_ns` is what the collectives round one block take (two blocks a layer and pass;
// topology knows): while they run, the CPU launches on, so only what a launch takes beyond them
// holds a block up. 0: launches wait for collectives, which makes small models with tp > 1 too
// slow.
//
// REQUIRES: check_part(model, plan) and check(cost); cost.precision = plan.precision.
Workload make_workload(const Model& model, const OrderedPlan& plan, const CostModel& cost,
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
  // Buffers: a pipeline transfer's two; sequence parallelism's gathered array, and one a GEMM that
  // overlaps; two of a context ring, or what is gathered or exchanged there; an expert exchange's
  // two; of vocabulary parallelism what both ends get and give; the largest unit's gradients under
  // ZeRO 2, and a layer and the next unit under ZeRO 3 where it gathers for each pass.
  double communication = 0;
  double workspace = 0;  // of the GPU's GEMM libraries: the caller's, as no model says it
  int rank = 0;          // the pipeline rank it is

  double total() const {
    return weights + gradients + optimizer + activations + communication + workspace;
  }
};

// One pipeline rank's stages and the largest number of microbatches alive in each at the rank's
// peak.
struct LiveActivations {
  struct Entry {
    Stage stage;  // its place in the model's chain, also in an order of two chains
    int microbatches = 0;
  };
  std::vector<std::vector<Entry>> ranks;
  // With plan.vocabulary: of each rank, the most microbatches between S and T.
  std::vector<int> outputs = {};
};

// What a plan's ranks hold, for those who ask many times: what no microbatch changes is reckoned
// once.
class PlanMemory {
 public:
  // REQUIRES: check(model, plan); the plan outlives it.
  PlanMemory(const Model& model, const OrderedPlan& plan);

  // Of the rank with these stages; `outputs`: microbatches between S and T. REQUIRES: stages of the
  // plan.
  MemoryUse of_rank(std::span<const LiveActivations::Entry> live, int outputs) const;

 private:
  struct OfStage {
    double microbatch = 0;  // its activations
    double quantized = 0;
    bool recomputes = false;
  };

  const OrderedPlan& plan_;
  std::vector<HeldParameters> parameters_;
  std::vector<OfStage> stages_;
  double optimizer_bytes_ = 0, communication_ = 0, recomputed_ = 0, output_ = 0;
  double copy_ = 0;  // of the embedding, that the head needs where it is on another rank
};

// Of the fullest. REQUIRES: check(model, plan); at least one rank, stages of the plan.
MemoryUse peak_memory(const Model& model, const OrderedPlan& plan, const LiveActivations& live);

// Activations that one layer keeps from a microbatch's forward to its backward, on one GPU. For
// fp16, kv_heads = heads, f = 4h and no gated MLP, by Korthikanti et al. 2022 (arXiv 2205.05198),
// table 2: s b h (10 + 24/t + 5as/ht), s b h (34 + 5as/h) / t with sequence parallelism, without
// the term in a s / h under selective recompute, and 2 s b h under full.
double activation_bytes_per_layer(const Model& model, const Plan& plan);

}  // namespace tandem
