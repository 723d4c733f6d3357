// Reads what trains the policy, PyTorch's FSDP2 ("dtensor") or Megatron-Bridge, from NeMo-RL's YAML
// and the files that it names under `defaults`. Defaults follow NVIDIA-NeMo/RL 7ea279ab
// (2026-08-22). Declared in interop/rl/rl.h.
#include <fmt/format.h>

#include <algorithm>

#include "interop/document/fields.h"
#include "interop/megatron/megatron.h"
#include "interop/megatron/yaml_text.h"
#include "interop/plan/places.h"
#include "interop/rl/rl.h"
#include "interop/rl/settings.h"

namespace tandem {
namespace {

constexpr std::string_view kNemoRlQuiet =
    "value_loss_fn.* async_rl.* policy.refit_* grpo.* ppo.* dpo.* sft.* rm.* distillation.* "
    "loss_fn.* reward_penalties.* reward_model* "
    "checkpointing.* logger.* env.* data.* data_plane.* cluster.* teacher.* teachers.* value.* "
    "defaults config policy.model_name policy.tokenizer* "
    "policy.generation* policy.logprob_* policy.offload_optimizer_for_logprob policy.scheduler* "
    "policy.optimizer* policy.max_grad_norm policy.make_sequence_length* policy.draft.* "
    "policy.reward_model_cfg.* policy.*.env_vars* policy.*.lora_cfg.* policy.*.peft.* "
    "policy.dynamic_batching.* policy.sequence_packing.* policy.*._v2 "
    "policy.*.automodel_kwargs* policy.*.clear_cache* policy.*.tp_comm* policy.router_replay.* "
    "policy.worker_extension* policy.fp8_cfg.* ";
constexpr SettingNote kDtensorNotes[] = {
    {"cpu_offload", "false", "parameters and optimizer stay on the GPU"},
    {"custom_parallel_plan", "none", "layers are cut as Megatron-LM cuts them"},
    {"defer_fsdp_grad_sync", "false", "gradients are reduced layer by layer"}};
// nemo_rl/models/megatron/setup.py:858 hands no virtual stages to the model.
constexpr SettingNote kNotApplied[] = {{"virtual_pipeline_model_parallel_size", "1",
                                        "NeMo-RL does not apply it: a rank has one stage"}};
constexpr SettingNote kMtpNotes[] = {
    {"mtp_use_repeated_layer", "false", "each prediction has a layer of its own"}};
// Settings of megatron_cfg that are none of Megatron-LM's arguments, or change nothing.
constexpr std::string_view kNotArguments =
    "enabled checkpoint.* scheduler.* peft.* env_vars* pipeline_dtype force_* converter_type "
    "freeze_* train_iters activation_checkpointing fp8_cfg.* "
    "fused_linear* converter* mtp_* bf16 fp16 params_dtype ";
constexpr const char* kFusedLoss = "policy.megatron_cfg.use_fused_linear_logprobs";

class NemoRlPlan {
 public:
  NemoRlPlan(MegatronArguments* settings, const ImportContext& context)
      : settings_(settings), context_(context) {}

