// The blocks of a layer's first half: attention by heads or by latents, and the scans of Mamba-2
// and the gated delta net. Declared in workload/model/blocks.h.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "workload/model/block_work.h"

namespace tandem {
namespace {

// Passes over the array of Q, K and V (3 s b h / tp numbers for plain attention): bias and
// transposition forward, the same and the bias gradient backward.
constexpr double kQkvPasses = 2;
constexpr double kQkvPassesBackward = 4;

// Passes over the attention matrix that a fused softmax saves: the reads and writes of the separate
// kernels, less those of the fused one, counted from the operations, not fitted. A pass in fp32
// counts as two of 16 bits.
//
//   separate kernels, as in Megatron-LM                               fused  saved
//   forward   to fp32 3, scale 4, mask 4, softmax 4, to 16 bits 3       2     16
//   backward  to fp32 3, softmax 6, mask 4, scale 4, to 16 bits 3       3     17
//
// With the fused activation this is 14 % of a 175B model's layer time and 7 % of a 530B's.
// Narayanan et al. 2021, section 5.8, gained 19 and 11 % with both and the fused dropout-add.
constexpr double kSplitSoftmaxPasses = 16;
constexpr double kSplitSoftmaxPassesBackward = 17;

// Passes over the arrays of a scan, forward and backward, counted: the convolution with its
// activation reads and writes (2), the gate and its norm (3). Not measured.
constexpr double kScanPasses = 5;
constexpr double kScanPassesBackward = 10;

// Returns the most keys to which a position attends.
std::int64_t keys_of_row(const Model& model, const BlockShape& shape) {
  std::int64_t keys = shape.keys;
  for (const int part : {model.window, model.attention_chunk, model.document}) {
    if (part > 0) keys = std::min<std::int64_t>(keys, part);
  }
  return keys;
}

// Returns the shape of a fused forward.
AttentionShape attention_shape(const Model& model, const Plan& plan, const BlockShape& shape) {
  AttentionShape attention = {.keys = keys_of_row(model, shape),
                              .head_size = shape.query_size,
                              .in_fp8 = plan.fp8_attention && is_quantized(plan.precision)};
  if (model.window == 0) return attention;
  Model unmasked = model;
  unmasked.window = 0;
  attention.window_share = attended_share(model) / attended_share(unmasked);
  attention.keys_without_window = keys_of_row(unmasked, shape);
  return attention;
}

// Adds attention's core. Forward it has two products, the scores (Q x K) and the context (scores x
// V); backward four. Unfused, separate kernels read and write the matrix of scores. One fused
// kernel never writes it, and does not compute what is masked.
void add_core(BlockWork* block, const Model& model, const Plan& plan, const BlockShape& shape) {
  // All operands are activations.
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return Gemm{.batch = shape.matrices, .m = m, .n = n, .k = k, .in_16_bits = true};
  };
  const Gemm scores = product(shape.queries, shape.keys, shape.query_size);
  const Gemm context = product(shape.queries, shape.value_size, shape.keys);
  KernelWork& forward = block->forward.core;
  KernelWork& backward = block->input_gradient.core;
  if (plan.flash_attention) {
    forward.attention_flops = attended_share(model) * (scores.flops() + context.flops());
    backward.attention_flops = kFlashBackward * forward.attention_flops;
    forward.attention = attention_shape(model, plan, shape);
    backward.attention = forward.attention;
    backward.attention.backward = true;
    return;
  }
  forward.gemms = {scores, context};
  // The four gradients: of the scores, of Q, of V and of K.
  backward.gemms = {product(shape.queries, shape.keys, shape.value_size),
                    product(shape.queries, shape.query_size, shape.keys),
                    product(shape.keys, shape.value_size, shape.queries),
                    product(shape.keys, shape.query_size, shape.queries)};
  forward.matrix = shape.profile.matrix_passes + (plan.fusion.softmax ? 0 : kSplitSoftmaxPasses);
  backward.matrix = shape.profile.matrix_passes_backward +
                    (plan.fusion.softmax ? 0 : kSplitSoftmaxPassesBackward);
}

// Returns the positions of a chunk; 0: the layer has no scan.
int scan_chunk(const Model& layer) {
  if (layer.mixer == Mixer::Mamba) return layer.mamba_chunk;
  return layer.mixer == Mixer::Linear ? kDeltaChunk : 0;
}

// A scan in chunks. For each chunk and head it has four products: the scores of the chunk's
// positions with each other (which a group of heads may share), scores x values, what the chunk
// adds to the head's state, and what its positions read from the state.
struct Scan {
  std::int64_t score_heads = 0, heads = 0;  // on this GPU
  std::int64_t state = 0, value = 0;        // rows and columns of a head's state
  int scores = 1, products = 1;  // products of the first two kinds; a delta rule has more
  bool in_own_kernels = false;   // kernels of known rate: FrameworkProfile::scan_flops_per_s
};

// Returns a layer's scan. One by the delta rule (arXiv 2412.06464, section 3.3) has as scores: keys
// x keys, the triangle made of these x keys, queries x keys. Its products with values: that
// triangle x values, and the last scores x the new values.
Scan scan_of(const Model& model, const Plan& plan) {
  if (model.mixer == Mixer::Mamba)
    return {.score_heads = std::max(1, model.mamba_groups / plan.tp),
            .heads = model.mamba_heads / plan.tp,
            .state = model.mamba_state,
            .value = model.mamba_head_dim,
            .in_own_kernels = true};
  const std::int64_t heads = model.linear_value_heads / plan.tp;
  return {.score_heads = heads,
          .heads = heads,
          .state = model.linear_key_head_dim,
          .value = model.linear_value_head_dim,
          .scores = 3,
          .products = 2};
}

void add_scan(BlockWork* block, const Model& model, const Plan& plan, const BlockShape& shape) {
  const Scan scan = scan_of(model, plan);
  const std::int64_t chunk = scan_chunk(model), chunks = scan_chunks(model, plan);
  const auto product = [&](std::int64_t heads, std::int64_t m, std::int64_t n, std::int64_t k) {
    return Gemm{.batch = chunks * heads,
                .m = m,
                .n = n,
                .k = k,
                .in_16_bits = true,
                .scan = scan.in_own_kernels};
  };
  std::vector<Gemm> gemms;
  for (int i = 0; i < scan.scores; ++i)
    gemms.push_back(product(scan.score_heads, chunk, chunk, scan.state));
  for (int i = 0; i < scan.products; ++i)
    gemms.push_back(product(scan.heads, chunk, scan.value, chunk));
  gemms.push_back(product(scan.heads, scan.state, scan.value, chunk));
  gemms.push_back(product(scan.heads, chunk, scan.value, scan.state));
  block->forward.core.gemms = gemms;
  // Each product has two gradients.
  block->input_gradient.core.gemms = gemms;
  for (const Gemm& gemm : gemms) block->input_gradient.core.gemms.push_back(gemm);
  const double array = shape.array(static_cast<double>(shape.qkv));
  block->forward.core.bytes = kScanPasses * array;
  block->input_gradient.core.bytes = kScanPassesBackward * array;
}

// Adds the products that make latent attention's queries, keys and values, by heads, out of the
// compressed ones.
void add_up_projection(BlockWork* block, const Model& model, const Plan& plan,
                       const BlockShape& shape) {
  const auto in = &PartsOf<KernelWork>::in;
  const std::int64_t rank = model.q_lora_rank, kv_rank = model.kv_lora_rank;
  const std::int64_t heads = model.heads / plan.tp;
  const std::int64_t query = heads * model.query_size();
  add_linear(block, in, shape, {.m = shape.tokens, .n = query, .k = rank > 0 ? rank : shape.hidden},
             /*behind_norm=*/true);
  add_linear(
      block, in, shape,
      {.m = shape.tokens, .n = heads * (model.qk_nope_head_dim + model.v_head_dim), .k = kv_rank},
      /*behind_norm=*/true);
}

// Returns the columns of a layer's first product: Q, K and V, or what a scan needs. Latent
// attention compresses with it.
std::int64_t in_columns(const Model& model, const Plan& plan, const BlockShape& shape) {
  switch (model.mixer) {
    case Mixer::Heads: {
      // With shared_kv the values have no columns of their own.
      const std::int64_t spared = model.shared_kv ? key_value_columns(model, plan) / 2 : 0;
      const std::int64_t gathered = gathered_columns(model, plan);
      return gathered > 0 ? gathered / plan.tp : shape.qkv - spared;
    }
    case Mixer::Latent:
      return model.compressed_columns();
    case Mixer::Mamba: {
      // Gate and input; B and C; a step for each head.
      const Scan scan = scan_of(model, plan);
      return 2 * scan.heads * scan.value + 2 * scan.score_heads * scan.state + scan.heads;
    }
    case Mixer::Linear: {
      // Queries and keys; values and gate; two numbers for each head.
      const Scan scan = scan_of(model, plan);
      return 2 * (model.linear_keys() / plan.tp) + 2 * scan.heads * scan.value + 2 * scan.heads;
    }
    case Mixer::None:
      break;
  }
  CHECK(false);
  return 0;
}

}  // namespace

