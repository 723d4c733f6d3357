// Writes a plan as names and values of Megatron-LM's fields: {"tensor_model_parallel_size", "8"}.
// Its flags, and the files of Megatron-Bridge and ChatLearn, are made of them. What Megatron-LM
// derives by itself is left out; keys that it cannot follow are noted (PlanKeys::leave). Declared
// in interop/emit/plan_keys.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "base/split.h"
#include "interop/emit/plan_keys.h"
#include "interop/megatron/layout.h"

namespace tandem {
namespace {

// Keys and the fields that take their values unchanged. A value equal to `usual`, which is the
// default of both Tandem and Megatron-LM, is left out.
struct SameField {
  AnyKey key;
  std::string_view field, usual;
};
constexpr SameField kSame[] = {{"parallel.tp", "tensor_model_parallel_size", ""},
                               {"parallel.pp", "pipeline_model_parallel_size", ""},
                               {"parallel.cp", "context_parallel_size", "1"},
                               {"parallel.ep", "expert_model_parallel_size", "1"},
                               {"parallel.micro_batch", "micro_batch_size", ""},
                               {"parallel.global_batch", "global_batch_size", ""},
                               {"schedule.group", "microbatch_group_size_per_vp_stage", ""}};

// Switches: the field is written with the value `says` if the key has `value`. A key that is not
// set counts as `otherwise`.
struct SwitchFlag {
  FlagKey key;
  bool value, otherwise;
  std::string_view field, says;
};
constexpr SwitchFlag kSwitches[] = {
    {"train.sequence_parallel", true, false, "sequence_parallel", "True"},
    {"train.fp8_param_gather", true, false, "fp8_param_gather", "True"},
    {"train.fused_softmax", false, true, "masked_softmax_fusion", "False"},
    {"train.fused_bias_gelu", false, true, "bias_gelu_fusion", "False"},
    {"train.fused_norm", false, true, "no_persist_layer_norm", "True"},
    {"train.fused_cross_entropy", true, true, "cross_entropy_loss_fusion", "True"},
    {"overlap.expert", true, false, "overlap_moe_expert_parallel_comm", "True"}};

class FieldWriter {
 public:
  FieldWriter(PlanKeys* keys, bool bridge) : keys_(keys), bridge_(bridge) {}

  std::vector<MegatronField> write() {
    for (const SameField& row : kSame) {
      const std::string value = keys_->text(row.key, row.usual);
      if (!value.empty() && value != row.usual) add(row.field, value);
    }
    for (const SwitchFlag& row : kSwitches) {
      if (keys_->flag(row.key, row.otherwise) == row.value) add(row.field, row.says);
    }
    if (!keys_->flag("train.fused_bias_gelu", true)) add("bias_swiglu_fusion", "False");
    write_stages();
    write_precision();
    write_dispatcher();
    write_recompute();
    write_data();
    write_context();
    write_tensor();
    return fields_;
  }

 private:
  void add(std::string_view field, std::string_view value) { fields_.emplace_back(field, value); }
  static std::string_view word(bool flag) { return flag ? "True" : "False"; }

  void write_stages() {
    const long long tp = keys_->whole("parallel.tp", 1), vpp = keys_->whole("parallel.vpp", 1);
    const long long pp = keys_->whole("parallel.pp", 1);
    // Megatron-LM derives dp. These calls count its keys as taken.
    keys_->gpus();
    keys_->dp();
    const long long expert_tp = keys_->whole("parallel.expert_tp", 0);
    if (expert_tp > 0 && expert_tp != tp)
      add("expert_tensor_parallel_size", fmt::format("{}", expert_tp));
    const std::string layout = layout_text();
    if (!layout.empty()) add("pipeline_model_parallel_layout", layout);
    if (vpp > 1 && layout.empty())
      add("virtual_pipeline_model_parallel_size", fmt::format("{}", vpp));
    const std::string order = keys_->text("schedule.order", vpp > 1 ? "interleaved" : "1f1b");
    // Orders that Megatron-LM runs with virtual stages, and without them.
    constexpr std::string_view kVirtual[] = {"interleaved"}, kPlain[] = {"1f1b", "none"};
    const std::span<const std::string_view> run =
        vpp > 1 ? std::span<const std::string_view>(kVirtual) : kPlain;
    const bool fits = std::find(run.begin(), run.end(), order) != run.end();
    if (!fits && pp > 1) keys_->leave("schedule.order", "Megatron-LM runs 1f1b and interleaved");
    const bool overlaps = keys_->flag("overlap.p2p", vpp > 1);
    if (vpp > 1) {
      if (!overlaps || bridge_) add("overlap_p2p_comm", word(overlaps));
    } else if (overlaps && pp > 1) {
      keys_->leave("overlap.p2p", "only virtual stages overlap transfers");
    }
    if (keys_->flag("overlap.batch_p2p", false) == overlaps && pp > 1 &&
        keys_->has("overlap.batch_p2p"))
      keys_->leave("overlap.batch_p2p", "transfers are batched where they do not overlap");
    if (!keys_->flag("parallel.scatter_gather", false)) return;
    keys_->leave("parallel.scatter_gather", "Megatron-LM has it no more");
  }

