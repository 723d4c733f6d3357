// The model's shape and the plan: how it is cut over GPUs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tandem {

// A transformer decoder's dimensions. Without a gated MLP it is built as GPT is: biases, LayerNorm,
// learned positions, dropout. With one, as Llama is: no biases, RMSNorm, rotary positions, no
// dropout.
struct Model {
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;    // 0: as heads
  int ffn_hidden = 0;  // 0: 4 hidden
  bool gated_mlp = false;
  int seq = 0;
  int vocab = 0;

  int head_size() const { return hidden / heads; }
  int key_value_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  int ffn() const { return ffn_hidden > 0 ? ffn_hidden : 4 * hidden; }
};

enum class Recompute { None, Selective, Full };

// How the model is cut over the GPUs.
struct Plan {
  int tp = 1, pp = 1, vpp = 1, dp = 1;
  int micro_batch = 1;
  int global_batch = 0;
  Recompute recompute = Recompute::None;
  bool sequence_parallel = false;
  bool scatter_gather = false;          // pipeline transfers cut over the tensor ranks
  std::string precision = "bf16";       // of compute, parameters and activations
  std::string gradient_dtype = "fp32";  // of accumulation and of the data-parallel all-reduce
  std::vector<int> layers_per_stage;    // empty: even, see split_layers

  int stages() const { return pp * vpp; }
  int gpus() const { return tp * pp * dp; }
  int microbatches() const { return global_batch / (micro_batch * dp); }
};

// Layers of every stage: listed, or even; where pp vpp does not divide the layers but divides
// layers + 2, embedding and head count as layers; else ceil per stage, the remainder on the last.
// REQUIRES: positive layers, pp and vpp.
std::vector<int> split_layers(const Model& model, const Plan& plan);

// All the rules a model and a plan must keep: positive sizes, heads divisible by tp, hidden by
// heads, global batch by micro batch x dp, layers listed for every stage and adding up, ... Each
// Error names the scenario's key and the rule, with the numbers. The vocabulary need not divide:
// see padded_vocab.
Status check(const Model& model, const Plan& plan);

// The vocabulary as it is laid out on the GPUs: padded to a multiple of 128 tp, as Megatron does
// (GPT-2's 50,257 becomes 50,304, or 51,200 with tp = 8). FLOPs and parameters count it unpadded.
int padded_vocab(const Model& model, const Plan& plan);

// Parameters of the whole model (embedding shared with the head), of one layer and its two blocks,
// of the embedding with its learned positions. GPT: 12 l h^2 (1 + 13/12h) + (V + s) h (Narayanan et
// al. 2021, arXiv 2104.04473, equation 2, where the last LayerNorm's 2h are left out too).
double parameters(const Model& model);
double layer_parameters(const Model& model);
double attention_parameters(const Model& model);
double mlp_parameters(const Model& model);
double embedding_parameters(const Model& model);

// Parameters that one GPU holds, by stage: its tensor share of the layers; on the first stage the
// embedding, with all positions; on the last one, with pp > 1, a copy of the embedding for the
// head.
std::vector<double> stage_parameters(const Model& model, const Plan& plan);

// FLOPs of one iteration, all GPUs, from the real shapes. `model_flops` counts no recompute, for
// f = 4h 72 B s l h^2 (1 + s/6h + V/12lh); `hardware_flops` adds the recomputed forward: with full
// recompute 96 B s l h^2 (1 + s/6h + V/16lh) (Narayanan et al. 2021, equation 3), with selective
// recompute another 4 B s^2 h a layer, the attention core's two products.
double model_flops(const Model& model, const Plan& plan);
double hardware_flops(const Model& model, const Plan& plan);

// Bytes of one parameter or activation in memory and on the wire: fp8 is a GEMM's format only, its
// parameters and activations are kept and sent in 16 bits. REQUIRES: a plan that passed check().
int stored_bytes(const Plan& plan);

}  // namespace tandem
