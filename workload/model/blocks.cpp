// Builds the blocks' kernels on one GPU: GEMMs from their shapes, and passes over memory.
//
// The cost of all passes of a layer is fitted (FrameworkProfile). Their division over the blocks
// follows from what each of them reads and writes. Letters: s positions, b microbatch, h hidden, f
// the MLP's inner width, tp tensor ranks, sp those over which sequence parallelism cuts (else 1).
#include "workload/model/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "workload/model/block_work.h"

namespace tandem {
namespace {

// A pass reads or writes an array once.
//
// Passes over the MLP's inner array (s b f / tp):
//
//   activation                  forward 2    backward 5 with the bias gradient
//   gated activation            forward 3    backward 5
//
// With f = 4h a whole layer, attention included, makes passes over (11/sp + 14/tp) s b h numbers
// forward and (14/sp + 32/tp) s b h backward.
constexpr double kMlpPasses = 2;
constexpr double kGatedMlpPasses = 3;
constexpr double kMlpPassesBackward = 5;

// Passes of the embedding over s b h numbers, counted, not fitted. Under vocabulary parallelism
// every rank does the first line of the table, for its part of the vocabulary, and the first stage
// alone does the others.
//
//   look-up, and scatter        forward 2    backward 3
//   positions                   forward 2    backward 1
//   dropout                     forward 2.5  backward 2.5   cut by sequence parallelism
constexpr double kLookupPasses = 2;
constexpr double kScatterPasses = 3;
constexpr double kPositionPasses = 2;
constexpr double kPositionPassesBackward = 1;
constexpr double kEmbeddingDropoutPasses = 2.5;

// Passes of vocabulary parallelism that turn the softmax of a rank's own logits into that of the
// whole vocabulary, in 16 bits:
//
//   logits                      read and written once more: 2
//   the input's gradient        written, read, scaled and written, for two arrays: 6
//
// The second line is for algorithm 2 alone (Yeung et al. 2025, arXiv 2411.05288). One of the two
// arrays is a product with the softmax, the other has the targets' rows of the weights.
constexpr double kRescalePassesOfLogits = 2;
constexpr double kRescalePassesOfGradient = 6;

// Passes that a fused kernel saves: those of the separate kernels less those of the fused one,
// counted from the operations, not fitted.
//
//   passes over the array       separate kernels                   fused  spared
//   bias and GELU, forward      bias 2, GELU 2                       2      2
//   backward                    the bias is the identity                    0
//   gated, forward              SiLU 2, product 3                    3      2
//   gated, backward             two products 3 each, SiLU 3          5      4
constexpr double kSplitActivationPasses = 2;
constexpr double kSplitActivationPassesBackward = 0;
constexpr double kSplitGatedPasses = 2;
constexpr double kSplitGatedPassesBackward = 4;
//   bytes for each logit        separate kernels                   fused  spared
//   cross entropy               to fp32 6, maximum 4,               18     42
//                               difference 8, exponential 8,
//                               sum 4, quotient 8, gradient 8,
//                               times the loss's 8, to 16 bits 6
constexpr double kSplitCrossEntropyBytesPerLogit = 42;

// A mixture of experts, forward and backward each; counted, not fitted.
//
//   router, bytes per logit     softmax 8, top-k 4, its scatter 4, in fp32
//   permutation, passes         each of the top_k copies is read and written: 2 per copy
//   way back, passes            each copy is read, and one sum is written for a token
//   biases, bytes of a number   Megatron-LM adds those of the second product by themselves, in fp32
//                               and expert by expert: bias x probability 4, its sum with the output
//                               10, concatenation 8, to 16 bits 6; backward to fp32 6 and back 6,
//                               the gradients of bias and probability 12 each
//                               (core/transformer/moe/experts.py, _apply_bias)
constexpr double kRouterBytesPerLogit = 16;
constexpr double kPermutePassesPerCopy = 2;
constexpr double kExpertBiasBytes = 28;
constexpr double kExpertBiasBytesBackward = 36;

// Adds the passes of an unfused activation. `array` is the bytes of the inner array.
void add_split_activation(BlockWork* block, const Model& model, double array) {
  const bool gated = model.gated_mlp;
  block->forward.between.bytes += array * (gated ? kSplitGatedPasses : kSplitActivationPasses);
  block->input_gradient.between.bytes +=
      array * (gated ? kSplitGatedPassesBackward : kSplitActivationPassesBackward);
}

}  // namespace

std::int64_t tokens_of(const Model& model, const Plan& plan) {
  return static_cast<std::int64_t>(model.seq) / plan.cp * plan.micro_batch;
}

std::int64_t routed_tokens(const Model& model, const Plan& plan) {
  return tokens_of(model, plan) / (plan.sequence_parallel ? plan.tp : 1);
}

// In the mean, as many copies of tokens arrive at a rank as leave it: its tokens times top_k. The
// busiest rank gets expert_load times as many. Ranks that share an expert gather what each of them
// got.
std::int64_t expert_rows(const Model& layer, const Plan& plan) {
  if (!layer.is_moe()) return 0;
  const double copies = static_cast<double>(routed_tokens(layer, plan)) * layer.top_k;
  const double arriving = copies * plan.expert_tensor() * expert_load(layer, plan);
  const std::int64_t local = layer.experts / plan.ep;
  return std::max<std::int64_t>(1, std::llround(arriving / static_cast<double>(local)));
}

namespace {

Block without_launch(Block block) {
  for (Kernel Block::*pass : {&Block::forward, &Block::input_gradient, &Block::weight_gradient})
    (block.*pass).launch_s = 0;
  return block;
}

// REQUIRES: the model has loads of model.routing.
const RoutedLoad& routed_on(const Model& model, const Plan& plan) {
  const auto found = std::ranges::find(model.routed, plan.ep, &RoutedLoad::ranks);
  CHECK(found != model.routed.end());
  return *found;
}

double stated_imbalance(const Model& model, const Plan& plan) {
  return std::min(model.expert_imbalance, static_cast<double>(plan.ep));
}

double load_of(const Model& model, const Plan& plan, double RoutedLoad::*statistic) {
  if (model.pad_to_capacity) return model.capacity_factor;
  if (!model.routed.empty()) return routed_on(model, plan).*statistic;
  const double load = stated_imbalance(model, plan);
  return model.capacity_factor == 0 ? load : std::min(load, model.capacity_factor);
}

}  // namespace

double expert_load(const Model& model, const Plan& plan) {
  return load_of(model, plan, &RoutedLoad::mean);
}
double peak_expert_load(const Model& model, const Plan& plan) {
  return load_of(model, plan, &RoutedLoad::most);
}

bool equal_expert_loads(const Model& model, const Plan& plan) {
  return model.routed.empty() ? stated_imbalance(model, plan) == 1 : routed_on(model, plan).even;
}

// With an imbalance of r over n ranks and a capacity of c, in tokens of the mean rank, the busiest
// rank drops r - c. The others get n - r together, may take (n - 1) c, and drop what is beyond.
// Example: n = 4, r = 2, c = 0.5: 1.5 and 2 - 1.5 = 0.5 of 4 are dropped, a half.
double dropped_share(const Model& model, const Plan& plan) {
  const double capacity = model.capacity_factor, ranks = plan.ep;
  if (!model.is_moe() || capacity == 0) return 0;
  if (!model.routed.empty()) return model.routed.front().dropped;  // on any ranks
  const double busiest = stated_imbalance(model, plan);
  return (std::max(0.0, busiest - capacity) +
          std::max(0.0, ranks - busiest - (ranks - 1) * capacity)) /
         ranks;
}

std::int64_t query_columns(const Model& model, const Plan& plan) {
  switch (model.mixer) {
    case Mixer::Heads:
    case Mixer::Latent:
      return static_cast<std::int64_t>(model.heads) * model.query_size() / plan.tp;
    case Mixer::Mamba:
      return model.mamba_inner() / plan.tp;
    case Mixer::Linear:
      return model.linear_keys() / plan.tp;
    case Mixer::None:
      return 0;
  }
  CHECK(false);
  return 0;
}

std::int64_t key_value_columns(const Model& model, const Plan& plan) {
  switch (model.mixer) {
    case Mixer::Heads:
      return 2 * std::max<std::int64_t>(model.head_size(), std::int64_t{model.key_value_heads()} *
                                                               model.head_size() / plan.tp);
    case Mixer::Latent:
      return static_cast<std::int64_t>(model.heads) * (model.query_size() + model.value_size()) /
             plan.tp;
    case Mixer::Mamba:
      return 2 * static_cast<std::int64_t>(model.mamba_groups) * model.mamba_state / plan.tp;
    case Mixer::Linear:
      return query_columns(model, plan) + static_cast<std::int64_t>(model.linear_value_heads) *
                                              model.linear_value_head_dim / plan.tp;
    case Mixer::None:
      return 0;
  }
  CHECK(false);
  return 0;
}

std::int64_t gathered_columns(const Model& model, const Plan& plan) {
  if (model.mixer != Mixer::Heads || model.key_value_heads() >= plan.tp) return 0;
  const std::int64_t kv = std::int64_t{model.key_value_heads()} * model.head_size();
  return std::int64_t{model.heads} * model.head_size() + (model.shared_kv ? 1 : 2) * kv;
}

std::int64_t output_columns(const Model& model, const Plan& plan) {
  if (model.mixer == Mixer::None) return 0;
  if (model.mixer == Mixer::Mamba) return query_columns(model, plan);
  if (model.mixer == Mixer::Linear) return model.linear_values() / plan.tp;
  return static_cast<std::int64_t>(model.heads) * model.value_size() / plan.tp;
}

Block mlp_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const BlockShape shape = block_shape(model, plan, profile);
  BlockWork block;
  add_ends(&block, model, plan, shape);
  add_linear(
      &block, &PartsOf<KernelWork>::in, shape,
      {.m = shape.tokens, .n = model.gated_mlp ? 2 * shape.ffn : shape.ffn, .k = shape.hidden},
      /*behind_norm=*/true);
  block.forward.between.ffn = model.gated_mlp ? kGatedMlpPasses : kMlpPasses;
  block.input_gradient.between.ffn = kMlpPassesBackward;
  if (!plan.fusion.bias_gelu)
    add_split_activation(&block, model, shape.array(static_cast<double>(shape.ffn)));
  add_linear(&block, &PartsOf<KernelWork>::out, shape,
             {.m = shape.tokens, .n = shape.hidden, .k = shape.ffn});
  const double down = static_cast<double>(shape.ffn) * shape.hidden;
  block.weight_gradient.in.parameters = mlp_parameters(model) / plan.tp - down;
  block.weight_gradient.out.parameters = down;
  return finish(block, shape, "mlp", {"mlp norm", "fc1", "activation", "", "fc2", "mlp residual"},
                plan, &CudaGraphModules::mlp);
}

