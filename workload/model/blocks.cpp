// Builds the blocks' kernels: GEMMs from the shapes, and passes over memory.
//
// What a layer's passes cost in all is fitted (FrameworkProfile); their division over the blocks
// follows from what each of them reads and writes.
#include "workload/model/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// Passes of a block over an array of s b h numbers that tensor parallelism does not cut: a norm and
// dropout-add. Forward 2 + 3.5 each (read and write; x, residual, sum, mask): 11 a layer;
// backward 4 + 3.
constexpr double kNormPasses = 2;
constexpr double kResidualPasses = 3.5;
constexpr double kNormPassesBackward = 4;
constexpr double kResidualPassesBackward = 3;

// Passes over the QKV array (3 s b h / tp for plain attention): bias and transposition forward, the
// same and the bias gradient backward.
constexpr double kQkvPasses = 2;
constexpr double kQkvPassesBackward = 4;

// Passes over the MLP's inner array (s b f / tp): the activation forward (a gated one reads two
// arrays and writes one), the activation and the bias gradient backward. In all 11/sp + 14/tp
// forward and 14/sp + 32/tp backward for f = 4h.
constexpr double kMlpPasses = 2;
constexpr double kGatedMlpPasses = 3;
constexpr double kMlpPassesBackward = 5;

// Passes over s b h numbers of the ends, counted, not fitted. Embedding: look-up 2, positions 2,
// dropout 2.5 (the part sequence parallelism cuts); backward: dropout 2.5, positions 1, scatter 3.
constexpr double kLookupPasses = 4;
constexpr double kEmbeddingDropoutPasses = 2.5;

// What a fused kernel spares: each separate kernel's reads and writes, less the fused one's,
// counted from the operations, not fitted. In numbers of the array's type.
//
// Scale, mask and softmax: Megatron-LM's separate ones work in fp32. To fp32 (3), scale (4), mask
// (4), softmax (4), back (3), for 2. Backward: to fp32 (3), softmax (6), mask (4), scale (4), back
// (3), for 3. With the activation's, this is 14 % of a 175B model's layer time and 7 % of a 530B's;
// Narayanan et al. 2021, section 5.8, gained 19 and 11 % with these two and the fused dropout-add.
constexpr double kSplitSoftmaxPasses = 16;
constexpr double kSplitSoftmaxPassesBackward = 17;
// Bias and GELU: the addition reads and writes; backward it is the identity. Gated: SiLU (2) and
// the product (3) for 3; backward two products (3 each) and SiLU (3) for 5.
constexpr double kSplitActivationPasses = 2;
constexpr double kSplitActivationPassesBackward = 0;
constexpr double kSplitGatedPasses = 2;
constexpr double kSplitGatedPassesBackward = 4;
// LayerNorm: mean (1), x - mean (2), square (2), mean (1), times 1/deviation (2), weight (2), bias
// (2), for 2. Backward: bias (1) and weight gradients (4); times weight (2) and 1/deviation (2);
// the deviation's gradient (4), the square's (2 and 3 to add it), the mean's (1 and 2): 21 for 4.
constexpr double kSplitNormPasses = 10;
constexpr double kSplitNormPassesBackward = 17;
// RMSNorm: square (2), mean (1), times 1/root (2), weight (2), for 2. Backward: weight gradient
// (4), times weight (2) and 1/root (2), the root's gradient (4), the square's (2 and 3): 17 for 4.
constexpr double kSplitRmsNormPasses = 5;
constexpr double kSplitRmsNormPassesBackward = 13;
// Cross entropy, bytes a logit: to fp32 (6), maximum (4), difference (8), exponential (8), sum (4),
// quotient (8), gradient (8), times the loss's (8), to 16 bits (6): 60 for 18.
constexpr double kSplitCrossEntropyBytesPerLogit = 42;

// A router's logits, fp32, forward or backward: softmax (8 bytes), top-k (4), its scatter (4).
constexpr double kRouterBytesPerLogit = 16;
// Copying tokens into the experts' order: a read and a write of each of the top_k copies; back, a
// read of each and one write of their sum.
constexpr double kPermutePasses = 2;

// Of what the CPU takes to issue a backward, what a weight gradient of its own issues: few, large
// kernels. Assumed.
constexpr double kWeightGradientShare = 0.25;

