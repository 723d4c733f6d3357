// Assembles each stage's passes, forward and three kinds of backward: first the embedding, then its
// layers (layer.h), then the head, with the communication between them. Prices each kernel once.
#include "workload/model/workload.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "workload/model/blocks.h"
#include "workload/model/layer.h"
#include "workload/model/recipe.h"
#include "workload/model/tensor_overlap.h"

namespace tandem {
namespace {

// Vocabulary-parallel cross entropy all-reduces three fp32 numbers a token: the largest logit, the
// target's logit, the sum of exponentials. They are small and follow one another, so they count as
// one all-reduce of 12 bytes.
constexpr Bytes kCrossEntropyBytesPerToken = 12;

// The gradient norm is one fp32 number.
constexpr Bytes kNormBytes = 4;

// A stage's backward passes while they are built: both gradients in one pass; the gradient of the
// input alone; those of the weights alone.
struct Backward {
  PassBuilder both, input, weight;
};

class Assembler {
 public:
  Assembler(const Model& model, const OrderedPlan& plan, const CostModel& cost,
            Nanoseconds block_collective_ns, const CopiedBytes& copied)
      : model_(model),
        plan_(plan),
        copied_(copied),
        tensor_(tensor_group(model, plan)),
        kernels_(cost) {
    const double collective_s = to_seconds(block_collective_ns);
    for (const auto& [kind, count] : kinds_of(model))
      layers_.emplace(kind, layer_passes(*kind, plan, collective_s, &kernels_));
    if (plan.vocabulary > 0) vocabulary_ = vocabulary_blocks(model, plan, cost.profile);
    if (plan.recomputes_alike()) return;
    Plan kept = plan;
    kept.recompute = Recompute::None;
    for (const auto& [kind, passes] : layers_)
      kept_layers_.emplace(kind, layer_passes(*kind, kept, collective_s, &kernels_));
  }

  Workload assemble() {
    for (const StageLayers& at : layers_of_stages(model_, plan_)) work_.stages.push_back(stage(at));
    if (plan_.vocabulary > 0) add_vocabulary();
    add_optimizer();
    add_sizes();
    work_.kernels = kernels_.take();
    return std::move(work_);
  }

 private:
  // Returns the passes of a layer. Where full recompute repeats only a stage's first layers, the
  // others keep their activations, and kept_layers_ has their passes.
  const LayerPasses& passes_of(const Model& layer, bool recomputed) const {
    const bool is_kept = !recomputed && !plan_.recomputes_alike();
    return (is_kept ? kept_layers_ : layers_).at(&layer);
  }

  // Builds a stage. A compute step has the number of the unit (StageWork::units) whose parameters
  // it uses. Units come in this order: the embedding or the rank's share of the vocabulary, if it
  // is here; each layer; multi-token prediction and the head.
  StageWork stage(const StageLayers& at) {
    StageWork stage;
    stage.layers = at.count;
    PassBuilder forward;
    Backward backward;
    add_stage_begin(at.stage, &forward, &stage.units);
    const int first_unit = static_cast<int>(stage.units.size());
    const int recomputed = recomputed_layers(plan_, at.count);
    const double copies = copied_share(at.count);
    const auto append = [&](PassBuilder* pass, Pass LayerPasses::*own, int i) {
      append_layer(pass, own, model_.layer(at.begin + i), i < recomputed, copies, first_unit + i);
    };
    for (int i = 0; i < at.count; ++i) {
      const Model& layer = model_.layer(at.begin + i);
      stage.units.push_back(
          unit_of(share_of_equal_layers(layer, plan_, 1), router_parameters(layer)));
      append(&forward, &LayerPasses::forward, i);
    }
    add_stage_end(at.stage, &forward, &backward, &stage.units);
    for (int i = at.count - 1; i >= 0; --i) {
      append(&backward.both, &LayerPasses::backward, i);
      append(&backward.input, &LayerPasses::backward_input, i);
      append(&backward.weight, &LayerPasses::backward_weight, i);
    }
    if (at.stage == 0) add_embedding_backward(&backward);
    stage.forward = finish(&forward);
    stage.backward = finish(&backward.both);
    stage.backward_input = finish(&backward.input);
    stage.backward_weight = finish(&backward.weight);
    add_amax(at, &stage);
    return stage;
  }

