// Writes a plan as a script with the options of torchtitan's command line. Declared in
// interop/emit/plan_keys.h.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "interop/emit/plan_keys.h"

namespace tandem {
namespace {

// An order of the pipeline, its name in PyTorch, and the stages that torchtitan gives a rank where
// no layers_per_stage says them.
struct TorchOrderName {
  std::string_view order, torch_name;
  int stages_a_rank = 2;
};
constexpr TorchOrderName kSchedules[] = {{"1f1b", "1F1B", 1},
                                         {"gpipe", "GPipe", 1},
                                         {"interleaved", "Interleaved1F1B"},
                                         {"looped-bfs", "LoopedBFS"},
                                         {"interleaved-zb", "InterleavedZeroBubble"},
                                         {"zbv", "ZBVZeroBubble"},
                                         {"dualpipev", "DualPipeV"}};

// keys_->leave(key, reason) lists a key of the plan, if it is set, as not expressed for this
// reason.
class TitanWriter {
 public:
  explicit TitanWriter(PlanKeys* keys) : keys_(keys) {}

  std::string write() {
    write_training();
    write_shards();
    add("parallelism.tensor_parallel_degree", tp_);
    add("parallelism.context_parallel_degree", keys_->whole("parallel.cp", 1));
    write_experts();
    write_pipeline();
    write_compute();
    std::string text = "#!/bin/bash\n# MODULE and CONFIG choose the model: ";
    text += "MODULE=llama3 CONFIG=llama3_8b ./run_train.sh \"${OVERRIDES[@]}\"\n";
    if (keys_->gpus() > 0) text += fmt::format("WORLD_SIZE={}\n", keys_->gpus());
    text += "OVERRIDES=(\n" + lines_;
    // The recomputation policy comes last: torchtitan takes options behind it for options of it.
    const std::string recompute = keys_->text("train.recompute", "none");
    if (recompute == "selective")
      keys_->leave("train.recompute", "torchtitan recomputes other operations than these modules");
    return text + fmt::format("    activation-checkpoint:{}\n)\n", recompute);
  }

 private:
  void add(std::string_view name, std::string_view value) {
    lines_ += fmt::format("    --{}{}{}\n", name, value.empty() ? "" : " ", value);
  }
  void add(std::string_view name, long long value) { add(name, fmt::format("{}", value)); }

  // Writes batch and precision. torchtitan counts batches in tokens, not in sequences.
  void write_training() {
    const long long micro = keys_->whole("parallel.micro_batch", 1);
    const long long global = keys_->whole("parallel.global_batch", micro * std::max(1LL, dp_));
    const long long seq = keys_->whole("model.seq", 0);
    if (seq > 0) {
      add("training.num_tokens_per_microbatch_per_dp_rank", micro * seq);
      add("training.num_tokens_per_train_step", global * seq);
      add("training.max_context_length", seq);
    } else {
      keys_->leave("parallel.micro_batch", "tokens are counted, and model.seq is not known");
      keys_->leave("parallel.global_batch", "tokens are counted, and model.seq is not known");
    }
    if (pp_ > 1 && dp_ > 0) add("parallelism.num_pp_microbatches", global / (micro * dp_));
    const std::string precision = keys_->text("train.precision", "bf16");
    if (precision == "fp32") add("training.mixed_precision_param", "float32");
    if (precision != "fp32" && precision != "bf16")
      keys_->leave("train.precision", "a converter in the model's configuration, as Float8Linear");
    if (keys_->flag("train.fp8_param_gather", false))
      keys_->leave("train.fp8_param_gather", "the same converter says it");
    if (keys_->text("train.gradient_dtype", "fp32") != "fp32")
      keys_->leave("train.gradient_dtype", "gradients are reduced in fp32");
  }

  // Writes how ranks shard. hsdp_shard counts context ranks, torchtitan's shard degree does not, so
  // it is hsdp_shard / cp.
  void write_shards() {
    const long long zero = keys_->whole("train.zero", 0), cp = keys_->whole("parallel.cp", 1);
    const long long shard = keys_->whole("parallel.hsdp_shard", cp * (zero > 0 ? dp_ : 1));
    const bool has_whole_groups = shard % cp == 0;
    if (!has_whole_groups)
      keys_->leave("parallel.hsdp_shard", "whole groups of context ranks shard");
    shard_degree_ = has_whole_groups ? shard / cp : dp_;
    if (dp_ > 0) {
      add("parallelism.data_parallel_replicate_degree",
          shard_degree_ > 0 ? dp_ / shard_degree_ : 1);
      add("parallelism.data_parallel_shard_degree", shard_degree_);
    }
    // FSDP2 runs ZeRO 2 or 3, and no ZeRO 1.
    if (zero == 1 && shard_degree_ != 1)
      keys_->leave("train.zero", "FSDP2 cuts gradients too, and parameters or not");
    // In a pipeline parameters stay gathered, as with ZeRO 2.
    if (zero == 2 && pp_ == 1 && shard_degree_ != 1)
      keys_->note(
          "ZeRO 2: FSDP2 gathers every microbatch, so it comes back as ZeRO 3 with "
          "train.reshard_after_forward = false");
    const bool frees = keys_->flag("train.reshard_after_forward", true) && zero == 3;
    const bool is_default = zero == 3 && !keys_->has("train.reshard_after_forward");
    if (zero > 0 && !is_default)
      add("parallelism.fsdp_reshard_after_forward", frees ? "always" : "never");
    if (zero == 0 && cp > 1) keys_->leave("train.zero", "FSDP2 cuts over context ranks");
    if (!keys_->flag("overlap.grad_reduce", true) && dp_ * cp > 1)
      keys_->leave("overlap.grad_reduce", "FSDP2 always reduces layer by layer");
    if (!keys_->flag("overlap.param_gather", true) && zero > 0)
      keys_->leave("overlap.param_gather", "FSDP2 always gathers ahead");
  }

