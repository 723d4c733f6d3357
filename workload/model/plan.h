// Plan: how a model is cut over the GPUs, and how it is trained.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

enum class Recompute { None, Selective, Full };

// Of a layer, what selective recompute repeats, by Megatron's names (--recompute-modules).
struct RecomputeModules {
  bool core_attn = true;     // unfused attention's core: its s x s matrices are not kept
  bool layernorm = false;    // the norms' outputs
  bool mla_up_proj = false;  // of latent attention: queries, keys and values out of the compressed
  bool mlp = false;          // a dense MLP, all of it
  bool moe = false;          // experts, with their exchange, all of it
  bool moe_act = false;      // the experts' activation
  bool shared_experts = false;

  bool operator==(const RecomputeModules&) const = default;
};

struct RecomputeModule {
  std::string_view name;
  bool RecomputeModules::*place;
};
inline constexpr RecomputeModule kRecomputeModules[] = {
    {"core_attn", &RecomputeModules::core_attn},
    {"layernorm", &RecomputeModules::layernorm},
    {"mla_up_proj", &RecomputeModules::mla_up_proj},
    {"mlp", &RecomputeModules::mlp},
    {"moe", &RecomputeModules::moe},
    {"moe_act", &RecomputeModules::moe_act},
    {"shared_experts", &RecomputeModules::shared_experts}};

// What of a stage is launched as CUDA graphs, by Megatron's names (--cuda-graph-scope).
struct CudaGraphModules {
  bool attn = true, mamba = true;  // a layer's first half, with scans or without
  bool mlp = true, moe = true;     // its second
  // Of a mixture of experts, where not all of it is: the router, and what finds which tokens go
  // where.
  bool moe_router = true, moe_preprocess = true;
  bool head = true;  // the embedding, too

  bool operator==(const CudaGraphModules&) const = default;
};

struct CudaGraphModule {
  std::string_view name;
  bool CudaGraphModules::*place;
};
inline constexpr CudaGraphModule kCudaGraphModules[] = {
    {"attn", &CudaGraphModules::attn},
    {"mamba", &CudaGraphModules::mamba},
    {"mlp", &CudaGraphModules::mlp},
    {"moe", &CudaGraphModules::moe},
    {"moe_router", &CudaGraphModules::moe_router},
    {"moe_preprocess", &CudaGraphModules::moe_preprocess},
    {"head", &CudaGraphModules::head}};

// Scales of fp8 by Transformer Engine's recipes: of a tensor, from steps before or from itself; of
// blocks of 128 numbers; of blocks of 32.
enum class Fp8Recipe { Delayed, Current, Blockwise, Mxfp8 };

// Ranks over which delayed scaling reduces the largest numbers behind each pass: tp x cp x dp, as
// Megatron-LM does; tp x cp (its tp_only_amax_red); none, each rank scales by its own.
enum class AmaxReduction { All, Tensor, None };

// What takes tokens to their experts, by Megatron's --moe-token-dispatcher-type and its flex
// backends: an all-to-all of copies; an all-gather of all tokens, of which each rank takes its own;
// DeepEP's and HybridEP's kernels, which send a token once to a GPU or node whatever experts of it
// it goes to.
enum class Dispatcher { AllToAll, AllGather, DeepEp, HybridEp };

// How attention reaches the whole sequence under context parallelism (Megatron's cp_comm_type): key
// and value parts pass round a ring beside attention, are gathered before it, or heads are
// exchanged for positions (DeepSpeed-Ulysses, arXiv 2309.14509).
enum class ContextComm { Ring, AllGather, AllToAll };

// How a tensor-parallel collective meets its GEMM (Transformer Engine's userbuffers): after or
// before it; beside an independent GEMM; split into parts, each beside the GEMM's next or last
// part; as tp - 1 steps round a ring, each beside a part.
enum class TensorMethod { Off, Bulk, Pipelined, Ring };

// The GEMMs of a layer with a collective, by Transformer Engine's names: `qkv` and `fc1` have an
// all-gather before fprop, `proj` and `fc2` a reduce-scatter behind it; dgrad of proj and fc2 an
// all-gather before it; dgrad of qkv and fc1 the gather of the saved input beside it, wgrad of qkv
// and fc1 the reduce-scatter of dgrad's output.
enum class TensorGemm {
  QkvFprop,
  QkvDgrad,
  QkvWgrad,
  ProjFprop,
  ProjDgrad,
  Fc1Fprop,
  Fc1Dgrad,
  Fc1Wgrad,
  Fc2Fprop,
  Fc2Dgrad
};
constexpr int kTensorGemms = 10;

std::string_view name(TensorGemm gemm);  // qkv_fprop, ...
// The scenario's keys that set what overlaps with it, its own first.
std::vector<std::string> keys_of(TensorGemm gemm);
std::string_view name(TensorMethod method);  // off, bulk, pipelined, ring
std::string_view name(ContextComm comm);     // ring, all_gather, all_to_all

struct GemmOverlap {
  TensorMethod method = TensorMethod::Off;
  int sms = 0;     // that the communication takes
  int splits = 4;  // pipelined: parts
};

// Kernels that are one instead of several, each on by default as in Megatron-LM.
struct Fusion {
  bool softmax = true;    // scale, mask and softmax
  bool bias_gelu = true;  // bias and activation
  bool norm = true;       // LayerNorm or RMSNorm
  bool cross_entropy = true;
};

