// Tables: for each framework the values that a scenario key may have, and rules about several keys.
// Each entry names the source that it was read from.
#include "planning/tune/frameworks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"

namespace tandem {
namespace {

using S = const Scenario&;
using C = const Candidate&;

constexpr std::string_view kArguments = "Megatron-LM, megatron/training/arguments.py";
constexpr std::string_view kSchedules = "Megatron-LM, core/pipeline_parallel/schedules.py";
constexpr std::string_view kParallelConfig = "Megatron-LM, core/model_parallel_config.py";
constexpr std::string_view kTransformerEngine = "Transformer Engine's ring attention, always on";
constexpr std::string_view kBridge = "NeMo (Megatron-Bridge): use_distributed_optimizer";
constexpr std::string_view kGptModel = "Megatron-LM, core/models/gpt/gpt_model.py";
constexpr std::string_view kPipeModule = "DeepSpeed, runtime/pipe/module.py: PipelineModule";
constexpr std::string_view kPipeEngine = "DeepSpeed, runtime/pipe/engine.py";
constexpr std::string_view kPipeSchedule = "DeepSpeed, runtime/pipe/schedule.py: TrainSchedule";
constexpr std::string_view kZero = "DeepSpeed, runtime/zero/: overlap_comm, stage 3's prefetch";
constexpr std::string_view kUlysses = "DeepSpeed-Ulysses: sequences are cut by all-to-all";
constexpr std::string_view kFullyShard = "PyTorch, torch.distributed.fsdp";

constexpr AllowedValues kMegatronValues[] = {
    {"schedule.order", "none,1f1b,interleaved", kSchedules},
    {"parallel.scatter_gather", "false", kArguments},
    {"schedule.vocabulary", "stage", kGptModel}};
constexpr AllowedValues kNemoValues[] = {{"schedule.order", "none,1f1b,interleaved", kSchedules},
                                         {"parallel.scatter_gather", "false", kArguments},
                                         {"schedule.vocabulary", "stage", kGptModel},
                                         {"train.zero", "0,1", kBridge}};
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

// Whether the order is Megatron-LM's interleaved schedule. No other one exchanges the transfers of
// a forward and a backward in pairs.
bool interleaves(S s, C c) {
  return traits_of(c.playing.order, s.job.order.orders).exchanges == BatchedP2p::Pairs;
}

int microbatches(S s, C c) {
  return s.job.plan.global_batch / (c.layout.micro_batch * c.layout.dp);
}

const FrameworkRule kMegatronRules[] = {
    {"pp x vpp divides the layers, or the layers with embedding and head", kArguments,
     FrameworkRule::OfLayout,
     [](S s, C c) {
       return s.job.model.layers % c.layout.stages() == 0 ||
              (s.job.model.layers + 2) % c.layout.stages() == 0;
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
     }}};

const FrameworkRule kDeepSpeedRules[] = {
    {"cp > 1 by all-to-all only", kUlysses, FrameworkRule::OfLayout,
     [](S s, C c) { return c.layout.cp == 1 || s.job.plan.context_comm == ContextComm::AllToAll; }},
    {"ZeRO 2 and 3 without a pipeline only", kPipeEngine, FrameworkRule::OfSharing,
     [](S, C c) { return c.sharing.zero < 2 || c.layout.pp == 1; }},
    {"overlap.grad_reduce with ZeRO and without a pipeline only", kPipeSchedule,
     FrameworkRule::OfSharing,
     [](S, C c) { return !c.sharing.grad_reduce || (c.sharing.zero > 0 && c.layout.pp == 1); }},
    {"overlap.param_gather with ZeRO 3 only", kZero, FrameworkRule::OfSharing,
     [](S, C c) { return !c.sharing.param_gather || c.sharing.zero == 3; }}};

const Framework kFrameworks[] = {{"megatron", "Megatron-LM", kMegatronValues, kMegatronRules},
                                 {"nemo", "NeMo", kNemoValues, kMegatronRules},
                                 {"deepspeed", "DeepSpeed", kDeepSpeedValues, kDeepSpeedRules},
                                 {"fsdp", "PyTorch FSDP", kFsdpValues, {}}};

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

}  // namespace tandem
