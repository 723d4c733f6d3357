// Writes a plan as names and values of Megatron-LM's fields: "parallel.tp" -> "8" becomes
// {"tensor_model_parallel_size", "8"}. Command-line flags and the files of Megatron-Bridge and
// ChatLearn are made of these. Values that Megatron-LM derives are left out; keys that it has no
// setting for, or only with other settings, go to PlanKeys::leave(). Declared in plan_keys.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/split.h"
#include "interop/document/fields.h"
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

// Fusions, which are on by default, and the value of the field that turns them off.
struct FusionField {
  FlagKey key;
  std::string_view field, off;
};
constexpr FusionField kFusions[] = {{"train.fused_softmax", "masked_softmax_fusion", "False"},
                                    {"train.fused_bias_gelu", "bias_gelu_fusion", "False"},
                                    {"train.fused_norm", "no_persist_layer_norm", "True"},
                                    {"train.fused_bias_gelu", "bias_swiglu_fusion", "False"}};

// Each function writes the fields of one subject. Reading a key marks it as expressed, so keys are
// read before an early return.
class FieldWriter {
 public:
  FieldWriter(PlanKeys* keys, MegatronReader reader)
      : keys_(keys),
        reader_(reader),
        bridge_(reader == MegatronReader::Bridge),
        chatlearn_(reader == MegatronReader::ChatLearn) {}

  std::vector<MegatronField> write() {
    for (const SameField& row : kSame) {
      const std::string value = keys_->text(row.key, row.usual);
      if (!value.empty() && value != row.usual) add(row.field, value);
    }
    for (const FusionField& row : kFusions) {
      if (!keys_->flag(row.key, true)) add(row.field, row.off);
    }
    write_sequence();
    write_stages();
    add_number_formats(keys_, reader_, &fields_);
    write_gathered();
    write_optimizer();
    write_experts();
    write_recompute();
    write_offload();
    write_offloaded_layers();
    write_cross_entropy();
    write_graphs();
    write_expert_overlap();
    write_sharding();
    write_data_overlap();
    write_bucket();
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
    if (tp_ > 1 && (is_on || chatlearn_)) add("sequence_parallel", word(is_on));
  }

  void write_stages() {
    keys_->ignore("parallel.dp");  // Megatron-LM derives it
    const long long expert_tp = keys_->whole("parallel.expert_tp", 0);
    if (expert_tp > 0 && expert_tp != tp_)
      add("expert_tensor_parallel_size", fmt::format("{}", expert_tp));
    if (!keys_->is_hybrid()) {
      write_layout();
    } else if (pp_ * vpp_ > 1) {
      write_segments();
    }
    write_order();
  }

  // Writes how microbatches are scheduled, and how transfers between stages overlap.
  void write_order() {
    const std::string group = keys_->text("schedule.group");
    if (!group.empty() && vpp_ > 1) add("microbatch_group_size_per_vp_stage", group);
    const std::string order = keys_->text("schedule.order", vpp_ > 1 ? "interleaved" : "1f1b");
    const bool runs = matches_word(order, vpp_ > 1 ? "interleaved" : "1f1b none");
    if (!runs && pp_ > 1) keys_->leave("schedule.order", "Megatron-LM runs 1f1b and interleaved");
    const bool wants_overlap = keys_->flag("overlap.p2p", vpp_ > 1);
    const bool overlaps = wants_overlap && vpp_ > 1;
    if (bridge_ || (vpp_ > 1 && !overlaps)) add("overlap_p2p_comm", word(overlaps));
    if (bridge_) add("batch_p2p_comm", word(pp_ > 1 && !overlaps));
    if (wants_overlap && vpp_ == 1 && pp_ > 1)
      keys_->leave("overlap.p2p", "only virtual stages overlap transfers");
    const bool wants_batches = keys_->flag("overlap.batch_p2p", !wants_overlap);
    if (wants_batches == wants_overlap && pp_ > 1)  // Megatron-LM has exactly one of the two
      keys_->leave("overlap.batch_p2p", "transfers are batched where they do not overlap");
    if (keys_->flag("parallel.scatter_gather", false))
      keys_->leave("parallel.scatter_gather", "Megatron-LM has it no more");
  }

