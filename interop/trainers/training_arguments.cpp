// Reads YAML of transformers' TrainingArguments, as LLaMA-Factory and TRL take it. Declared in
// interop/trainers/trainers.h.
#include <fmt/format.h>

#include <algorithm>

#include "interop/document/fields.h"
#include "interop/plan/places.h"
#include "interop/trainers/trainers.h"

namespace tandem {
namespace {

// Fields that change neither time nor memory of an iteration.
constexpr std::string_view kQuiet =
    "output_dir logging_* save_* plot_loss overwrite_* report_to learning_rate num_train_epochs "
    "max_steps lr_scheduler_* warmup_* resume_* eval_* *_eval_* val_size per_device_eval* do_* "
    "trust_remote_code template dataset* data_* max_samples preprocessing_* streaming seed "
    "ddp_timeout ddp_find* weight_decay adam_* max_grad_norm push_to_hub hub_* run_name remove_* "
    "include_* mixture* tokenized_path stage finetuning_type "
    "disable_gradient_checkpointing group_by_length full_determinism optim_args "
    "gradient_checkpointing_kwargs model_revision *_only_loss *packing* padding_free *eos_token "
    "chat_template* truncation_mode shuffle_dataset ";

// Fields that only TRL has, whose defaults differ from transformers' (trl/trainer/base_config.py
// and sft_config.py in huggingface/trl f2cd5771, 2026-07-24).
constexpr std::string_view kTrl =
    "assistant_only_loss completion_only_loss packing packing_strategy eval_packing padding_free "
    "dataset_mixture dataset_text_field dataset_num_proc dataset_kwargs max_prompt_length "
    "max_completion_length num_generations";

// Fields that a scenario has no key for, and the simplification made instead. They are listed if
// they are on, or, with `always`, in any case.
struct NotExpressedSetting {
  std::string_view field, taken_as;
  bool always = false;
};
constexpr NotExpressedSetting kNotExpressed[] = {
    {"use_liger_kernel enable_liger_kernel", "kernels are as fast as others"},
    {"torch_compile", "kernels are as fast as others"},
    {"torch_dtype dtype", "parameters have a master copy in fp32"},
    {"use_unsloth", "kernels are as fast as others"},
    {"neftune_noise_alpha", "no noise is added to the embeddings"},
    {"freeze_vision_tower freeze_multi_modal_projector", "only the language model counts", true}};

// Returns whether a field is not set, false or 0, or parameters are in fp32.
bool is_off(const DocumentNode& node) {
  const auto* flag = std::get_if<bool>(&node.value);
  return node.is_null() || (flag && !*flag) || whole_number(node) == 0 || node.text() == "float32";
}

// Returns whether a map has the field as true.
bool has_true(const DocumentNode& map, std::string_view name) {
  const DocumentNode* field = map.find(name);
  return field != nullptr && field->text() == "true";
}

class TrainingArguments {
 public:
  TrainingArguments(const DocumentNode& document, const ImportContext& context)
      : context_(context), fields_(document, context.path) {
    plan_.sources.push_back(context.path + " (TrainingArguments)");
    is_trl_ = !is_factory_ && document.map() != nullptr &&
              std::ranges::any_of(*document.map(), [](const DocumentField& field) {
                return matches_word(field.key, kTrl);
              });
  }

  Result<ImportedPlan> read(const DocumentNode& document) {
    check_task();
    set_precision();
    set_sharding();
    set_sizes();
    set_batch();
    set_memory();
    set_optimizer();
    if (const auto model = fields_.text({"model_name_or_path"}))
      plan_.assumed.push_back(fields_.place_of("model_name_or_path") + ": the model is " + *model +
                              ", whose config.json states it");
    set_length();
    leave_out_mtp(context_.before, &plan_);  // transformers' models have none
    list_rest();
    RETURN_IF_ERROR(fields_.status());
    place_keys(document, context_.path, &plan_);
    return std::move(plan_);
  }

 private:
  using Whole = std::int64_t;
  using Texts = std::vector<std::string>;

  // Refuses tasks other than training all weights of one language model.
  void check_task() {
    // LLaMA-Factory's default is an adapter.
    const std::string kind =
        fields_.text({"finetuning_type"}).value_or(is_factory_ ? "lora" : "full");
    if (kind != "full")
      fields_.fail("finetuning_type", "full: adapters and frozen layers are not covered");
    for (const char* adapter : {"use_peft", "use_lora"}) {
      if (fields_.flag({adapter}).value_or(false))
        fields_.fail(adapter, "false: adapters are not covered");
    }
    if (fields_.node({"peft_config"}) != nullptr)
      fields_.fail("peft_config", "none: adapters are not covered");
    const std::string stage = fields_.text({"stage"}).value_or("sft");
    if (stage != "sft" && stage != "pt")
      fields_.fail("stage", "sft or pt: a second model or rollouts are not covered");
  }