std::int64_t scan_chunks(const Model& layer, const Plan& plan) {
  const std::int64_t chunk = scan_chunk(layer);
  return chunk == 0 ? 0 : std::max<std::int64_t>(1, tokens_of(layer, plan) / chunk);
}

Block attention_block(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  const BlockShape shape = block_shape(model, plan, profile);
  BlockWork block;
  add_ends(&block, model, plan, shape);
  block.forward.between.qkv = kQkvPasses;
  block.input_gradient.between.qkv = kQkvPassesBackward;
  // Latent attention is compressed on every tensor rank, and then expanded by heads.
  add_linear(&block, &PartsOf<KernelWork>::in, shape,
             {.m = model.latent() ? shape.tokens / shape.sp : shape.tokens,
              .n = in_columns(model, plan, shape),
              .k = shape.hidden},
             /*behind_norm=*/true);
  if (model.latent()) add_up_projection(&block, model, plan, shape);
  if (model.attends()) {
    add_core(&block, model, plan, shape);
  } else {
    add_scan(&block, model, plan, shape);
  }
  const std::int64_t output = output_columns(model, plan);
  add_linear(&block, &PartsOf<KernelWork>::out, shape,
             {.m = shape.tokens, .n = shape.hidden, .k = output});
  const double projection = static_cast<double>(output) * shape.hidden;
  // Latent attention's compression, which every tensor rank holds whole; else 0.
  const double compression = replicated_parameters(model) - router_parameters(model);
  block.weight_gradient.in.parameters =
      (attention_parameters(model) - compression) / plan.tp + compression - projection;
  block.weight_gradient.out.parameters = projection;
  const auto module = model.attends() ? &CudaGraphModules::attn : &CudaGraphModules::mamba;
  Block attention = finish(
      block, shape, "attention",
      {"attention norm", "qkv", "qkv layout", "attention core", "proj", "attention residual"}, plan,
      module);
  if (model.latent()) {
    BlockWork up;
    add_up_projection(&up, model, plan, shape);
    attention.up_projection = kernel_of(shape, "up-projection recomputed", up.forward.in);
  }
  return attention;
}

}  // namespace tandem
