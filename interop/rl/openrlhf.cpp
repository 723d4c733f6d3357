// Reads OpenRLHF's flags for training the actor (the policy), or for supervised fine-tuning (SFT).
// It writes the DeepSpeed configuration that OpenRLHF would make of them, and imports that.
// Defaults and names follow openrlhf/cli/train_ppo_ray.py and train_sft.py, OpenRLHF/OpenRLHF
// 3c3be623 (2026-08-13). Declared in interop/rl/rl.h.
#include <fmt/format.h>

#include <algorithm>

#include "interop/document/fields.h"
#include "interop/plan/places.h"
#include "interop/rl/rl.h"
#include "interop/rl/settings.h"
#include "interop/trainers/trainers.h"

namespace tandem {
namespace {

// Names in versions before 0.10, and those of today.
constexpr std::pair<std::string_view, std::string_view> kOlder[] = {
    {"train_batch_size", "train.batch_size"},
    {"micro_train_batch_size", "train.micro_batch_size"},
    {"rollout_batch_size", "rollout.batch_size"},
    {"n_samples_per_prompt", "rollout.n_samples_per_prompt"},
    {"max_len", "data.max_len"},
    {"zero_stage", "ds.zero_stage"},
    {"zpg", "ds.zpg"},
    {"adam_offload", "ds.adam_offload"},
    {"overlap_comm", "ds.overlap_comm"},
    {"ring_attn_size", "ds.ring_attn_size"},
    {"ds_tensor_parallel_size", "ds.tensor_parallel_size"},
    {"gradient_checkpointing", "actor.gradient_checkpointing_enable"},
    {"model.gradient_checkpointing_enable", "actor.gradient_checkpointing_enable"},
    {"pretrain", "actor.model_name_or_path"},
    {"model.model_name_or_path", "actor.model_name_or_path"},
    {"actor_num_nodes", "actor.num_nodes"},
    {"actor_num_gpus_per_node", "actor.num_gpus_per_node"},
    {"use_dynamic_batch", "train.dynamic_batch_enable"},
    {"train_max_tokens_per_gpu", "train.max_tokens_per_gpu"},
    {"lora_rank", "ds.lora.rank"},
    {"param_dtype", "ds.param_dtype"},
    {"use_liger_kernel", "ds.use_liger_kernel"},
    {"optim", "actor.optim"}};

constexpr std::string_view kOpenRlhfQuiet =
    "ref.* ref_* reward.* reward_* critic.* critic_* vllm.* vllm_* ckpt.* logger.* eval.* algo.* "
    "rollout.* data.* train.* actor.adam.* actor.muon.* actor.eps_clip* actor.dual_clip "
    "actor.policy_loss* actor.lr_* actor.min_lr* actor.max_norm actor.aux_loss* "
    "actor.entropy_coef actor.gradient_checkpointing_reentrant actor.model_name_or_path adam.* "
    "lr_* min_lr* max_norm ds.packing_samples packing_samples ds.enable_sleep ds.lora.* "
    "ds.attn_implementation flash_attn attn_implementation ds.value_head* ds.ring_attn_head_stride "
    "ring_head_stride colocate_* save_* load_* use_wandb wandb_* input_* output_* label_* "
    "prompt_* dataset* apply_chat_template normalize_reward init_kl* kl_* gamma lambd "
    "advantage_estimator eps_clip* max_samples max_epochs num_episodes micro_rollout* temperature "
    "top_p learning_rate actor_learning_rate *_learning_rate lr_warmup* enforce_eager "
    "enable_prefix* deepspeed_enable_sleep use_kl* remote_rm* agent_func* logging_steps "
    "eval_* generate_max_len bf16 async_train use_tensorboard local_rank seed full_determinism "
    "*.num_nodes *.num_gpus_per_node nnodes gpus_per_node l2 freezing* dynamic_filtering* ";

class OpenRlhfPlan {
 public:
  OpenRlhfPlan(MegatronArguments* settings, const ImportContext& context, bool sft)
      : settings_(settings), context_(context), sft_(sft) {}