  // Adds the embedding on the first stage. With vocabulary parallelism the first pp stages get the
  // rank's share of the vocabulary, whose kernels are in add_vocabulary().
  void add_stage_begin(int number, PassBuilder* forward, std::vector<ParameterUnit>* units) {
    const bool first = number == 0;
    const double positions = first ? position_parameters(model_) : 0;
    if (vocabulary_ && number < plan_.pp) {
      units->push_back(wide_unit(vocabulary_share(model_, plan_) + positions));
      if (first) compute(forward, vocabulary_->positions, 0);
    } else if (first) {
      units->push_back(wide_unit(embedding_share(model_, plan_) + positions));
      compute(forward, embedding_block(model_, plan_, profile()).forward, 0);
      reduce(forward, tensor_);
    }
  }

  // Adds what comes behind the stage's layers:
  // - on the last stage, the head and multi-token prediction's layers, each with a head again;
  // - on the last stage with vocabulary parallelism, the norm before the head, whose work is in
  //   add_vocabulary();
  // - with plan.mtp_before_loss, prediction's layers on the stage before the last one
  //   (plan.mtp_stage()), and only their heads on the last one.
  void add_stage_end(int number, PassBuilder* forward, Backward* backward,
                     std::vector<ParameterUnit>* units) {
    const bool last = number + 1 == plan_.stages();
    const int unit = static_cast<int>(units->size());
    const bool is_before_loss =
        plan_.mtp_before_loss && model_.mtp_layers > 0 && number == plan_.mtp_stage();
    if (last && vocabulary_) {
      compute(forward, vocabulary_->norm, /*unit=*/-1);
      compute(&backward->both, vocabulary_->norm_gradient, /*unit=*/-1);
      compute(&backward->input, vocabulary_->norm_gradient, /*unit=*/-1);
    } else if (last) {
      HeldParameters held;
      double wide = head_share(model_, plan_);
      if (!plan_.mtp_before_loss) {
        held = mtp_share(model_, plan_);
        wide += mtp_routers();
      }
      held.dense += head_share(model_, plan_);
      units->push_back(unit_of(held, wide));
      add_head(forward, backward, unit);
      for (int i = 0; i < model_.mtp_layers; ++i) {
        if (plan_.mtp_before_loss) {
          add_head(forward, backward, unit);
        } else {
          add_mtp(forward, backward, unit);
        }
      }
    } else if (is_before_loss) {
      HeldParameters held = mtp_share(model_, plan_);
      const double embedding = mtp_embedding_share(model_, plan_);
      held.dense += embedding;
      units->push_back(unit_of(held, embedding + mtp_routers()));
      for (int i = 0; i < model_.mtp_layers; ++i) add_mtp(forward, backward, unit);
    }
  }

  // Returns the share of its offloaded bytes that each of a stage's layers waits for. With
  // plan.offload_modules (offload_layers is 0) each waits for its own. With offload_layers the
  // stage's copies are spread: if 2 of 8 layers are offloaded, each waits for a quarter.
  double copied_share(int layers) const {
    if (plan_.offload_layers == 0) return 1;
    return static_cast<double>(std::min(plan_.offload_layers, layers)) / std::max(1, layers);
  }

  // Appends one of a layer's passes. It waits for the copies of a share (`copies`) of the layer's
  // offloaded bytes, as far as they take longer than its compute.
  void append_layer(PassBuilder* pass, Pass LayerPasses::*own, const Model& layer, bool recomputed,
                    double copies, int unit) const {
    const Pass& alone = passes_of(layer, recomputed).*own;
    if (!plan_.offloads_activations() || own == &LayerPasses::backward_weight)
      return pass->append(alone, unit);
    const Recompute recompute = recomputed ? plan_.recompute : recompute_of_others(plan_);
    const Nanoseconds copies_ns =
        to_ns(copies * copied_(layer, recompute) / kernels_.cost().device.host_link_bytes_per_s);
    pass->append(with_waits(alone, std::max(Nanoseconds{0}, copies_ns - compute_ns(alone))), unit);
  }

