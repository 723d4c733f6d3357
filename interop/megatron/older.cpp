// Gives arguments of Megatron-LM before 2023, and of Megatron-DeepSpeed, today's names, and states
// their defaults that today are others. Declared in interop/megatron/megatron.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/csv.h"
#include "interop/megatron/megatron.h"
#include "interop/model/layers.h"

namespace tandem {
namespace {

using Whole = std::int64_t;

// An argument whose name has changed since. Both mean the same.
struct RenamedArgument {
  std::string_view older, name;
};
constexpr RenamedArgument kRenamed[] = {
    {"activations_checkpoint_method", "recompute_method"},
    {"activations_checkpoint_num_layers", "recompute_num_layers"},
    {"checkpoint_num_layers", "recompute_num_layers"},
    {"distribute_checkpointed_activations", "distribute_saved_activations"}};

// Megatron-DeepSpeed's arguments of experts.
struct DeepSpeedArgument {
  RenamedArgument names;
  std::string_view default_value;
  std::string_view key;  // the key that gets the default; empty: the key has it anyway
};
constexpr DeepSpeedArgument kDeepSpeedExperts[] = {
    {{"topk", "moe_router_topk"}, "1", "model.top_k"},
    {{"moe_expert_parallel_size", "expert_model_parallel_size"}, "1", ""},
    {{"moe_train_capacity_factor", "moe_expert_capacity_factor"}, "1", "model.capacity_factor"}};

// Arguments that only Megatron-LM before Transformer Engine had. Transformer Engine came in
// December 2022 (3499542edd) and became the default in April 2024 (e7b74a4b7e). A log of before has
// DDP_impl.
constexpr std::string_view kBeforeEngine[] = {"activations_checkpoint_method",
                                              "activations_checkpoint_num_layers",
                                              "checkpoint_activations",
                                              "checkpoint_num_layers",
                                              "distribute_checkpointed_activations",
                                              "DDP_impl",
                                              "contiguous_buffers_in_local_ddp",
                                              "use_checkpoint_lr_scheduler",
                                              "override_lr_scheduler"};

class OlderArguments {
 public:
  OlderArguments(MegatronArguments* arguments, ImportedPlan* plan)
      : args_(arguments), plan_(plan) {}

  void translate() {
    const bool is_deepspeed = args_->flag("deepspeed");
    const auto* const early = std::ranges::find_if(
        kBeforeEngine, [&](std::string_view name) { return args_->has(name); });
    set_recompute();
    for (const RenamedArgument& row : kRenamed) copy(row.older, row.name);
    set_torch_ddp();
    if (is_deepspeed) {
      leave_out_engine("Megatron-DeepSpeed's, there is no --use-flash-attn-v2");
      set_context();
      set_experts();
    } else if (early != std::end(kBeforeEngine) && !has_engine()) {
      leave_out_engine(args_->spelled(*early) + " is of Megatron-LM before Transformer Engine");
      set_scatter_gather();
    }
  }

 private:
  // Sets an argument that follows from the argument `from`, unless it is stated.
  void set(std::string_view name, const std::string& value, std::string_view from) {
    if (!args_->has(name))
      args_->add_field(std::string(name), value, args_->place_of(from), args_->spelled(from));
  }

  void copy(std::string_view older, std::string_view name) {
    if (const auto value = args_->text(older)) set(name, *value, older);
  }

  // Returns whether an argument of Transformer Engine or of flash attention is there.
  bool has_engine() const {
    return args_->has_any("transformer_impl") || args_->has_any("attention_backend") ||
           args_->has_any("use_flash_attn");
  }

  // States that there is no flash attention, as no flag asks for it.
  void leave_out_engine(const std::string& why) {
    if (has_engine()) return;
    args_->add_field("transformer_impl", "local", "");
    plan_->assumed.push_back("train.flash_attention = false: " + why);
  }

  // Sets full recompute: the method alone switches it on, in chunks of one layer by default
  // (megatron/arguments.py:417 of v2.6).
  void set_recompute() {
    const std::string_view method = "activations_checkpoint_method";
    if (!args_->has(method)) return;
    set("recompute_granularity", "full", method);
    if (!args_->has("activations_checkpoint_num_layers")) set("recompute_num_layers", "1", method);
  }

  // Sets the overlap of PyTorch's DDP, whose buckets are of 25 MiB. Today's argument counts
  // gradients.
  void set_torch_ddp() {
    const std::string_view ddp = "DDP_impl";
    if (args_->text(ddp).value_or("local") != "torch") return;
    set("overlap_grad_reduce", "True", ddp);
    const int gradient_bytes = args_->flag("fp16") ? 2 : 4;
    set("ddp_bucket_size", fmt::format("{}", 25 * 1024 * 1024 / gradient_bytes), ddp);
  }

