// Turns verl's settings for training the actor (the policy), by FSDP or by Megatron-LM, or for
// supervised fine-tuning (SFT) into keys of a scenario. Missing settings have the defaults of
// verl/trainer/config/ in verl-project/verl 1dda039b (2026-08-22), and of sft_trainer.yaml in
// b178a3cd (2026-01-29) for fsdp_sft_trainer. A scenario's iteration is one step of the optimizer;
// a step of verl has several.
// Declared in interop/rl/rl.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/megatron/megatron.h"
#include "interop/megatron/yaml_text.h"
#include "interop/plan/places.h"
#include "interop/rl/rl.h"
#include "interop/rl/settings.h"

namespace tandem {
namespace {

using Whole = std::int64_t;

// Settings that change neither time nor memory of the actor's training, or are of other models.
constexpr std::string_view kQuiet =
    "skip.* *actor.use_fused_kernels algorithm.* custom_reward_function.* reward.* "
    "reward_manager.* reward_model.* critic.* ray_* "
    "global_profiler.* transfer_queue.* distillation.* data.* trainer.* rollout.* async_training.* "
    "checkpoint.* profiler.* defaults hydra.* _target_ *._target_ model_engine model engine optim "
    "hydra/* *@* actor_rollout_ref.rollout.* actor_rollout_ref.ref.* actor_rollout_ref.nccl* "
    "actor_rollout_ref.hybrid_engine actor_rollout_ref.*checkpoint* actor_rollout_ref.profiler.* "
    "*.optim.* optim.* *.clip_* *.*clip *.loss_* *.use_kl* *.kl_* *.entropy_* *.calculate_* "
    "*.policy_loss.* *.tau_* *.profiler.* *.shuffle *.data_loader_seed *.rollout_n "
    "*.ppo_infer_* *.router_replay.* *.checkpoint.* *.qat.* *.freeze_* *.use_torch_compile "
    "*.use_rollout_log_probs *.load_weight *.infer_* *.recompute_old* *model.path "
    "*model.*_path *model.trust_* *model.external* *model.custom* "
    "*model.use_shm *model.lora* *model.target_* *model.exclude_* *model.fused_kernel_options.* "
    "*model.tiled_mlp.* *model.mtp.* *model.use_remove* *model.hf_config* *.wrap_policy.* "
    "*.use_orig* *.seed *.full_determinism *.forward_* *.pad_* *.strategy "
    "*.use_remove_padding use_remove_padding *.offload_params *.max_seqlen_per* *.turbo_config.* "
    "*.dist* *.use_dist* "
    "*.use_mbridge *.vanilla_mbridge *.override_mcore_model_config.* *.grad_clip ";

constexpr SettingNote kModelNotes[] = {
    {"use_liger", "false", "kernels are as fast as others"},
    {"use_fused_kernels", "false", "the loss has its logits in memory"},
    {"enable_activation_offload", "false", "activations stay on the GPU"},
    {"tiled_mlp.enabled", "false", "an MLP's activations are there at once"}};
constexpr SettingNote kActorNotes[] = {
    {"qat.enable", "false", "weights are not quantized"},
    {"use_prefix_grouper", "false", "prompts are not shared"},
    {"router_replay.mode", "disabled", "experts are chosen anew"}};
constexpr SettingNote kEngineNotes[] = {
    {"param_offload grad_offload optimizer_offload", "false",
     "it lies on the CPU between steps of verl; while the actor trains it is on the GPU"},
    {"offload_policy cpu_offload", "false", "parameters, gradients and optimizer stay on the GPU"},
    {"dynamic_context_parallel", "false", "every sequence is cut alike"}};

// YAML files of verl's own, whose values are the defaults here.
constexpr std::string_view kOwnConfigs =
    "ppo_trainer ppo_*_trainer dapo_*trainer sft_trainer* _generated_* fully_async_* "
    "one_step_off_*";

Status add_hydra(const DocumentNode& document, const std::string& path,
                 const ImportContext& context, int depth, MegatronArguments* to);

// Adds the settings of NAME.yaml, which must be among the given files unless it is verl's own.
Status add_config(const std::string& name, const std::string& where, const ImportContext& context,
                  int depth, MegatronArguments* to) {
  constexpr int kMostDefaults = 20;
  for (const char* ending : {".yaml", ".yml"}) {
    const ImportSource* source = context.beside_by_name(name + ending);
    if (source == nullptr || depth > kMostDefaults) continue;
    ASSIGN_OR_RETURN(const DocumentNode document, parse_yaml(source->text, source->path));
    return add_hydra(document, source->path, context, depth + 1, to);
  }
  if (!matches_word(name, kOwnConfigs))
    return Error::at(where, fmt::format("found {}.yaml, which is not given: give it too", name));
  to->add_field("config_name", name, where);
  return Done{};
}

// Adds the settings of a Hydra YAML file, after those of the files listed under its `defaults`.
Status add_hydra(const DocumentNode& document, const std::string& path,
                 const ImportContext& context, int depth, MegatronArguments* to) {
  const DocumentNode* defaults = document.find("defaults");
  if (defaults != nullptr && defaults->list() != nullptr) {
    for (const DocumentNode& entry : *defaults->list()) {
      const std::string where = fmt::format("{}:{}", path, entry.line);
      if (entry.map() != nullptr) {
        // "actor@actor_rollout_ref.actor: megatron_actor": a part of verl's own.
        add_document(entry, path, "", to);
      } else if (const std::string name = written_value(entry); name != "_self_") {
        RETURN_IF_ERROR(add_config(name.substr(name.rfind('/') + 1), where, context, depth, to));
      }
    }
  }
  if (document.map() != nullptr) add_document(document, path, "", to);
  return Done{};
}

class VerlPlan {
 public:
  // `has_fsdp_sft`: the trainer is fsdp_sft_trainer.
  VerlPlan(MegatronArguments* settings, const ImportContext& context, bool has_fsdp_sft = false)
      : settings_(settings),
        context_(context),
        sft_(!settings->has_any("actor_rollout_ref.")),
        fsdp_sft_(sft_ && has_fsdp_sft) {}