// The share of an MoE layer's extra launch time that is left where experts are padded to their
// capacity, so that the CPU need not wait for counts of tokens: Qwen3 30B on H100 without graphs
// takes .5 to .7, and Qwen3 235B on GB200 and GB300 agrees, with router and preprocess in graphs.
constexpr double kPaddedLaunch = 0.7;

// Returns the extra launch time of an MoE layer. If the CPU waits for counts of tokens, CUDA graphs
// save none of it. If not (padding to capacity), it is in thirds, which is assumed: router,
// preprocess (which tokens go where), dispatch. A third that is in a graph costs nothing.
double expert_launch_s(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  if (!model.pad_to_capacity) return profile.expert_launch_s;
  const CudaGraphModules& graphs = plan.cuda_graph_modules;
  int thirds = 3;
  if (plan.cuda_graphs) thirds -= (graphs.moe_router ? 1 : 0) + (graphs.moe_preprocess ? 1 : 0);
  return kPaddedLaunch * profile.expert_launch_s * thirds / 3;
}

// A GPU's share of the experts.
struct ExpertShape {
  std::int64_t local = 0, ffn = 0;  // experts, and the columns of each one's inner array
  std::int64_t tokens = 0;          // that the GPU sends
  std::int64_t rows = 0;            // of each expert's GEMMs