// One GPU's share of the dimensions.
struct Shape {
  std::int64_t tokens;  // s b / cp
  std::int64_t hidden;
  std::int64_t query;  // columns of Q
  std::int64_t qkv;    // columns of Q, K and V together
  std::int64_t ffn;
  std::int64_t vocab;
  std::int64_t matrices;       // attention matrices,
  std::int64_t queries, keys;  // of so many rows and columns; of a ring's parts
  std::int64_t head_size;
  int sp;        // GPUs that the uncut arrays are spread over
  double bytes;  // of an activation
  const FrameworkProfile& profile;

  double array(double columns) const { return bytes * static_cast<double>(tokens) * columns; }
  double whole(double passes) const { return profile.pass_share * passes * array(hidden) / sp; }
  double cut(double passes, std::int64_t columns) const {
    return profile.pass_share * passes * array(static_cast<double>(columns));
  }
  double attention(double passes) const {
    return passes * bytes * static_cast<double>(matrices) * queries * keys;
  }
};

Shape shape_of(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const bool ring = plan.context_comm == ContextComm::Ring;
  const bool exchanges_heads = plan.context_comm == ContextComm::AllToAll;
  const std::int64_t matrices = static_cast<std::int64_t>(plan.micro_batch) * model.heads / plan.tp;
  return {.tokens = tokens_of(model, plan),
          .hidden = model.hidden,
          .query = query_columns(model, plan),
          .qkv = query_columns(model, plan) + 2 * key_value_columns(model, plan),
          .ffn = model.ffn() / plan.tp,
          .vocab = padded_vocab(model, plan) / plan.tp,
          .matrices = exchanges_heads ? matrices / plan.cp : matrices,
          .queries = exchanges_heads ? model.seq : model.seq / plan.cp,
          .keys = ring ? model.seq / plan.cp : model.seq,
          .head_size = model.head_size(),
          .sp = plan.sequence_parallel ? plan.tp : 1,
          .bytes = static_cast<double>(stored_bytes(plan)),
          .profile = profile};
}

// What a kernel does: products, passes over arrays (by the array, so that sums are exact), bytes of
// others, and parameters whose gradients are accumulated.
struct Work {
  std::vector<Gemm> gemms;
  double attention_flops = 0;
  double whole = 0, qkv = 0, ffn = 0, matrix = 0;
  double bytes = 0;
  double parameters = 0;
};

Work sum(std::initializer_list<Work> parts) {
  Work all;
  for (const Work& part : parts) {
    all.gemms.insert(all.gemms.end(), part.gemms.begin(), part.gemms.end());
    all.attention_flops += part.attention_flops;
    all.whole += part.whole;
    all.qkv += part.qkv;
    all.ffn += part.ffn;
    all.matrix += part.matrix;
    all.bytes += part.bytes;
    all.parameters += part.parameters;
  }
  return all;
}

Kernel kernel_of(const Shape& shape, std::string name, const Work& work) {
  return {.name = std::move(name),
          .gemms = work.gemms,
          .attention_flops = work.attention_flops,
          .memory_bytes = shape.whole(work.whole) + shape.cut(work.qkv, shape.qkv) +
                          shape.cut(work.ffn, shape.ffn) + shape.attention(work.matrix) +
                          work.bytes + shape.profile.accumulation_bytes * work.parameters};
}

// The three passes of a block in the making.
struct BlockWork {
  PartsOf<Work> forward, input_gradient, weight_gradient;
};

// A linear layer's three products: output (tokens x out) = input (tokens x in) by weights.
void add_linear(BlockWork* block, Work PartsOf<Work>::*part, const Gemm& product) {
  const auto [batch, tokens, out, in, of_activations] = product;
  CHECK(!of_activations);
  (block->forward.*part).gemms.push_back(product);
  (block->input_gradient.*part).gemms.push_back({batch, tokens, in, out});
  (block->weight_gradient.*part).gemms.push_back({batch, out, in, tokens});
}

// A norm before the block, and dropout and an addition after it.
void add_ends(BlockWork* block, const Model& model, const Plan& plan, const Shape& shape) {
  block->forward.norm.whole = kNormPasses;
  block->forward.residual.whole = kResidualPasses;
  block->input_gradient.norm.whole = kNormPassesBackward;
  block->input_gradient.residual.whole = kResidualPassesBackward;
  if (plan.fusion.norm) return;
  const double array = shape.array(static_cast<double>(shape.hidden)) / shape.sp;
  block->forward.norm.bytes = array * (model.gated_mlp ? kSplitRmsNormPasses : kSplitNormPasses);
  block->input_gradient.norm.bytes =
      array * (model.gated_mlp ? kSplitRmsNormPassesBackward : kSplitNormPassesBackward);
}