  Result<ImportedPlan> read() {
    const std::string engine = engine_of();
    check_adapters();
    check_model_overrides(model_prefix_ + "override_config.", context_, settings_);
    RETURN_IF_ERROR(settings_->status());
    set_gpus();
    note_settings(model_prefix_, kModelNotes, settings_, &plan_);
    note_settings(actor_prefix_, kActorNotes, settings_, &plan_);
    note_settings(engine_prefix_, kEngineNotes, settings_, &plan_);
    RETURN_IF_ERROR(engine == "megatron" ? set_megatron() : set_fsdp());
    set_data();
    RETURN_IF_ERROR(settings_->status());
    set_model();
    settings_->list_unread_settings(kQuiet, &plan_);
    place_keys([&](std::string_view field) { return settings_->place_of(field); }, &plan_);
    plan_.sources = {context_.path + (sft_ ? " (verl, SFT)" : " (verl, the actor's training)")};
    return std::move(plan_);
  }

 private:
  // Return the full name of an actor's or an engine's setting.
  std::string actor(std::string_view name) const { return actor_prefix_ + std::string(name); }
  std::string engine(std::string_view name) const { return engine_prefix_ + std::string(name); }

  // Returns "fsdp", "fsdp2" or "megatron", and sets the prefixes of the settings' names.
  std::string engine_of() {
    if (!sft_)
      model_prefix_ = "actor_rollout_ref.model.", actor_prefix_ = "actor_rollout_ref.actor.";
    std::string name, from;
    // The last of these fields that names an engine counts.
    for (const char* field :
         {"config_name", "model_engine", "engine", "actor@actor_rollout_ref.actor",
          "actor_rollout_ref.actor.strategy", "engine.strategy", "model.strategy",
          "actor_rollout_ref.actor.fsdp_config.strategy"}) {
      const std::string word = settings_->text(field).value_or("");
      for (const char* known : {"megatron", "fsdp2", "fsdp_turbo", "fsdp", "dp", "veomni",
                                "torchtitan", "automodel", "mindspeed"}) {
        if (word.find(known) == std::string::npos) continue;
        name = known;
        from = field;
        break;
      }
    }
    // If none does, settings that only Megatron-LM has tell the engine.
    if (name.empty())
      name = settings_->has_any("actor_rollout_ref.actor.megatron.tensor") ? "megatron" : "fsdp";
    if (name == "dp") name = "fsdp";                                             // of "dp_actor"
    const bool is_lite = settings_->has_any("actor_rollout_ref.actor.engine.");  // megatron_lite
    if (is_lite || !matches_word(name, "megatron fsdp fsdp2"))
      settings_->fail(is_lite ? "actor_rollout_ref.actor.engine.tp" : from,
                      "the engine fsdp, fsdp2 or megatron");
    engine_prefix_ = sft_ ? "engine." : actor(name == "megatron" ? "megatron." : "fsdp_config.");
    if (fsdp_sft_) engine_prefix_ = "model.fsdp_config.";
    return name;
  }