  // Sets how stages send without sequence parallelism: each tensor rank its part. Megatron-LM had
  // that until March 2023 (3c92fa93b5), and its flag for longer.
  void set_scatter_gather() {
    const std::string_view name = "scatter_gather_tensors_in_pipeline";
    const bool sends_parts = args_->flag(name, true) && !args_->flag("sequence_parallel");
    if (sends_parts && args_->whole("tensor_model_parallel_size", 1).value_or(1) > 1 &&
        args_->whole("pipeline_model_parallel_size", 1).value_or(1) > 1)
      plan_->set("parallel.scatter_gather", true, args_->spelled(name));
  }

  // Sets DeepSpeed's sequence parallelism, which changes heads for positions (Ulysses).
  void set_context() {
    const std::string_view name = "ds_sequence_parallel_size";
    if (args_->whole(name, 1).value_or(1) == 1) return;
    copy(name, "context_parallel_size");
    set("cp_comm_type", "a2a", name);
  }

  // Sets Megatron-DeepSpeed's experts (megatron/arguments.py:608 at f4157bea). One is an MLP.
  void set_experts() {
    const auto counts = args_->wholes("num_experts");
    const Whole interval = args_->whole("expert_interval", 1).value_or(2);
    const bool drops_tokens = args_->flag("moe_token_dropping", true),
               cuts_experts = args_->flag("enable_expert_tensor_parallelism"),
               has_tutel = args_->flag("use_tutel");
    // Without experts these are understood, too.
    for (const char* name : {"mlp_type", "topk", "moe_expert_parallel_size"}) args_->text(name);
    if (!counts || std::ranges::max(*counts) <= 1) return args_->leave_out("num_experts");
    for (const DeepSpeedArgument& row : kDeepSpeedExperts) {
      const auto& [older, name] = row.names;
      if (name == "moe_expert_capacity_factor" && !drops_tokens) continue;
      set(name, args_->text(older).value_or(std::string(row.default_value)), older);
      if (!row.key.empty() && !args_->has(older))
        assume(older, fmt::format("{} = {}", row.key, row.default_value));
    }
    if (drops_tokens) set("moe_pad_expert_input_to_capacity", "True", "moe_train_capacity_factor");
    if (!cuts_experts) set("expert_tensor_parallel_size", "1", "enable_expert_tensor_parallelism");
    set("moe_token_dispatcher_type", "alltoall", "deepspeed");
    if (!has_tutel)
      plan_->not_expressed.push_back(
          "DeepSpeed packs tokens for experts by products with masks: these are not counted");
    if (!args_->has("expert_interval")) assume("expert_interval", "experts in every second layer");
    set_counts(*counts, interval);
  }

  // Says what is assumed as there is no argument `older`.
  void assume(std::string_view older, std::string_view assumed) {
    std::string flag = "--" + std::string(older);
    std::ranges::replace(flag, '_', '-');
    plan_->assumed.push_back(
        fmt::format("{}: Megatron-DeepSpeed's, there is no {}", assumed, flag));
  }

  // Sets the experts of each layer. Every `interval`-th layer has some: with interval 2 and counts
  // {8}, 4 layers have [0, 8, 0, 8].
  void set_counts(const std::vector<Whole>& counts, Whole interval) {
    const Whole layers = args_->whole("num_layers", 1).value_or(0);
    if (layers == 0 || layers > kMostLayers) return;
    const auto sparse = static_cast<std::size_t>(layers / interval);
    if (counts.size() != 1 && counts.size() != sparse)
      return args_->fail("num_experts", fmt::format("one number, or {} numbers", sparse));
    std::vector<Whole> experts(static_cast<std::size_t>(layers), 0);
    for (std::size_t i = 0; i < sparse; ++i) {
      const Whole count = counts.size() == 1 ? counts[0] : counts[i];
      experts[(i + 1) * static_cast<std::size_t>(interval) - 1] = count > 1 ? count : 0;
    }
    args_->add_field("num_experts", fmt::format("[{}]", fmt::join(experts, ", ")),
                     args_->place_of("num_experts"), args_->spelled("num_experts"));
  }

  MegatronArguments* args_;
  ImportedPlan* plan_;
};

}  // namespace

void translate_older_arguments(MegatronArguments* arguments, ImportedPlan* plan) {
  OlderArguments(arguments, plan).translate();
}

}  // namespace tandem
