// Writes a plan as names and values of Megatron-LM's fields: {"tensor_model_parallel_size", "8"}.
// Command-line flags and the files of Megatron-Bridge and ChatLearn are made of these. Values that
// Megatron-LM derives by itself are left out; keys that it has no setting for, or only together
// with other settings, are noted by PlanKeys::leave(). Declared in interop/emit/plan_keys.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

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
                               {"parallel.global_batch", "global_batch_size", ""}};

// Booleans whose field is written only if the key has `value`, as the text `written`. A key that is
// not set counts as `otherwise`.
struct SwitchFlag {
  FlagKey key;
  bool value, otherwise;
  std::string_view field, written;
};
constexpr SwitchFlag kSwitches[] = {
    {"train.fused_softmax", false, true, "masked_softmax_fusion", "False"},
    {"train.fused_bias_gelu", false, true, "bias_gelu_fusion", "False"},
    {"train.fused_norm", false, true, "no_persist_layer_norm", "True"}};

// The orders that Megatron-LM runs with virtual stages, and without them.
constexpr std::string_view kInterleaved = "interleaved";
constexpr std::string_view kPlainOrders[] = {"1f1b", "none"};

class FieldWriter {
 public:
  FieldWriter(PlanKeys* keys, MegatronReader reader)
      : keys_(keys),
        bridge_(reader == MegatronReader::Bridge),
        chatlearn_(reader == MegatronReader::ChatLearn) {}

  std::vector<MegatronField> write() {
    for (const SameField& row : kSame) {
      const std::string value = keys_->text(row.key, row.usual);
      if (!value.empty() && value != row.usual) add(row.field, value);
    }
    for (const SwitchFlag& row : kSwitches) {
      if (keys_->flag(row.key, row.otherwise) == row.value) add(row.field, row.written);
    }
    if (!keys_->flag("train.fused_bias_gelu", true)) add("bias_swiglu_fusion", "False");
    write_sequence();
    write_stages();
    write_precision();
    write_attention();
    write_gathered();
    write_optimizer();
    write_dispatcher();
    write_recompute();
    write_offload();
    write_cross_entropy();
    write_graphs();
    write_expert_overlap();
    write_sharding();
    write_data_overlap();
    write_context();
    write_tensor();
    require_connections();
    return fields_;
  }

 private:
  void add(std::string_view field, std::string_view value) { fields_.emplace_back(field, value); }
  static std::string_view word(bool flag) { return flag ? "True" : "False"; }

  bool has(std::string_view field) const {
    return std::ranges::any_of(fields_, [&](const auto& one) { return one.first == field; });
  }

  // Writes sequence parallelism: on by default in ChatLearn, off in the others.
  void write_sequence() {
    const bool is_on = keys_->flag("train.sequence_parallel", false);
    if (keys_->whole("parallel.tp", 1) > 1 && (is_on || chatlearn_))
      add("sequence_parallel", word(is_on));
  }

  void write_stages() {
    const long long tp = keys_->whole("parallel.tp", 1), vpp = keys_->whole("parallel.vpp", 1);
    const long long pp = keys_->whole("parallel.pp", 1);
    // Megatron-LM derives dp. These calls only mark its keys as expressed.
    keys_->gpus();
    keys_->dp();
    const long long expert_tp = keys_->whole("parallel.expert_tp", 0);
    if (expert_tp > 0 && expert_tp != tp)
      add("expert_tensor_parallel_size", fmt::format("{}", expert_tp));
    if (keys_->is_hybrid()) {
      if (pp * vpp > 1) write_segments();
    } else {
      write_layout(pp, vpp);
    }
    write_order(pp, vpp);
  }