// `array`: the bytes of the inner array.
void add_split_activation(BlockWork* block, const Model& model, double array) {
  const bool gated = model.gated_mlp;
  block->forward.between.bytes += array * (gated ? kSplitGatedPasses : kSplitActivationPasses);
  block->input_gradient.between.bytes +=
      array * (gated ? kSplitGatedPassesBackward : kSplitActivationPassesBackward);
}

// What the CPU takes to issue a pass of a layer under tensor parallelism, beyond the plain one.
double tensor_launch_s(const Plan& plan, const FrameworkProfile& profile) {
  if (plan.tp >= 8) return profile.wide_tensor_launch_s;
  return plan.tp > 1 ? profile.tensor_launch_s : 0;
}

Parts kernels_of(const Shape& shape, const PartsOf<Work>& work, const PartsOf<std::string>& names,
                 const std::string& pass) {
  return {.norm = kernel_of(shape, names.norm + pass, work.norm),
          .in = kernel_of(shape, names.in + pass, work.in),
          .between = kernel_of(shape, names.between + pass, work.between),
          .core = kernel_of(shape, names.core + pass, work.core),
          .out = kernel_of(shape, names.out + pass, work.out),
          .residual = kernel_of(shape, names.residual + pass, work.residual)};
}

// A block's share of what the CPU takes to issue a layer; the embedding and the head have kernels
// enough for half a layer each.
constexpr double kLaunchShare = 0.5;

struct Launch {
  double forward_s = 0, backward_s = 0;
};
Launch launch_of(const Plan& plan, const FrameworkProfile& profile) {
  if (plan.cuda_graphs) return {};
  const double tensor_s = tensor_launch_s(plan, profile);
  return {kLaunchShare * (profile.forward_launch_s + tensor_s),
          kLaunchShare * (profile.backward_launch_s + tensor_s)};
}

// Names the kernels, merges the parts, and gives the whole its launch times.
Block finish(const BlockWork& work, const Shape& shape, const std::string& name,
             const PartsOf<std::string>& names, const Plan& plan) {
  const auto& [f, i, w] = work;
  const Launch launch = launch_of(plan, shape.profile);
  Block block = {
      .forward = kernel_of(shape, name + " forward",
                           sum({f.norm, f.in, f.between, f.core, f.out, f.residual})),
      .core = kernel_of(shape, name + " core recomputed", f.core),
      .input_gradient = kernel_of(shape, name + " input gradient",
                                  sum({i.norm, i.in, i.between, i.out, i.core, i.residual})),
      .weight_gradient =
          kernel_of(shape, name + " weight gradient", sum({w.norm, w.in, w.between, w.out})),
      .forward_parts = kernels_of(shape, f, names, " forward"),
      .input_parts = kernels_of(shape, i, names, " input gradient"),
      .weight_parts = kernels_of(shape, w, names, " weight gradient")};
  block.forward.launch_s = launch.forward_s;
  block.input_gradient.launch_s = (1 - kWeightGradientShare) * launch.backward_s;
  block.weight_gradient.launch_s = kWeightGradientShare * launch.backward_s;
  return block;
}

// Attention's core: scores and context forward, four products backward, unfused with the passes
// over the matrix; or one fused kernel, which never writes it.
void add_core(BlockWork* block, const Plan& plan, const Shape& shape) {
  const Gemm scores = {.batch = shape.matrices,
                       .m = shape.queries,
                       .n = shape.keys,
                       .k = shape.head_size,
                       .of_activations = true};
  const Gemm context = {.batch = shape.matrices,
                        .m = shape.queries,
                        .n = shape.head_size,
                        .k = shape.keys,
                        .of_activations = true};
  const Gemm transposed = {.batch = shape.matrices,
                           .m = shape.keys,
                           .n = shape.head_size,
                           .k = shape.queries,
                           .of_activations = true};
  Work& forward = block->forward.core;
  Work& backward = block->input_gradient.core;
  if (plan.flash_attention) {
    forward.attention_flops = kFlashShare * (scores.flops() + context.flops());
    backward.attention_flops = kFlashBackward * forward.attention_flops;
    return;
  }
  // Both operands of both products are activations. d(scores) has the shape of `scores`, dQ that of
  // `context`; dK and dV are its transposed ones.
  forward.gemms = {scores, context};
  backward.gemms = {scores, context, transposed, transposed};
  forward.matrix = shape.profile.matrix_passes + (plan.fusion.softmax ? 0 : kSplitSoftmaxPasses);
  backward.matrix = shape.profile.matrix_passes_backward +
                    (plan.fusion.softmax ? 0 : kSplitSoftmaxPassesBackward);
}

}  // namespace