  // Returns the layers of each stage as Megatron-LM's layout: "Et*3|t*4|t*3mL" has 3, 4 and 3
  // layers (t) beside embedding (E), multi-token prediction (m) and loss (L). Empty: even stages.
  std::string layout_text() {
    const std::string layout = keys_->text("parallel.layout");
    if (!layout.empty() && layout != "auto") return layout;
    std::vector<int> layers;
    for (const std::string& word : split(keys_->text("parallel.layers_per_stage"), ","))
      layers.push_back(std::atoi(word.c_str() + word.find_first_of("0123456789")));
    if (layers.empty()) return "";
    return tandem::layout_text(layers, static_cast<int>(keys_->whole("model.mtp_layers", 0)));
  }

  void write_precision() {
    const std::string precision = keys_->text("train.precision", "bf16");
    const std::string recipe = keys_->text("train.fp8_recipe", "delayed");
    if (precision == "fp16") {
      add("fp16", "True");
    } else if (precision != "fp32") {
      add("bf16", "True");
    }
    if (precision == "fp32" && bridge_)
      keys_->leave("train.precision", "Megatron-Bridge trains in bf16 or fp16");
    if (precision == "nvfp4") add("fp4", "e2m1");
    if (precision == "fp8") {
      add("fp8", "hybrid");
      if (recipe != "delayed") add("fp8_recipe", recipe == "current" ? "tensorwise" : recipe);
      if (const std::string amax = keys_->text("train.amax_reduction", "all");
          amax == "tensor" && bridge_)
        add("tp_only_amax_red", "True");
      else if (amax != "all")
        keys_->leave("train.amax_reduction",
                     "no flag of Megatron-LM; Megatron-Bridge has one for tensor");
    }
    const std::string gradients = keys_->text("train.gradient_dtype");
    if (gradients == "bf16") add("grad_reduce_in_bf16", "True");
    if (gradients == "fp32" && precision == "fp16")
      add("accumulate_allreduce_grads_in_fp32", "True");
    if (gradients == "fp16" && precision != "fp16")
      keys_->leave("train.gradient_dtype", "gradients are fp32 or bf16");
    add("attention_backend", keys_->flag("train.flash_attention", false) ? "flash" : "unfused");
    if (keys_->flag("train.cuda_graphs", false)) add("cuda_graph_impl", "local");
    std::string scope = keys_->text("train.cuda_graph_scope");
    std::erase(scope, ',');
    if (!scope.empty()) add("cuda_graph_scope", scope);
    if (const std::string share = keys_->text("train.optimizer_offload"); !share.empty()) {
      add("optimizer_cpu_offload", "True");
      add("optimizer_offload_fraction", share);
    }
    if (const std::string states = keys_->text("train.optimizer_dtype");
        !states.empty() && states != "fp32") {
      add("use_precision_aware_optimizer", "True");
      add("exp_avg_dtype", states);
    }
  }

  void write_dispatcher() {
    const std::string dispatcher = keys_->text("parallel.dispatcher", "alltoall");
    if (keys_->flag("overlap.delay_wgrad", false)) add("delay_wgrad_compute", "True");
    if (keys_->whole("parallel.ep", 1) == 1) return;
    const bool flex = dispatcher == "deepep" || dispatcher == "hybridep";
    add("moe_token_dispatcher_type", flex ? "flex" : dispatcher);
    if (flex) add("moe_flex_dispatcher_backend", dispatcher);
  }

