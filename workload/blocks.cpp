// Builds the blocks' kernels: GEMMs from the shapes, and passes over memory.
//
// The passes and their constants are those of a model fitted to published Megatron-LM
// runs on A100s (docs/architecture.md). What was fitted is a layer's total; its division over the
// blocks follows from what each of them reads and writes.
#include "workload/blocks.h"

#include <cstdint>
#include <utility>

namespace tandem {
namespace {

// Share of the counted passes that reaches memory: fusion and the L2 cache spare the rest.
constexpr double kPassShare = 0.86;

// Passes of a block over an array of s b h numbers that tensor parallelism does not cut: a norm and
// dropout-add. Forward 2 + 3.5 each (read and write; x, residual, sum, mask): 11 a layer.
constexpr double kWholePasses = 5.5;
constexpr double kWholePassesBackward = 7;

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

// Passes over the attention matrix (b a s^2 / tp numbers), unfused: scale, mask, softmax, dropout.
constexpr double kMatrixPasses = 6.7;
constexpr double kMatrixPassesBackward = 6.25;

// Passes over s b h numbers of the ends, counted, not fitted. Embedding: look-up 2, positions 2,
// dropout 2.5 (the part sequence parallelism cuts); backward: dropout 2.5, positions 1, scatter 3.
constexpr double kLookupPasses = 4;
constexpr double kEmbeddingDropoutPasses = 2.5;
constexpr double kNormPasses = 2;
constexpr double kNormPassesBackward = 4;

// Cross entropy, forward and backward together, charged to the forward.
constexpr double kCrossEntropyBytesPerLogit = 18;

// Adding a microbatch's weight gradients to the accumulated ones.
constexpr double kAccumulationBytesPerParameter = 3.7;

// Adam in mixed precision: unscale, norm, clip, moments, fp32 parameters, fp16 copy.
constexpr double kOptimizerBytesPerParameter = 58;

// What the CPU takes to issue a layer's kernels, a pass: Python, PyTorch and autograd on the hosts
// of A100 systems (Megatron on small models). More under tensor parallelism: its collectives.
constexpr double kForwardLaunch_s = 1.16e-3;
constexpr double kBackwardLaunch_s = 0.91e-3;
constexpr double kTensorLaunch_s = 0.10e-3;
constexpr double kWideTensorLaunch_s = 0.29e-3;  // tp >= 8
// Of the backward's, what a weight gradient of its own issues: few, large kernels. Assumed.
constexpr double kWeightGradientShare = 0.25;

// One GPU's share of the dimensions.
struct Shape {
  std::int64_t tokens;  // s b
  std::int64_t hidden;
  std::int64_t query;  // columns of Q
  std::int64_t qkv;    // columns of Q, K and V together
  std::int64_t ffn;
  std::int64_t vocab;
  std::int64_t matrices;  // attention matrices, seq x seq each
  std::int64_t seq;
  std::int64_t head_size;
  int sp;        // GPUs that the uncut arrays are spread over
  double bytes;  // of an activation