  void set_precision() {
    const bool pure_bf16 = fields_.flag({"pure_bf16"}).value_or(false);
    const bool fp16 = fields_.flag({"fp16"}).value_or(false);
    const auto stated_bf16 = fields_.flag({"bf16"});
    const bool bf16 = stated_bf16.value_or(is_trl_ && !fp16);
    if (pure_bf16) {
      plan_.set("train.gradient_dtype", "bf16", "pure_bf16");
      plan_.set("train.optimizer_dtype", "bf16", "pure_bf16");
      plan_.not_expressed.push_back(fields_.place_of("pure_bf16") +
                                    ": pure_bf16 = true: a master copy in fp32 is there");
    }
    if (bf16 && !stated_bf16)
      assume("train.precision", "bf16", "TRL's default since 0.19");
    else if (bf16 || pure_bf16)
      plan_.set("train.precision", "bf16", bf16 ? "bf16" : "pure_bf16");
    else if (fp16)
      plan_.set("train.precision", "fp16", "fp16");
    else
      plan_.set("train.precision", "fp32", "neither bf16 nor fp16");
  }

  void set_sharding() {
    const auto file = fields_.text({"deepspeed"});
    if (file)
      plan_.wanted.push_back({.name = file->substr(file->rfind('/') + 1),
                              .where = fields_.place_of("deepspeed"),
                              .states_plan = true});
    const DocumentNode* options = fields_.node({"fsdp"});  // a text or a list
    const std::string fsdp =
        options != nullptr && options->list() != nullptr
            ? fmt::format("{}", fmt::join(fields_.texts({"fsdp"}).value_or(Texts()), " "))
            : fields_.text({"fsdp"}).value_or("");
    const auto has = [&](const char* word) { return fsdp.find(word) != std::string::npos; };
    if (has("hybrid_shard"))
      plan_.not_expressed.push_back(fields_.place_of("fsdp") +
                                    ": hybrid_shard: parallel.hsdp_shard says how many GPUs shard");
    if (has("offload"))
      plan_.not_expressed.push_back(fields_.place_of("fsdp") +
                                    ": offload: parameters and optimizer stay on the GPU");
    if (has("hybrid_shard") || has("full_shard"))
      plan_.set("train.zero", Whole{3}, "fsdp");
    else if (has("shard_grad_op"))
      plan_.set("train.zero", Whole{2}, "fsdp");
    const DocumentNode* config = fields_.node({"fsdp_config"});
    if (config == nullptr) return;
    const bool recomputes = !fsdp.empty() && (has_true(*config, "activation_checkpointing") ||
                                              has_true(*config, "fsdp_activation_checkpointing"));
    if (recomputes && fields_.flag({"gradient_checkpointing"}).value_or(false))
      fields_.fail("gradient_checkpointing", "false beside fsdp_config's activation_checkpointing");
    if (recomputes) plan_.set("train.recompute", "full", "fsdp_config, activation_checkpointing");
    plan_.not_expressed.push_back(fmt::format(
        "{}: fsdp_config = {}: {}", fields_.place_of("fsdp_config"), config->text(),
        config->map() == nullptr ? "this file is not read: set train.zero and train.recompute"
        : recomputes             ? "beyond its recomputation, FSDP is as train.zero says"
                                 : "FSDP is as train.zero says"));
  }

  // Sets the parallel sizes, which trainers on Megatron-LM have, such as LLaMA-Factory's
  // mcore_adapter.
  void set_sizes() {
    constexpr std::pair<const char*, const char*> kSizes[] = {
        {"tensor_model_parallel_size", "parallel.tp"},
        {"pipeline_model_parallel_size", "parallel.pp"},
        {"virtual_pipeline_model_parallel_size", "parallel.vpp"},
        {"context_parallel_size", "parallel.cp"},
        {"expert_model_parallel_size", "parallel.ep"}};
    for (const auto& [field, key] : kSizes) {
      if (const auto size = fields_.whole({field}, 1)) plan_.set_value(key, *size, field);
    }
    if (fields_.flag({"sequence_parallel"}).value_or(false))
      plan_.set("train.sequence_parallel", true, "sequence_parallel");
    if (fields_.flag({"use_distributed_optimizer"}).value_or(false))
      plan_.set("train.zero", Whole{1}, "use_distributed_optimizer");
  }

  // Sets the batch: global batch = microbatch x accumulation steps x replicas.
  void set_batch() {
    const Whole micro = fields_.whole({"per_device_train_batch_size"}, 1).value_or(8);
    const Whole steps = fields_.whole({"gradient_accumulation_steps"}, 1).value_or(1);
    plan_.set("parallel.micro_batch", micro,
              fields_.has("per_device_train_batch_size")
                  ? "per_device_train_batch_size"
                  : "default of per_device_train_batch_size");
    const Whole dp = context_.data_parallel(plan_);
    if (dp > 0)
      plan_.set("parallel.global_batch", product_of({micro, steps, dp}),
                fmt::format("{} a device x {} accumulation steps x {} replicas", micro, steps, dp));
    if (steps > 1) note_accumulation();
  }