  double all_rows() const { return static_cast<double>(local * rows); }
};

// Adds the router, the products into and out of the latent width, and those of the experts.
void add_expert_products(BlockWork* block, const Model& model, const BlockShape& shape,
                         const ExpertShape& experts) {
  const auto norm = &PartsOf<KernelWork>::norm;
  add_linear(block, norm, shape,
             {.m = experts.tokens,
              .n = model.experts,
              .k = shape.hidden,
              .in_16_bits = shape.recipe.has_value()});
  if (const std::int64_t latent = model.moe_latent; latent > 0) {
    add_linear(block, norm, shape, {.m = experts.tokens, .n = latent, .k = shape.hidden});
    add_linear(block, norm, shape, {.m = experts.tokens, .n = shape.hidden, .k = latent});
  }
  add_linear(block, &PartsOf<KernelWork>::in, shape,
             {.batch = experts.local,
              .m = experts.rows,
              .n = model.gated_mlp ? 2 * experts.ffn : experts.ffn,
              .k = model.expert_hidden()});
  add_linear(
      block, &PartsOf<KernelWork>::out, shape,
      {.batch = experts.local, .m = experts.rows, .n = model.expert_hidden(), .k = experts.ffn});
}

// Adds the passes over memory: of the activation, biases, the router, permutation and combination.
void add_expert_passes(BlockWork* block, const Model& model, const Plan& plan,
                       const BlockShape& shape, const ExpertShape& experts) {
  const double inner = shape.bytes * experts.all_rows() * static_cast<double>(experts.ffn);
  const double share = shape.profile.pass_share;
  block->forward.between.bytes = share * (model.gated_mlp ? kGatedMlpPasses : kMlpPasses) * inner;
  block->input_gradient.between.bytes = share * kMlpPassesBackward * inner;
  if (!plan.fusion.bias_gelu) add_split_activation(block, model, inner);
  const auto tokens = static_cast<double>(experts.tokens), copies = tokens * model.top_k;
  const double routing = kRouterBytesPerLogit * tokens * model.experts;
  const double row = shape.bytes * static_cast<double>(model.expert_hidden());
  const double permutation = kPermutePassesPerCopy * copies * row;
  const double restored = (copies + tokens) * row;
  if (model.mlp_bias.value_or(!model.gated_mlp)) {
    const double numbers = experts.all_rows() * static_cast<double>(model.expert_hidden());
    block->forward.residual.bytes += kExpertBiasBytes * numbers;
    block->input_gradient.residual.bytes += kExpertBiasBytesBackward * numbers;
  }
  for (PartsOf<KernelWork>* pass : {&block->forward, &block->input_gradient}) {
    pass->norm.bytes += routing + permutation;
    pass->residual.bytes += restored;
  }
}