  Result<ImportedPlan> read() {
    const bool megatron = settings_->flag("policy.megatron_cfg.enabled");
    for (const char* name :
         {"policy.dtensor_cfg.lora_cfg.enabled", "policy.megatron_cfg.peft.enabled"}) {
      if (settings_->flag(name)) settings_->fail(name, "false: adapters are not covered");
    }
    if (!megatron && !settings_->flag("policy.dtensor_cfg.enabled", true))
      settings_->fail("policy.dtensor_cfg.enabled", "true, or policy.megatron_cfg.enabled");
    check_model_overrides("policy.hf_config_overrides.", context_, settings_);
    set_gpus();
    const auto mtp = settings_->whole("policy.megatron_cfg.mtp_num_layers").value_or(0);
    RETURN_IF_ERROR(settings_->status());
    // Both backends leave multi-token prediction out, unless megatron_cfg has layers of it
    // (nemo_rl/models/megatron/setup.py:1029).
    const bool predicts = megatron && mtp > 0;
    if (predicts) note_settings("policy.megatron_cfg.", kMtpNotes, settings_, &plan_);
    // Read here, so that set_megatron() does not hand it over.
    const bool is_loss_fused = megatron && settings_->flag(kFusedLoss);
    RETURN_IF_ERROR(megatron ? set_megatron() : set_dtensor());
    set_loss(is_loss_fused);
    set_data();
    RETURN_IF_ERROR(settings_->status());
    note_model("policy.model_name", settings_, &plan_);
    if (predicts)
      plan_.set("model.mtp_layers", mtp, "policy.megatron_cfg.mtp_num_layers");
    else
      leave_out_mtp(context_.before, &plan_);
    settings_->list_unread_settings(
        std::string(kNemoRlQuiet) + (megatron ? "policy.dtensor_cfg.*" : "policy.megatron_cfg.*"),
        &plan_);
    place_keys([&](std::string_view field) { return settings_->place_of(field); }, &plan_);
    plan_.sources = {context_.path + " (NeMo-RL, the policy's training)"};
    return std::move(plan_);
  }

 private:
  static std::string dtensor(std::string_view name) {
    return "policy.dtensor_cfg." + std::string(name);
  }

  // Sets the GPUs that train: generation may have some of its own (nemo_rl/algorithms/grpo.py:861).
  void set_gpus() {
    const std::string colocated = "policy.generation.colocated.";
    std::int64_t nodes = settings_->whole("cluster.num_nodes", 1).value_or(1);
    std::int64_t gpus_per_node = settings_->whole("cluster.gpus_per_node", 1).value_or(8);
    if (settings_->has_any("grpo.") && !settings_->flag(colocated + "enabled", true)) {
      const auto taken = settings_->whole(colocated + "resources.gpus_per_node");
      if (nodes == 1) {
        gpus_per_node -= taken.value_or(0);
      } else {
        nodes -= settings_->whole(colocated + "resources.num_nodes").value_or(0);
      }
    }
    if (nodes < 1 || gpus_per_node < 1)
      settings_->fail("cluster.num_nodes", "GPUs that generation leaves");
    gpus_ = context_.gpus > 0 ? context_.gpus : product_of({nodes, gpus_per_node});
    plan_.set("cluster.gpus", product_of({nodes, gpus_per_node}),
              settings_->spelled(settings_->has("cluster.gpus_per_node") ? "cluster.gpus_per_node"
                                                                         : "cluster.num_nodes"));
  }

  // Hands Megatron-Bridge's settings over to its reader: the precision, and of all in megatron_cfg
  // those that are Megatron-LM's arguments.
  Status set_megatron() {
    MegatronArguments all(context_.path), arguments(context_.path);
    const std::string precision = settings_->text("policy.precision").value_or("bfloat16");
    arguments.add_field(precision == "float16" ? "fp16" : "bf16", "True",
                        settings_->place_of("policy.precision"), "policy.precision");
    const std::string megatron = "policy.megatron_cfg.";
    const bool recomputes = settings_->flag(megatron + "activation_checkpointing");
    const bool fp8 = settings_->flag(megatron + "fp8_cfg.enabled");
    note_settings(megatron, kNotApplied, settings_, &plan_);  // reads it, so it does not move
    for (const char* part : {"optimizer.", "distributed_data_parallel_config.", "model_overrides."})
      settings_->move_fields(megatron + part, &all);
    if (fp8) settings_->move_fields(megatron + "fp8_cfg.", &all);
    settings_->move_fields(megatron, &all);
    all.leave_out(kNotArguments);
    // nemo_rl/models/megatron/setup.py:1071: full recompute takes one layer at a time.
    all.leave_out(recomputes ? "recompute_method recompute_num_layers" : "recompute_*");
    if (recomputes && !all.has("recompute_granularity")) {
      const std::string switch_name = megatron + "activation_checkpointing";
      all.add_field("recompute_granularity", "full", settings_->place_of(switch_name), switch_name);
    }
    all.move_fields("", &arguments);
    ImportedPlan noted = std::move(plan_);
    ASSIGN_OR_RETURN(plan_, import_megatron(&arguments, context_.path, MegatronStyle::Bridge,
                                            context_.before, gpus_));
    return plan_.add(noted);
  }

