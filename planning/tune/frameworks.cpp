// Tables: for each framework the values that a scenario key may have, and rules about several keys.
// Each entry names the source that it was read from.
#include "planning/tune/frameworks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/nearest.h"
#include "planning/tune/hybrid_letters.h"
#include "planning/tune/layout_keys.h"
#include "scenarios/costs.h"

namespace tandem {
namespace {

// The parameters of a rule, b and t below: the scenario, and the candidate for its plan.
using Base = const Scenario&;
using Tried = const Candidate&;
using enum FrameworkRule::Part;

// Joins the rows of two tables.
template <class Row, std::size_t A, std::size_t B>
constexpr auto joined(const Row (&a)[A], const Row (&b)[B]) {
  std::array<Row, A + B> all{};
  std::copy(std::begin(b), std::end(b), std::copy(std::begin(a), std::end(a), all.begin()));
  return all;
}

constexpr std::string_view kArguments = "Megatron-LM, megatron/training/arguments.py";
constexpr std::string_view kLayerLayout =
    "Megatron-LM, core/transformer/pipeline_parallel_layer_layout.py";
constexpr std::string_view kTransformerConfig =
    "Megatron-LM, core/transformer/transformer_config.py";
constexpr std::string_view kGraphConfig = "Megatron-LM, core/transformer/cuda_graph_config.py";
constexpr std::string_view kSchedules = "Megatron-LM, core/pipeline_parallel/schedules.py";
constexpr std::string_view kParallelConfig = "Megatron-LM, core/model_parallel_config.py";
constexpr std::string_view kScales = "Transformer Engine's recipes: rowwise is torchao's";
constexpr std::string_view kMicroScales = "Transformer Engine: check_mxfp8_support";
constexpr std::string_view kUserbuffers = "Transformer Engine, pytorch/module/base.py: userbuffers";
constexpr std::string_view kLinear = "Megatron-LM, core/extensions/transformer_engine.py: TELinear";
constexpr std::string_view kTransformerEngine = "Transformer Engine's ring attention, always on";
constexpr std::string_view kBridge = "NeMo (Megatron-Bridge): use_distributed_optimizer";
constexpr std::string_view kBridgeHybrid =
    "NeMo (Megatron-Bridge): models/hybrid/hybrid_provider.py";
constexpr std::string_view kChatLearnConfig = "ChatLearn, chatlearn/configs/megatron_config.py";
constexpr std::string_view kGptModel = "Megatron-LM, core/models/gpt/gpt_model.py";
constexpr std::string_view kPipeModule = "DeepSpeed, runtime/pipe/module.py: PipelineModule";
constexpr std::string_view kPipeEngine = "DeepSpeed, runtime/pipe/engine.py";
constexpr std::string_view kPipeSchedule = "DeepSpeed, runtime/pipe/schedule.py: TrainSchedule";
constexpr std::string_view kZero = "DeepSpeed, runtime/zero/: overlap_comm, stage 3's prefetch";
constexpr std::string_view kMics = "DeepSpeed, runtime/zero/mics.py";
constexpr std::string_view kUlysses = "DeepSpeed-Ulysses: sequences are cut by all-to-all";
constexpr std::string_view kAutoEp = "DeepSpeed, module_inject/auto_ep_folding.py";
constexpr std::string_view kAutoTp = "DeepSpeed, module_inject/layers.py: AutoTP all-reduces";
constexpr std::string_view kAutoEpStage = "DeepSpeed, runtime/engine.py: AutoEP";
constexpr std::string_view kFullyShard = "PyTorch, torch.distributed.fsdp";
constexpr std::string_view kTpPlan = "Transformers, base_model_tp_plan: layers are all-reduced";
constexpr std::string_view kAccelerate = "Accelerate, src/accelerate/parallelism_config.py";
constexpr std::string_view kWraps = "Accelerate, src/accelerate/utils/fsdp_utils.py";
constexpr std::string_view kTorchSchedules = "PyTorch, torch/distributed/pipelining/schedules.py";
constexpr std::string_view kTitanDims = "torchtitan, distributed/parallel_dims.py";
constexpr std::string_view kTitanPipeline = "torchtitan, distributed/pipeline_parallel.py";
constexpr std::string_view kTitanDecoder = "torchtitan, models/common/decoder.py";
constexpr std::string_view kTitanCheckpoints = "torchtitan, distributed/activation_checkpoint.py";
constexpr std::string_view kTitanMicroScales = "torchtitan, components/quantization/mx.py";
constexpr std::string_view kTitanConfigs = "torchtitan, config/configs.py";

constexpr AllowedValues kMegatronValues[] = {
    {"schedule.order", "none,1f1b,interleaved", kSchedules},
    {"parallel.scatter_gather", "false", kArguments},
    {"schedule.vocabulary", "stage", kGptModel}};
constexpr auto kNemoValues = joined(kMegatronValues, {{"train.zero", "0,1", kBridge}});
constexpr auto kChatLearnValues =
    joined(kMegatronValues, {{"train.zero", "0,1", kChatLearnConfig},
                             {"overlap.grad_reduce", "false", kChatLearnConfig},
                             {"overlap.param_gather", "false", kChatLearnConfig},
                             {"overlap.tensor", "off", kChatLearnConfig}});
constexpr AllowedValues kDeepSpeedValues[] = {{"schedule.order", "none,1f1b", kPipeSchedule},
                                              {"parallel.vpp", "1", kPipeSchedule},
                                              {"overlap.p2p", "false", kPipeSchedule},
                                              {"train.sequence_parallel", "false", kAutoTp},
                                              {"overlap.tensor", "off", kPipeEngine},
                                              {"overlap.context", "false", kUlysses},
                                              {"parallel.scatter_gather", "false", kPipeEngine},
                                              {"parallel.layout", "even", kPipeModule},
                                              {"schedule.vocabulary", "stage", kPipeModule}};
constexpr AllowedValues kFsdpValues[] = {{"parallel.pp", "1", kFullyShard},
                                         {"parallel.ep", "1", kFullyShard},
                                         {"schedule.order", "none", kFullyShard},
                                         {"train.sequence_parallel", "false", kTpPlan},
                                         {"train.recompute_layers", "-1", kWraps},
                                         {"train.zero", "2,3", kFullyShard},
                                         {"overlap.grad_reduce", "true", kFullyShard},
                                         {"overlap.param_gather", "true", kFullyShard},
                                         {"overlap.context", "false", kAccelerate},
                                         {"overlap.tensor", "off", kFullyShard}};
constexpr AllowedValues kTitanValues[] = {
    {"schedule.order", "none,1f1b,gpipe,interleaved,looped-bfs,interleaved-zb,zbv,dualpipev",
     kTorchSchedules},
    {"train.recompute_layers", "-1", kTitanCheckpoints},
    {"train.zero", "0,2,3", kFullyShard},
    {"overlap.grad_reduce", "true", kFullyShard},
    {"overlap.param_gather", "true", kFullyShard},
    {"overlap.tensor", "off,ring", kTitanConfigs},
    {"overlap.context", "false", kTitanDecoder},
    {"parallel.scatter_gather", "false", kTitanConfigs},
    {"parallel.layout", "even", kTitanPipeline},
    {"schedule.vocabulary", "stage", kTitanPipeline}};

// Whether the order is Megatron-LM's interleaved schedule. No other one exchanges the transfers of
// a forward and a backward in pairs.
bool interleaves(Base b, Tried t) { return traits_of(b, t.playing).exchanges == BatchedP2p::Pairs; }

// Whether every stage has a layer. Megatron-LM's pipeline layout then takes any numbers of layers.
bool fills_stages(Base b, Tried t) {
  const std::vector<int> layers = split_layers(b.job.model, plan_of(b, t));
  return std::ranges::all_of(layers, [](int own) { return own > 0; });
}

// Whether every stage has a layer, and the stages divide the number of layers, or that number plus
// 2 (embedding and head count as a layer each).
bool cuts_evenly(Base b, Tried t) {
  const int layers = b.job.model.layers, stages = t.layout.stages();
  return (layers % stages == 0 || (layers + 2) % stages == 0) && fills_stages(b, t);
}

bool has_latent_attention(const Model& model) {
  return model.latent() || std::ranges::any_of(model.kinds, has_latent_attention);
}

// Whether Megatron-LM cuts a hybrid into these stages by itself. Otherwise its pattern needs bars
// between the stages.
bool needs_no_bars(Base b, Tried t) {
  return t.layout.vpp == 1 && b.job.model.layers % t.layout.pp == 0;
}

// Whether overlap.expert is off, or Megatron-LM takes it with this plan.
bool overlaps_experts(Base b, Tried t) {
  const Plan plan = plan_of(b, t);
  if (!b.job.expert_overlap || plan.ep == 1) return true;
  if (t.layout.pp > 1 && t.layout.vpp == 1) return false;
  if (plan.recompute == Recompute::Full) return false;
  if (plan.recompute == Recompute::Selective && plan.recompute_modules.moe) return false;
  if (plan.dispatcher == Dispatcher::AllGather || plan.precision == "fp32") return false;
  return b.job.model.mtp_layers <= 1 && !is_hybrid(b.job.model);
}

// Whether no CUDA graph holds experts that take varying numbers of tokens. A graph without a scope
// holds whole layers.
bool graphs_fixed_sizes(Base b, Tried) {
  if (!b.job.plan.cuda_graphs || !b.job.plan.cuda_graph_modules.moe) return true;
  const auto is_fixed = [](const Model& model) { return !model.is_moe() || model.pad_to_capacity; };
  const Model& model = b.job.model;
  return model.kinds.empty() ? is_fixed(model) : std::ranges::all_of(model.kinds, is_fixed);
}

// Whether the model has what a stated scope of CUDA graphs names, and Megatron-LM takes these parts
// together. Of hybrids with experts it knows no dense layers.
bool graphs_own_parts(Base b, Tried) {
  const CudaGraphModules& scope = b.job.plan.cuda_graph_modules;
  if (!b.job.plan.cuda_graphs || scope == CudaGraphModules{}) return true;
  const Model& model = b.job.model;
  const auto is_dense = [](const Model& kind) { return kind.has_mlp && !kind.is_moe(); };
  const bool has_dense =
      !model.is_moe() || (!is_hybrid(model) && std::ranges::any_of(model.kinds, is_dense));
  if (scope.mlp && !has_dense) return false;
  if ((scope.moe || scope.moe_router) && !model.is_moe()) return false;
  if (scope.moe && scope.moe_router) return false;
  if (scope.moe_preprocess && !scope.moe_router) return false;
  return !scope.head;
}

// Whether Megatron-LM recomputes the plan's modules in this precision.
bool can_recompute_modules(Base b, Tried t) {
  const Plan plan = plan_of(b, t);
  const bool has_delayed_scales = plan.precision == "fp8" && plan.fp8_recipe == Fp8Recipe::Delayed;
  if (plan.recompute != Recompute::Selective || !has_delayed_scales) return true;
  return !plan.recompute_modules.moe_act && !plan.recompute_modules.layernorm;
}

bool has_recipe(Base b, Tried t) { return !lacks_recipe(b, plan_of(b, t)); }

// Whether tp divides the heads of keys and values.
bool cuts_heads(const Model& model, int tp) {
  return model.kinds.empty()
             ? model.mixer != Mixer::Heads || model.key_value_heads() % tp == 0
             : std::ranges::all_of(model.kinds, [tp](const Model& k) { return cuts_heads(k, tp); });
}

// Returns the number of FSDP's shards, which torchtitan counts without context ranks; 1: replicas
// are whole.
int titan_shards(Base b, Tried t) {
  const int shard = plan_of(b, t).hsdp_shard;
  if (t.sharing.zero == 0) return 1;
  return shard > 0 ? shard / t.layout.cp : t.layout.dp;
}

constexpr FrameworkRule kMegatronRules[] = {
    {"even cuts fill all stages: others need parallel.layout", kLayerLayout, OfCut, fills_stages},
    {"a hybrid whose layers lack letters, or that predicts several tokens: vpp = 1, pp divides the "
     "layers",
     kArguments, OfLayout,
     [](Base b, Tried t) {
       return !is_hybrid(b.job.model) || !hybrid_letters(b.job.model).empty() ||
              needs_no_bars(b, t);
     }},
    {"experts with tp > 1 need train.sequence_parallel", kParallelConfig, OfLayout,
     [](Base b, Tried t) {
       return !b.job.model.is_moe() || t.layout.tp == 1 || t.layout.sequence_parallel;
     }},
    {"fp8 without rowwise scales", kScales, OfLayout,
     [](Base b, Tried t) { return plan_of(b, t).fp8_recipe != Fp8Recipe::Rowwise; }},
    {"mxfp8 on tensor cores that have it only", kMicroScales, OfLayout, has_recipe},
    {"overlap.tensor neither in nvfp4 nor in fp8 with blockwise scales", kUserbuffers, OfLayout,
     [](Base b, Tried t) {
       const Plan plan = plan_of(b, t);
       const bool is_blockwise = plan.precision == "fp8" && plan.fp8_recipe == Fp8Recipe::Blockwise;
       return t.layout.tensor == TensorMethod::Off || (plan.precision != "nvfp4" && !is_blockwise);
     }},
    {"overlap.tensor without latent attention", kLinear, OfLayout,
     [](Base b, Tried t) {
       return t.layout.tensor == TensorMethod::Off || !has_latent_attention(b.job.model);
     }},
    {"overlap.context with a ring of cp > 1", kTransformerEngine, OfLayout,
     [](Base b, Tried t) {
       return t.layout.cp == 1 || b.job.plan.context_comm != ContextComm::Ring ||
              t.layout.overlap_context;
     }},
    {"cp > 1: 2 cp divides the sequence", kArguments, OfLayout,
     [](Base b, Tried t) { return t.layout.cp == 1 || b.job.model.seq % (2 * t.layout.cp) == 0; }},
    {"train.cuda_graphs without full recompute", kTransformerConfig, OfLayout,
     [](Base b, Tried t) {
       return !b.job.plan.cuda_graphs || t.layout.recompute != Recompute::Full;
     }},
    {"train.cuda_graphs of experts: padded to model.capacity_factor, or a train.cuda_graph_scope "
     "without moe",
     kGraphConfig, OfLayout, graphs_fixed_sizes},
    {"train.cuda_graph_scope: mlp with a dense layer, moe or moe_router with experts and not both, "
     "moe_preprocess with moe_router, no head",
     kTransformerConfig, OfLayout, graphs_own_parts},
    {"overlap.expert with all-to-all in 16 bits, without recomputed experts, and "
     "vpp > 1 if pp > 1",
     kTransformerConfig, OfLayout, overlaps_experts},
    {"train.activation_offload_layers: fewer than all, without pp and recompute",
     kTransformerConfig, OfLayout,
     [](Base b, Tried t) {
       const int layers = b.job.plan.offload_layers;
       return layers == 0 || (layers < b.job.model.layers && t.layout.pp == 1 &&
                              t.layout.recompute == Recompute::None);
     }},
    {"moe_act and layernorm are not recomputed with delayed fp8 scales", kTransformerConfig,
     OfLayout, can_recompute_modules},
    {"vpp > 1 is interleaved", kArguments, OfPlaying,
     [](Base b, Tried t) { return (t.layout.vpp > 1) == interleaves(b, t); }},
    {"interleaved: pp divides the microbatches", kSchedules, OfPlaying,
     [](Base b, Tried t) {
       return !interleaves(b, t) || t.layout.microbatches(b) % t.layout.pp == 0;
     }},
    {"overlap.p2p with interleaved only", kArguments, OfPlaying,
     [](Base b, Tried t) { return !t.playing.overlap_p2p || interleaves(b, t); }},
    {"interleaved on pp = 2 with overlap.p2p only", kArguments, OfPlaying,
     [](Base b, Tried t) {
       return !interleaves(b, t) || t.layout.pp > 2 || t.playing.overlap_p2p;
     }},
    {"overlap.param_gather with overlap.grad_reduce only", kArguments, OfSharing,
     [](Base, Tried t) { return !t.sharing.param_gather || t.sharing.grad_reduce; }},
    {"ZeRO 2 and 3 overlap gradients, 3 parameters too", kArguments, OfSharing,
     [](Base, Tried t) {
       return (t.sharing.zero < 2 || t.sharing.grad_reduce) &&
              (t.sharing.zero < 3 || t.sharing.param_gather);
     }},
    {"train.fp8_param_gather with ZeRO only", kArguments, OfSharing,
     [](Base b, Tried t) { return t.sharing.zero > 0 || !plan_of(b, t).fp8_param_gather; }}};

constexpr FrameworkRule kNemoOwn[] = {
    {"a hybrid: vpp = 1", kBridgeHybrid, OfLayout,
     [](Base b, Tried t) { return !is_hybrid(b.job.model) || t.layout.vpp == 1; }},
    // Transformer Engine's graphs, which NeMo's layers have. Megatron-LM's own are not refused.
    {"overlap.expert with train.cuda_graphs: a train.cuda_graph_scope without mlp and moe",
     kTransformerConfig, OfLayout, [](Base b, Tried t) {
       const CudaGraphModules& scope = b.job.plan.cuda_graph_modules;
       return !b.job.expert_overlap || t.layout.ep == 1 || !b.job.plan.cuda_graphs ||
              (!scope.mlp && !scope.moe);
     }}};

constexpr auto kNemoRules = joined(kMegatronRules, kNemoOwn);

// ChatLearn's configuration has fewer fields than Megatron-LM's.
constexpr FrameworkRule kChatLearnOwn[] = {
    {"a hybrid: vpp = 1, pp divides the layers", kChatLearnConfig, OfLayout,
     [](Base b, Tried t) { return !is_hybrid(b.job.model) || needs_no_bars(b, t); }},
    {"cp > 1 by a ring only", kChatLearnConfig, OfLayout,
     [](Base b, Tried t) {
       return t.layout.cp == 1 || b.job.plan.context_comm == ContextComm::Ring;
     }},
    {"no parallel.hsdp_shard", kChatLearnConfig, OfSharing,
     [](Base b, Tried t) { return plan_of(b, t).hsdp_shard == 0; }}};

constexpr auto kChatLearnRules = joined(kMegatronRules, kChatLearnOwn);

constexpr FrameworkRule kDeepSpeedRules[] = {
    {"cp > 1 by all-to-all only", kUlysses, OfLayout,
     [](Base b, Tried t) {
       return t.layout.cp == 1 || b.job.plan.context_comm == ContextComm::AllToAll;
     }},
    {"ep > 1: experts are whole", kAutoEp, OfLayout,
     [](Base, Tried t) { return t.layout.ep == 1 || t.layout.expert_tp <= 1; }},
    {"ep > 1 with tp > 1: cp and pp are 1", kAutoEp, OfLayout,
     [](Base, Tried t) {
       return t.layout.ep == 1 || t.layout.tp == 1 || (t.layout.cp == 1 && t.layout.pp == 1);
     }},
    {"ep > 1 without ZeRO 3 only", kAutoEpStage, OfSharing,
     [](Base, Tried t) { return t.layout.ep == 1 || t.sharing.zero < 3; }},
    {"parallel.hsdp_shard with ZeRO 3 only", kMics, OfSharing,
     [](Base b, Tried t) { return t.sharing.zero == 3 || plan_of(b, t).hsdp_shard == 0; }},
    {"ZeRO 2 and 3 without a pipeline only", kPipeEngine, OfSharing,
     [](Base, Tried t) { return t.sharing.zero < 2 || t.layout.pp == 1; }},
    {"overlap.grad_reduce with ZeRO and without a pipeline only", kPipeSchedule, OfSharing,
     [](Base, Tried t) {
       return !t.sharing.grad_reduce || (t.sharing.zero > 0 && t.layout.pp == 1);
     }},
    {"overlap.param_gather with ZeRO 3, and always there", kZero, OfSharing,
     [](Base, Tried t) { return t.sharing.param_gather == (t.sharing.zero == 3); }}};

constexpr FrameworkRule kFsdpRules[] = {
    {"cp > 1: keys and values are gathered", kAccelerate, OfLayout,
     [](Base b, Tried t) {
       return t.layout.cp == 1 || b.job.plan.context_comm == ContextComm::AllGather;
     }},
    {"parallel.hsdp_shard is whole groups of cp, and more than one beside tp or cp", kAccelerate,
     OfSharing, [](Base b, Tried t) {
       const int shard = plan_of(b, t).hsdp_shard, cp = t.layout.cp;
       if (shard % cp != 0) return false;
       const bool is_one_group_of_cp = shard == cp && shard < t.layout.dp * cp;
       return !is_one_group_of_cp || (t.layout.tp == 1 && cp == 1);
     }}};

// The requirements of PyTorch's schedules, by Tandem's name of the order.
struct TorchSchedule {
  enum Microbatches {
    Any,     // any number of microbatches
    Ranks,   // at least one for each pipeline rank
    Stages,  // at least one for each stage
    Rounds   // equal rounds of at least pp microbatches
  };
  std::string_view order;
  bool is_single;  // a rank has one stage
  Microbatches microbatches;
};
constexpr TorchSchedule kTorchOrders[] = {
    {"none", true, TorchSchedule::Any},        {"1f1b", true, TorchSchedule::Ranks},
    {"gpipe", true, TorchSchedule::Any},       {"interleaved", false, TorchSchedule::Rounds},
    {"looped-bfs", false, TorchSchedule::Any}, {"interleaved-zb", false, TorchSchedule::Rounds},
    {"zbv", false, TorchSchedule::Any},        {"dualpipev", false, TorchSchedule::Stages}};

bool has_torch_stages(Base, Tried t) {
  const auto* const row = std::ranges::find(kTorchOrders, t.playing.order, &TorchSchedule::order);
  return row == std::end(kTorchOrders) || (t.layout.vpp == 1) == row->is_single;
}

bool has_torch_microbatches(Base b, Tried t) {
  const auto* const row = std::ranges::find(kTorchOrders, t.playing.order, &TorchSchedule::order);
  const int count = t.layout.microbatches(b);
  if (row == std::end(kTorchOrders) || row->microbatches == TorchSchedule::Any) return true;
  if (row->microbatches == TorchSchedule::Rounds)  // count / pp (rounded down) equal rounds
    return count % std::max(1, count / t.layout.pp) == 0;
  return count >= (row->microbatches == TorchSchedule::Ranks ? t.layout.pp : t.layout.stages());
}

constexpr FrameworkRule kTitanRules[] = {
    {"pp x vpp divides the layers, or the layers with embedding and head; each stage has a layer",
     kTitanPipeline, OfCut, cuts_evenly},
    {"cp > 1: keys and values are gathered, and 2 cp divides the sequence", kTitanDecoder, OfLayout,
     [](Base b, Tried t) {
       return t.layout.cp == 1 || (b.job.plan.context_comm == ContextComm::AllGather &&
                                   b.job.model.seq % (2 * t.layout.cp) == 0);
     }},
    {"mxfp8 on tensor cores that have it only", kTitanMicroScales, OfLayout, has_recipe},
    {"tp divides the heads of keys", kTitanDecoder, OfLayout,
     [](Base b, Tried t) { return cuts_heads(b.job.model, t.layout.tp); }},
    {"experts are whole if ep > 1, else cut by tp", kTitanDims, OfLayout,
     [](Base b, Tried t) {
       return !b.job.model.is_moe() || t.layout.expert_tp == (t.layout.ep > 1 ? 1 : t.layout.tp);
     }},
    {"vpp = 1 is 1f1b or gpipe", kTitanPipeline, OfPlaying, has_torch_stages},
    {"microbatches: pp at least of 1f1b, stages of dualpipev; interleaved rounds are alike",
     kTorchSchedules, OfPlaying, has_torch_microbatches},
    {"overlap.tensor without a zero-bubble order only", kTorchSchedules, OfPlaying,
     [](Base b, Tried t) {
       return t.layout.tensor == TensorMethod::Off || !traits_of(b, t.playing).splits_backwards;
     }},
    {"overlap.p2p as it is by default", kTorchSchedules, OfPlaying,
     [](Base b, Tried t) {
       const BatchedP2p exchanges = traits_of(b, t.playing).exchanges;
       return t.layout.pp == 1 || t.playing.overlap_p2p == (exchanges != BatchedP2p::EachAction);
     }},
    {"cp > 1 with ZeRO only", kTitanDims, OfSharing,
     [](Base, Tried t) { return t.layout.cp == 1 || t.sharing.zero > 0; }},
    {"parallel.hsdp_shard is whole groups of cp", kTitanDims, OfSharing,
     [](Base b, Tried t) { return plan_of(b, t).hsdp_shard % t.layout.cp == 0; }},
    {"ep divides FSDP's shards x cp x tp", kTitanDims, OfSharing, [](Base b, Tried t) {
       return titan_shards(b, t) * t.layout.cp * t.layout.tp % t.layout.ep == 0;
     }}};

constexpr Framework kFrameworks[] = {
    {"megatron", "Megatron-LM", kMegatronValues, kMegatronRules, "megatron", "native"},
    {"nemo", "NeMo", kNemoValues, kNemoRules, "megatron"},
    {"chatlearn", "ChatLearn", kChatLearnValues, kChatLearnRules, "megatron", "native"},
    {"deepspeed", "DeepSpeed", kDeepSpeedValues, kDeepSpeedRules, "deepspeed"},
    {"fsdp", "PyTorch FSDP", kFsdpValues, kFsdpRules, "fsdp", "unfused"},
    {"torchtitan", "torchtitan", kTitanValues, kTitanRules, "torchtitan"}};

}  // namespace

std::span<const Framework> frameworks() { return kFrameworks; }

Result<const Framework*> framework_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Framework& framework : kFrameworks) {
    if (framework.name == name) return &framework;
    names.emplace_back(framework.name);
  }
  return Error{fmt::format("--framework: found '{}', expected one of {}; the nearest is '{}'", name,
                           fmt::join(names, ", "), nearest(name, names))};
}