  // Writes the layers of each stage if they are uneven, else the number of virtual stages.
  // Megatron-Bridge wants that number with a layout, too: it knows by it whether transfers overlap.
  void write_layout() {
    std::string layout = keys_->text("parallel.layout");
    const std::vector<int> layers = keys_->stage_layers();
    if (layout.empty() || layout == "auto" || layout == "even") layout = uneven_layout(layers);
    if (!layout.empty()) add("pipeline_model_parallel_layout", layout);
    if (vpp_ > 1 && (layout.empty() || bridge_))
      add("virtual_pipeline_model_parallel_size", fmt::format("{}", vpp_));
  }

  // Returns the layout of these layers per stage; empty: none is needed, as they are even. If they
  // are even once embedding and loss count as a layer each, it adds the two fields that say so.
  // ChatLearn lacks these fields and gets the layout.
  std::string uneven_layout(const std::vector<int>& layers) {
    const bool listed = keys_->has("parallel.layers_per_stage");
    const auto is_as_first = [&](int stage) { return stage == layers.front(); };
    if (std::ranges::all_of(layers, is_as_first) && !listed) return "";
    const long long all = keys_->whole("model.layers", 0);
    const bool are_even_with_ends = all > 0 && (all + 2) % (pp_ * vpp_) == 0;
    if (!are_even_with_ends || listed || chatlearn_)
      return layout_text(layers, static_cast<int>(keys_->whole("model.mtp_layers", 0)));
    add("account_for_embedding_in_pipeline_split", "True");
    add("account_for_loss_in_pipeline_split", "True");
    return "";
  }

