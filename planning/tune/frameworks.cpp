// Tables: for each framework the values that a scenario key may have, and rules about several keys.
// Each entry names the source that it was read from.
#include "planning/tune/frameworks.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/nearest.h"
#include "planning/tune/layout_keys.h"

namespace tandem {
namespace {

using S = const Scenario&;
using C = const Candidate&;

constexpr std::string_view kArguments = "Megatron-LM, megatron/training/arguments.py";
constexpr std::string_view kLayerLayout =
    "Megatron-LM, core/transformer/pipeline_parallel_layer_layout.py";
constexpr std::string_view kTransformerConfig =
    "Megatron-LM, core/transformer/transformer_config.py";
constexpr std::string_view kSchedules = "Megatron-LM, core/pipeline_parallel/schedules.py";
constexpr std::string_view kParallelConfig = "Megatron-LM, core/model_parallel_config.py";
constexpr std::string_view kTransformerEngine = "Transformer Engine's ring attention, always on";
constexpr std::string_view kBridge = "NeMo (Megatron-Bridge): use_distributed_optimizer";
constexpr std::string_view kChatLearnConfig = "ChatLearn, chatlearn/configs/megatron_config.py";
constexpr std::string_view kGptModel = "Megatron-LM, core/models/gpt/gpt_model.py";
constexpr std::string_view kPipeModule = "DeepSpeed, runtime/pipe/module.py: PipelineModule";
constexpr std::string_view kPipeEngine = "DeepSpeed, runtime/pipe/engine.py";
constexpr std::string_view kPipeSchedule = "DeepSpeed, runtime/pipe/schedule.py: TrainSchedule";
constexpr std::string_view kZero = "DeepSpeed, runtime/zero/: overlap_comm, stage 3's prefetch";
constexpr std::string_view kMics = "DeepSpeed, runtime/zero/mics.py";
constexpr std::string_view kUlysses = "DeepSpeed-Ulysses: sequences are cut by all-to-all";
constexpr std::string_view kAutoEp = "DeepSpeed, module_inject/auto_ep_folding.py";
constexpr std::string_view kAutoEpStage = "DeepSpeed, runtime/engine.py: AutoEP";
constexpr std::string_view kFullyShard = "PyTorch, torch.distributed.fsdp";
constexpr std::string_view kAccelerate = "Accelerate, src/accelerate/parallelism_config.py";
constexpr std::string_view kTorchSchedules = "PyTorch, torch/distributed/pipelining/schedules.py";
constexpr std::string_view kTitanDims = "torchtitan, distributed/parallel_dims.py";
constexpr std::string_view kTitanPipeline = "torchtitan, distributed/pipeline_parallel.py";
constexpr std::string_view kTitanDecoder = "torchtitan, models/common/decoder.py";
constexpr std::string_view kTitanConfigs = "torchtitan, config/configs.py";

constexpr AllowedValues kMegatronValues[] = {
    {"schedule.order", "none,1f1b,interleaved", kSchedules},
    {"parallel.scatter_gather", "false", kArguments},
    {"schedule.vocabulary", "stage", kGptModel}};
constexpr AllowedValues kNemoValues[] = {{"schedule.order", "none,1f1b,interleaved", kSchedules},
                                         {"parallel.scatter_gather", "false", kArguments},
                                         {"schedule.vocabulary", "stage", kGptModel},
                                         {"train.zero", "0,1", kBridge}};
constexpr AllowedValues kChatLearnValues[] = {
    {"schedule.order", "none,1f1b,interleaved", kSchedules},
    {"parallel.scatter_gather", "false", kArguments},
    {"schedule.vocabulary", "stage", kGptModel},
    {"train.zero", "0,1", kChatLearnConfig},
    {"overlap.grad_reduce", "false", kChatLearnConfig},
    {"overlap.param_gather", "false", kChatLearnConfig},
    {"overlap.tensor", "off", kChatLearnConfig}};
constexpr AllowedValues kDeepSpeedValues[] = {{"schedule.order", "none,1f1b", kPipeSchedule},
                                              {"parallel.vpp", "1", kPipeSchedule},
                                              {"overlap.p2p", "false", kPipeSchedule},
                                              {"overlap.tensor", "off", kPipeEngine},
                                              {"overlap.context", "false", kUlysses},
                                              {"parallel.scatter_gather", "false", kPipeEngine},
                                              {"parallel.layout", "even", kPipeModule},
                                              {"schedule.vocabulary", "stage", kPipeModule}};
constexpr AllowedValues kFsdpValues[] = {{"parallel.pp", "1", kFullyShard},
                                         {"parallel.ep", "1", kFullyShard},
                                         {"schedule.order", "none", kFullyShard},
                                         {"train.zero", "2,3", kFullyShard},
                                         {"overlap.grad_reduce", "true", kFullyShard},
                                         {"overlap.param_gather", "true", kFullyShard},
                                         {"overlap.tensor", "off", kFullyShard}};
constexpr AllowedValues kTitanValues[] = {
    {"schedule.order", "none,1f1b,gpipe,interleaved,looped-bfs,interleaved-zb,zbv,dualpipev",
     kTorchSchedules},
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
bool interleaves(S s, C c) {
  return traits_of(c.playing.order, s.job.order.orders).exchanges == BatchedP2p::Pairs;
}

int microbatches(S s, C c) {
  return s.job.plan.global_batch / (c.layout.micro_batch * c.layout.dp);
}

// Whether every stage has a layer. Megatron-LM then takes any numbers of layers, as a layout.
bool fills_stages(S s, C c) {
  const std::vector<int> layers = split_layers(s.job.model, plan_of(s, c));
  return std::ranges::all_of(layers, [](int own) { return own > 0; });
}

// Whether the stages are also equal ones, or equal ones of which the embedding and the head are a
// layer each.
bool cuts_evenly(S s, C c) {
  const int layers = s.job.model.layers, stages = c.layout.stages();
  return (layers % stages == 0 || (layers + 2) % stages == 0) && fills_stages(s, c);
}

bool is_hybrid(const Model& model) {
  return model.kinds.empty() ? model.mixer == Mixer::Mamba || model.halves() == 1
                             : std::ranges::any_of(model.kinds, is_hybrid);
}

// Returns a layer's letters in Megatron-LM's patterns of hybrid models; empty: it has none.
std::string letters_of(const Model& layer) {
  if (layer.mixer == Mixer::Linear) return "";
  std::string letters = layer.mixer == Mixer::Mamba    ? "M"
                        : layer.mixer == Mixer::Heads  ? "*"
                        : layer.mixer == Mixer::Latent ? "+"
                                                       : "";
  if (layer.has_mlp) letters += layer.experts > 0 ? 'E' : '-';
  return letters;
}

// Returns the letters of a hybrid model's layers, parted by spaces; empty: it is none, or has
// layers or a part without letters.
std::string hybrid_letters(const Model& model) {
  std::string all;
  for (int i = 0; is_hybrid(model) && i < model.layers; ++i) {
    const std::string letters = letters_of(model.layer(i));
    if (letters.empty() || model.mtp_layers > 0) return "";
    all += (all.empty() ? "" : " ") + letters;
  }
  return all;
}

// Whether Megatron-LM cuts a hybrid into these stages without bars in its pattern.
bool needs_no_bars(S s, C c) { return c.layout.vpp == 1 && s.job.model.layers % c.layout.pp == 0; }

// Whether experts' tokens may travel beside another microbatch, or do not.
bool overlaps_experts(S s, C c) {
  const Plan plan = plan_of(s, c);
  const bool repeats = plan.recompute == Recompute::Full ||
                       (plan.recompute == Recompute::Selective && plan.recompute_modules.moe);
  return !s.job.expert_overlap || (c.layout.vpp == 1 && c.layout.pp > 1) || plan.ep == 1 ||
         (!repeats && plan.dispatcher != Dispatcher::AllGather && plan.precision != "fp32" &&
          s.job.model.mtp_layers <= 1 && !is_hybrid(s.job.model));
}

// Whether the modules that are recomputed may be in this precision.
bool repeats_modules(S s, C c) {
  const Plan plan = plan_of(s, c);
  return plan.recompute != Recompute::Selective || plan.precision != "fp8" ||
         plan.fp8_recipe != Fp8Recipe::Delayed ||
         !(plan.recompute_modules.moe_act || plan.recompute_modules.layernorm);
}

bool cuts_heads(const Model& model, int tp) {
  return model.kinds.empty()
             ? model.mixer != Mixer::Heads || model.key_value_heads() % tp == 0
             : std::ranges::all_of(model.kinds, [tp](const Model& k) { return cuts_heads(k, tp); });
}

// FSDP's shards, which torchtitan counts without context ranks; 1: replicas are whole.
int titan_shards(S s, C c) {
  const int cut = plan_of(s, c).hsdp_shard;
  return c.sharing.zero == 0 ? 1 : cut > 0 ? cut / c.layout.cp : c.layout.dp;
}

const FrameworkRule kMegatronRules[] = {
    {"each stage has a layer", kLayerLayout, FrameworkRule::OfLayout, fills_stages},
    {"a hybrid whose layers lack letters, or that predicts several tokens: vpp = 1, pp divides the "
     "layers",
     kArguments, FrameworkRule::OfLayout,
     [](S s, C c) {
       return !is_hybrid(s.job.model) || !hybrid_letters(s.job.model).empty() ||
              needs_no_bars(s, c);
     }},
    {"experts with tp > 1 need train.sequence_parallel", kParallelConfig, FrameworkRule::OfLayout,
     [](S s, C c) {
       return !s.job.model.is_moe() || c.layout.tp == 1 || c.layout.sequence_parallel;
     }},
    {"overlap.context with a ring of cp > 1", kTransformerEngine, FrameworkRule::OfLayout,
     [](S s, C c) {
       return c.layout.cp == 1 || s.job.plan.context_comm != ContextComm::Ring ||
              c.layout.overlap_context;
     }},
    {"cp > 1: 2 cp divides the sequence", kArguments, FrameworkRule::OfLayout,
     [](S s, C c) { return c.layout.cp == 1 || s.job.model.seq % (2 * c.layout.cp) == 0; }},
    {"train.cuda_graphs without full recompute", kTransformerConfig, FrameworkRule::OfLayout,
     [](S s, C c) { return !s.job.plan.cuda_graphs || c.layout.recompute != Recompute::Full; }},
    {"overlap.expert with all-to-all in 16 bits and without recomputed experts", kTransformerConfig,
     FrameworkRule::OfLayout, overlaps_experts},
    {"moe_act and layernorm are not recomputed with delayed fp8 scales", kTransformerConfig,
     FrameworkRule::OfLayout, repeats_modules},
    {"vpp > 1 is interleaved", kArguments, FrameworkRule::OfPlaying,
     [](S s, C c) { return (c.layout.vpp > 1) == interleaves(s, c); }},
    {"interleaved: pp divides the microbatches", kSchedules, FrameworkRule::OfPlaying,
     [](S s, C c) { return !interleaves(s, c) || microbatches(s, c) % c.layout.pp == 0; }},
    {"overlap.p2p with interleaved only", kArguments, FrameworkRule::OfPlaying,
     [](S s, C c) { return !c.playing.overlap_p2p || interleaves(s, c); }},
    {"interleaved on pp = 2 with overlap.p2p only", kArguments, FrameworkRule::OfPlaying,
     [](S s, C c) { return !interleaves(s, c) || c.layout.pp > 2 || c.playing.overlap_p2p; }},
    {"overlap.param_gather with overlap.grad_reduce only", kArguments, FrameworkRule::OfSharing,
     [](S, C c) { return !c.sharing.param_gather || c.sharing.grad_reduce; }},
    {"ZeRO 2 and 3 overlap gradients, 3 parameters too", kArguments, FrameworkRule::OfSharing,
     [](S, C c) {
       return (c.sharing.zero < 2 || c.sharing.grad_reduce) &&
              (c.sharing.zero < 3 || c.sharing.param_gather);
     }},
    {"train.fp8_param_gather with ZeRO only", kArguments, FrameworkRule::OfSharing,
     [](S s, C c) { return c.sharing.zero > 0 || !plan_of(s, c).fp8_param_gather; }}};

// Rules of ChatLearn's beside Megatron-LM's, as its configuration has fewer fields.
const FrameworkRule kChatLearnOwn[] = {
    {"a hybrid: vpp = 1, pp divides the layers", kChatLearnConfig, FrameworkRule::OfLayout,
     [](S s, C c) { return !is_hybrid(s.job.model) || needs_no_bars(s, c); }},
    {"cp > 1 by a ring only", kChatLearnConfig, FrameworkRule::OfLayout,
     [](S s, C c) { return c.layout.cp == 1 || s.job.plan.context_comm == ContextComm::Ring; }},
    {"no parallel.hsdp_shard", kChatLearnConfig, FrameworkRule::OfSharing,
     [](S s, C c) { return plan_of(s, c).hsdp_shard == 0; }}};

std::span<const FrameworkRule> chatlearn_rules() {
  static const std::vector<FrameworkRule> rules = [] {
    std::vector<FrameworkRule> all(std::begin(kMegatronRules), std::end(kMegatronRules));
    all.insert(all.end(), std::begin(kChatLearnOwn), std::end(kChatLearnOwn));
    return all;
  }();
  return rules;
}

const FrameworkRule kDeepSpeedRules[] = {
    {"cp > 1 by all-to-all only", kUlysses, FrameworkRule::OfLayout,
     [](S s, C c) { return c.layout.cp == 1 || s.job.plan.context_comm == ContextComm::AllToAll; }},
    {"ep > 1: experts are whole", kAutoEp, FrameworkRule::OfLayout,
     [](S, C c) { return c.layout.ep == 1 || c.layout.expert_tp <= 1; }},
    {"ep > 1 with tp > 1: cp and pp are 1", kAutoEp, FrameworkRule::OfLayout,
     [](S, C c) {
       return c.layout.ep == 1 || c.layout.tp == 1 || (c.layout.cp == 1 && c.layout.pp == 1);
     }},
    {"ep > 1 without ZeRO 3 only", kAutoEpStage, FrameworkRule::OfSharing,
     [](S, C c) { return c.layout.ep == 1 || c.sharing.zero < 3; }},
    {"parallel.hsdp_shard with ZeRO 3 only", kMics, FrameworkRule::OfSharing,
     [](S s, C c) { return c.sharing.zero == 3 || plan_of(s, c).hsdp_shard == 0; }},
    {"ZeRO 2 and 3 without a pipeline only", kPipeEngine, FrameworkRule::OfSharing,
     [](S, C c) { return c.sharing.zero < 2 || c.layout.pp == 1; }},
    {"overlap.grad_reduce with ZeRO and without a pipeline only", kPipeSchedule,
     FrameworkRule::OfSharing,
     [](S, C c) { return !c.sharing.grad_reduce || (c.sharing.zero > 0 && c.layout.pp == 1); }},
    {"overlap.param_gather with ZeRO 3 only", kZero, FrameworkRule::OfSharing,
     [](S, C c) { return !c.sharing.param_gather || c.sharing.zero == 3; }}};

const FrameworkRule kFsdpRules[] = {
    {"parallel.hsdp_shard is whole groups of cp, and more than one beside tp or cp", kAccelerate,
     FrameworkRule::OfSharing, [](S s, C c) {
       const int shard = plan_of(s, c).hsdp_shard, cp = c.layout.cp;
       return shard % cp == 0 && (shard == 0 || shard > cp || shard == c.layout.dp * cp ||
                                  (c.layout.tp == 1 && cp == 1));
     }}};

// PyTorch's schedules by their orders: whether a rank has one stage, and how many microbatches it
// wants: any number, a rank's or a stage's each at least, or rounds of pp or more that are alike.
struct TorchSchedule {
  enum Wants { Any, Ranks, Stages, Rounds };
  std::string_view order;
  bool is_single;
  Wants wants;
};
constexpr TorchSchedule kTorchOrders[] = {
    {"none", true, TorchSchedule::Any},        {"1f1b", true, TorchSchedule::Ranks},
    {"gpipe", true, TorchSchedule::Any},       {"interleaved", false, TorchSchedule::Rounds},
    {"looped-bfs", false, TorchSchedule::Any}, {"interleaved-zb", false, TorchSchedule::Rounds},
    {"zbv", false, TorchSchedule::Any},        {"dualpipev", false, TorchSchedule::Stages}};

bool has_torch_stages(S, C c) {
  const auto* const row = std::ranges::find(kTorchOrders, c.playing.order, &TorchSchedule::order);
  return row == std::end(kTorchOrders) || (c.layout.vpp == 1) == row->is_single;
}

bool has_torch_microbatches(S s, C c) {
  const auto* const row = std::ranges::find(kTorchOrders, c.playing.order, &TorchSchedule::order);
  const int count = microbatches(s, c);
  if (row == std::end(kTorchOrders) || row->wants == TorchSchedule::Any) return true;
  if (row->wants == TorchSchedule::Rounds) return count % std::max(1, count / c.layout.pp) == 0;
  return count >= (row->wants == TorchSchedule::Ranks ? c.layout.pp : c.layout.stages());
}

const FrameworkRule kTitanRules[] = {
    {"pp x vpp divides the layers, or the layers with embedding and head; each stage has a layer",
     kTitanPipeline, FrameworkRule::OfLayout, cuts_evenly},
    {"cp > 1: keys and values are gathered, and 2 cp divides the sequence", kTitanDecoder,
     FrameworkRule::OfLayout,
     [](S s, C c) {
       return c.layout.cp == 1 || (s.job.plan.context_comm == ContextComm::AllGather &&
                                   s.job.model.seq % (2 * c.layout.cp) == 0);
     }},
    {"tp divides the heads of keys", kTitanDecoder, FrameworkRule::OfLayout,
     [](S s, C c) { return cuts_heads(s.job.model, c.layout.tp); }},
    {"experts are whole if ep > 1, else cut by tp", kTitanDims, FrameworkRule::OfLayout,
     [](S s, C c) {
       return !s.job.model.is_moe() || c.layout.expert_tp == (c.layout.ep > 1 ? 1 : c.layout.tp);
     }},
    {"vpp = 1 is 1f1b or gpipe", kTitanPipeline, FrameworkRule::OfPlaying, has_torch_stages},
    {"microbatches: pp at least of 1f1b, stages of dualpipev; interleaved rounds are alike",
     kTorchSchedules, FrameworkRule::OfPlaying, has_torch_microbatches},
    {"overlap.tensor without a zero-bubble order only", kTorchSchedules, FrameworkRule::OfPlaying,
     [](S s, C c) {
       return c.layout.tensor == TensorMethod::Off ||
              !traits_of(c.playing.order, s.job.order.orders).splits_backwards;
     }},
    {"overlap.p2p as it is by default", kTorchSchedules, FrameworkRule::OfPlaying,
     [](S s, C c) {
       const BatchedP2p exchanges = traits_of(c.playing.order, s.job.order.orders).exchanges;
       return c.layout.pp == 1 || c.playing.overlap_p2p == (exchanges != BatchedP2p::EachAction);
     }},
    {"parallel.hsdp_shard is whole groups of cp", kTitanDims, FrameworkRule::OfSharing,
     [](S s, C c) { return plan_of(s, c).hsdp_shard % c.layout.cp == 0; }},
    {"ep divides FSDP's shards x cp x tp", kTitanDims, FrameworkRule::OfSharing,
     [](S s, C c) { return titan_shards(s, c) * c.layout.cp * c.layout.tp % c.layout.ep == 0; }}};

const Framework kFrameworks[] = {
    {"megatron", "Megatron-LM", kMegatronValues, kMegatronRules, "megatron", "native"},
    {"nemo", "NeMo", kNemoValues, kMegatronRules, "megatron"},
    {"chatlearn", "ChatLearn", kChatLearnValues, chatlearn_rules(), "megatron", "native"},
    {"deepspeed", "DeepSpeed", kDeepSpeedValues, kDeepSpeedRules, "deepspeed"},
    {"fsdp", "PyTorch FSDP", kFsdpValues, kFsdpRules, "fsdp"},
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

std::string broken_rule(const Framework& framework, const Scenario& base,
                        const Candidate& candidate) {
  for (const auto& [key, value] : plan_settings(candidate)) {
    if (!concerns(base, candidate, key)) continue;
    for (const AllowedValues& allowed : framework.values) {
      const std::string list = fmt::format(",{},", allowed.values);
      if (allowed.key == key && list.find("," + value + ",") == std::string::npos)
        return fmt::format("{} = {}", key, allowed.values);
    }
  }
  for (const FrameworkRule& rule : framework.rules) {
    if (!rule.holds(base, candidate)) return std::string(rule.what);
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
  if (is_hybrid(job.model)) facts["hybrid_layers"] = hybrid_letters(job.model);
  return facts;
}

}  // namespace tandem
