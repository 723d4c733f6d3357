// Turns counts into kernels: how many times a block's operations read or write each array, and the
// GEMMs of its linear layers, become bytes and products on one GPU.
#include "workload/model/block_work.h"

#include <initializer_list>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// A pass reads or writes an array once. These constants are the passes that a fused norm saves: the
// passes of the separate kernels, each counted in parentheses, minus those of the fused kernel.
//
// LayerNorm: mean (1), x - mean (2), square (2), mean (1), times 1/deviation (2), weight (2), bias
// (2): 12 against 2 fused. Backward: bias (1) and weight gradients (4); times weight (2) and
// 1/deviation (2); the deviation's gradient (4), the square's (2, and 3 to add it), the mean's (1
// and 2): 21 against 4.
constexpr double kSplitNormPasses = 10;
constexpr double kSplitNormPassesBackward = 17;
// RMSNorm: square (2), mean (1), times 1/root (2), weight (2): 7 against 2. Backward: weight
// gradient (4), times weight (2) and 1/root (2), the root's gradient (4), the square's (2 and 3):
// 17 against 4.
constexpr double kSplitRmsNormPasses = 5;
constexpr double kSplitRmsNormPassesBackward = 13;

// The share of a backward's launch time that weight gradients take, which have few, large kernels.
// Assumed.
constexpr double kWeightGradientShare = 0.25;

// The CPU's time to repeat a module of a block, as a multiple of the forward's launch time (without
// expert_launch_s). It is mostly the checkpoint's own work, as norms have few kernels. Set by
// runs on H100s with and without modules (Megatron-Bridge,
// skills/nemo-mbridge-perf-activation-recompute/SKILL.md): a norm takes 0.75 to 0.83 ms a layer, an
// activation of experts 0.35, latent attention's products 0.85; a forward's launches 0.35.
constexpr double kModuleLaunch = 2;

// Rounds up a weight gradient's k, the tokens over which it sums, so that gemm_s() does not take an
// odd number, such as an expert's 333 tokens, for unaligned. In memory a row of either operand is
// one token: its alignment does not depend on how many tokens there are.
std::int64_t aligned_tokens(std::int64_t tokens) {
  constexpr std::int64_t kStep = kAlignedBytes / kSixteenBits;
  return (tokens + kStep - 1) / kStep * kStep;
}

KernelWork sum(std::initializer_list<KernelWork> parts) {
  KernelWork all;
  for (const KernelWork& part : parts) {
    all.gemms.insert(all.gemms.end(), part.gemms.begin(), part.gemms.end());
    all.attention_flops += part.attention_flops;
    if (part.attention_flops > 0) all.attention = part.attention;
    all.whole += part.whole;
    all.qkv += part.qkv;
    all.ffn += part.ffn;
    all.matrix += part.matrix;
    all.bytes += part.bytes;
    all.parameters += part.parameters;
  }
  return all;
}

// Returns the CPU's additional time to issue a pass of a layer under tensor parallelism.
double tensor_launch_s(const Plan& plan, const FrameworkProfile& profile) {
  if (plan.tp >= 8) return profile.wide_tensor_launch_s;
  return plan.tp > 1 ? profile.tensor_launch_s : 0;
}

Parts kernels_of(const BlockShape& shape, const PartsOf<KernelWork>& work,
                 const PartsOf<std::string>& names, const std::string& pass) {
  return {.norm = kernel_of(shape, names.norm + pass, work.norm),
          .in = kernel_of(shape, names.in + pass, work.in),
          .between = kernel_of(shape, names.between + pass, work.between),
          .core = kernel_of(shape, names.core + pass, work.core),
          .out = kernel_of(shape, names.out + pass, work.out),
          .residual = kernel_of(shape, names.residual + pass, work.residual)};
}

// Returns the norm alone, without the GEMMs that the part `norm` may also have, such as the
// router's.
KernelWork norm_of(const PartsOf<KernelWork>& forward) { return {.whole = forward.norm.whole}; }

// A block's share of the CPU's time to issue a layer. The embedding and the head have about as many
// kernels as half a layer each.
constexpr double kLaunchShare = 0.5;

}  // namespace

BlockShape block_shape(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const bool ring = plan.context_comm == ContextComm::Ring;
  const bool exchanges_heads = plan.context_comm == ContextComm::AllToAll;
  const std::int64_t matrices = static_cast<std::int64_t>(plan.micro_batch) * model.heads / plan.tp;
  return {.tokens = tokens_of(model, plan),
          .hidden = model.hidden,
          .qkv = query_columns(model, plan) + key_value_columns(model, plan),
          .ffn = model.ffn() / plan.tp,
          .vocab = vocabulary_rows(model, plan),
          .matrices = exchanges_heads ? matrices / plan.cp : matrices,
          .queries = exchanges_heads ? model.seq : model.seq / plan.cp,
          .keys = ring ? model.seq / plan.cp : model.seq,
          .query_size = model.query_size(),
          .value_size = model.value_size(),
          .sp = plan.sequence_parallel ? plan.tp : 1,
          .bytes = static_cast<double>(stored_bytes(plan)),
          .recipe = recipe_of(plan),
          .casts_weights = plan.gathers_each_microbatch(),
          .profile = profile};
}