std::vector<std::pair<std::string, std::string>> trainer_settings(const Framework& framework,
                                                                  const Scenario& scenario) {
  const auto states = [&](const char* key) { return scenario.places.contains(key); };
  const bool states_loss = states("train.cross_entropy") || states("train.fused_cross_entropy");
  std::vector<std::pair<std::string, std::string>> settings;
  if (!states("train.framework")) settings.emplace_back("train.framework", framework.trainer);
  if (!framework.loss.empty() && !states_loss)
    settings.emplace_back("train.cross_entropy", framework.loss);
  return settings;
}

std::string broken_rule(const Framework& framework, const Scenario& base,
                        const Candidate& candidate, bool lists_layers) {
  for (const auto& [key, value] : plan_settings(candidate)) {
    if (!concerns(base, candidate, key)) continue;
    for (const AllowedValues& allowed : framework.values) {
      const std::string list = fmt::format(",{},", allowed.values);
      if (allowed.key == key && list.find("," + value + ",") == std::string::npos)
        return fmt::format("{} = {}", key, allowed.values);
    }
  }
  for (const FrameworkRule& rule : framework.rules) {
    const bool is_kept = rule.part == OfCut && lists_layers;
    if (!is_kept && !rule.holds(base, candidate)) return std::string(rule.what);
  }
  return "";
}

std::map<std::string, std::string> facts_for_flags(const Scenario& scenario) {
  const JobSettings& job = scenario.job;
  std::map<std::string, std::string> facts = {
      {"model.layers", number_word(job.model.layers)},
      {"model.seq", number_word(job.model.seq)},
      {"cluster.gpus", number_word(scenario.cluster.gpus)},
      {"cluster.gpus_per_node", number_word(scenario.cluster.spec.gpus_per_node)},
      {"parallel.global_batch", number_word(job.plan.global_batch)}};
  int experts = job.model.experts, shared = job.model.shared_expert_ffn;
  for (const Model& kind : job.model.kinds) {
    experts = std::max(experts, kind.experts);
    shared = std::max(shared, kind.shared_expert_ffn);
  }
  if (job.model.is_moe()) facts["model.experts"] = number_word(experts);
  if (job.model.is_moe() && shared > 0) facts["model.shared_expert_ffn"] = number_word(shared);
  if (is_hybrid(job.model)) facts["hybrid_layers"] = hybrid_letters(job.model);
  return facts;
}

}  // namespace tandem