  void check_adapters() {
    for (const char* name : {"lora_rank", "lora.rank", "lora_adapter_path", "lora.adapter_path"}) {
      if (settings_->text(model_prefix_ + name).value_or("0") != "0")
        settings_->fail(model_prefix_ + name, "none: adapters are not covered");
    }
  }

  void set_gpus() {
    const std::string nodes = sft_ ? "nnodes" : "trainer.nnodes";
    const std::string gpus_per_node = sft_ ? "gpus_per_node" : "trainer.n_gpus_per_node";
    const Whole stated = product_of(
        {settings_->whole(nodes, 1).value_or(1), settings_->whole(gpus_per_node, 1).value_or(8)});
    const bool is_known = !sft_ || settings_->has(gpus_per_node);
    if (is_known)
      plan_.set("cluster.gpus", stated, settings_->has(gpus_per_node) ? gpus_per_node : nodes);
    gpus_ = is_known ? stated : 0;
    if (context_.gpus > 0) gpus_ = context_.gpus;
  }

  // Hands Megatron-LM's settings over to its reader, below verl's defaults (engine/megatron.yaml,
  // verl/utils/megatron_utils.py:103, verl/workers/engine/megatron/transformer_impl.py:353).
  Status set_megatron() {
    MegatronArguments arguments(context_.path);
    for (const auto& [name, value] :
         {std::pair{"sequence_parallel", "True"}, std::pair{"use_distributed_optimizer", "True"},
          std::pair{"attention_backend", "flash"},
          std::pair{"moe_token_dispatcher_type", "alltoall"},
          std::pair{"overlap_grad_reduce", "False"}, std::pair{"batch_p2p_comm", "False"}})
      arguments.add_field(name, value, "");
    if (const auto mtp = context_.before.whole_of("model.mtp_layers");
        mtp && settings_->flag(model_prefix_ + "mtp.enable"))
      arguments.add_field("mtp_num_layers", fmt::format("{}", *mtp), "");
    const std::string dtype = settings_->text(engine("dtype")).value_or("bfloat16");
    arguments.add_field(dtype == "float16" ? "fp16" : "bf16", "True",
                        settings_->place_of(engine("dtype")), engine("dtype"));
    settings_->move_fields(engine("override_transformer_config."), &arguments);
    settings_->move_fields(engine("override_ddp_config."), &arguments);
    const std::string optim = sft_ ? "optim." : actor("optim.");
    settings_->move_fields(optim + "override_optimizer_config.", &arguments);
    const auto hand_over = [&](const std::string& prefix, std::string_view names) {
      for (const std::string& name : split_words(names)) {
        if (const auto value = settings_->text(prefix + name))
          arguments.add_field(name, *value, settings_->place_of(prefix + name), prefix + name);
      }
    };
    hand_over(optim,
              "optimizer use_precision_aware_optimizer exp_avg_dtype exp_avg_sq_dtype "
              "main_grads_dtype use_layer_wise_distributed_optimizer");
    hand_over(engine_prefix_,
              "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size "
              "virtual_pipeline_model_parallel_size expert_model_parallel_size "
              "expert_tensor_parallel_size sequence_parallel use_distributed_optimizer "
              "use_megatron_fsdp");
    ImportedPlan noted = std::move(plan_);
    ASSIGN_OR_RETURN(plan_, import_megatron(&arguments, context_.path, MegatronStyle::Megatron,
                                            context_.before, gpus_));
    return plan_.add(noted);
  }