std::int64_t tokens_of(const Model& model, const Plan& plan) {
  return static_cast<std::int64_t>(model.seq) / plan.cp * plan.micro_batch;
}

std::int64_t routed_tokens(const Model& model, const Plan& plan) {
  return tokens_of(model, plan) / (plan.sequence_parallel ? plan.tp : 1);
}

double expert_load(const Model& model, const Plan& plan) {
  return std::min(model.expert_imbalance, static_cast<double>(plan.ep));
}

std::int64_t query_columns(const Model& model, const Plan& plan) { return model.hidden / plan.tp; }

std::int64_t key_value_columns(const Model& model, const Plan& plan) {
  return static_cast<std::int64_t>(model.key_value_heads()) * model.head_size() / plan.tp;
}

Block attention_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const Shape shape = shape_of(model, plan, profile);
  BlockWork block;
  add_ends(&block, model, plan, shape);
  add_linear(&block, &PartsOf<Work>::in, {.m = shape.tokens, .n = shape.qkv, .k = shape.hidden});
  block.forward.between.qkv = kQkvPasses;
  block.input_gradient.between.qkv = kQkvPassesBackward;
  add_core(&block, plan, shape);
  add_linear(&block, &PartsOf<Work>::out, {.m = shape.tokens, .n = shape.hidden, .k = shape.query});
  const double projection = static_cast<double>(shape.query) * shape.hidden;
  block.weight_gradient.in.parameters = attention_parameters(model) / plan.tp - projection;
  block.weight_gradient.out.parameters = projection;
  return finish(
      block, shape, "attention",
      {"attention norm", "qkv", "qkv layout", "attention core", "proj", "attention residual"},
      plan);
}

Block mlp_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const Shape shape = shape_of(model, plan, profile);
  BlockWork block;
  add_ends(&block, model, plan, shape);
  add_linear(
      &block, &PartsOf<Work>::in,
      {.m = shape.tokens, .n = model.gated_mlp ? 2 * shape.ffn : shape.ffn, .k = shape.hidden});
  block.forward.between.ffn = model.gated_mlp ? kGatedMlpPasses : kMlpPasses;
  block.input_gradient.between.ffn = kMlpPassesBackward;
  if (!plan.fusion.bias_gelu)
    add_split_activation(&block, model, shape.array(static_cast<double>(shape.ffn)));
  add_linear(&block, &PartsOf<Work>::out, {.m = shape.tokens, .n = shape.hidden, .k = shape.ffn});
  const double down = static_cast<double>(shape.ffn) * shape.hidden;
  block.weight_gradient.in.parameters = mlp_parameters(model) / plan.tp - down;
  block.weight_gradient.out.parameters = down;
  return finish(block, shape, "mlp", {"mlp norm", "fc1", "activation", "", "fc2", "mlp residual"},
                plan);
}

