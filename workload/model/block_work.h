// BlockWork: a block's kernels while they are built: products, passes over arrays, and their sizes
// on one GPU. blocks.cpp and mixer_blocks.cpp build their blocks from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workload/cost/kernel.h"
#include "workload/model/blocks.h"
#include "workload/model/model.h"
#include "workload/model/recipe.h"

namespace tandem {

// Passes over arrays of s b h numbers that tensor parallelism does not cut (s positions, b
// microbatch, h hidden). Each pass reads or writes such an array once. A block has a norm, and a
// dropout with the residual addition: forward 2 + 3.5 passes (x, residual, sum, and half a pass for
// the mask), so 11 in a layer; backward 4 + 3.
inline constexpr double kNormPasses = 2;
inline constexpr double kResidualPasses = 3.5;
inline constexpr double kNormPassesBackward = 4;
inline constexpr double kResidualPassesBackward = 3;

// A GPU's share of the dimensions.
struct BlockShape {
  std::int64_t tokens;  // s b / cp
  std::int64_t hidden;
  std::int64_t qkv;  // columns of Q, K and V together
  std::int64_t ffn;
  std::int64_t vocab;
  std::int64_t matrices;                // number of attention matrices
  std::int64_t queries, keys;           // rows and columns of each; under a ring those of a part
  std::int64_t query_size, value_size;  // of a head
  int sp;                               // GPUs over which sequence parallelism cuts the others
  double bytes;                         // bytes of an activation
  std::optional<Recipe> recipe;
  bool casts_weights;  // in each pass, which gathers them; false: once an iteration
  const FrameworkProfile& profile;

  // Bytes of an array with a row for each token; bytes of so many passes over the uncut array, over
  // an array with these columns, and over the attention matrices.
  double array(double columns) const { return bytes * static_cast<double>(tokens) * columns; }
  double whole(double passes) const { return profile.pass_share * passes * array(hidden) / sp; }
  double cut(double passes, std::int64_t columns) const {
    return profile.pass_share * passes * array(static_cast<double>(columns));
  }
  double attention(double passes) const {
    return passes * bytes * static_cast<double>(matrices) * queries * keys;
  }
};

BlockShape block_shape(const Model& model, const Plan& plan, const FrameworkProfile& profile);

// The work of a kernel: products, and passes over memory. Passes are counted by array, so that sums
// of work are exact.
struct KernelWork {
  std::vector<Gemm> gemms;
  double attention_flops = 0;
  AttentionShape attention;
  // Passes over: an array of s b h numbers that tensor parallelism leaves whole; Q, K and V; the
  // MLP's inner array; the attention matrices.
  double whole = 0, qkv = 0, ffn = 0, matrix = 0;
  double bytes = 0;       // read and written of other arrays
  double parameters = 0;  // whose gradients are accumulated
};

// Work of a block's three passes.
struct BlockWork {
  PartsOf<KernelWork> forward, input_gradient, weight_gradient;
};

// Adds a linear layer, output (tokens x out) = input (tokens x in) times weights: its product and
// those of both gradients, and the casts of its input and of its output's gradient if it is
// quantized. `product` has m = tokens, n = out, k = in. `behind_norm`: the input is a norm's
// output, which the norm may write quantized.
void add_linear(BlockWork* block, KernelWork PartsOf<KernelWork>::*part, const BlockShape& shape,
                const Gemm& product, bool behind_norm = false);

// Adds the norm before the block, and dropout and the residual addition after it.
void add_ends(BlockWork* block, const Model& model, const Plan& plan, const BlockShape& shape);

// Time that the CPU takes to issue a block's passes; 0 where they are part of a graph.
struct BlockLaunch {
  double forward_s = 0, backward_s = 0;
};

BlockLaunch launch_of(const Plan& plan, bool CudaGraphModules::*module,
                      const FrameworkProfile& profile);

Kernel kernel_of(const BlockShape& shape, std::string name, const KernelWork& work);

// Names the kernels, merges the parts, and gives the whole block its launch times.
Block finish(const BlockWork& work, const BlockShape& shape, const std::string& name,
             const PartsOf<std::string>& names, const Plan& plan, bool CudaGraphModules::*module);

}  // namespace tandem