  // Follows verl/workers/engine/fsdp/transformer_impl.py:377 (_build_fsdp_module) and
  // engine/fsdp.yaml.
  Status set_fsdp() {
    set_shards();
    set_precision();
    set_ulysses();
    set_activations();
    note_optimizer();
    return Done{};
  }

  // Sets what FSDP shards and overlaps. fsdp_size is the GPUs that share a copy: -1 for all, 1 for
  // no sharding.
  void set_shards() {
    const bool reshards = settings_->flag(engine("reshard_after_forward"), true);
    const Whole size = settings_->whole(engine("fsdp_size"), -1).value_or(-1);
    const bool shards = size != 1;
    if (shards)
      plan_.set("train.zero", reshards ? 3 : 2,
                settings_->spelled(engine("reshard_after_forward")));
    if (size > 1 && (gpus_ == 0 || size < gpus_))
      plan_.set("parallel.hsdp_shard", size, engine("fsdp_size"));
    // The loss is FlashAttention's fused one (verl/utils/torch_functional.py:73), which the
    // framework "fsdp" implies.
    plan_.set("train.framework", "fsdp", "verl's FSDP");
    if (fsdp_sft_) plan_.set("train.cross_entropy", "unfused", "PyTorch's loss");
    plan_.set("overlap.grad_reduce", true, "FSDP reduces layer by layer");
    if (shards) plan_.set("overlap.param_gather", true, "FSDP gathers the next layer ahead");
  }

  // Sets the number formats of compute, of reduced gradients, and of the optimizer's states, which
  // have the model's.
  void set_precision() {
    const auto has_16_bits = [](const std::string& dtype) {
      return dtype.find("16") != std::string::npos;
    };
    const std::string model_dtype = settings_->text(engine("model_dtype")).value_or("fp32");
    const std::string mixed = engine("mixed_precision.param_dtype");
    std::string name = settings_->has(mixed) ? mixed : engine("dtype");
    const std::string dtype =
        settings_->text(mixed).value_or(settings_->text(engine("dtype")).value_or("bf16"));
    std::string precision = has_16_bits(dtype) ? "fp16" : "fp32";
    if (dtype.starts_with("bf")) precision = "bf16";
    plan_.set("train.precision", precision, settings_->spelled(name));
    const std::string reduce = engine("mixed_precision.reduce_dtype");
    const bool reduces_in_16_bits = has_16_bits(settings_->text(reduce).value_or("fp32"));
    if (reduces_in_16_bits || has_16_bits(dtype))
      plan_.set("train.gradient_dtype", reduces_in_16_bits ? "bf16" : "fp32",
                settings_->spelled(reduce));
    if (has_16_bits(model_dtype)) {
      plan_.set("train.optimizer_dtype", "bf16", engine("model_dtype"));
      plan_.not_expressed.push_back(fmt::format("{}: {} = {}: a master copy in fp32 is there",
                                                settings_->place_of(engine("model_dtype")),
                                                engine("model_dtype"), model_dtype));
    }
  }

  // Sets context parallelism, which is Ulysses' all-to-all: as many ranks as either field states.
  void set_ulysses() {
    Whole ulysses = 1;
    for (const std::string& field :
         {actor("ulysses_sequence_parallel_size"), engine("ulysses_sequence_parallel_size")}) {
      const Whole ranks = settings_->whole(field, 1).value_or(1);
      if (ranks > ulysses) plan_.set("parallel.cp", ranks, field);
      ulysses = std::max(ulysses, ranks);
    }
    if (ulysses > 1) plan_.set("parallel.cp_comm", "all_to_all", "Ulysses");
  }