  double array(double columns) const { return bytes * static_cast<double>(tokens) * columns; }
  double whole(double passes) const { return kPassShare * passes * array(hidden) / sp; }
  double cut(double passes, std::int64_t columns) const {
    return kPassShare * passes * array(static_cast<double>(columns));
  }
  double attention(double passes) const {
    return passes * bytes * static_cast<double>(matrices) * seq * seq;
  }
};

Shape shape_of(const Model& model, const Plan& plan) {
  const std::int64_t kv = static_cast<std::int64_t>(model.key_value_heads()) * model.head_size();
  const std::int64_t hidden = model.hidden;
  return {.tokens = static_cast<std::int64_t>(model.seq) * plan.micro_batch,
          .hidden = hidden,
          .query = hidden / plan.tp,
          .qkv = (hidden + 2 * kv) / plan.tp,
          .ffn = model.ffn() / plan.tp,
          .vocab = padded_vocab(model, plan) / plan.tp,
          .matrices = static_cast<std::int64_t>(plan.micro_batch) * model.heads / plan.tp,
          .seq = model.seq,
          .head_size = model.head_size(),
          .sp = plan.sequence_parallel ? plan.tp : 1,
          .bytes = static_cast<double>(stored_bytes(plan))};
}

// A linear layer's three products: output (tokens x out) = input (tokens x in) by weights.
void add_linear(Block* block, std::int64_t tokens, std::int64_t in, std::int64_t out) {
  block->forward.gemms.push_back({.m = tokens, .n = out, .k = in});
  block->input_gradient.gemms.push_back({.m = tokens, .n = in, .k = out});
  block->weight_gradient.gemms.push_back({.m = out, .n = in, .k = tokens});
}

// Names the four kernels, and gives them their share of a layer's launch times and accumulation.
void finish(Block* block, const std::string& name, double parameters, double launch_share,
            const Plan& plan) {
  block->forward.name = name + " forward";
  block->core.name = name + " core recomputed";
  block->input_gradient.name = name + " input gradient";
  block->weight_gradient.name = name + " weight gradient";
  const double tensor_s = plan.tp >= 8 ? kWideTensorLaunch_s : plan.tp > 1 ? kTensorLaunch_s : 0.0;
  const double backward_s = launch_share * (kBackwardLaunch_s + tensor_s);
  block->forward.launch_s = launch_share * (kForwardLaunch_s + tensor_s);
  block->input_gradient.launch_s = (1 - kWeightGradientShare) * backward_s;
  block->weight_gradient.launch_s = kWeightGradientShare * backward_s;
  block->weight_gradient.memory_bytes = kAccumulationBytesPerParameter * parameters;
}

}  // namespace

Block attention_block(const Model& model, const Plan& plan) {
  const Shape shape = shape_of(model, plan);
  const Gemm scores = {
      .batch = shape.matrices, .m = shape.seq, .n = shape.seq, .k = shape.head_size};
  const Gemm context = {
      .batch = shape.matrices, .m = shape.seq, .n = shape.head_size, .k = shape.seq};
  Block block;
  block.core.gemms = {scores, context};
  block.core.memory_bytes = shape.attention(kMatrixPasses);
  add_linear(&block, shape.tokens, shape.hidden, shape.qkv);
  block.forward.gemms.push_back(scores);
  block.forward.gemms.push_back(context);
  add_linear(&block, shape.tokens, shape.query, shape.hidden);
  // Both operands of both products are activations. d(scores) has the shape of `scores`; dV, dQ and
  // dK that of `context`.
  for (const Gemm& gemm : {scores, context, context, context}) {
    block.input_gradient.gemms.push_back(gemm);
  }
  block.forward.memory_bytes =
      shape.whole(kWholePasses) + shape.cut(kQkvPasses, shape.qkv) + shape.attention(kMatrixPasses);
  block.input_gradient.memory_bytes = shape.whole(kWholePassesBackward) +
                                      shape.cut(kQkvPassesBackward, shape.qkv) +
                                      shape.attention(kMatrixPassesBackward);
  finish(&block, "attention", attention_parameters(model) / plan.tp, 0.5, plan);
  return block;
}

Block mlp_block(const Model& model, const Plan& plan) {
  const Shape shape = shape_of(model, plan);
  Block block;
  add_linear(&block, shape.tokens, shape.hidden, model.gated_mlp ? 2 * shape.ffn : shape.ffn);
  add_linear(&block, shape.tokens, shape.ffn, shape.hidden);
  block.forward.memory_bytes = shape.whole(kWholePasses) +
                               shape.cut(model.gated_mlp ? kGatedMlpPasses : kMlpPasses, shape.ffn);
  block.input_gradient.memory_bytes =
      shape.whole(kWholePassesBackward) + shape.cut(kMlpPassesBackward, shape.ffn);
  finish(&block, "mlp", mlp_parameters(model) / plan.tp, 0.5, plan);
  return block;
}

Block embedding_block(const Model& model, const Plan& plan) {
  const Shape shape = shape_of(model, plan);
  Block block;
  const double parameters = static_cast<double>(shape.vocab) * shape.hidden +
                            (model.gated_mlp ? 0.0 : static_cast<double>(model.seq) * model.hidden);
  finish(&block, "embedding", parameters, 0, plan);
  // Nothing is before the embedding: its backward is the gradient of its parameters.
  const double passes =
      shape.cut(kLookupPasses, shape.hidden) + shape.whole(kEmbeddingDropoutPasses);
  block.forward.memory_bytes = passes;
  block.weight_gradient.memory_bytes += passes;
  return block;
}

Block head_block(const Model& model, const Plan& plan) {
  const Shape shape = shape_of(model, plan);
  Block block;
  add_linear(&block, shape.tokens, shape.hidden, shape.vocab);
  block.forward.memory_bytes = shape.whole(kNormPasses) + kCrossEntropyBytesPerLogit *
                                                              static_cast<double>(shape.tokens) *
                                                              static_cast<double>(shape.vocab);
  block.input_gradient.memory_bytes = shape.whole(kNormPassesBackward);
  finish(&block, "head", static_cast<double>(shape.vocab) * shape.hidden, 0, plan);
  return block;
}

Kernel merge(std::string name, std::initializer_list<Kernel> parts) {
  Kernel all;
  all.name = std::move(name);
  for (const Kernel& part : parts) {
    all.gemms.insert(all.gemms.end(), part.gemms.begin(), part.gemms.end());
    all.memory_bytes += part.memory_bytes;
    all.launch_s += part.launch_s;
  }
  return all;
}

Kernel optimizer_kernel(double parameters) {
  return {.name = "optimizer", .memory_bytes = kOptimizerBytesPerParameter * parameters};
}

}  // namespace tandem