  // Writes how microbatches are scheduled, and how transfers between stages overlap.
  void write_order(long long pp, long long vpp) {
    const std::string group = keys_->text("schedule.group");
    if (!group.empty() && vpp > 1) add("microbatch_group_size_per_vp_stage", group);
    const std::string order = keys_->text("schedule.order", vpp > 1 ? "interleaved" : "1f1b");
    const bool runs = vpp > 1 ? order == kInterleaved : std::ranges::count(kPlainOrders, order) > 0;
    if (!runs && pp > 1) keys_->leave("schedule.order", "Megatron-LM runs 1f1b and interleaved");
    const bool overlaps = keys_->flag("overlap.p2p", vpp > 1);
    if (vpp > 1) {
      if (!overlaps || bridge_) add("overlap_p2p_comm", word(overlaps));
    } else if (overlaps && pp > 1) {
      keys_->leave("overlap.p2p", "only virtual stages overlap transfers");
    }
    if (keys_->flag("overlap.batch_p2p", false) == overlaps && pp > 1 &&
        keys_->has("overlap.batch_p2p"))
      keys_->leave("overlap.batch_p2p", "transfers are batched where they do not overlap");
    if (keys_->flag("parallel.scatter_gather", false))
      keys_->leave("parallel.scatter_gather", "Megatron-LM has it no more");
  }

  // Writes the layers of each stage if they are uneven, and the number of virtual stages.
  void write_layout(long long pp, long long vpp) {
    std::string layout = keys_->text("parallel.layout");
    const bool listed = keys_->has("parallel.layers_per_stage");
    const std::vector<int> layers = keys_->stage_layers();
    const auto differs = [&](int stage) { return stage != layers[1 % layers.size()]; };
    const bool uneven = std::ranges::any_of(layers, differs);
    const long long all = keys_->whole("model.layers", 0);
    // Embedding and loss can count as a layer each, by two fields that ChatLearn does not have.
    const bool counts_ends =
        uneven && !listed && all > 0 && (all + 2) % (pp * vpp) == 0 && !chatlearn_;
    if (layout.empty() || layout == "auto" || layout == "even") {
      layout = (listed || uneven) && !counts_ends
                   ? layout_text(layers, static_cast<int>(keys_->whole("model.mtp_layers", 0)))
                   : "";
      if (counts_ends) {
        add("account_for_embedding_in_pipeline_split", "True");
        add("account_for_loss_in_pipeline_split", "True");
      }
    }
    if (!layout.empty()) {
      add("pipeline_model_parallel_layout", layout);
    } else if (vpp > 1) {
      add("virtual_pipeline_model_parallel_size", fmt::format("{}", vpp));
    }
  }

  // Writes a hybrid model's stages as bars in its layer pattern, the only form that Megatron-LM
  // takes.
  void write_segments() {
    const std::vector<std::string> letters = keys_->hybrid_layers();
    const std::vector<int> layers = keys_->stage_layers();
    const auto sum = static_cast<std::size_t>(std::reduce(layers.begin(), layers.end()));
    keys_->text("parallel.layout");
    const bool listed = keys_->has("parallel.layers_per_stage");
    if (letters.empty() || sum != letters.size() || chatlearn_) {
      // A pattern without bars is cut evenly, with one stage a rank.
      const long long all = keys_->whole("model.layers", 0), vpp = keys_->whole("parallel.vpp", 1);
      if (all > 0 && vpp == 1 && all % keys_->whole("parallel.pp", 1) == 0 && !listed) return;
      keys_->leave("parallel.pp", "bars in --hybrid-layer-pattern say where a hybrid's stages end");
      keys_->leave("parallel.vpp", "the same bars say how many stages a rank has");
      return;
    }
    std::string pattern;
    std::size_t next = 0;
    for (const int stage : layers) {
      if (next > 0) pattern += '|';
      for (int i = 0; i < stage; ++i) pattern += letters[next++];
    }
    add("hybrid_layer_pattern", pattern);
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
      // Megatron-LM's default is delayed, Megatron-Bridge's is tensorwise.
      if (recipe == "rowwise")
        keys_->leave("train.fp8_recipe", "Transformer Engine has no rowwise scales");
      else if (recipe != "delayed" || bridge_)
        add("fp8_recipe", recipe == "current" ? "tensorwise" : recipe);
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
  }