  void write_recompute() {
    const std::string recompute = keys_->text("train.recompute");
    const std::string layers = keys_->text("train.recompute_layers");
    std::string modules = keys_->text("train.recompute_modules");
    if (recompute != "full" && recompute != "selective") return;
    add("recompute_granularity", recompute);
    if (recompute == "full") {
      add("recompute_method", layers.empty() ? "uniform" : "block");
      add("recompute_num_layers", layers.empty() ? "1" : layers);
    } else if (!modules.empty()) {
      std::erase(modules, ',');
      add("recompute_modules", modules);
    }
  }

  void write_data() {
    const long long zero = keys_->whole("train.zero", 0), pp = keys_->whole("parallel.pp", 1);
    // Runs with Megatron-FSDP (ZeRO 2 and 3) set this flag too.
    if (zero > 0 || bridge_) add("use_distributed_optimizer", word(zero > 0));
    if (zero > 1) {
      add("use_megatron_fsdp", "True");
      add("data_parallel_sharding_strategy", zero == 2 ? "optim_grads" : "optim_grads_params");
    }
    const long long shard = keys_->whole("parallel.hsdp_shard", 0), dp = keys_->dp();
    if (shard > 0 && dp > 0) {
      add("num_distributed_optimizer_instances",
          fmt::format("{}", dp * keys_->whole("parallel.cp", 1) / shard));
    } else {
      keys_->leave("parallel.hsdp_shard", "--num-distributed-optimizer-instances of dp / this");
    }
    const bool reduces = keys_->flag("overlap.grad_reduce", false);
    const bool gathers = keys_->flag("overlap.param_gather", zero == 3);
    const bool aligned = keys_->flag("overlap.align_param_gather", true);
    const bool stages = keys_->whole("parallel.vpp", 1) > 1;
    if (reduces || bridge_) add("overlap_grad_reduce", word(reduces));
    if (gathers || bridge_) add("overlap_param_gather", word(gathers));
    if (gathers && !aligned && stages) add("align_param_gather", "False");
    if (gathers && aligned && !stages && keys_->has("overlap.align_param_gather"))
      keys_->leave("overlap.align_param_gather", "forced off without virtual stages");
    const std::string bucket = keys_->text("overlap.bucket_MB");
    if (bucket.empty()) return;
    const bool fp16 = keys_->text("train.precision") == "fp16";
    const double bytes =
        keys_->text("train.gradient_dtype", fp16 ? "fp16" : "fp32") == "fp32" ? 4 : 2;
    if (pp == 1 && reduces) {
      add("ddp_bucket_size", fmt::format("{:.0f}", std::stod(bucket) * 1e6 / bytes));
    } else {
      keys_->leave("overlap.bucket_MB", "a rank of a pipeline has one bucket");
    }
  }

  void write_context() {
    const std::string comm = keys_->text("parallel.cp_comm", "ring");
    const bool overlaps = keys_->flag("overlap.context", false);
    if (keys_->whole("parallel.cp", 1) == 1) return;
    add("cp_comm_type", comm == "ring" ? "p2p" : comm == "all_gather" ? "allgather" : "a2a");
    if (!overlaps && comm == "ring" && keys_->has("overlap.context"))
      keys_->leave("overlap.context", "Transformer Engine's ring always overlaps");
  }

  void write_tensor() {
    const std::string method = keys_->text("overlap.tensor", "off");
    if (method == "off") return;
    add("tp_comm_overlap", "True");
    if (method != "ring")
      keys_->leave("overlap.tensor", "Transformer Engine's own methods, GEMM by GEMM");
    // Transformer Engine pipelines these two GEMMs by default.
    for (const TextKey key :
         {TextKey("overlap.gemm.proj_fprop"), TextKey("overlap.gemm.fc2_fprop")}) {
      if (keys_->text(key, "pipelined") != "pipelined")
        keys_->leave(key, "Transformer Engine's is pipelined");
    }
  }

  PlanKeys* keys_;
  bool bridge_;
  std::vector<MegatronField> fields_;
};

}  // namespace

std::vector<MegatronField> megatron_fields(PlanKeys* keys, bool bridge) {
  return FieldWriter(keys, bridge).write();
}

}  // namespace tandem