  void set_activations() {
    const std::string recompute = model_prefix_ + "enable_gradient_checkpointing";
    if (settings_->flag(recompute, true))
      plan_.set("train.recompute", "full", settings_->spelled(recompute));
    if (fsdp_sft_ && !settings_->has(recompute))
      plan_.assumed.push_back("train.recompute = full: verl's default since 0.4.1, none before");
    const std::string attention = model_prefix_ + "override_config.attn_implementation";
    if (settings_->text(attention).value_or("flash_attention_2") != "eager")
      plan_.set("train.flash_attention", true, settings_->spelled(attention));
  }

  void note_optimizer() {
    const std::string optimizer = actor("optim.optimizer");
    if (const std::string kind = settings_->text(optimizer).value_or("AdamW");
        kind.find("Adam") == std::string::npos || kind.find("8bit") != std::string::npos)
      plan_.not_expressed.push_back(fmt::format("{}: {} = {}: taken as Adam with states in fp32",
                                                settings_->place_of(optimizer), optimizer, kind));
  }

  // Sets sequence length, global batch and microbatch.
  void set_data() {
    Whole seq = settings_->whole("data.max_length", 1).value_or(1024);
    std::string seq_from = settings_->spelled("data.max_length");
    if (!sft_) {
      const std::string answer_field = "data.max_response_length";
      const Whole prompt = settings_->whole("data.max_prompt_length", 0).value_or(512);
      const Whole answer = settings_->whole(answer_field, 0).value_or(512);
      seq = std::max<Whole>(1, prompt + answer);
      seq_from = settings_->spelled(settings_->has(answer_field) ? answer_field
                                                                 : "data.max_prompt_length");
    }
    const Whole global_batch = sft_ ? set_sft_batch() : set_actor_batch();
    plan_.set("model.seq", seq, seq_from);
    assume_longest(seq, &plan_);
    set_microbatch(global_batch, seq);
  }

  // Returns the global batch, in sequences.
  Whole set_sft_batch() {
    const Whole batch = settings_->whole("data.train_batch_size", 1).value_or(256);
    plan_.set("parallel.global_batch", batch, settings_->spelled("data.train_batch_size"));
    return batch;
  }

  // Returns the global batch, in sequences. verl counts prompts, of which each has rollout.n
  // answers; a step of verl has train_batch_size of them, and one of the optimizer
  // ppo_mini_batch_size.
  Whole set_actor_batch() {
    const Whole answers = settings_->whole("actor_rollout_ref.rollout.n", 1).value_or(1);
    const Whole prompts = settings_->whole("data.train_batch_size", 0).value_or(1024);
    const std::string mini_field = actor("ppo_mini_batch_size");
    const Whole mini = settings_->whole(mini_field, 1).value_or(256);
    const Whole batch = product_of({mini, answers});
    plan_.set("parallel.global_batch", batch,
              settings_->spelled(mini_field) + fmt::format(" {} x rollout.n {}", mini, answers));
    const Whole epochs = settings_->whole(actor("ppo_epochs"), 1).value_or(1);
    plan_.not_expressed.push_back(fmt::format(
        "{}: rollouts and models beside the actor (reference, critic, reward) are not covered: "
        "an iteration is one optimizer step of the actor{}",
        context_.path,
        prompts > mini || epochs > 1 ? fmt::format(", of which a step of verl has {}",
                                                   std::max<Whole>(1, prompts / mini) * epochs)
                                     : ""));
    return batch;
  }