  void write_optimizer() {
    if (const std::string share = keys_->text("train.optimizer_offload"); !share.empty()) {
      add("optimizer_cpu_offload", "True");
      add("optimizer_offload_fraction", share);
    }
    const std::string dtype = keys_->text("train.optimizer_dtype");
    const bool is_narrow = !dtype.empty() && dtype != "fp32";
    const bool remainders = keys_->flag("train.param_remainders", false);
    if (is_narrow || remainders || has("optimizer_cpu_offload"))
      add("use_precision_aware_optimizer", "True");
    if (is_narrow) add("exp_avg_dtype", dtype);
    if (is_narrow) add("exp_avg_sq_dtype", dtype);
    if (!has_muon()) return;
    // In Megatron-Bridge "dist_muon" keeps each layer's optimizer states whole on one rank.
    add("optimizer", bridge_ && keys_->whole("train.zero", 0) > 0 ? "dist_muon" : "muon");
    const std::string mode = keys_->text("train.muon_tp", "duplicated");
    if (mode != "duplicated") add("muon_tp_mode", mode);
  }

  // Writes the attention backend. Attention in fp8 needs cuDNN's, "fused".
  void write_attention() {
    const bool in_fp8 = keys_->flag("train.fp8_attention", false);
    if (in_fp8 && bridge_) add("fp8_dot_product_attention", "True");
    if (in_fp8 && !bridge_)
      keys_->leave("train.fp8_attention", "no flag of Megatron-LM; Megatron-Bridge has one");
    const bool fused = keys_->flag("train.flash_attention", false);
    add("attention_backend", !fused ? "unfused" : in_fp8 && bridge_ ? "fused" : "flash");
  }

  bool has_muon() { return keys_->text("train.optimizer", "adam") == "muon"; }

  // Writes whether parameters are gathered in 8 or 4 bits.
  void write_gathered() {
    const std::string precision = keys_->text("train.precision", "bf16");
    const std::string recipe = keys_->text("train.fp8_recipe", "delayed");
    if (!keys_->flag("train.fp8_param_gather", false)) return;
    const bool offloads = !keys_->text("train.optimizer_offload").empty();
    if (precision != "fp8" && precision != "nvfp4")
      return keys_->leave("train.fp8_param_gather", "with fp8 or nvfp4 only");
    if (keys_->whole("train.zero", 0) == 0 || (bridge_ && has_muon()))
      return keys_->leave("train.fp8_param_gather", "with a distributed optimizer only");
    if (precision == "fp8" && recipe != "delayed" && offloads)
      return keys_->leave("train.fp8_param_gather", "with an offloaded optimizer delayed only");
    add(precision == "nvfp4" ? "fp4_param_gather" : "fp8_param_gather", "True");
    if (bridge_ && recipe == "mxfp8" && keys_->whole("train.zero", 0) == 1)
      add("reuse_grad_buf_for_mxfp8_param_ag", "True");
  }

  void write_dispatcher() {
    const std::string dispatcher = keys_->text("parallel.dispatcher", "alltoall");
    if (keys_->whole("parallel.ep", 1) == 1) return;
    const bool flex = dispatcher == "deepep" || dispatcher == "hybridep";
    add("moe_token_dispatcher_type", flex ? "flex" : dispatcher);
    if (flex) add("moe_flex_dispatcher_backend", dispatcher);
  }

  // Returns the words of a key's list: {"core_attn", "moe"} of "core_attn, moe".
  std::vector<std::string> words_of(TextKey key) {
    std::string text = keys_->text(key);
    std::ranges::replace(text, ',', ' ');
    return split_words(text);
  }

  void write_recompute() {
    const std::string recompute = keys_->text("train.recompute");
    const std::string layers = keys_->text("train.recompute_layers");
    std::vector<std::string> modules = words_of("train.recompute_modules");
    if (recompute != "full" && recompute != "selective") return;
    if (recompute == "full") {
      add("recompute_granularity", recompute);
      add("recompute_method", layers.empty() ? "uniform" : "block");
      add("recompute_num_layers", layers.empty() ? "1" : layers);
      return;
    }
    if (keys_->text("train.precision") == "fp8" &&
        keys_->text("train.fp8_recipe", "delayed") == "delayed") {
      const auto removed = std::erase_if(modules, [](const std::string& module) {
        return module == "moe_act" || module == "layernorm";
      });
      if (removed > 0)
        keys_->leave("train.recompute_modules", "delayed scaling keeps moe_act and layernorm");
      if (removed > 0 && modules.empty()) return;
    }
    add("recompute_granularity", recompute);
    if (!modules.empty()) add("recompute_modules", fmt::format("{}", fmt::join(modules, " ")));
  }

