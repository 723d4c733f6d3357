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

// The parts of a layer that selective recompute repeats, by Megatron's names (--recompute-modules).
struct RecomputeModules {
  bool core_attn = true;     // unfused attention's core: its s x s matrices are not kept
  bool layernorm = false;    // the norms' outputs
  bool mla_up_proj = false;  // latent attention's queries, keys and values out of the compressed
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

// The parts of a stage that are launched as CUDA graphs, by Megatron's names (--cuda-graph-scope).
struct CudaGraphModules {
  bool attn = true, mamba = true;  // a layer's first half: attention, or a scan
  bool mlp = true, moe = true;     // its second half
  // Parts of a mixture of experts, if not all of it is: the router, and what finds which tokens go
  // where.
  bool moe_router = true, moe_preprocess = true;
  bool head = true;  // with the embedding

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

// The parts of a layer whose inputs go to the CPU's memory from a layer's forward to its backward,
// by Megatron's names (--offload-modules).
struct OffloadModules {
  bool attn_norm = false;   // attention's norm, where it is not one kernel with the next product
  bool qkv_linear = false;  // the products before attention's core, with what is between them
  bool core_attn = false;   // attention's core
  bool attn_proj = false;   // the product behind it
  bool mlp_norm = false;    // the experts' norm; a dense MLP's is one kernel with its product
  bool expert_fc1 = false;  // the experts' first product
  bool moe_act = false;     // the experts' activation
  bool fused_group_mlp = false;  // the experts in one kernel: both products and the activation