  // Sets the sequences of a microbatch: as many as fit into a number of tokens where the batch size
  // is dynamic, else as many as are stated for each GPU or for all together.
  void set_microbatch(Whole global_batch, Whole seq) {
    const std::string micro =
        sft_ ? "data.micro_batch_size_per_gpu" : actor("ppo_micro_batch_size_per_gpu");
    const std::string tokens =
        sft_ ? "data.max_token_len_per_gpu" : actor("ppo_max_token_len_per_gpu");
    const std::string dynamic = sft_ ? "data.use_dynamic_bsz" : actor("use_dynamic_bsz");
    const auto size_of = [&](IntegerKey key) { return plan_.whole_of(key).value_or(1); };
    const Whole cp = size_of("parallel.cp");
    const Whole dp = gpus_ / product_of({size_of("parallel.tp"), size_of("parallel.pp"), cp});
    const Whole of_replica = dp > 0 ? global_batch / dp : 0;
    const auto of_gpu = settings_->whole(micro, 1);
    const auto of_all = sft_ ? std::nullopt : settings_->whole(actor("ppo_micro_batch_size"), 1);
    const bool is_dynamic = settings_->flag(dynamic, sft_ && !fsdp_sft_);
    if (of_gpu && is_dynamic && !settings_->has(dynamic))
      note_unused(micro, dynamic + " is true by default");
    if (fsdp_sft_ && !of_gpu)
      note_unused("data.micro_batch_size", "verl 0.2 replaced it by " + micro);
    const Whole most_tokens = settings_->whole(tokens, 1).value_or(sft_ ? 8192 : 16384);
    if (is_dynamic) {
      // A sequence is split over cp GPUs, each of which takes so many tokens of a microbatch
      // (verl/workers/engine/utils.py:111).
      plan_.set("parallel.micro_batch",
                sequences_in(product_of({most_tokens, cp}), seq, of_replica),
                settings_->spelled(tokens) + fmt::format(" / {} tokens a sequence", seq));
    } else if (of_gpu) {
      plan_.set("parallel.micro_batch", *of_gpu, micro);
    } else if (of_all && dp > 0) {
      plan_.set("parallel.micro_batch", std::max<Whole>(1, *of_all / dp),
                actor("ppo_micro_batch_size"));
    } else if (sft_) {
      plan_.set("parallel.micro_batch", 4, settings_->spelled(micro));
    }
  }

  // Notes a stated setting that verl does not read, and why.
  void note_unused(const std::string& name, const std::string& why) {
    if (const auto value = settings_->text(name))
      plan_.assumed.push_back(
          fmt::format("{}: {} = {} is not used: {}", settings_->place_of(name), name, *value, why));
  }

  void set_model() {
    note_model(model_prefix_ + (fsdp_sft_ ? "partial_pretrain" : "path"), settings_, &plan_);
    // verl trains without multi-token prediction (MTP) unless told to
    // (verl/utils/megatron_utils.py:1820, verl/workers/config/model.py:240).
    if (!settings_->flag(model_prefix_ + "mtp.enable")) leave_out_mtp(context_.before, &plan_);
  }

  MegatronArguments* settings_;
  const ImportContext& context_;
  bool sft_;       // supervised fine-tuning, not the actor's training
  bool fsdp_sft_;  // by fsdp_sft_trainer, which verl had until 2026
  std::string model_prefix_ = "model.", actor_prefix_, engine_prefix_;
  Whole gpus_ = 0;  // 0: unknown
  ImportedPlan plan_;
};

}  // namespace

bool is_verl(const DocumentNode& document) { return document.find("actor_rollout_ref") != nullptr; }

Result<ImportedPlan> import_verl(const DocumentNode& document, const ImportContext& context) {
  MegatronArguments settings(context.path);
  RETURN_IF_ERROR(add_hydra(document, context.path, context, 0, &settings));
  settings.resolve_references();
  return VerlPlan(&settings, context).read();
}

Result<ImportedPlan> import_verl(const std::vector<StartedCommand>& commands,
                                 const ImportContext& context) {
  MegatronArguments settings(context.path);
  for (const StartedCommand& command : commands) {
    if (matches_word(command.name, "*generation* *main_eval*"))
      return Error::at(command.where, fmt::format("found {}, which trains nothing, expected verl's "
                                                  "main_ppo or sft_trainer",
                                                  command.name));
    add_torchrun(command, context.path, &settings);
    if (const auto config = hydra_config(command.behind))
      RETURN_IF_ERROR(add_config(config->text, fmt::format("{}:{}", context.path, config->line),
                                 context, 0, &settings));
    add_overrides(command, context.path, &settings);
  }
  settings.resolve_references();
  return VerlPlan(&settings, context, commands.back().name.ends_with("fsdp_sft_trainer")).read();
}

}  // namespace tandem