  // Adds the bytes of the largest numbers ("amax") that Transformer Engine keeps for each quantized
  // product: three in the forward, of its input, weight and output; two in the backward, of the
  // gradients.
  void add_amax(const StageLayers& at, StageWork* stage) const {
    const std::optional<Recipe> recipe = recipe_of(plan_);
    if (!recipe) return;
    Bytes products = 0;
    for (int i = 0; i < at.count; ++i)
      products += layers_.at(&model_.layer(at.begin + i)).quantized;
    if (recipe->reduces_passes) {
      stage->forward_amax_bytes = 3 * kAmaxBytes * products;
      stage->backward_amax_bytes = 2 * kAmaxBytes * products;
    }
    if (!plan_.fp8_param_gather || plan_.zero == 0) return;
    stage->weight_amax_bytes = std::llround(
        recipe->weight_amax_bytes * static_cast<double>(products) +
        recipe->amax_bytes_per_number * linear_share(model_, plan_, at.begin, at.count));
  }

  // Returns the finished pass. An empty pass gets a step that takes no time.
  static Pass finish(PassBuilder* pass) {
    if (pass->empty()) pass->compute(/*kernel=*/-1, /*duration_ns=*/0);
    return pass->take();
  }

  void compute(PassBuilder* pass, const Kernel& kernel, int unit) {
    const int index = kernels_.add(kernel);
    pass->compute(index, kernels_.duration_ns(index), unit);
  }

  void compute_gradients(Backward* backward, const char* name, const Block& block, int unit) {
    compute(&backward->both, merge(name, {block.input_gradient, block.weight_gradient}), unit);
    compute(&backward->input, block.input_gradient, unit);
    compute(&backward->weight, block.weight_gradient, unit);
  }

  Bytes cross_entropy_bytes() const {
    return kCrossEntropyBytesPerToken * tokens_of(model_, plan_);
  }
  void reduce_loss(PassBuilder* pass) const {
    if (plan_.tp > 1)
      pass->communicate(GroupKind::Tensor, CommKind::AllReduce, cross_entropy_bytes());
  }

  // Adds the embedding's backward to the pass that computes input gradients, as zero-bubble's
  // Megatron does, whose weight-gradient pass has linear layers only.
  void add_embedding_backward(Backward* backward) {
    const Kernel gradient = vocabulary_ ? vocabulary_->positions_gradient
                                        : embedding_block(model_, plan_, profile()).weight_gradient;
    for (PassBuilder* pass : {&backward->both, &backward->input}) {
      if (!vocabulary_) gather(pass, tensor_, tensor_.bytes);
      compute(pass, gradient, 0);
    }
  }

  void add_head(PassBuilder* forward, Backward* backward, int unit) {
    const Block head = head_block(model_, plan_, profile());
    gather(forward, tensor_, tensor_.bytes);
    compute(forward, head.forward, unit);
    reduce_loss(forward);
    compute_gradients(backward, "head backward", head, unit);
    for (PassBuilder* pass : {&backward->both, &backward->input}) reduce(pass, tensor_);
  }

