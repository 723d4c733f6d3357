// Assembles a stage's pieces from the blocks' kernels, and prices each kernel once.
#include "workload/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "workload/blocks.h"

namespace tandem {
namespace {

// Vocabulary-parallel cross entropy all-reduces three fp32 numbers a token: the largest logit, the
// target's logit, the sum of exponentials. They are small and one after the other: one of 12 bytes.
constexpr Bytes kCrossEntropyBytesPerToken = 12;

// The gradient norm: one fp32 number.
constexpr Bytes kNormBytes = 4;

using Pieces = std::vector<Piece>;

// The kernels of one layer's passes in the order in which they run, as indices: attention and MLP
// apart where tensor parallelism puts a collective between them, else merged into one.
struct LayerKernels {
  std::vector<int> forward, backward, input_gradient;
  int weight_gradient = -1;
};

class Assembler {
 public:
  Assembler(const Model& model, const Plan& plan, const CostModel& cost,
            Nanoseconds block_collective_ns)
      : model_(model),
        plan_(plan),
        cost_(cost),
        block_collective_s_(to_seconds(block_collective_ns)),
        sequence_parallel_(plan.sequence_parallel && plan.tp > 1),
        activation_bytes_(static_cast<Bytes>(stored_bytes(plan)) * plan.micro_batch * model.seq *
                          model.hidden) {}

  Workload assemble() {
    const std::vector<int> split = split_layers(model_, plan_);
    const std::vector<double> parameters = stage_parameters(model_, plan_);
    const int gradient_bytes = bytes_of(plan_.gradient_dtype);
    const LayerKernels layer = add_layer();
    for (std::size_t s = 0; s < split.size(); ++s) {
      StageWork stage;
      stage.layers = split[s];
      stage.gradient_bytes = std::llround(parameters[s] * gradient_bytes);
      if (s == 0) add_embedding_forward(&stage);
      for (int i = 0; i < split[s]; ++i) run_blocks(&stage.forward, layer.forward);
      if (s + 1 == split.size()) add_head(&stage);
      for (int i = 0; i < split[s]; ++i) add_layer_backward(&stage, layer);
      if (s == 0) add_embedding_backward(&stage);
      for (Pieces* pieces :
           {&stage.forward, &stage.backward, &stage.backward_input, &stage.backward_weight}) {
        if (pieces->empty()) pieces->push_back(Piece{});
      }
      work_.stages.push_back(std::move(stage));
    }
    add_optimizer(parameters);
    add_sizes(gradient_bytes);
    return std::move(work_);
  }

 private:
  // The kernel's index; equal kernels share one.
  int add(Kernel kernel) {
    const auto known = std::ranges::find(work_.kernels, kernel);
    if (known != work_.kernels.end()) return static_cast<int>(known - work_.kernels.begin());
    durations_.push_back(kernel_ns(cost_, kernel));
    work_.kernels.push_back(std::move(kernel));
    return static_cast<int>(work_.kernels.size()) - 1;
  }

  // A kernel with collectives round it: max(device, launch - collectives) + collectives is
  // max(device + collectives, launch), and that is what a CPU that runs ahead gives.
  int add_block(Kernel kernel) {
    kernel.launch_s = std::max(0.0, kernel.launch_s - block_collective_s_);
    return add(std::move(kernel));
  }

  LayerKernels add_layer() {
    const Block attention = attention_block(model_, plan_);
    const Block mlp = mlp_block(model_, plan_);
    const Kernel core = plan_.recompute == Recompute::Selective ? attention.core : Kernel{};
    LayerKernels layer;
    layer.weight_gradient =
        add(merge("layer weight gradient", {mlp.weight_gradient, attention.weight_gradient}));
    if (plan_.tp > 1) {
      layer.forward = {add_block(attention.forward), add_block(mlp.forward)};
      layer.backward = {add_block(merge("mlp backward", {mlp.input_gradient, mlp.weight_gradient})),
                        add_block(merge("attention backward", {core, attention.input_gradient,
                                                               attention.weight_gradient}))};
      layer.input_gradient = {
          add_block(mlp.input_gradient),
          add_block(merge("attention input gradient", {core, attention.input_gradient}))};
      return layer;
    }
    const Kernel forward = merge("layer forward", {attention.forward, mlp.forward});
    const Kernel recomputed = plan_.recompute == Recompute::Full ? forward : core;
    const Kernel input =
        merge("layer input gradient", {recomputed, mlp.input_gradient, attention.input_gradient});
    layer.forward = {add(forward)};
    layer.input_gradient = {add(input)};
    layer.backward = {
        add(merge("layer backward", {input, mlp.weight_gradient, attention.weight_gradient}))};
    return layer;
  }

  void compute(Pieces* pieces, int kernel) {
    pieces->push_back({.kernel = kernel, .duration_ns = durations_[kernel]});
  }