  Result<ImportedPlan> read() {
    if (settings_->whole("ds.lora.rank").value_or(0) > 0)
      settings_->fail("ds.lora.rank", "0: adapters are not covered");
    std::int64_t gpus = 0;
    if (!sft_ || settings_->has("actor.num_gpus_per_node"))
      gpus = product_of({settings_->whole("actor.num_nodes", 1).value_or(1),
                         settings_->whole("actor.num_gpus_per_node", 1).value_or(8)});
    const std::int64_t known_gpus = context_.gpus > 0 ? context_.gpus : gpus;
    const std::int64_t seq = length();
    const DocumentNode config = deepspeed_config(known_gpus, seq);
    RETURN_IF_ERROR(settings_->status());
    const ImportContext inner = {.path = context_.path,
                                 .before = context_.before,
                                 .gpus = known_gpus,
                                 .beside = context_.beside};
    ASSIGN_OR_RETURN(ImportedPlan plan, import_deepspeed(config, inner));
    clear_places(&plan);
    if (gpus > 0) plan.set("cluster.gpus", gpus, settings_->spelled("actor.num_gpus_per_node"));
    if (settings_->whole("ds.ring_attn_size", 1).value_or(1) > 1)
      plan.set("parallel.cp_comm", "ring", settings_->spelled("ds.ring_attn_size"));
    plan.set("model.seq", seq, settings_->spelled("data.max_len"));
    plan.set("train.flash_attention",
             settings_->text("ds.attn_implementation").value_or("") != "eager",
             settings_->spelled("ds.attn_implementation"));
    if (settings_->flag("actor.gradient_checkpointing_enable"))
      plan.set("train.recompute", "full",
               settings_->spelled("actor.gradient_checkpointing_enable"));
    if (settings_->text("actor.optim").value_or("adam") == "muon")
      plan.not_expressed.push_back(settings_->place_of("actor.optim") +
                                   ": actor.optim = muon: taken as Adam");
    if (settings_->flag("ds.use_liger_kernel"))
      plan.not_expressed.push_back(settings_->place_of("ds.use_liger_kernel") +
                                   ": ds.use_liger_kernel: kernels are as fast as others");
    note_model("actor.model_name_or_path", settings_, &plan);
    assume_longest(seq, &plan);
    if (!sft_)
      plan.not_expressed.push_back(
          context_.path +
          ": rollouts and models beside the actor (reference, critic, reward) are "
          "not covered: an iteration is one optimizer step of the actor");
    settings_->list_unread_settings(kOpenRlhfQuiet, &plan);
    place_keys([&](std::string_view name) { return settings_->place_of(name); }, &plan);
    plan.sources = {context_.path + " (OpenRLHF)"};
    return plan;
  }