// The part `norm` has the router, the products into and out of the latent width, and the
// permutation; `residual` has the sum of a token's copies.
Block experts_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const BlockShape shape = block_shape(model, plan, profile);
  const ExpertShape experts = {.local = model.experts / plan.ep,
                               .ffn = model.expert_ffn() / plan.expert_tensor(),
                               .tokens = routed_tokens(model, plan),
                               .rows = expert_rows(model, plan)};
  BlockWork work;
  add_ends(&work, model, plan, shape);
  add_expert_products(&work, model, shape, experts);
  add_expert_passes(&work, model, plan, shape, experts);
  const HeldParameters held = share_of_equal_layers(model, plan, 1);
  const double down = static_cast<double>(experts.local) * model.expert_hidden() * experts.ffn;
  work.weight_gradient.norm.parameters =
      router_parameters(model) + latent_parameters(model) / plan.tp;
  work.weight_gradient.in.parameters = held.expert - down;
  work.weight_gradient.out.parameters = down;
  Block block = finish(work, shape, "experts",
                       {"mlp norm and router", "experts fc1", "experts activation", "",
                        "experts fc2", "combination"},
                       plan, &CudaGraphModules::moe);
  if (block.forward.launch_s > 0) {
    const double extra_s = expert_launch_s(model, plan, profile);
    block.forward.launch_s += extra_s;
    block.input_gradient.launch_s += extra_s;
  }
  return block;
}

