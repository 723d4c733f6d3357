// Workload: what each stage of the pipeline computes, sends and holds, with prices. Lowering reads
// it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
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

// Parameters that are gathered and reduced together: of a layer, the embedding or the head. The
// bytes are not cut by data parallelism (ZeRO). Experts' parameters count apart, because fewer GPUs
// have replicas of them.
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
  // Bytes of amax values (an array's largest number): of quantized arrays, all-reduced after each
  // forward and each backward; of weights, all-reduced after the optimizer, before the weights are
  // gathered. 0: none.
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

// Returns the bytes that a layer copies to the CPU's memory in its forward, and back for its
// backward, if activations are offloaded (plan.offloads_activations).
using CopiedBytes = std::function<double(const Model& layer, Recompute recompute)>;

// Returns what an iteration of a pipeline stage of `layers` layers takes beside its kernels, in
// seconds: the CPU's part, which CUDA graphs of the whole iteration leave out, a part that grows
// with the number of GPUs, and the latencies of FSDP's collectives, layer by layer.
double iteration_overhead_s(const Plan& plan, const FrameworkProfile& profile, double layers);

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
//
// A layer that offloads activations computes beside the copies of the layer before it. If its
// compute is shorter than its own copies, it waits for the rest (with_waits), in its forward and in
// the backward that computes its input's gradient. With plan.offload_layers the copies are spread
// evenly over all of the stage's layers, as Transformer Engine does.
// REQUIRES: check_part(model, plan) and check_cost_model(cost); cost.precision = plan.precision;
// `copied` and cost.device.host_link_bytes_per_s if the plan offloads activations.
Workload make_workload(const Model& model, const OrderedPlan& plan, const CostModel& cost,
                       Nanoseconds block_collective_ns = 0, const CopiedBytes& copied = {});

// Seconds of each action, where nothing else costs anything (costs.source = "uniform"): no
// optimizer, no sizes.
struct UniformCosts {
  double forward_s = 0, backward_s = 0, input_s = 0, weight_s = 0;
};
Workload uniform_workload(const UniformCosts& costs, int stages);

}  // namespace tandem