  // Adds a rank's work on its rows of the vocabulary: the passes E, S, T and G
  // (schedule/order/vocabulary.h). The gradient of the last stage's output, which S or T computes,
  // is reduced over the tensor group, as the head's is, and then over the pipeline.
  void add_vocabulary() {
    VocabularyWork work;
    PassBuilder embedding, s, t, gradient;
    compute(&embedding, vocabulary_->lookup, 0);
    reduce(&embedding, tensor_);
    gather(&s, tensor_, tensor_.bytes);
    compute(&s, vocabulary_->logits, 0);
    reduce_loss(&s);
    // Algorithm 2 computes the input's gradient in S, algorithm 1 in T.
    PassBuilder* const with_gradient = plan_.vocabulary == 2 ? &s : &t;
    compute(with_gradient, vocabulary_->input_gradient, 0);
    reduce(with_gradient, tensor_);
    const int output = with_gradient->last();
    compute(&t, vocabulary_->weight_gradient, 0);
    gather(&gradient, tensor_, tensor_.bytes);
    compute(&gradient, vocabulary_->lookup_gradient, 0);
    work.embedding = finish(&embedding);
    work.s = finish(&s);
    // T sends on the input's gradient, if it computes this one, before the weights'.
    work.t = with_gradient == &t ? t.take(output) : t.take();
    work.embedding_gradient = finish(&gradient);
    work.activation_bytes = tensor_.sequence_parallel ? tensor_.bytes / plan_.tp : tensor_.bytes;
    work.softmax_bytes = cross_entropy_bytes();
    work_.vocabulary = std::move(work);
  }

  // Adds a layer that predicts one more token: the product that merges its two inputs, a layer like
  // the last one, and the head again, unless that is on the next stage. This layer is none of a
  // stage's first ones, so a plan that recomputes or offloads only these leaves it out.
  void add_mtp(PassBuilder* forward, Backward* backward, int unit) {
    const Block product = mtp_block(model_, plan_, profile());
    const auto append = [&](PassBuilder* pass, Pass LayerPasses::*own) {
      append_layer(pass, own, model_.layer(model_.layers - 1), plan_.recomputes_alike(),
                   plan_.offload_layers == 0 ? 1 : 0, unit);
    };
    compute(forward, product.forward, unit);
    append(forward, &LayerPasses::forward);
    if (!plan_.mtp_before_loss) add_head(forward, backward, unit);
    append(&backward->both, &LayerPasses::backward);
    append(&backward->input, &LayerPasses::backward_input);
    append(&backward->weight, &LayerPasses::backward_weight);
    compute_gradients(backward, "mtp backward", product, unit);
  }

  const FrameworkProfile& profile() const { return kernels_.cost().profile; }

  // Returns the bytes of a unit's parameters. `wide` of the dense ones stay in 16 bits whatever the
  // recipe: embedding, head, router.
  ParameterUnit unit_of(const HeldParameters& held, double wide) const {
    const int gradient = bytes_of(plan_.gradient_dtype);
    const double parameter = gathered_parameter_bytes(plan_);
    const double widening = wide * (stored_bytes(plan_) - parameter);
    return {.gradient_bytes = std::llround(held.dense * gradient),
            .parameter_bytes = std::llround(held.dense * parameter + widening),
            .expert_gradient_bytes = std::llround(held.expert * gradient),
            .expert_parameter_bytes = std::llround(held.expert * parameter)};
  }

  // Returns the parameters of the routers of the layers that predict further tokens.
  double mtp_routers() const {
    return model_.mtp_layers * router_parameters(model_.layer(model_.layers - 1));
  }

  ParameterUnit wide_unit(double parameters) const {
    return unit_of({.dense = parameters}, parameters);
  }

  // Adds the padding of a stage's buffers to its units, in proportion.
  static void pad_units(const HeldParameters& held, const HeldParameters& padding,
                        std::vector<ParameterUnit>* units) {
    const auto pad = [](double own, double more, Bytes* bytes) {
      if (more > 0) *bytes = std::llround(static_cast<double>(*bytes) * (1 + more / own));
    };
    for (ParameterUnit& unit : *units) {
      pad(held.dense, padding.dense, &unit.gradient_bytes);
      pad(held.dense, padding.dense, &unit.parameter_bytes);
      pad(held.expert, padding.expert, &unit.expert_gradient_bytes);
      pad(held.expert, padding.expert, &unit.expert_parameter_bytes);
    }
  }