Block shared_expert_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  Model dense = model;
  dense.experts = 0;
  dense.ffn_hidden = model.shared_expert_ffn;
  return without_launch(mlp_block(dense, plan, profile));
}

Block embedding_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const BlockShape shape = block_shape(model, plan, profile);
  // Forward and backward make equally many passes, 6.5 with dropout.
  static_assert(kLookupPasses + kPositionPasses == kScatterPasses + kPositionPassesBackward);
  const double passes = shape.cut(kLookupPasses + kPositionPasses, shape.hidden) +
                        shape.whole(kEmbeddingDropoutPasses);
  const double parameters =
      static_cast<double>(shape.vocab) * shape.hidden + position_parameters(model);
  const BlockLaunch launch = launch_of(plan, &CudaGraphModules::head, profile);
  // The embedding comes first, so its backward is only the gradient of its parameters.
  return {.forward = {.name = "embedding forward",
                      .memory_bytes = passes,
                      .launch_s = launch.forward_s},
          .weight_gradient = {.name = "embedding weight gradient",
                              .memory_bytes = profile.accumulation_bytes * parameters + passes,
                              .launch_s = launch.backward_s}};
}

Block head_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const BlockShape shape = block_shape(model, plan, profile);
  const double logit_bytes =
      profile.cross_entropy_bytes +
      (plan.cross_entropy == CrossEntropy::Unfused ? kSplitCrossEntropyBytesPerLogit : 0);
  BlockWork block;
  add_linear(&block, &PartsOf<KernelWork>::in, shape,
             {.m = shape.tokens,
              .n = shape.vocab,
              .k = shape.hidden,
              .in_16_bits = shape.recipe.has_value()});
  block.forward.norm.whole = kNormPasses;
  block.forward.between.bytes =
      logit_bytes * static_cast<double>(shape.tokens) * static_cast<double>(shape.vocab);
  block.input_gradient.norm.whole = kNormPassesBackward;
  block.weight_gradient.in.parameters = static_cast<double>(shape.vocab) * shape.hidden;
  return finish(block, shape, "head", {}, plan, &CudaGraphModules::head);
}

VocabularyBlocks vocabulary_blocks(const Model& model, const Plan& plan,
                                   const FrameworkProfile& profile) {
  const BlockShape shape = block_shape(model, plan, profile);
  const double parameters = static_cast<double>(shape.vocab) * shape.hidden;
  const double logits = shape.array(static_cast<double>(shape.vocab));
  // The head's work on this GPU's rows. The norm is taken out, because the last stage does it.
  Block head = head_block(model, plan, profile);
  const double norm = shape.whole(kNormPasses), norm_backward = shape.whole(kNormPassesBackward);
  head.forward.memory_bytes -= norm;
  head.input_gradient.memory_bytes -= norm_backward;
  head.weight_gradient.memory_bytes += kRescalePassesOfLogits * logits;
  if (plan.vocabulary == 2)
    head.input_gradient.memory_bytes += shape.cut(kRescalePassesOfGradient, shape.hidden);
  const BlockLaunch launch = launch_of(plan, &CudaGraphModules::head, profile);
  return {.lookup = {.name = "embedding rows forward",
                     .memory_bytes = shape.cut(kLookupPasses, shape.hidden)},
          .logits = std::move(head.forward),
          .input_gradient = std::move(head.input_gradient),
          .weight_gradient = std::move(head.weight_gradient),
          .lookup_gradient = {.name = "embedding rows weight gradient",
                              .memory_bytes = profile.accumulation_bytes * parameters +
                                              shape.cut(kScatterPasses, shape.hidden)},
          .positions = {.name = "positions forward",
                        .memory_bytes = shape.cut(kPositionPasses, shape.hidden) +
                                        shape.whole(kEmbeddingDropoutPasses),
                        .launch_s = launch.forward_s},
          .positions_gradient = {.name = "positions weight gradient",
                                 .memory_bytes =
                                     profile.accumulation_bytes * position_parameters(model) +
                                     shape.cut(kPositionPassesBackward, shape.hidden) +
                                     shape.whole(kEmbeddingDropoutPasses),
                                 .launch_s = launch.backward_s},
          .norm = {.name = "last norm forward", .memory_bytes = norm},
          .norm_gradient = {.name = "last norm gradient", .memory_bytes = norm_backward}};
}