// How the model is cut over the GPUs.
struct Plan {
  int tp = 1, pp = 1, vpp = 1, dp = 1;
  int cp = 1;            // context parallel: GPUs that share a sequence
  int ep = 1;            // expert parallel: GPUs, of dp x cp, that share a layer's experts
  int expert_nodes = 1;  // that an expert group's GPUs are on: where they are placed says it
  int expert_tp = 0;     // GPUs that an expert is cut over: neighbours; 0: as tp
  int micro_batch = 1;
  int global_batch = 0;
  Dispatcher dispatcher = Dispatcher::AllToAll;
  bool fp8_dispatch = false;  // tokens go to their experts in fp8, and come back in 16 bits
  bool delay_wgrad = false;   // experts' weight gradients beside the exchange behind their inputs'
  Recompute recompute = Recompute::None;
  RecomputeModules recompute_modules;
  bool sequence_parallel = false;
  bool scatter_gather = false;     // pipeline transfers cut over the tensor ranks
  std::string precision = "bf16";  // of compute, parameters and activations; see Recipe
  Fp8Recipe fp8_recipe = Fp8Recipe::Delayed;
  AmaxReduction amax_reduction = AmaxReduction::All;
  std::string gradient_dtype = "fp32";  // of accumulation and of the data-parallel all-reduce
  std::string moment_dtype = "fp32";    // of each of Adam's two moments
  std::vector<int> layers_per_stage;    // empty: even, see split_layers
  int recompute_layers = -1;     // full recompute: of the first so many layers of a stage; -1: all
  bool flash_attention = false;  // attention's core is one kernel that keeps no s x s matrix
  Fusion fusion;
  double optimizer_offload = 0;  // share of the optimizer's states that the CPU keeps and updates
  CudaGraphModules cuda_graph_modules;
  bool cuda_graphs = false;  // the CPU launches a pass as one graph: its time does not count
  // What of each parameter the data-parallel ranks cut among them (ZeRO, arXiv 1910.02054): 1: the
  // optimizer's state (Megatron's distributed optimizer), 2: gradients too, 3: parameters too.
  int zero = 0;
  // Of ZeRO 3: whether parameters go again behind a microbatch's forward, to be gathered anew for
  // its backward; nothing: without a pipeline (torchtitan's default).
  std::optional<bool> reshard_after_forward;
  // GPUs, of a stage's dp x cp, that cut a parameter among them; the others are replicas of those
  // (HSDP, Megatron's num_distributed_optimizer_instances). 0: all.
  int hsdp_shard = 0;
  // Of ZeRO 3: neighbouring GPUs of a stage's dp x cp that hold a second cut of the dense
  // parameters among them, in 16 bits, for backwards to gather (hpZ of ZeRO++, arXiv 2306.10209).
  // 0: none.
  int zero_hpz = 0;
  bool fp8_param_gather = false;  // parameters are gathered in fp8, half of bf16's bytes
  std::array<GemmOverlap, kTensorGemms> tensor_overlap;  // by TensorGemm
  ContextComm context_comm = ContextComm::Ring;
  bool overlap_context = false;         // the ring's steps beside attention's parts
  int context_sms = 0, expert_sms = 0;  // that these communications take
  // Input and output embedding cut over the pipeline's ranks, by this algorithm, 1 or 2 (Yeung et
  // al. 2025, arXiv 2411.05288); 0: they are whole, on the first and the last stage.
  int vocabulary = 0;
  // Layers of multi-token prediction stand on the stage before the last one, which has no layer
  // then: only the heads.
  bool mtp_before_loss = false;

  int stages() const { return pp * vpp; }
  int mtp_stage() const { return stages() - (mtp_before_loss ? 2 : 1); }
  int gpus() const { return tp * pp * dp * cp; }
  int expert_tensor() const { return expert_tp > 0 ? expert_tp : tp; }
  const GemmOverlap& overlap_of(TensorGemm gemm) const {
    return tensor_overlap[static_cast<std::size_t>(gemm)];
  }
  bool overlaps_tensor() const {
    return std::ranges::any_of(tensor_overlap, [](const GemmOverlap& overlap) {
      return overlap.method != TensorMethod::Off;
    });
  }
  // ZeRO 2 scatters gradients, and ZeRO 3 gathers parameters, for each microbatch; in a pipeline
  // once an iteration.
  bool scatters_each_microbatch() const { return zero >= 2 && pp == 1; }
  bool gathers_each_microbatch() const { return zero == 3 && pp == 1; }
  bool gathers_each_pass() const {
    return gathers_each_microbatch() && reshard_after_forward.value_or(true);
  }
  int microbatches() const { return global_batch / (micro_batch * dp); }
};

// A plan with what the pipeline's order says of it. A Plan by itself is one of a single chain whose
// ends are on two ranks.
struct OrderedPlan : Plan {
  OrderedPlan() = default;
  OrderedPlan(Plan plan) : Plan(std::move(plan)) {}
  OrderedPlan(Plan plan, int copies_of_model, bool both_ends_on_one_rank)
      : Plan(std::move(plan)), copies(copies_of_model), ends_on_one_rank(both_ends_on_one_rank) {}

  int copies = 1;  // of the model in a pipeline: DualPipe has two, which share gradients
  // Orders that lay the chain out as a V, or run two: first and last stage are on one rank, and the
  // head needs no copy of the embedding.
  bool ends_on_one_rank = false;

  // Replicas of the dense parameters, and of an expert's.
  int data_ranks() const { return dp * cp * copies; }
  int expert_data_ranks() const { return tp * data_ranks() / (expert_tensor() * ep); }
  // Those of them that cut a parameter among them: with experts as many replicas as without.
  int shard_ranks() const { return hsdp_shard > 0 ? hsdp_shard : data_ranks(); }
  int expert_shard_ranks() const { return tp * shard_ranks() / (expert_tensor() * ep); }
};

}  // namespace tandem