  // Follows nemo_rl/models/automodel/setup.py:464 and nemo_rl/models/dtensor/parallelize.py:508.
  Status set_dtensor() {
    note_settings("policy.dtensor_cfg.", kDtensorNotes, settings_, &plan_);
    constexpr std::pair<const char*, const char*> kSizes[] = {
        {"tensor_parallel_size", "parallel.tp"},
        {"context_parallel_size", "parallel.cp"},
        {"expert_parallel_size", "parallel.ep"}};
    for (const auto& [field, key] : kSizes) {
      if (const auto size = settings_->whole(dtensor(field), 1))
        plan_.set_value(key, *size, dtensor(field));
    }
    plan_.set("train.zero", 3, "policy.dtensor_cfg.enabled: FSDP2");
    plan_.set("train.framework", "fsdp", "PyTorch's FSDP2");
    plan_.set("overlap.grad_reduce", true, "FSDP2 reduces layer by layer");
    plan_.set("overlap.param_gather", true, "FSDP2 gathers the next layer ahead");
    const std::string precision = settings_->text("policy.precision").value_or("bfloat16");
    plan_.set("train.precision",
              precision == "float32"   ? "fp32"
              : precision == "float16" ? "fp16"
                                       : "bf16",
              settings_->spelled("policy.precision"));
    plan_.set("train.gradient_dtype", "fp32", "FSDP2 reduces in fp32");
    plan_.set("train.flash_attention", true, "attention is one kernel");
    if (settings_->flag(dtensor("sequence_parallel")) &&
        plan_.whole_of("parallel.tp").value_or(1) > 1)
      plan_.set("train.sequence_parallel", true, dtensor("sequence_parallel"));
    if (settings_->flag(dtensor("activation_checkpointing")))
      plan_.set("train.recompute", "full", dtensor("activation_checkpointing"));
    const auto replicas = settings_->whole(dtensor("dp_replicate_size"), 1).value_or(1);
    const std::int64_t ranks = gpus_ / plan_.whole_of("parallel.tp").value_or(1);
    if (replicas > 1 && ranks % replicas == 0)
      plan_.set("parallel.hsdp_shard", ranks / replicas, dtensor("dp_replicate_size"));
    return Done{};
  }

  // Follows nemo_rl/algorithms/loss/utils.py:341: log-probabilities are computed from the logits,
  // which become fp32, all or a part at a time, whatever loss Megatron-LM is configured to fuse.
  // NeMo-RL's own fusion (`is_fused`, utils.py:77) computes them from a part of the hidden states
  // at a time.
  void set_loss(bool is_fused) {
    const std::string chunk = "policy.logprob_chunk_size";
    const bool is_chunked = settings_->whole(chunk).has_value();
    plan_.set("train.cross_entropy", is_fused || is_chunked ? "chunked" : "unfused",
              settings_->spelled(is_fused ? kFusedLoss : chunk));
  }