  // Accelerate skips FSDP's reduction in all but the last accumulation step (no_sync), unless
  // sync_each_batch is set.
  void note_accumulation() {
    const bool is_fsdp =
        fields_.has("fsdp") || context_.before.text_of("train.framework") == "fsdp";
    const DocumentNode* config = fields_.node({"accelerator_config"});
    const bool syncs = config != nullptr && has_true(*config, "sync_each_batch");
    if (is_fsdp && !syncs)
      plan_.not_expressed.push_back(
          fields_.place_of("gradient_accumulation_steps") +
          ": FSDP's gradients are cut after each step here, as with sync_each_batch; by default "
          "Accelerate keeps them whole until the last step, which takes more memory");
  }

  // Sets a key to a default of the trainer's, which is said.
  template <class T>
  void assume(KeyOf<ValueTypeOf<T>> key, const T& value, const std::string& why) {
    plan_.set(key, value, why);
    plan_.assumed.push_back(fmt::format("{} = {}: {}", key.name(), value, why));
  }

  // Sets the sequence length. TRL's trainers by reinforcement learning have no default for whole
  // sequences, prompt and answer.
  void set_length() {
    const auto length = fields_.whole({"cutoff_len", "max_seq_length", "max_length"}, 1);
    if (length)
      plan_.set("model.seq", *length,
                fields_.name_of({"cutoff_len", "max_seq_length", "max_length"}));
    else if (is_factory_)
      assume("model.seq", Whole{2048}, "LLaMA-Factory's default of cutoff_len");
    else if (is_trl_ && !fields_.is_null("max_length") && !fields_.has("max_completion_length") &&
             !fields_.has("num_generations"))
      assume("model.seq", Whole{1024}, "TRL's default of max_length");
  }

  void set_memory() {
    // LLaMA-Factory recomputes by default, and TRL does.
    const auto stated = fields_.flag({"gradient_checkpointing"});
    const bool recomputes = is_factory_
                                ? !fields_.flag({"disable_gradient_checkpointing"}).value_or(false)
                                : stated.value_or(is_trl_);
    if (recomputes && is_trl_ && !stated)
      assume("train.recompute", "full", "TRL's default since 0.22");
    else if (recomputes)
      plan_.set("train.recompute", "full",
                is_factory_ ? "LLaMA-Factory's disable_gradient_checkpointing"
                            : "gradient_checkpointing");
    const std::string attention = fields_.text({"flash_attn", "attn_implementation"}).value_or("");
    const bool is_eager = attention == "eager" || attention == "disabled";
    if (is_eager || attention == "fa2" || attention.starts_with("flash_attention"))
      plan_.set("train.flash_attention", !is_eager,
                fields_.name_of({"flash_attn", "attn_implementation"}));
  }

  void set_optimizer() {
    const std::string optimizer = fields_.text({"optim"}).value_or("adamw_torch");
    if (fields_.flag({"use_muon"}).value_or(false))
      plan_.not_expressed.push_back(fields_.place_of("use_muon") + ": use_muon: taken as Adam");
    else if (!optimizer.starts_with("adamw_torch") && optimizer != "adamw_apex_fused")
      plan_.not_expressed.push_back(
          fmt::format("{}: optim = {}: taken as Adam", fields_.place_of("optim"), optimizer));
  }

  void list_rest() {
    for (const DocumentField* field : fields_.left()) {
      const std::string place = fmt::format("{}:{}: {} = {}", context_.path, field->value.line,
                                            field->key, field->value.text());
      const auto row = std::ranges::find_if(kNotExpressed, [&](const NotExpressedSetting& one) {
        return matches_word(field->key, one.field);
      });
      if (row != std::end(kNotExpressed)) {
        if (row->always || !is_off(field->value))
          plan_.not_expressed.push_back(fmt::format("{}: {}", place, row->taken_as));
      } else if (matches_word(field->key, kQuiet)) {
        ++plan_.without_effect;
      } else {
        plan_.not_understood.push_back(place);
      }
    }
  }

  const ImportContext& context_;
  FieldReader fields_;
  const bool is_factory_ =
      fields_.has("finetuning_type") || fields_.has("template") || fields_.has("cutoff_len");
  bool is_trl_ = false;
  ImportedPlan plan_;
};

}  // namespace

bool is_training_arguments(const DocumentNode& document) {
  return document.find("per_device_train_batch_size") != nullptr ||
         (document.find("model_name_or_path") != nullptr &&
          document.find("gradient_accumulation_steps") != nullptr);
}

Result<ImportedPlan> import_training_arguments(const DocumentNode& document,
                                               const ImportContext& context) {
  return TrainingArguments(document, context).read(document);
}

}  // namespace tandem