  // Writes the offloaded activations, without those of modules that are recomputed.
  void write_offload() {
    const std::string recompute = keys_->text("train.recompute", "none");
    std::vector<std::string> modules = words_of("train.activation_offload_modules");
    const bool recomputes_moe = recompute == "selective" &&
                                std::ranges::count(words_of("train.recompute_modules"), "moe") > 0;
    const auto removed = std::erase_if(modules, [&](const std::string& module) {
      const bool is_of_moe =
          module == "expert_fc1" || module == "moe_act" || module == "fused_group_mlp";
      return recompute == "full" || (recomputes_moe && is_of_moe);
    });
    if (removed > 0)
      keys_->leave("train.activation_offload_modules", "without those that are recomputed whole");
    if (!modules.empty()) {
      add("fine_grained_activation_offloading", "True");
      add("offload_modules", fmt::format("{}", fmt::join(modules, " ")));
      if (std::ranges::count(modules, "fused_group_mlp") > 0)
        add("use_transformer_engine_op_fuser", "True");
      keys_->require("NVTE_CPU_OFFLOAD_V1=1 with Transformer Engine from 2.10 on");
    }
    const long long layers = keys_->whole("train.activation_offload_layers", 0);
    if (layers == 0) return;
    const bool recomputes = recompute == "full" || recompute == "selective";
    if (keys_->whole("parallel.pp", 1) > 1 || recomputes ||
        layers >= keys_->whole("model.layers", layers + 1))
      return keys_->leave("train.activation_offload_layers",
                          "without pp and recompute, and fewer than all layers");
    if (bridge_) add("cpu_offloading", "True");
    add("cpu_offloading_num_layers", fmt::format("{}", layers));
  }

  void write_cross_entropy() {
    const bool fused = keys_->flag("train.fused_cross_entropy", true);
    const char* const usual = bridge_ ? "te" : "native";
    std::string kind = keys_->text("train.cross_entropy", fused ? usual : "unfused");
    if (kind == "unfused") {
      if (bridge_) add("cross_entropy_loss_fusion", "False");
      return;
    }
    if (kind == "chunked" || (kind == "te" && !bridge_)) {
      keys_->leave("train.cross_entropy", kind == "te" ? "Megatron-LM's arguments refuse it"
                                                       : "Megatron-LM computes the loss at once");
      kind = "native";
    }
    add("cross_entropy_loss_fusion", "True");
    if (!chatlearn_) add("cross_entropy_fusion_impl", kind);
  }

  void write_graphs() {
    const bool graphs = keys_->flag("train.cuda_graphs", false);
    std::string scope = keys_->text("train.cuda_graph_scope");
    std::erase(scope, ',');
    if (!graphs) return;
    if (keys_->text("train.recompute") == "full")
      return keys_->leave("train.cuda_graphs", "no layer is a graph that is recomputed whole");
    if (has("offload_modules") || has("cpu_offloading_num_layers"))
      return keys_->leave("train.cuda_graphs", "without offloaded activations only");
    add("cuda_graph_impl", "local");
    if (!scope.empty()) add("cuda_graph_scope", scope);
    if (bridge_) add("te_rng_tracker", "True");
  }

  // Writes that expert all-to-alls overlap with another microbatch's compute, unless other settings
  // forbid it.
  void write_expert_overlap() {
    const bool delays = keys_->flag("overlap.delay_wgrad", false);
    if (!keys_->flag("overlap.expert", false) || keys_->whole("parallel.ep", 1) == 1) {
      if (delays) keys_->leave("overlap.delay_wgrad", "with overlap.expert and ep only");
      return;
    }
    const std::string dispatcher = keys_->text("parallel.dispatcher", "alltoall");
    const std::string precision = keys_->text("train.precision", "bf16");
    const std::vector<std::string> modules = words_of("train.recompute_modules");
    const std::string recompute = keys_->text("train.recompute");
    const bool recomputes_experts =
        recompute == "full" || (recompute == "selective" && std::ranges::count(modules, "moe") > 0);
    const bool paired = keys_->whole("parallel.vpp", 1) > 1 || keys_->whole("parallel.pp", 1) == 1;
    if (!paired || keys_->is_hybrid() || dispatcher == "allgather" || recomputes_experts ||
        precision == "fp32" || keys_->whole("model.mtp_layers", 0) > 1) {
      const std::string_view why =
          "with vpp or pp 1, all-to-all, 16 bits and no recomputed experts only";
      keys_->leave("overlap.expert", why);
      return keys_->leave("overlap.delay_wgrad", why);
    }
    add("overlap_moe_expert_parallel_comm", "True");
    if (delays) add("delay_wgrad_compute", "True");
  }