Block mtp_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const BlockShape shape = block_shape(model, plan, profile);
  BlockWork block;
  add_linear(&block, &PartsOf<KernelWork>::in, shape,
             {.m = shape.tokens, .n = shape.hidden / plan.tp, .k = 2 * shape.hidden});
  block.forward.norm.whole = 2 * kNormPasses;
  block.input_gradient.norm.whole = 2 * kNormPassesBackward;
  block.weight_gradient.in.parameters =
      2 * static_cast<double>(shape.hidden) * static_cast<double>(shape.hidden) / plan.tp;
  return without_launch(finish(block, shape, "mtp", {}, plan, &CudaGraphModules::head));
}

Kernel merge(std::string name, std::initializer_list<Kernel> parts) {
  Kernel all;
  all.name = std::move(name);
  for (const Kernel& part : parts) {
    all.gemms.insert(all.gemms.end(), part.gemms.begin(), part.gemms.end());
    all.memory_bytes += part.memory_bytes;
    all.attention_flops += part.attention_flops;
    if (part.attention_flops > 0) all.attention = part.attention;
    all.launch_s += part.launch_s;
  }
  return all;
}

Kernel cut_rows(const Kernel& kernel, int part, int parts) {
  CHECK(0 <= part && part < parts);
  Kernel cut = kernel;
  for (Gemm& gemm : cut.gemms) {
    const auto rows = gemm.m * (part + 1) / parts - gemm.m * part / parts;
    gemm.m = std::max<decltype(gemm.m)>(rows, 1);
  }
  cut.memory_bytes /= parts;
  cut.attention_flops /= parts;
  cut.launch_s /= parts;
  return cut;
}

// Returns the bytes over PCIe: a parameter's gradient to the CPU, and the parameter back.
double host_link_bytes(const Plan& plan) {
  return bytes_of(plan.gradient_dtype) + stored_bytes(plan);
}

// Returns what Adam reads and writes for a parameter in the CPU's memory: its original and both
// moments, its gradient, and the parameter that goes back.
double host_update_bytes(const Plan& plan) {
  const double states = bytes_of("fp32") + 2.0 * bytes_of(plan.moment_dtype);
  return 2 * states + bytes_of(plan.gradient_dtype) + stored_bytes(plan);
}

Kernel optimizer_kernel(const OrderedPlan& plan, const HeldParameters& held, double linear,
                        const MuonShare& muon, const FrameworkProfile& profile) {
  const HeldParameters of_adam = {held.dense - muon.held.dense, held.expert - muon.held.expert};
  const double updated = zero_share(of_adam, plan, plan.zero >= 1) + muon.updated.total();
  // profile.optimizer_bytes counts both moments, read and written, in fp32. Smaller moments save
  // these bytes of each parameter.
  const double spared = 2.0 * 2 * (bytes_of("fp32") - bytes_of(plan.moment_dtype));
  const std::optional<Recipe> recipe = recipe_of(plan);
  const double casts =
      recipe && !plan.gathers_each_microbatch() ? recipe->cast_bytes(profile) * linear : 0;
  const double kept = (1 - plan.optimizer_offload) * updated;
  return {.name = "optimizer",
          .gemms = muon.gemms,
          .memory_bytes = (profile.optimizer_bytes - spared) * kept + muon.pass_bytes + casts,
          .host_bytes = {.moved = plan.optimizer_offload * updated * host_link_bytes(plan),
                         .updated = plan.optimizer_offload * updated * host_update_bytes(plan)}};
}

}  // namespace tandem