  // Writes a hybrid's stages as bars in its layer pattern, the only form that Megatron-LM takes.
  void write_segments() {
    const std::vector<std::string> letters = keys_->hybrid_layers();
    const std::vector<int> layers = keys_->stage_layers();
    const auto sum = static_cast<std::size_t>(std::reduce(layers.begin(), layers.end()));
    keys_->ignore("parallel.layout");
    const bool listed = keys_->has("parallel.layers_per_stage");
    if (letters.empty() || sum != letters.size() || chatlearn_) {
      // A pattern without bars is cut evenly, with one stage a rank.
      const long long all = keys_->whole("model.layers", 0);
      if (all > 0 && vpp_ == 1 && all % pp_ == 0 && !listed) return;
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

  void write_optimizer() {
    const std::string dtype = keys_->text("train.optimizer_dtype");
    const bool is_narrow = !dtype.empty() && dtype != "fp32" && optimizer_offload_ == "0";
    if (optimizer_offload_ != "0") {
      add("optimizer_cpu_offload", "True");
      add("optimizer_offload_fraction", optimizer_offload_);
      keys_->leave("train.optimizer_dtype", "moments of an optimizer on the CPU stay fp32");
    }
    const bool remainders = keys_->flag("train.param_remainders", false);
    if (is_narrow || remainders || optimizer_offload_ != "0")
      add("use_precision_aware_optimizer", "True");
    if (is_narrow) add("exp_avg_dtype", dtype);
    if (is_narrow) add("exp_avg_sq_dtype", dtype);
    if (!has_muon_) return;
    // In Megatron-Bridge "dist_muon" keeps each layer's optimizer states whole on one rank.
    add("optimizer", bridge_ && zero_ > 0 ? "dist_muon" : "muon");
    const std::string mode = keys_->text("train.muon_tp", "duplicated");
    if (mode != "duplicated") add("muon_tp_mode", mode);
  }

  // Writes whether parameters are gathered in 8 or 4 bits.
  void write_gathered() {
    if (!keys_->flag("train.fp8_param_gather", false)) return;
    if (precision_ != "fp8" && precision_ != "nvfp4")
      return keys_->leave("train.fp8_param_gather", "with fp8 or nvfp4 only");
    if (zero_ == 0 || shards_by_name())
      return keys_->leave("train.fp8_param_gather", "with a distributed optimizer only");
    if (precision_ == "fp8" && recipe_ != "delayed" && optimizer_offload_ != "0")
      return keys_->leave("train.fp8_param_gather", "with an offloaded optimizer delayed only");
    add(precision_ == "nvfp4" ? "fp4_param_gather" : "fp8_param_gather", "True");
    if (!chatlearn_ && precision_ == "fp8" && recipe_ == "mxfp8" && zero_ == 1)
      add("reuse_grad_buf_for_mxfp8_param_ag", "True");
  }

  // Writes that experts are one grouped GEMM, as they are simulated, and how tokens reach them.
  void write_experts() {
    if (has_experts_) add("moe_grouped_gemm", "True");
    if (ep_ == 1 && bridge_ && has_experts_) add("moe_token_dispatcher_type", "alltoall");
    if (ep_ == 1) return;
    const bool flex = dispatcher_ == "deepep" || dispatcher_ == "hybridep";
    add("moe_token_dispatcher_type", flex ? "flex" : dispatcher_);
    if (flex) add("moe_flex_dispatcher_backend", dispatcher_);
  }

  // Returns the words of a key's list: {"core_attn", "moe"} of "core_attn, moe".
  std::vector<std::string> words_of(TextKey key) {
    std::string text = keys_->text(key);
    std::ranges::replace(text, ',', ' ');
    return split_words(text);
  }

  bool recomputes(std::string_view module) {
    return recompute_ == "selective" &&
           std::ranges::count(words_of("train.recompute_modules"), module) > 0;
  }
  bool recomputes_experts() { return recompute_ == "full" || recomputes("moe"); }

  void write_recompute() {
    const long long layers = keys_->whole("train.recompute_layers", -1);
    std::vector<std::string> modules = words_of("train.recompute_modules");
    if (recompute_ == "full") {
      add("recompute_granularity", recompute_);
      add("recompute_method", layers < 0 ? "uniform" : "block");
      add("recompute_num_layers", fmt::format("{}", layers < 0 ? 1 : layers));
    }
    if (recompute_ != "selective") return;
    const bool are_stated = !modules.empty();
    if (!keys_->has_mixer("latent") && std::erase(modules, "mla_up_proj") > 0)
      keys_->leave("train.recompute_modules", "mla_up_proj is of latent attention alone");
    const bool is_delayed = precision_ == "fp8" && recipe_ == "delayed";
    const auto removed = std::erase_if(modules, [&](const std::string& module) {
      if (module == "moe_act") return is_delayed || !has_experts_;  // refused of dense models
      return module == "layernorm" && is_delayed;
    });
    if (removed > 0 && is_delayed)
      keys_->leave("train.recompute_modules", "delayed scaling keeps moe_act and layernorm");
    if (are_stated && modules.empty()) return;
    const std::string words = fmt::format("{}", fmt::join(modules, " "));
    // To Megatron-LM no modules are core_attn, which FlashAttention recomputes by itself.
    if ((words.empty() || words == "core_attn") && keys_->flag("train.flash_attention", false))
      return keys_->leave("train.recompute",
                          "none here; Megatron-LM would run attention's forward again");
    add("recompute_granularity", recompute_);
    if (!words.empty()) add("recompute_modules", words);
  }

  // Writes the offloaded activations, without those of modules that are recomputed.
  void write_offload() {
    std::vector<std::string> modules = words_of("train.activation_offload_modules");
    const auto removed = std::erase_if(modules, [&](const std::string& module) {
      const bool is_of_moe =
          module == "expert_fc1" || module == "moe_act" || module == "fused_group_mlp";
      return recompute_ == "full" || (is_of_moe && recomputes_experts());
    });
    if (removed > 0)
      keys_->leave("train.activation_offload_modules", "without those that are recomputed whole");
    if (modules.empty()) return;
    add("fine_grained_activation_offloading", "True");
    add("offload_modules", fmt::format("{}", fmt::join(modules, " ")));
    if (std::ranges::count(modules, "fused_group_mlp") > 0)
      add("use_transformer_engine_op_fuser", "True");
    keys_->require("NVTE_CPU_OFFLOAD_V1=1 with Transformer Engine from 2.10 on");
  }

  void write_offloaded_layers() {
    const long long layers = keys_->whole("train.activation_offload_layers", 0);
    if (layers == 0) return;
    const bool recomputes = recompute_ == "full" || recompute_ == "selective";
    if (pp_ > 1 || recomputes || layers >= keys_->whole("model.layers", layers + 1))
      return keys_->leave("train.activation_offload_layers",
                          "without pp and recompute, and fewer than all layers");
    if (bridge_) add("cpu_offloading", "True");
    add("cpu_offloading_num_layers", fmt::format("{}", layers));
  }

  void write_cross_entropy() {
    std::string kind = keys_->loss(bridge_ ? "te" : "native");
    if (kind == "unfused") return;
    if (kind == "chunked" || (kind == "te" && !bridge_)) {
      keys_->leave("train.cross_entropy", kind == "te" ? "Megatron-LM's arguments refuse it"
                                                       : "Megatron-LM computes the loss at once");
      kind = "native";
    }
    add("cross_entropy_loss_fusion", "True");
    if (!chatlearn_) add("cross_entropy_fusion_impl", kind);
  }

  void write_graphs() {
    const std::string scope = fmt::format("{}", fmt::join(words_of("train.cuda_graph_scope"), " "));
    if (!keys_->flag("train.cuda_graphs", false)) return;
    if (recompute_ == "full")
      return keys_->leave("train.cuda_graphs", "no layer is a graph that is recomputed whole");
    if (has("offload_modules") || has("cpu_offloading_num_layers"))
      return keys_->leave("train.cuda_graphs", "without offloaded activations only");
    // Megatron-Bridge's "local" graphs are those of whole iterations.
    add("cuda_graph_impl", bridge_ ? "transformer_engine" : "local");
    if (bridge_ || !scope.empty()) add(bridge_ ? "cuda_graph_modules" : "cuda_graph_scope", scope);
    if (bridge_) add("te_rng_tracker", "True");
  }

  // Returns whether Transformer Engine's graphs hold MLPs or experts. Megatron-LM then overlaps no
  // expert communication (core/transformer/transformer_config.py and transformer_layer.py).
  bool has_graphs_of_mlps() {
    const std::vector<std::string> scope = words_of("train.cuda_graph_scope");
    return bridge_ && has("cuda_graph_impl") &&
           (scope.empty() || std::ranges::any_of(scope, [](const std::string& module) {
              return module == "mlp" || module == "moe";
            }));
  }

  // Writes what runs beside expert all-to-alls: another microbatch's compute, or shared experts.
  void write_expert_overlap() {
    const bool delays = keys_->flag("overlap.delay_wgrad", false);
    const bool overlaps_shared = keys_->flag("overlap.shared_experts", true) &&
                                 keys_->whole("model.shared_expert_ffn", 0) > 0 && ep_ > 1;
    const bool overlaps_microbatches = keys_->flag("overlap.expert", false) && ep_ != 1;
    if (overlaps_microbatches) return write_overlap_of_microbatches(delays);
    if (delays) keys_->leave("overlap.delay_wgrad", "with overlap.expert and ep only");
    if (!overlaps_shared) return;
    if (dispatcher_ == "allgather" || recomputes("shared_experts") || chatlearn_)
      return keys_->note("overlap.shared_experts: here shared experts run ahead of the others");
    add("moe_shared_expert_overlap", "True");
  }

  void write_overlap_of_microbatches(bool delays_weight_gradients) {
    const bool is_refused = !can_overlap_experts();
    if (is_refused || has_graphs_of_mlps()) {
      const char* const why =
          is_refused ? "with vpp or pp 1, all-to-all, 16 bits and no recomputed experts only"
                     : "with a train.cuda_graph_scope without mlp and moe only";
      keys_->leave("overlap.expert", why);
      return keys_->leave("overlap.delay_wgrad", why);
    }
    add("overlap_moe_expert_parallel_comm", "True");
    if (delays_weight_gradients) add("delay_wgrad_compute", "True");
  }

  // Returns whether Megatron-LM can run another microbatch's compute beside expert all-to-alls.
  bool can_overlap_experts() {
    if (pp_ > 1 && vpp_ == 1) return false;
    if (keys_->is_hybrid() || keys_->whole("model.mtp_layers", 0) > 1) return false;
    return dispatcher_ != "allgather" && !recomputes_experts() && precision_ != "fp32";
  }

  // Returns whether the optimizer's name, "dist_muon", already says that its states are sharded.
  bool shards_by_name() const { return bridge_ && has_muon_; }

  // Writes ZeRO: 1 is the distributed optimizer, 2 and 3 are Megatron-FSDP, with that flag, too.
  void write_sharding() {
    if (zero_ > 0 || bridge_)
      add("use_distributed_optimizer", word(zero_ > 0 && !shards_by_name()));
    if (zero_ > 1) {
      add("use_megatron_fsdp", "True");
      add("data_parallel_sharding_strategy", zero_ == 2 ? "optim_grads" : "optim_grads_params");
      add("ckpt_format", "fsdp_dtensor");
    }
    const long long shard = keys_->whole("parallel.hsdp_shard", 0), dp = keys_->dp();
    if (shard > 0 && dp > 0 && zero_ > 0) {
      add("num_distributed_optimizer_instances", fmt::format("{}", dp * cp_ / shard));
    } else {
      keys_->leave("parallel.hsdp_shard", "--num-distributed-optimizer-instances of dp / this");
    }
  }

  // Writes how gradient reduction and parameter gathering overlap. Megatron-FSDP overlaps what it
  // shards.
  void write_data_overlap() {
    const bool wants_reduces = keys_->flag("overlap.grad_reduce", false);
    const bool wants_gathers = keys_->flag("overlap.param_gather", zero_ == 3);
    const bool reduces = wants_reduces || zero_ >= 2;
    const bool gathers = (wants_gathers || zero_ == 3) && reduces && zero_ > 0 && !shards_by_name();
    if (reduces && !wants_reduces)
      keys_->note("overlap.grad_reduce = false: Megatron-FSDP always overlaps reductions");
    if (gathers && !wants_gathers)
      keys_->note("overlap.param_gather = false: Megatron-FSDP always overlaps gathers");
    if (wants_gathers && !gathers)
      keys_->leave("overlap.param_gather", shards_by_name()
                                               ? "Megatron-Bridge's Muon gathers at the end"
                                               : "with ZeRO and overlap.grad_reduce only");
    const bool aligned = keys_->flag("overlap.align_param_gather", true);
    if (reduces || bridge_) add("overlap_grad_reduce", word(reduces));
    if (gathers || bridge_) add("overlap_param_gather", word(gathers));
    if (bridge_ || (gathers && !aligned && vpp_ > 1))
      add("align_param_gather", word(gathers && aligned && vpp_ > 1));
    if (gathers && aligned && vpp_ <= 1 && keys_->has("overlap.align_param_gather"))
      keys_->leave("overlap.align_param_gather", "forced off without virtual stages");
  }

  // Writes the size of the buckets in which gradients are reduced. If the plan has none, a bucket
  // is a layer. Only Megatron-FSDP (ZeRO 2 and 3) has such buckets. Megatron-LM's default size
  // comes near; it is written for Megatron-Bridge, whose own default is three times as large.
  void write_bucket() {
    const std::string bucket = keys_->text("overlap.bucket_MB");
    if (zero_ >= 2) return keys_->leave("overlap.bucket_MB", "Megatron-FSDP reduces each layer");
    // In a pipeline, and without overlap, Megatron-LM puts all gradients of a rank in one bucket.
    if (pp_ != 1 || !keys_->flag("overlap.grad_reduce", false))
      return keys_->leave("overlap.bucket_MB", "a rank of a pipeline has one bucket");
    if (bucket.empty()) {
      if (bridge_)
        add("ddp_bucket_size", fmt::format("{}", 1'000'000 * std::max(40LL, keys_->dp())));
      return keys_->note("a layer a bucket: here buckets have max(40 M, 1 M x dp) parameters");
    }
    const std::string usual = precision_ == "fp16" ? "fp16" : "fp32";
    const double bytes = keys_->text("train.gradient_dtype", usual) == "fp32" ? 4 : 2;
    add("ddp_bucket_size", fmt::format("{:.0f}", std::stod(bucket) * 1e6 / bytes));
  }

  void write_context() {
    const std::string comm = keys_->text("parallel.cp_comm", "ring");
    const bool overlaps = keys_->flag("overlap.context", false);
    if (cp_ == 1) return;
    add("cp_comm_type", comm == "ring" ? "p2p" : comm == "all_gather" ? "allgather" : "a2a");
    if (!overlaps && comm == "ring" && keys_->has("overlap.context"))
      keys_->leave("overlap.context", "Transformer Engine's ring always overlaps");
  }

  void write_tensor() {
    const std::string method = keys_->text("overlap.tensor", "off");
    const bool has_sequence = tp_ > 1 && keys_->flag("train.sequence_parallel", false);
    // Userbuffers take no such tensors (pytorch/module/base.py of Transformer Engine at d0067d0d).
    const bool is_refused =
        precision_ == "nvfp4" || (precision_ == "fp8" && recipe_ == "blockwise");
    const bool overlaps = method != "off" && has_sequence && !is_refused;
    if (method != "off" && !overlaps)
      keys_->leave("overlap.tensor", has_sequence ? "neither in nvfp4 nor with blockwise scales"
                                                  : "with train.sequence_parallel");
    // As the linear layers of Transformer Engine and Megatron-LM do (tensor_parallel/layers.py).
    if (method == "off" && has_sequence && keys_->has("overlap.tensor"))
      keys_->leave("overlap.tensor", "input gradients are always reduced beside weight gradients");
    if (bridge_ || overlaps) add("tp_comm_overlap", word(overlaps));
    if (!overlaps) return;
    if (method != "ring")
      keys_->leave("overlap.tensor", "Transformer Engine's own methods, GEMM by GEMM");
    // Transformer Engine pipelines these two GEMMs by default. Experts have no second one.
    for (const TextKey key :
         {TextKey("overlap.gemm.proj_fprop"), TextKey("overlap.gemm.fc2_fprop")}) {
      const std::string found = keys_->text(key, method);
      if (found != "pipelined" && !(has_experts_ && key.last_word() == "fc2_fprop"))
        keys_->note(fmt::format("{} = {}: Transformer Engine's is pipelined", key.name(), found));
    }
  }

  void require_connections() {
    if (has("use_megatron_fsdp")) {
      keys_->require("CUDA_DEVICE_MAX_CONNECTIONS unset or above 1, for Megatron-FSDP");
    } else if (tp_ > 1 || cp_ > 1) {
      const bool overlaps_experts = has("overlap_moe_expert_parallel_comm");
      keys_->require(overlaps_experts
                         ? "CUDA_DEVICE_MAX_CONNECTIONS=32 or 1 on GPUs before Blackwell: tp or "
                           "cp wants 1, overlapped experts want more"
                         : "CUDA_DEVICE_MAX_CONNECTIONS=1 on GPUs before Blackwell, for tp or "
                           "cp above 1");
    }
  }

  PlanKeys* keys_;
  MegatronReader reader_;
  bool bridge_, chatlearn_;
  // Values of keys that several functions need.
  long long tp_ = keys_->whole("parallel.tp", 1), cp_ = keys_->whole("parallel.cp", 1);
  long long pp_ = keys_->whole("parallel.pp", 1), vpp_ = keys_->whole("parallel.vpp", 1);
  long long ep_ = keys_->whole("parallel.ep", 1), zero_ = keys_->whole("train.zero", 0);
  std::string precision_ = keys_->text("train.precision", "bf16");
  std::string recipe_ = keys_->text("train.fp8_recipe", "delayed");
  std::string recompute_ = keys_->text("train.recompute", "none");
  std::string dispatcher_ = keys_->text("parallel.dispatcher", "alltoall");
  std::string optimizer_offload_ = keys_->text("train.optimizer_offload", "0");
  bool has_experts_ = keys_->whole("model.experts", 0) > 0;
  bool has_muon_ = keys_->text("train.optimizer", "adam") == "muon";
  std::vector<MegatronField> fields_;
};

}  // namespace

std::vector<MegatronField> megatron_fields(PlanKeys* keys, MegatronReader reader) {
  return FieldWriter(keys, reader).write();
}

}  // namespace tandem