  bool operator==(const OffloadModules&) const = default;
};

struct OffloadModule {
  std::string_view name;
  bool OffloadModules::*place;
};
inline constexpr OffloadModule kOffloadModules[] = {
    {"attn_norm", &OffloadModules::attn_norm},
    {"qkv_linear", &OffloadModules::qkv_linear},
    {"core_attn", &OffloadModules::core_attn},
    {"attn_proj", &OffloadModules::attn_proj},
    {"mlp_norm", &OffloadModules::mlp_norm},
    {"expert_fc1", &OffloadModules::expert_fc1},
    {"moe_act", &OffloadModules::moe_act},
    {"fused_group_mlp", &OffloadModules::fused_group_mlp}};

// Scales of fp8 by Transformer Engine's recipes: one for a tensor, from earlier steps (Delayed) or
// from itself (Current); one for a block of 128 numbers; one for a block of 32.
enum class Fp8Recipe { Delayed, Current, Blockwise, Mxfp8, Rowwise };

// Ranks over which delayed scaling all-reduces the largest numbers (amax) after each pass: tp x cp
// x dp, Megatron-LM's default; tp x cp (its tp_only_amax_red); none: each rank scales by its own
// amax.
enum class AmaxReduction { All, Tensor, None };

// How tokens reach their experts, by Megatron's --moe-token-dispatcher-type and its flex backends:
// an all-to-all of copies; an all-gather of all tokens, of which each rank takes its own; DeepEP's
// and HybridEP's kernels, which send a token once to a GPU or node, however many of its experts are
// there.
enum class Dispatcher { AllToAll, AllGather, DeepEp, HybridEp };

// How attention reaches the whole sequence under context parallelism (Megatron's cp_comm_type):
// parts of keys and values pass round a ring beside attention; or they are gathered before it; or
// heads are exchanged for positions (DeepSpeed-Ulysses, arXiv 2309.14509).
enum class ContextComm { Ring, AllGather, AllToAll };

// How a tensor-parallel collective is combined with its GEMM (Transformer Engine's userbuffers):
// one after the other; beside an independent GEMM; split into parts, each beside the GEMM's next or
// last part; as tp - 1 steps round a ring, each beside a part.
enum class TensorMethod { Off, Bulk, Pipelined, Ring };

// The GEMMs of a layer that have a collective, by Transformer Engine's names. `qkv` and `fc1` have
// an all-gather before fprop, `proj` and `fc2` a reduce-scatter behind it. dgrad of proj and fc2
// has an all-gather before it. dgrad of qkv and fc1 has the gather of the saved input beside it;
// their wgrad has the reduce-scatter of dgrad's output.
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

std::string_view tensor_gemm_name(TensorGemm gemm);  // qkv_fprop, ...
// Returns the scenario's keys that set the overlap of this GEMM, its own key first.
std::vector<std::string> keys_of(TensorGemm gemm);
std::string_view tensor_method_name(TensorMethod method);  // off, bulk, pipelined, ring
std::string_view context_comm_name(ContextComm comm);      // ring, all_gather, all_to_all

struct GemmOverlap {
  TensorMethod method = TensorMethod::Off;
  int sms = 0;     // taken from compute by the communication
  int splits = 4;  // parts of a pipelined overlap
  // Communicates in Transformer Engine's buffers. False: by NCCL, as bulk overlap that no key asked
  // for.
  bool userbuffers = true;
};

// Kernels that may be fused. Each fusion is on by default, as in Megatron-LM.
struct Fusion {
  bool softmax = true;    // scale, mask and softmax
  bool bias_gelu = true;  // bias and activation
  bool norm = true;       // LayerNorm or RMSNorm
};

// How the loss is computed: in kernels one after another; by Megatron-LM's own fused ones; by
// Transformer Engine's kernel; or for a part of the tokens at a time.
enum class CrossEntropy { Unfused, Native, TransformerEngine, Chunked };

// How Muon orthogonalizes a matrix that is cut over tensor ranks (Megatron-LM's --muon-tp-mode):
// each rank gathers it and computes all of it (Duplicated); each rank treats its part as a matrix
// (Blockwise); or the ranks compute it together (Distributed).
enum class MuonTensor { Duplicated, Blockwise, Distributed };

// The framework whose buffers and losses count for memory (workload/memory/trainer.h).
enum class Trainer { Megatron, Torchtitan, DeepSpeed, Fsdp };

// How the model is cut over the GPUs.
struct Plan {
  int tp = 1, pp = 1, vpp = 1, dp = 1;
  int cp = 1;            // context parallel: GPUs that share a sequence
  int ep = 1;            // expert parallel: GPUs, of dp x cp, that share a layer's experts
  int expert_nodes = 1;  // nodes over which an expert group's GPUs are placed
  int expert_tp = 0;     // neighbouring GPUs over which an expert is cut; 0: as tp
  int micro_batch = 1;
  int global_batch = 0;
  Dispatcher dispatcher = Dispatcher::AllToAll;
  bool fp8_dispatch = false;  // tokens go to their experts in fp8, and return in 16 bits
  bool delay_wgrad = false;   // experts' wgrad runs beside the exchange that follows their dgrad
  bool shared_expert_overlap = true;  // shared experts run beside the exchange to the others
  Recompute recompute = Recompute::None;
  RecomputeModules recompute_modules;
  bool sequence_parallel = false;
  bool scatter_gather = false;     // pipeline transfers are cut over the tensor ranks
  std::string precision = "bf16";  // of compute, parameters and activations; see Recipe
  Fp8Recipe fp8_recipe = Fp8Recipe::Delayed;
  AmaxReduction amax_reduction = AmaxReduction::All;
  std::string gradient_dtype = "fp32";  // of accumulation and of the data-parallel all-reduce
  std::string moment_dtype = "fp32";    // of each of Adam's two moments
  bool muon = false;                    // updates matrices of layers; Adam updates all else
  MuonTensor muon_tensor = MuonTensor::Duplicated;
  bool param_remainders = false;      // bf16 parameters are the upper half of their originals
  std::vector<int> layers_per_stage;  // empty: even, see split_layers
  int recompute_layers = -1;       // full recompute: the first so many layers of a stage; -1: all
  OffloadModules offload_modules;  // of every layer
  int offload_layers = 0;          // the first so many layers of a stage keep nothing on the GPU
  bool flash_attention = false;    // attention's core is one kernel that keeps no s x s matrix
  Fusion fusion;
  std::optional<CrossEntropy> cross_entropy;  // unset: as is usual with the trainer
  std::optional<Trainer> trainer;             // unset: see trainer_of()
  bool expandable_segments = false;  // PyTorch's allocator grows its segments: little is wasted
  double optimizer_offload = 0;  // share of the optimizer's states that the CPU keeps and updates
  CudaGraphModules cuda_graph_modules;
  bool cuda_graphs = false;  // the CPU launches a pass as one graph: its time does not count
  // State that the data-parallel ranks cut among them (ZeRO, arXiv 1910.02054): 1: the
  // optimizer's state (Megatron's distributed optimizer), 2: gradients, too, 3: parameters, too.
  int zero = 0;
  // ZeRO 3: whether gathered parameters are freed behind a microbatch's forward and gathered again
  // for its backward; unset: yes without a pipeline (torchtitan's default).
  std::optional<bool> reshard_after_forward;
  // GPUs, among a stage's dp x cp, that cut a parameter among them; the other GPUs are replicas of
  // these (HSDP, Megatron's num_distributed_optimizer_instances). 0: all.
  int hsdp_shard = 0;
  // ZeRO 3: neighbouring GPUs, among a stage's dp x cp, that hold a second cut of the dense
  // parameters among them, in 16 bits, for backwards to gather (hpZ of ZeRO++, arXiv 2306.10209).
  // 0: none.
  int zero_hpz = 0;
  bool fp8_attention = false;     // with fp8 or nvfp4: fused attention multiplies in fp8
  bool fp8_param_gather = false;  // with fp8 or nvfp4: parameters are gathered in half bf16's bytes
  std::array<GemmOverlap, kTensorGemms> tensor_overlap;  // by TensorGemm
  ContextComm context_comm = ContextComm::Ring;
  bool overlap_context = false;         // the ring's steps beside attention's parts
  int context_sms = 0, expert_sms = 0;  // taken by these communications
  // The algorithm, 1 or 2, by which the input and output embedding are cut over the pipeline's
  // ranks (Yeung et al. 2025, arXiv 2411.05288); 0: they are whole, on the first and the last
  // stage.
  int vocabulary = 0;
  // Puts layers of multi-token prediction on the stage before the last one. The last stage then has
  // only the heads, and no layer.
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
  // ZeRO 2 scatters gradients, and ZeRO 3 gathers parameters, once for each microbatch; in a
  // pipeline once an iteration.
  bool scatters_each_microbatch() const { return zero >= 2 && pp == 1; }
  bool gathers_each_microbatch() const { return zero == 3 && pp == 1; }
  bool gathers_each_pass() const {
    return gathers_each_microbatch() && reshard_after_forward.value_or(true);
  }
  bool offloads_activations() const {
    return offload_layers > 0 || offload_modules != OffloadModules{};
  }
  // Says whether `recompute` holds for all layers. If not, full recompute repeats the first
  // recompute_layers of each stage, and the others keep their activations.
  bool recomputes_alike() const { return recompute_layers < 0; }
  int microbatches() const { return global_batch / (micro_batch * dp); }
  // How often an iteration reduces a gradient and gathers a parameter, if data-parallel ranks cut
  // them.
  int reductions() const { return scatters_each_microbatch() ? microbatches() : 1; }
  int gathers() const {
    return gathers_each_microbatch() ? microbatches() * (gathers_each_pass() ? 2 : 1) : 1;
  }
};

// A plan, with what the pipeline's order adds. A Plan by itself has a single chain whose ends are
// on two ranks.
struct OrderedPlan : Plan {
  OrderedPlan() = default;
  OrderedPlan(Plan plan) : Plan(std::move(plan)) {}
  OrderedPlan(Plan plan, int copies_of_model, bool both_ends_on_one_rank, bool passes_trade_layers)
      : Plan(std::move(plan)),
        copies(copies_of_model),
        ends_on_one_rank(both_ends_on_one_rank),
        trades_layers(passes_trade_layers) {}

  int copies = 1;  // of the model in a pipeline: DualPipe has two, which share gradients
  // Set by orders that lay the chain out as a V, or run two chains: the first and last stage are on
  // one rank, and the head needs no copy of the embedding.
  bool ends_on_one_rank = false;
  // A forward and a backward run together layer by layer: two layers are at work.
  bool trades_layers = false;

  // Return the replicas of the dense parameters, and those of an expert's parameters.
  int data_ranks() const { return dp * cp * copies; }
  int expert_data_ranks() const { return tp * data_ranks() / (expert_tensor() * ep); }
  // Return over how many of these ranks a parameter is cut. Experts have as many whole replicas as
  // dense layers.
  int shard_ranks() const { return hsdp_shard > 0 ? hsdp_shard : data_ranks(); }
  int expert_shard_ranks() const { return tp * shard_ranks() / (expert_tensor() * ep); }
};

}  // namespace tandem