  // Returns whether the optimizer's name, "dist_muon", already says that its states are sharded.
  bool shards_by_name() { return bridge_ && has_muon(); }

  // Writes ZeRO: 1 is the distributed optimizer, 2 and 3 are Megatron-FSDP, with that flag, too.
  void write_sharding() {
    const long long zero = keys_->whole("train.zero", 0);
    if (zero > 0 || bridge_) add("use_distributed_optimizer", word(zero > 0 && !shards_by_name()));
    if (zero > 1) {
      add("use_megatron_fsdp", "True");
      add("data_parallel_sharding_strategy", zero == 2 ? "optim_grads" : "optim_grads_params");
      add("ckpt_format", "fsdp_dtensor");
    }
    const long long shard = keys_->whole("parallel.hsdp_shard", 0), dp = keys_->dp();
    if (shard > 0 && dp > 0 && zero > 0) {
      add("num_distributed_optimizer_instances",
          fmt::format("{}", dp * keys_->whole("parallel.cp", 1) / shard));
    } else {
      keys_->leave("parallel.hsdp_shard", "--num-distributed-optimizer-instances of dp / this");
    }
  }

  // Writes how gradient reduction and parameter gathering overlap, and the bucket size.
  void write_data_overlap() {
    const long long zero = keys_->whole("train.zero", 0), pp = keys_->whole("parallel.pp", 1);
    const bool by_name = shards_by_name();
    const bool reduces = keys_->flag("overlap.grad_reduce", false);
    const bool wants_gathers = keys_->flag("overlap.param_gather", zero == 3);
    const bool gathers = wants_gathers && reduces && zero > 0 && !by_name;
    if (wants_gathers && by_name) {
      keys_->leave("overlap.param_gather", "Megatron-Bridge's Muon gathers at the end");
    } else if (wants_gathers && !gathers) {
      keys_->leave("overlap.param_gather", "with ZeRO and overlap.grad_reduce only");
    }
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
    const bool has_sequence =
        keys_->whole("parallel.tp", 1) > 1 && keys_->flag("train.sequence_parallel", false);
    const bool overlaps = method != "off" && has_sequence;
    if (method != "off" && !has_sequence)
      keys_->leave("overlap.tensor", "with train.sequence_parallel");
    if (bridge_ || overlaps) add("tp_comm_overlap", word(overlaps));
    if (!overlaps) return;
    if (method != "ring")
      keys_->leave("overlap.tensor", "Transformer Engine's own methods, GEMM by GEMM");
    // Transformer Engine pipelines these two GEMMs by default.
    for (const TextKey key :
         {TextKey("overlap.gemm.proj_fprop"), TextKey("overlap.gemm.fc2_fprop")}) {
      if (keys_->text(key, "pipelined") != "pipelined")
        keys_->leave(key, "Transformer Engine's is pipelined");
    }
  }

  void require_connections() {
    if (has("use_megatron_fsdp")) {
      keys_->require("CUDA_DEVICE_MAX_CONNECTIONS unset or above 1, for Megatron-FSDP");
    } else if (keys_->whole("parallel.tp", 1) > 1 || keys_->whole("parallel.cp", 1) > 1) {
      const bool overlaps_experts = has("overlap_moe_expert_parallel_comm");
      keys_->require(overlaps_experts
                         ? "CUDA_DEVICE_MAX_CONNECTIONS=32 or 1 on GPUs before Blackwell: tp or "
                           "cp wants 1, overlapped experts want more"
                         : "CUDA_DEVICE_MAX_CONNECTIONS=1 on GPUs before Blackwell, for tp or "
                           "cp above 1");
    }
  }

  PlanKeys* keys_;
  bool bridge_, chatlearn_;
  std::vector<MegatronField> fields_;
};

}  // namespace

std::vector<MegatronField> megatron_fields(PlanKeys* keys, MegatronReader reader) {
  return FieldWriter(keys, reader).write();
}

}  // namespace tandem
