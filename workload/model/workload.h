// Workload: what each stage of the pipeline computes, sends and holds, with prices. Lowering reads
// it.
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

// Parameters that are gathered and reduced together: those of a layer, the embedding or the head.
// Bytes are of the whole arrays that one GPU's group holds, not cut by data parallelism. Those of
// experts belong to the smaller group of GPUs that hold the same experts.
struct ParameterUnit {
  Bytes gradient_bytes = 0, parameter_bytes = 0;
  Bytes expert_gradient_bytes = 0, expert_parameter_bytes = 0;

  bool operator==(const ParameterUnit&) const = default;
};

// The work of one stage for a microbatch on one GPU, and its sizes. No pass is empty: a stage with
// nothing to do in one (the weight gradient of an embedding without layers) has a step that takes
// no time.
struct StageWork {
  int layers = 0;
  Pass forward;
  Pass backward;                     // what is recomputed first, then both gradients
  Pass backward_input;               // the same, split: the input's gradient ...
  Pass backward_weight;              // ... and the weights'
  std::vector<ParameterUnit> units;  // in the order of the forward
  std::optional<Step> optimizer;     // of what the GPU updates of this stage; unset: nothing
  // Bytes of the largest numbers of its quantized arrays, all-reduced behind each forward and each
  // backward, and of those of its weights, all-reduced before they are gathered behind the
  // optimizer. 0: none.
  Bytes forward_amax_bytes = 0, backward_amax_bytes = 0, weight_amax_bytes = 0;
};

// Passes of vocabulary parallelism for a microbatch, the same on every pipeline rank
// (schedule/order/vocabulary.h says what each is for), and the bytes that ranks send each other.
// Their parameters are the first unit of the rank's lowest stage.
struct VocabularyWork {
  Pass embedding, s, t, embedding_gradient;
  // Input of the first stage or output of the last one; their gradients.
  Bytes activation_bytes = 0;
  Bytes softmax_bytes = 0;  // for each token the largest logit, the sum, the target's logit
};

// The work of a whole job. Everything is per GPU, after the cuts by tensor, context and expert
// parallelism.
struct Workload {
  std::vector<Kernel> kernels;  // no two are equal
  std::vector<StageWork> stages;
  Bytes pipeline_bytes = 0;         // an activation (or its gradient) from stage to stage
  Bytes pipeline_gather_bytes = 0;  // all-gathered by the tensor ranks after a transfer; 0: none
  // The number of activations that go to the last stage at once, each of these bytes: with
  // plan.mtp_before_loss there is one more for each prediction.
  int last_edge_arrays = 1;
  Bytes embedding_gradient_bytes = 0;  // shared by the first and last stage; 0: not shared
  Bytes gradient_norm_bytes = 0;       // 0: there is no such all-reduce
  // Time of every rank, once an iteration and whatever its stages: data, timers, logging.
  Nanoseconds iteration_overhead_ns = 0;
  std::optional<VocabularyWork> vocabulary;  // with plan.vocabulary

  // Returns how many activations go from one stage to another, or back, in a chain of so many
  // stages.
  int arrays_between(int from, int to, int stages_of_chain) const {
    return (std::max(from, to) + 1) % stages_of_chain == 0 ? last_edge_arrays : 1;
  }
};

// Returns the analytic workload of a model under a plan, priced by `cost`.
//
// A layer with tp > 1 has attention, all-reduce, MLP, all-reduce. Its backward repeats what full
// recompute repeats of these (with all-reduces), and then has MLP and attention, each with an
// all-reduce. With sequence parallelism each block has an all-gather before it and a reduce-scatter
// after it instead. The gather of a saved input for its weight gradient runs beside the input
// gradient, and is left out unless plan.tensor_overlap states it. With tp = 1 a layer is one
// kernel.
//
// A block's parts are steps of their own where communication comes between them: under
// tensor_overlap (workload/model/tensor_overlap.h), under context parallelism
// (workload/model/context.h), and in a mixture of experts (workload/model/moe.h). A pass then ends
// with a norm's gradient or an addition, which waits for the communication before it.
//
// `block_collective_ns` is the time of the collectives around one block (two blocks a layer and
// pass; topology knows it). While they run, the CPU goes on launching, so a block waits only for
// the part of its launch that takes longer. With 0, launches wait for collectives, which makes
// small models with tp > 1 too slow.
// REQUIRES: check_part(model, plan) and check_cost_model(cost); cost.precision = plan.precision.
Workload make_workload(const Model& model, const OrderedPlan& plan, const CostModel& cost,
                       Nanoseconds block_collective_ns = 0);

// Seconds of each action, where nothing else costs anything (costs.source = "uniform"): no
// optimizer, no sizes.
struct UniformCosts {
  double forward_s = 0, backward_s = 0, input_s = 0, weight_s = 0;
};
Workload uniform_workload(const UniformCosts& costs, int stages);

// Bytes on the fullest GPU, at its peak.
struct MemoryUse {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  // Buffers: two of a pipeline transfer; sequence parallelism's gathered array, and one for each
  // GEMM that overlaps; two of a context ring, or what is gathered or exchanged there; two of an
  // expert exchange; what both ends of vocabulary parallelism receive and send; the largest unit's
  // gradients under ZeRO 2, and a layer and the next unit under ZeRO 3 if it gathers for each pass.
  double communication = 0;
  double workspace = 0;  // of the GPU's GEMM libraries; set by the caller, as no model says it
  int rank = 0;          // its pipeline rank

  double total() const {
    return weights + gradients + optimizer + activations + communication + workspace;
  }
};

// By pipeline rank: its stages, and the number of microbatches alive in each at the rank's peak.
struct LiveActivations {
  struct Entry {
    Stage stage;  // its place in the model's chain, also in an order of two chains
    int microbatches = 0;
  };
  std::vector<std::vector<Entry>> ranks;
  // By rank, with plan.vocabulary: the most microbatches between S and T.
  std::vector<int> outputs = {};
};

// Memory of a plan's ranks, for callers who ask many times: what microbatches do not change is
// computed once.
class PlanMemory {
 public:
  // REQUIRES: check_model(model, plan); the plan outlives it.
  PlanMemory(const Model& model, const OrderedPlan& plan);

  // Returns the use of the rank with these stages. `outputs` is the number of microbatches between
  // S and T. REQUIRES: stages of the plan.
  MemoryUse of_rank(std::span<const LiveActivations::Entry> live, int outputs) const;

 private:
  struct StageBytes {
    double microbatch = 0;  // activations of one microbatch
    double quantized = 0;
    bool recomputes = false;
  };

  const OrderedPlan& plan_;
  std::vector<HeldParameters> parameters_;
  std::vector<StageBytes> stages_;
  double optimizer_bytes_ = 0, communication_ = 0, recomputed_ = 0, output_ = 0;
  double copy_ = 0;  // of the embedding for the head, where that is on another rank
};

// Returns the use of the fullest rank. REQUIRES: check_model(model, plan); at least one rank,
// stages of the plan.
MemoryUse peak_memory(const Model& model, const OrderedPlan& plan, const LiveActivations& live);

// Returns the activations that one layer keeps from a microbatch's forward to its backward, on one
// GPU. For fp16, kv_heads = heads, f = 4h and no gated MLP these are, by Korthikanti et al. 2022
// (arXiv 2205.05198), table 2: s b h (10 + 24/t + 5as/ht), or s b h (34 + 5as/h) / t with sequence
// parallelism; without the term in a s / h under selective recompute; 2 s b h under full recompute.
double activation_bytes_per_layer(const Model& model, const Plan& plan);

}  // namespace tandem