  // What a block needs whole is gathered before it where it lies cut along the sequence, ...
  void gather(Pieces* pieces) {
    if (!sequence_parallel_) return;
    pieces->push_back({.collective = CommKind::AllGather, .collective_bytes = activation_bytes_});
  }

  // ... and what it leaves as one summand a GPU is summed after it.
  void reduce(Pieces* pieces) {
    if (plan_.tp == 1) return;
    pieces->back().collective = sequence_parallel_ ? CommKind::ReduceScatter : CommKind::AllReduce;
    pieces->back().collective_bytes = activation_bytes_;
  }

  void run_blocks(Pieces* pieces, const std::vector<int>& kernels) {
    for (const int kernel : kernels) {
      gather(pieces);
      compute(pieces, kernel);
      reduce(pieces);
    }
  }

  void add_layer_backward(StageWork* stage, const LayerKernels& layer) {
    const bool again = plan_.tp > 1 && plan_.recompute == Recompute::Full;  // else it is merged
    for (Pieces* pieces : {&stage->backward, &stage->backward_input}) {
      if (again) run_blocks(pieces, layer.forward);
      run_blocks(pieces, pieces == &stage->backward ? layer.backward : layer.input_gradient);
    }
    compute(&stage->backward_weight, layer.weight_gradient);
  }

  void add_embedding_forward(StageWork* stage) {
    compute(&stage->forward, add(embedding_block(model_, plan_).forward));
    reduce(&stage->forward);
  }

  // As in zero-bubble's Megatron, whose weight gradients are those of linear layers, the
  // embedding's is part of the pass that computes input gradients.
  void add_embedding_backward(StageWork* stage) {
    const int kernel = add(embedding_block(model_, plan_).weight_gradient);
    for (Pieces* pieces : {&stage->backward, &stage->backward_input}) {
      gather(pieces);
      compute(pieces, kernel);
    }
  }

  void add_head(StageWork* stage) {
    const Block head = head_block(model_, plan_);
    gather(&stage->forward);
    compute(&stage->forward, add(head.forward));
    if (plan_.tp > 1) {
      stage->forward.back().collective_bytes =
          kCrossEntropyBytesPerToken * plan_.micro_batch * model_.seq;
    }
    compute(&stage->backward,
            add(merge("head backward", {head.input_gradient, head.weight_gradient})));
    reduce(&stage->backward);
    compute(&stage->backward_input, add(head.input_gradient));
    reduce(&stage->backward_input);
    compute(&stage->backward_weight, add(head.weight_gradient));
  }

  void add_optimizer(const std::vector<double>& parameters) {
    for (int rank = 0; rank < plan_.pp; ++rank) {
      double held = 0;
      for (std::size_t s = rank; s < parameters.size(); s += plan_.pp) held += parameters[s];
      compute(&work_.optimizer, add(optimizer_kernel(held)));
    }
  }

  void add_sizes(int gradient_bytes) {
    const bool cut = plan_.tp > 1 && (plan_.sequence_parallel || plan_.scatter_gather);
    work_.pipeline_bytes = cut ? activation_bytes_ / plan_.tp : activation_bytes_;
    if (cut && !plan_.sequence_parallel) work_.pipeline_gather_bytes = activation_bytes_;
    if (plan_.pp > 1) {
      work_.embedding_gradient_bytes = static_cast<Bytes>(padded_vocab(model_, plan_)) / plan_.tp *
                                       model_.hidden * gradient_bytes;
    }
    if (plan_.tp * plan_.pp > 1) work_.gradient_norm_bytes = kNormBytes;
  }

  const Model& model_;
  const Plan& plan_;
  const CostModel& cost_;
  const double block_collective_s_;
  const bool sequence_parallel_;
  const Bytes activation_bytes_;  // s b h numbers
  Workload work_;
  std::vector<Nanoseconds> durations_;  // of work_.kernels
};

}  // namespace

Workload make_workload(const Model& model, const Plan& plan, const CostModel& cost,
                       Nanoseconds block_collective_ns) {
  CHECK(check(model, plan).ok());
  CHECK(check(cost).ok());
  CHECK(cost.precision == plan.precision);
  CHECK(block_collective_ns >= 0);
  return Assembler(model, plan, cost, block_collective_ns).assemble();
}

Workload uniform_workload(const UniformCosts& costs, int stages) {
  CHECK(stages > 0);
  const auto piece = [](double seconds) { return Pieces{{.duration_ns = to_ns(seconds)}}; };
  const StageWork stage = {.forward = piece(costs.forward_s),
                           .backward = piece(costs.backward_s),
                           .backward_input = piece(costs.input_s),
                           .backward_weight = piece(costs.weight_s)};
  Workload work;
  work.stages.assign(stages, stage);
  return work;
}

}  // namespace tandem