Block experts_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const Shape shape = shape_of(model, plan, profile);
  const std::int64_t local = model.experts / plan.ep;
  const std::int64_t ffn = model.expert_ffn() / plan.expert_tensor();
  const std::int64_t tokens = routed_tokens(model, plan);
  const double copies = static_cast<double>(tokens) * model.top_k;
  // Each expert's rows: the copies of all tensor ranks that share it.
  const double arriving = copies * plan.expert_tensor() * expert_load(model, plan);
  const std::int64_t rows =
      std::max<std::int64_t>(1, std::llround(arriving / static_cast<double>(local)));
  BlockWork block;
  add_ends(&block, model, plan, shape);
  add_linear(&block, &PartsOf<Work>::norm, {.m = tokens, .n = model.experts, .k = shape.hidden});
  add_linear(&block, &PartsOf<Work>::in,
             {.batch = local, .m = rows, .n = model.gated_mlp ? 2 * ffn : ffn, .k = shape.hidden});
  add_linear(&block, &PartsOf<Work>::out, {.batch = local, .m = rows, .n = shape.hidden, .k = ffn});
  const double inner = shape.bytes * static_cast<double>(local * rows) * static_cast<double>(ffn);
  block.forward.between.bytes =
      profile.pass_share * (model.gated_mlp ? kGatedMlpPasses : kMlpPasses) * inner;
  block.input_gradient.between.bytes = profile.pass_share * kMlpPassesBackward * inner;
  if (!plan.fusion.bias_gelu) add_split_activation(&block, model, inner);
  const double routing = kRouterBytesPerLogit * static_cast<double>(tokens) * model.experts;
  const double row = shape.bytes * static_cast<double>(shape.hidden);
  const double permutation = kPermutePasses * copies * row;
  const double restored = (copies + static_cast<double>(tokens)) * row;
  for (PartsOf<Work>* pass : {&block.forward, &block.input_gradient}) {
    pass->norm.bytes += routing + permutation;
    pass->residual.bytes += restored;
  }
  const HeldParameters held = layers_share(model, plan, 1);
  const double down = static_cast<double>(local) * shape.hidden * ffn;
  block.weight_gradient.norm.parameters = router_parameters(model);
  block.weight_gradient.in.parameters = held.expert - down;
  block.weight_gradient.out.parameters = down;
  return finish(block, shape, "experts",
                {"mlp norm and router", "experts fc1", "experts activation", "", "experts fc2",
                 "combination"},
                plan);
}

Block shared_expert_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  Model dense = model;
  dense.experts = 0;
  dense.ffn_hidden = model.shared_expert_ffn;
  Block block = mlp_block(dense, plan, profile);
  for (Kernel Block::*pass : {&Block::forward, &Block::input_gradient, &Block::weight_gradient})
    (block.*pass).launch_s = 0;
  return block;
}

Block embedding_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const Shape shape = shape_of(model, plan, profile);
  const double passes =
      shape.cut(kLookupPasses, shape.hidden) + shape.whole(kEmbeddingDropoutPasses);
  const double parameters =
      static_cast<double>(shape.vocab) * shape.hidden + position_parameters(model);
  const Launch launch = launch_of(plan, profile);
  // Nothing is before the embedding: its backward is the gradient of its parameters.
  return {.forward = {.name = "embedding forward",
                      .memory_bytes = passes,
                      .launch_s = launch.forward_s},
          .weight_gradient = {.name = "embedding weight gradient",
                              .memory_bytes = profile.accumulation_bytes * parameters + passes,
                              .launch_s = launch.backward_s}};
}

Block head_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const Shape shape = shape_of(model, plan, profile);
  const double logit_bytes = profile.cross_entropy_bytes +
                             (plan.fusion.cross_entropy ? 0 : kSplitCrossEntropyBytesPerLogit);
  BlockWork block;
  add_linear(&block, &PartsOf<Work>::in, {.m = shape.tokens, .n = shape.vocab, .k = shape.hidden});
  block.forward.norm.whole = kNormPasses;
  block.forward.between.bytes =
      logit_bytes * static_cast<double>(shape.tokens) * static_cast<double>(shape.vocab);
  block.input_gradient.norm.whole = kNormPassesBackward;
  block.weight_gradient.in.parameters = static_cast<double>(shape.vocab) * shape.hidden;
  return finish(block, shape, "head", {}, plan);
}

Kernel merge(std::string name, std::initializer_list<Kernel> parts) {
  Kernel all;
  all.name = std::move(name);
  for (const Kernel& part : parts) {
    all.gemms.insert(all.gemms.end(), part.gemms.begin(), part.gemms.end());
    all.memory_bytes += part.memory_bytes;
    all.attention_flops += part.attention_flops;
    all.launch_s += part.launch_s;
  }
  return all;
}

Kernel cut_rows(const Kernel& kernel, int part, int parts) {
  CHECK(0 <= part && part < parts);
  Kernel cut = kernel;
  for (Gemm& gemm : cut.gemms) gemm.m = gemm.m * (part + 1) / parts - gemm.m * part / parts;
  cut.memory_bytes /= parts;
  cut.attention_flops /= parts;
  cut.launch_s /= parts;
  return cut;
}

Kernel optimizer_kernel(double parameters, const FrameworkProfile& profile) {
  return {.name = "optimizer", .memory_bytes = profile.optimizer_bytes * parameters};
}

}  // namespace tandem