  // Writes how experts are spread: over the ranks that shard dense layers by FSDP, cp and tp. With
  // ep each expert is whole (expert_tp 1), without it all are cut by tp.
  void write_experts() {
    const long long ep = keys_->whole("parallel.ep", 1);
    const long long shards = std::max(1LL, shard_degree_) * keys_->whole("parallel.cp", 1) * tp_;
    const long long expert_tp = keys_->whole("parallel.expert_tp", ep > 1 ? 1 : tp_);
    const bool fits = shards % ep == 0;
    if (!fits) keys_->leave("parallel.ep", "it divides FSDP's shards x cp x tp");
    add("parallelism.expert_parallel_degree", fits ? ep : 1);
    if (expert_tp != (ep > 1 ? 1 : tp_))
      keys_->leave("parallel.expert_tp", "experts are cut like dense layers, or spread and whole");
  }

  void write_pipeline() {
    add("parallelism.pipeline_parallel_degree", pp_);
    const long long vpp = keys_->whole("parallel.vpp", 1);
    const std::string order = keys_->text("schedule.order", vpp > 1 ? "interleaved" : "1f1b");
    keys_->ignore("overlap.p2p");
    if (pp_ == 1) return;
    const auto* const known = std::ranges::find(kSchedules, order, &TorchOrderName::order);
    if (known == std::end(kSchedules)) {
      keys_->leave("schedule.order", "torchtitan has no schedule of that name");
    } else {
      add("parallelism.pipeline_parallel_schedule", known->torch_name);
    }
    const std::vector<int> layers = keys_->stage_layers();
    if (static_cast<long long>(layers.size()) == pp_ * vpp) return write_stage_layers(layers);
    if (!layers.empty())
      return keys_->leave("parallel.layers_per_stage", "expected one for each of pp x vpp stages");
    const int stages =
        known == std::end(kSchedules) ? 1 : known->stages_a_rank;  // 1: of its default
    if (vpp != stages)
      keys_->leave("parallel.vpp", "layers_per_stage says it: model.layers is unknown");
  }

  // Writes the layers of each stage: equally many, or one fewer (`less`) in the first and the last,
  // as in 7 8 8 7. torchtitan can say nothing else.
  void write_stage_layers(const std::vector<int>& layers) {
    const long long less = layers.size() > 2 ? layers[1] - layers[0] : 0;
    const auto stages = static_cast<long long>(layers.size());
    const long long all = std::reduce(layers.begin(), layers.end());
    const bool has_equal_ends = layers.back() == layers[1] - less;
    const bool has_equal_stages = all + 2 * less == layers[1] * stages;
    if (less < 0 || less > 1 || !has_equal_ends || !has_equal_stages)
      return keys_->note("stages: module_fqns_per_model_part says which layers each has");
    add("parallelism.pipeline_parallel_layers_per_stage", layers[1]);
    add("parallelism.pipeline_parallel_first_stage_less_layers", less);
    add("parallelism.pipeline_parallel_last_stage_less_layers", less);
  }

  void write_compute() {
    if (!keys_->flag("train.sequence_parallel", false) && tp_ > 1)
      add("parallelism.no_enable_sequence_parallel", "");
    // Compiles, as the simulated model is. PyTorch's schedules that split backward refuse that.
    constexpr std::string_view kSplitting[] = {"interleaved-zb", "zbv", "dualpipev"};
    const std::string order = keys_->text("schedule.order", "1f1b");
    const bool splits = pp_ > 1 && std::ranges::find(kSplitting, order) != std::end(kSplitting);
    if (!splits) add("compile.enable", "");
    if (splits)
      keys_->note(order + ": PyTorch does not compile split backwards, so passes take longer");
    const std::string method = keys_->text("overlap.tensor", "off");
    const bool overlaps = method != "off";
    if (overlaps && method != "ring") keys_->leave("overlap.tensor", "async TP is a ring");
    if (overlaps && !splits) add("compile.enable_async_tensor_parallel", "");
    if (overlaps && splits) keys_->leave("overlap.tensor", "async TP needs compile.enable");
    const bool wants_graphs = keys_->flag("train.cuda_graphs", false);
    const bool has_graphs = wants_graphs && pp_ <= 1 && keys_->whole("parallel.ep", 1) <= 1;
    if (!has_graphs) add("training.disable_cuda_graphs", "");  // they are on by default
    if (wants_graphs && !has_graphs)
      keys_->leave("train.cuda_graphs", "without pipeline and experts only");
    note_context(keys_);
    note_kernels(keys_, "native", "native");
  }

  PlanKeys* keys_;
  long long tp_ = keys_->whole("parallel.tp", 1), pp_ = keys_->whole("parallel.pp", 1);
  long long dp_ = keys_->dp(), shard_degree_ = 1;
  std::string lines_;
};

}  // namespace

std::string torchtitan_text(PlanKeys* keys) { return TitanWriter(keys).write(); }

}  // namespace tandem