  void set_data() {
    // DPO and reward models train on pairs of sequences (nemo_rl/algorithms/dpo.py:602).
    const std::int64_t sequences_per_example =
        settings_->has_any("dpo.") || settings_->has_any("rm.") ? 2 : 1;
    const auto seq = settings_->whole("policy.max_total_sequence_length", 1);
    const auto global = settings_->whole("policy.train_global_batch_size", 1);
    const auto micro = settings_->whole("policy.train_micro_batch_size", 1);
    if (seq) plan_.set("model.seq", *seq, "policy.max_total_sequence_length");
    if (global)
      plan_.set("parallel.global_batch", product_of({*global, sequences_per_example}),
                fmt::format("policy.train_global_batch_size{}",
                            sequences_per_example > 1 ? " x 2 of a pair" : ""));
    std::int64_t sequences = product_of({micro.value_or(1), sequences_per_example});
    std::string from = "policy.train_micro_batch_size";
    const auto size_of = [&](IntegerKey key) { return plan_.whole_of(key).value_or(1); };
    const std::int64_t dp = gpus_ / product_of({size_of("parallel.tp"), size_of("parallel.pp"),
                                                size_of("parallel.cp")});
    for (const std::string part : {"policy.sequence_packing.", "policy.dynamic_batching."}) {
      const auto tokens = settings_->whole(part + "train_mb_tokens", 1);
      if (!settings_->flag(part + "enabled") || !tokens || !seq) continue;
      sequences =
          sequences_in(*tokens, *seq, dp > 0 ? global.value_or(0) * sequences_per_example / dp : 0);
      from = part + "train_mb_tokens";
    }
    plan_.set("parallel.micro_batch", sequences, from);
    if (seq) assume_longest(*seq, &plan_);
    const std::int64_t answers =
        product_of({settings_->whole("grpo.num_prompts_per_step").value_or(0),
                    settings_->whole("grpo.num_generations_per_prompt").value_or(1)});
    const std::int64_t steps = global ? answers / *global : 1;
    plan_.not_expressed.push_back(fmt::format(
        "{}: generation and models beside the policy (reference, reward, teacher, value) are not "
        "covered: an iteration is one optimizer step of the policy{}",
        context_.path, steps > 1 ? fmt::format(", of which a step of NeMo-RL has {}", steps) : ""));
  }

  MegatronArguments* settings_;
  const ImportContext& context_;
  std::int64_t gpus_ = 0;
  ImportedPlan plan_;
};

// Adds a file's settings, after those of the files under its `defaults`.
Status add_nemo_rl(const DocumentNode& document, const std::string& path,
                   const ImportContext& context, int depth, MegatronArguments* to) {
  constexpr int kMostDefaults = 20;
  if (depth > kMostDefaults)
    return Error::at(path, fmt::format("found {} levels of defaults, expected {} at most", depth,
                                       kMostDefaults));
  if (const DocumentNode* defaults = document.find("defaults")) {
    const DocumentNode::List one = {*defaults};
    for (const DocumentNode& node : defaults->list() == nullptr ? one : *defaults->list()) {
      const std::string name = written_value(node);
      const ImportSource* source = context.beside_by_name(name.substr(name.rfind('/') + 1));
      if (source == nullptr)
        return Error::at(fmt::format("{}:{}", path, node.line),
                         fmt::format("found {}, which is not given: give it too", name));
      ASSIGN_OR_RETURN(const DocumentNode inner, parse_yaml(source->text, source->path));
      RETURN_IF_ERROR(add_nemo_rl(inner, source->path, context, depth + 1, to));
    }
  }
  if (document.map() != nullptr) add_document(document, path, "", to);
  return Done{};
}

}  // namespace

bool is_nemo_rl(const DocumentNode& document) {
  // A recipe may have only `defaults` and the settings that it changes.
  const DocumentNode* defaults = document.find("defaults");
  if (defaults != nullptr && defaults->list() != nullptr && !defaults->list()->empty())
    defaults = &defaults->list()->front();
  if (defaults != nullptr && written_value(*defaults).find(".yaml") != std::string::npos)
    return true;
  const DocumentNode* policy = document.find("policy");
  return policy != nullptr && policy->map() != nullptr &&
         (document.find("grpo") != nullptr || policy->find("megatron_cfg") != nullptr ||
          policy->find("dtensor_cfg") != nullptr);
}

Result<ImportedPlan> import_nemo_rl(const DocumentNode& document, const ImportContext& context) {
  MegatronArguments settings(context.path);
  RETURN_IF_ERROR(add_nemo_rl(document, context.path, context, 0, &settings));
  settings.resolve_references();
  return NemoRlPlan(&settings, context).read();
}

}  // namespace tandem