  // Adds the optimizer's steps. Under ZeRO each data-parallel rank updates its cut.
  void add_optimizer() {
    const std::vector<HeldParameters> held = stage_parameters(model_, plan_);
    const std::vector<MuonShare> muon = muon_shares(model_, plan_);
    for (const auto& [s, begin, layers] : layers_of_stages(model_, plan_)) {
      pad_units(held[s], muon[s].padding, &work_.stages[s].units);
      const double linear = linear_share(model_, plan_, begin, layers);
      const Kernel step = optimizer_kernel(plan_, held[s], linear, muon[s], profile());
      if (step.empty()) continue;
      const int kernel = kernels_.add(step);
      work_.stages[s].optimizer =
          Step{.kernel = kernel, .duration_ns = kernels_.duration_ns(kernel)};
    }
    work_.iteration_overhead_ns =
        to_ns(iteration_overhead_s(plan_, profile(), model_.layers / double(plan_.pp)));
  }

  void add_sizes() {
    const bool cut = plan_.tp > 1 && (plan_.sequence_parallel || plan_.scatter_gather);
    work_.pipeline_bytes = cut ? tensor_.bytes / plan_.tp : tensor_.bytes;
    if (cut && !plan_.sequence_parallel) work_.pipeline_gather_bytes = tensor_.bytes;
    if (plan_.mtp_before_loss) work_.last_edge_arrays = 1 + model_.mtp_layers;
    if (head_has_copy(model_, plan_)) {
      work_.embedding_gradient_bytes = static_cast<Bytes>(padded_vocab(model_, plan_)) / plan_.tp *
                                       model_.hidden * bytes_of(plan_.gradient_dtype);
    }
    if (plan_.tp * plan_.pp > 1 || (plan_.zero > 0 && plan_.shard_ranks() > 1))
      work_.gradient_norm_bytes = kNormBytes;
  }

  const Model& model_;
  const OrderedPlan& plan_;
  const CopiedBytes& copied_;
  const TensorGroup tensor_;
  KernelTable kernels_;
  std::optional<VocabularyBlocks> vocabulary_;
  // Passes by kind of layer: under plan.recompute, and without recompute. The latter are empty if
  // all layers are recomputed alike.
  std::map<const Model*, LayerPasses> layers_, kept_layers_;
  Workload work_;
};

}  // namespace

double iteration_overhead_s(const Plan& plan, const FrameworkProfile& profile, double layers) {
  const bool all_in_graphs = plan.cuda_graphs && plan.cuda_graph_modules == CudaGraphModules{};
  const int collectives = plan.zero < 2 ? 0 : plan.gathers() + plan.reductions();  // of a layer
  const int shard_ranks = plan.hsdp_shard > 0 ? plan.hsdp_shard : plan.dp * plan.cp;
  const int steps = shard_ranks - 1;  // of a ring
  return (all_in_graphs ? 0 : profile.iteration_overhead_s) +
         profile.rank_overhead_s * std::log2(std::max(1, plan.gpus())) +
         profile.shard_latency_s * collectives * layers * steps;
}

Workload make_workload(const Model& model, const OrderedPlan& plan, const CostModel& cost,
                       Nanoseconds block_collective_ns, const CopiedBytes& copied) {
  CHECK(check_part(model, plan).ok());
  CHECK(check_cost_model(cost).ok());
  CHECK(cost.precision == plan.precision);
  CHECK(block_collective_ns >= 0);
  CostModel priced = cost;
  if (const auto recipe = recipe_of(plan)) priced.quantized_rate = recipe->rate;
  CHECK(!plan.offloads_activations() || (copied && cost.device.host_link_bytes_per_s > 0));
  return Assembler(model, plan, priced, block_collective_ns, copied).assemble();
}

Workload uniform_workload(const UniformCosts& costs, int stages) {
  CHECK(stages > 0);
  const auto pass = [](double seconds) {
    PassBuilder builder;
    builder.compute(/*kernel=*/-1, to_ns(seconds));
    return builder.take();
  };
  const StageWork stage = {.forward = pass(costs.forward_s),
                           .backward = pass(costs.backward_s),
                           .backward_input = pass(costs.input_s),
                           .backward_weight = pass(costs.weight_s)};
  Workload work;
  work.stages.assign(stages, stage);
  return work;
}

}  // namespace tandem