 private:
  // Returns the configuration that openrlhf/utils/deepspeed/deepspeed_utils.py hands to DeepSpeed.
  // `seq`: tokens of a sequence.
  DocumentNode deepspeed_config(std::int64_t gpus, std::int64_t seq) const {
    const std::int64_t global = settings_->whole("train.batch_size", 1).value_or(128);
    std::int64_t micro = settings_->whole("train.micro_batch_size", 1).value_or(sft_ ? 8 : 1);
    const std::int64_t tp = settings_->whole("ds.tensor_parallel_size", 1).value_or(1);
    const std::int64_t ring = settings_->whole("ds.ring_attn_size", 1).value_or(1);
    const std::int64_t dp = gpus / product_of({tp, ring});
    const auto tokens = settings_->whole("train.max_tokens_per_gpu", 1);
    const bool is_dynamic = settings_->flag("train.dynamic_batch_enable");
    if (is_dynamic)
      micro =
          sequences_in(product_of({tokens.value_or(16192), ring}), seq, dp > 0 ? global / dp : 0);
    const std::string dtype = settings_->text("ds.param_dtype").value_or("bf16");
    const std::int64_t stage = settings_->whole("ds.zero_stage").value_or(2);
    const bool overlaps = settings_->flag("ds.overlap_comm", stage == 3);
    DocumentNode::Map zero = {
        field("stage", stage, "ds.zero_stage"), field("overlap_comm", overlaps, "ds.overlap_comm"),
        field("zero_hpz_partition_size", settings_->whole("ds.zpg", 1).value_or(1), "ds.zpg")};
    if (settings_->flag("ds.adam_offload"))
      zero.push_back({"offload_optimizer",
                      {DocumentNode::Map{field("device", std::string("cpu"), "ds.adam_offload")},
                       line_of("ds.adam_offload")}});
    return {
        DocumentNode::Map{
            field("train_batch_size", global, "train.batch_size"),
            field("train_micro_batch_size_per_gpu", micro, "train.micro_batch_size"),
            field("sequence_parallel_size", ring, "ds.ring_attn_size"),
            {"tensor_parallel",
             {DocumentNode::Map{field("autotp_size", tp, "ds.tensor_parallel_size")}, 0}},
            {"bf16", {DocumentNode::Map{field("enabled", dtype == "bf16", "ds.param_dtype")}, 0}},
            {"fp16", {DocumentNode::Map{field("enabled", dtype == "fp16", "ds.param_dtype")}, 0}},
            {"zero_optimization", {zero, 0}}},
        0};
  }

  // Returns the tokens of a prompt with its answer.
  std::int64_t length() {
    const auto prompt = settings_->whole("prompt_max_len", 1),
               answer = settings_->whole("generate_max_len", 1);
    if (prompt || answer) return prompt.value_or(1024) + answer.value_or(1024);
    return settings_->whole("data.max_len", 1).value_or(2048);
  }

  int line_of(std::string_view name) const {
    const std::string where = settings_->place_of(name);
    return where.empty() ? 0 : std::atoi(where.c_str() + where.rfind(':') + 1);
  }
  // Returns a field of DeepSpeed's configuration, at the line of the flag that sets it.
  template <class T>
  DocumentField field(const char* name, T value, std::string_view flag) const {
    return {name, {std::move(value), line_of(flag)}};
  }

  // Clears the places of keys that no flag states: field() gives these line 0.
  static void clear_places(ImportedPlan* plan) {
    for (ImportedKey& key : plan->keys) {
      if (key.where.ends_with(":0")) key.where.clear();
    }
  }

  MegatronArguments* settings_;
  const ImportContext& context_;
  bool sft_;  // supervised fine-tuning, not the actor's training
};

}  // namespace

Result<ImportedPlan> import_openrlhf(const std::vector<StartedCommand>& commands,
                                     const ImportContext& context) {
  MegatronArguments settings(context.path);
  bool sft = false;
  for (const StartedCommand& command : commands) {
    if (!command.name.ends_with("train_sft") && command.name.find("train_ppo") == std::string::npos)
      return Error::at(
          command.where,
          fmt::format("found {}, expected OpenRLHF's train_ppo_ray or train_sft", command.name));
    sft = command.name.ends_with("train_sft");
    const ShellCommand& words = command.behind;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!words[i].text.starts_with("--")) continue;
      const std::size_t equals = words[i].text.find('=');
      const std::string flag =
          words[i].text.substr(2, equals == std::string::npos ? equals : equals - 2);
      const bool has_value = i + 1 < words.size() && !words[i + 1].text.starts_with("--");
      const std::string value = equals != std::string::npos ? words[i].text.substr(equals + 1)
                                : has_value                 ? words[i + 1].text
                                                            : "True";
      const auto* const older =
          std::ranges::find(kOlder, flag, [](const auto& row) { return row.first; });
      settings.add_field(older == std::end(kOlder) ? flag : std::string(older->second), value,
                         fmt::format("{}:{}", context.path, words[i].line), "--" + flag);
    }
  }
  return OpenRlhfPlan(&settings, context, sft).read();
}

}  // namespace tandem