void add_linear(BlockWork* block, KernelWork PartsOf<KernelWork>::*part, const BlockShape& shape,
                const Gemm& product, bool behind_norm) {
  const std::int64_t batch = product.batch, tokens = product.m, out = product.n, in = product.k;
  const bool in_16_bits = product.in_16_bits;
  KernelWork &forward = block->forward.*part, &input_gradient = block->input_gradient.*part,
             &weight_gradient = block->weight_gradient.*part;
  forward.gemms.push_back(product);
  input_gradient.gemms.push_back({batch, tokens, in, out, in_16_bits});
  weight_gradient.gemms.push_back({batch, out, in, aligned_tokens(tokens), in_16_bits});
  if (!shape.recipe || in_16_bits) return;
  const auto numbers = [&](std::int64_t columns) {
    return static_cast<double>(batch) * static_cast<double>(tokens) * static_cast<double>(columns);
  };
  const double cast = shape.recipe->cast_bytes(shape.profile);
  if (!behind_norm || !shape.recipe->norm_quantizes) forward.bytes += cast * numbers(in);
  input_gradient.bytes += cast * numbers(out);
  if (!shape.casts_weights) return;
  const double weights = static_cast<double>(batch) * static_cast<double>(in * out);
  forward.bytes += cast * weights;
  input_gradient.bytes += cast * weights;
}

void add_ends(BlockWork* block, const Model& model, const Plan& plan, const BlockShape& shape) {
  block->forward.norm.whole = kNormPasses;
  block->forward.residual.whole = kResidualPasses;
  block->input_gradient.norm.whole = kNormPassesBackward;
  block->input_gradient.residual.whole = kResidualPassesBackward;
  if (plan.fusion.norm) return;
  const double array = shape.array(static_cast<double>(shape.hidden)) / shape.sp;
  block->forward.norm.bytes =
      array * (model.uses_rms_norm() ? kSplitRmsNormPasses : kSplitNormPasses);
  block->input_gradient.norm.bytes =
      array * (model.uses_rms_norm() ? kSplitRmsNormPassesBackward : kSplitNormPassesBackward);
}

BlockLaunch launch_of(const Plan& plan, bool CudaGraphModules::*module,
                      const FrameworkProfile& profile) {
  if (plan.cuda_graphs && plan.cuda_graph_modules.*module) return {};
  const double tensor_s = tensor_launch_s(plan, profile);
  return {kLaunchShare * (profile.forward_launch_s + tensor_s),
          kLaunchShare * (profile.backward_launch_s + tensor_s)};
}

Kernel kernel_of(const BlockShape& shape, std::string name, const KernelWork& work) {
  return {.name = std::move(name),
          .gemms = work.gemms,
          .attention_flops = work.attention_flops,
          .attention = work.attention,
          .memory_bytes = shape.whole(work.whole) + shape.cut(work.qkv, shape.qkv) +
                          shape.cut(work.ffn, shape.ffn) + shape.attention(work.matrix) +
                          work.bytes + shape.profile.accumulation_bytes * work.parameters};
}

Block finish(const BlockWork& work, const BlockShape& shape, const std::string& name,
             const PartsOf<std::string>& names, const Plan& plan, bool CudaGraphModules::*module) {
  const auto& [forward, input, weight] = work;
  const BlockLaunch launch = launch_of(plan, module, shape.profile);
  Block block = {
      .forward = kernel_of(shape, name + " forward",
                           sum({forward.norm, forward.in, forward.between, forward.core,
                                forward.out, forward.residual})),
      .core = kernel_of(shape, name + " core recomputed", forward.core),
      .norm = kernel_of(shape, name + " norm recomputed", norm_of(forward)),
      .module_launch_s = kModuleLaunch * launch.forward_s,
      .input_gradient = kernel_of(
          shape, name + " input gradient",
          sum({input.norm, input.in, input.between, input.out, input.core, input.residual})),
      .weight_gradient = kernel_of(shape, name + " weight gradient",
                                   sum({weight.norm, weight.in, weight.between, weight.out})),
      .forward_parts = kernels_of(shape, forward, names, " forward"),
      .input_parts = kernels_of(shape, input, names, " input gradient"),
      .weight_parts = kernels_of(shape, weight, names, " weight gradient")};
  block.forward.launch_s = launch.forward_s;
  block.input_gradient.launch_s = (1 - kWeightGradientShare) * launch.backward_s;
  block.weight_gradient.launch_s = kWeightGradientShare * launch.backward_s;
  return block;
}

}  // namespace tandem
